"""Integer facts of the van der Corput sequence on 64 bits: which slot a source owns, and how many it owned before.

Belongs here: bit reversal, and the count of reversed numbers under a bound, as plain Python (the definition) and as
kernels. Does not belong here: what a slot or a source is (``sampler.py``).

The sequence's b-th point is V(b) / 2^64 with V(b) = the 64 bits of b reversed. In a step of B slots slot i lies at
(i 2^64 + V(b)) / B; it lies under the cut U exactly when i < q + [V(b) < f], with q = B U div 2^64, f = B U mod 2^64.
"""

from numba import njit, uint64

WORD = 1 << 64


def reverse(b: int) -> int:
    """V(b): the 64 bits of ``b`` in reverse order."""
    return int(f"{b:064b}"[::-1], 2)


def below(f: int, b: int) -> int:
    """How many b' in [0, b) have V(b') < f; by the binary digits of b, in at most 64 terms.

    Each set digit k of b stands for 2^k consecutive b' that share their upper digits and run through all lower ones:
    their V are an arithmetic progression with step 2^(64 - k).
    """
    total = 0
    for k in range(b.bit_length()):
        if not b >> k & 1:
            continue
        start = reverse(b >> (k + 1) << (k + 1))
        if f > start:
            total += ((f - start - 1) >> (64 - k)) + 1
    return total


def below_reference(f: int, b: int) -> int:
    """The definition of ``below``, by counting."""
    return sum(reverse(x) < f for x in range(b))


@njit(cache=True, nogil=True)
def reverse64(b):  # type: ignore[no-untyped-def]
    """V(b) of a uint64."""
    b = ((b >> uint64(1)) & uint64(0x5555555555555555)) | ((b & uint64(0x5555555555555555)) << uint64(1))
    b = ((b >> uint64(2)) & uint64(0x3333333333333333)) | ((b & uint64(0x3333333333333333)) << uint64(2))
    b = ((b >> uint64(4)) & uint64(0x0F0F0F0F0F0F0F0F)) | ((b & uint64(0x0F0F0F0F0F0F0F0F)) << uint64(4))
    b = ((b >> uint64(8)) & uint64(0x00FF00FF00FF00FF)) | ((b & uint64(0x00FF00FF00FF00FF)) << uint64(8))
    b = ((b >> uint64(16)) & uint64(0x0000FFFF0000FFFF)) | ((b & uint64(0x0000FFFF0000FFFF)) << uint64(16))
    return (b >> uint64(32)) | (b << uint64(32))


@njit(cache=True, nogil=True)
def below64(f, b):  # type: ignore[no-untyped-def]
    """``below`` on uint64."""
    total = uint64(0)
    start = uint64(0)  # V of the digits of b above the one at hand
    for k in range(63, -1, -1):
        if (b >> uint64(k)) & uint64(1) == uint64(0):
            continue
        if f > start:
            if k == 0:
                total += uint64(1)
            else:
                total += ((f - start - uint64(1)) >> uint64(64 - k)) + uint64(1)
        start |= uint64(1) << uint64(63 - k)
    return total
