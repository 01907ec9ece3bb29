"""Integer facts of the van der Corput sequence on 64 bits: which slot a source owns, and how many it owned before.

Belongs here: bit reversal, and the count of reversed numbers under a bound, in plain Python: the definition. Does not
belong here: the same as kernels (``kernels.py``), what a slot or a source is (``sampler.py``).

The sequence's b-th point is V(b) / 2^64 with V(b) = the 64 bits of b reversed. In a step of B slots slot i lies at
(i 2^64 + V(b)) / B; it lies under the cut U exactly when i < q + [V(b) < f], with q = B U div 2^64, f = B U mod 2^64.
"""

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
