"""Where personal data may stand: one cheap pass over the bytes that finds the regions worth a regular expression.

Belongs here: the triggers (an at sign, seven digits in a run, a dotted quad, hexadecimal groups, a long mixed token)
and the regions around them. Does not belong here: what is personal data and what is not (``pii.py``).
"""

import numpy as np
from numba import njit

AT, DIGITS, QUAD, HEX, TOKEN = 1, 2, 4, 8, 16
# A region holds 96 bytes before its trigger and 64 after: an e-mail's local part has at most 64.

_DIGIT, _SEPARATOR, _HEX_LETTER, _LETTER, _COLON, _JOINER, _AT, _SPACE = 1, 2, 3, 4, 5, 6, 7, 8


def _classes() -> np.ndarray:
    table = np.zeros(256, np.uint8)
    for byte in range(256):
        char = chr(byte)
        if "0" <= char <= "9":
            table[byte] = _DIGIT
        elif char in "abcdefABCDEF":
            table[byte] = _HEX_LETTER
        elif char.isascii() and char.isalpha():
            table[byte] = _LETTER
    for char in "-.()/+":
        table[ord(char)] = _SEPARATOR
    table[ord(" ")] = _SPACE
    table[0xC2] = table[0xA0] = _SPACE  # a no-break space, as its two bytes
    table[ord("_")] = _JOINER
    table[ord(":")] = _COLON
    table[ord("@")] = _AT
    return table


CLASSES = _classes()


@njit(inline="always")
def _in_token(cls, byte):  # type: ignore[no-untyped-def]
    return cls[byte] in (1, 3, 4, 6) or byte == 45


@njit(cache=True, nogil=True)
def _scan(buf, start, end, cls, out, limit):  # type: ignore[no-untyped-def]
    """Regions of one document into ``out`` (start, end, triggers); returns how many there are."""
    n = 0
    last_digit, digits, octet, dots = start - 9, 0, 0, 0
    last_colon, colons = start - 9, 0
    token_end = start
    i = start
    while i < end:
        c = cls[buf[i]]
        if c not in (1, 5, 7) and buf[i] != 45:  # most bytes can start nothing
            i += 1
            continue
        hit, reach = 0, i + 64
        if c == 1:
            # digits with at most three separators between two of them
            near = i - last_digit <= 4
            for q in range(max(last_digit + 1, i - 3), i):
                near = near and cls[buf[q]] in (2, 8)
            digits = digits + 1 if near else 1
            if digits == 7 or (digits > 7 and digits % 32 == 0):
                hit |= 2
            # four groups of one to three digits joined by dots
            if last_digit == i - 1:
                octet += 1
            else:
                dots = dots + 1 if last_digit == i - 2 and buf[i - 1] == 46 and octet <= 3 else 0
                octet = 1
                if dots >= 3:
                    hit |= 4
            last_digit = i
            # a long token of letters and digits
            if i >= token_end:
                first = i
                while first > start and i - first < 64 and _in_token(cls, buf[first - 1]):
                    first -= 1
                token_end = i
                letters = 0
                while token_end < end and _in_token(cls, buf[token_end]):
                    letters += cls[buf[token_end]] in (3, 4)
                    token_end += 1
                for q in range(first, i):
                    letters += cls[buf[q]] in (3, 4)
                if token_end - first >= 16 and letters >= 2:
                    hit |= 16
                    reach = max(reach, token_end)
        elif c == 5:
            # hexadecimal groups joined by colons
            chained = i - last_colon <= 5
            for q in range(max(last_colon + 1, i - 4), i):
                chained = chained and cls[buf[q]] in (1, 3)
            colons = colons + 1 if chained else 1
            last_colon = i
            if colons >= 2 and i + 1 < end and cls[buf[i + 1]] in (1, 3, 5):
                hit |= 8
        elif c == 7:
            hit |= 1
        elif i - 4 >= start and i + 1 < end:
            dashes = buf[i - 1] == buf[i - 2] == buf[i - 3] == buf[i - 4] == 45
            hit |= 16 * (dashes and buf[i + 1] == 66)  # -----B opens a key block
        if hit:
            a = max(start, i - 96)
            b = min(end, reach)
            if n and a <= out[n - 1, 1]:
                out[n - 1, 1] = max(b, out[n - 1, 1])
                out[n - 1, 2] |= hit
            else:
                if n == limit:
                    return -1
                out[n, 0] = a
                out[n, 1] = b
                out[n, 2] = hit
                n += 1
        i += 1
    # a region must not begin or end inside a token: move its edges to white space, at most 192 bytes
    for r in range(n):
        a, b = out[r, 0], out[r, 1]
        floor = max(start, a - 192)
        while a > floor and cls[buf[a - 1]] != 8 and buf[a - 1] != 10:
            a -= 1
        ceiling = min(end, b + 192)
        while b < ceiling and cls[buf[b]] != 8 and buf[b] != 10:
            b += 1
        while a > start and (buf[a] & 0xC0) == 0x80:
            a -= 1
        while b < end and (buf[b] & 0xC0) == 0x80:
            b += 1
        out[r, 0], out[r, 1] = a, b
    m = 0
    for r in range(n):  # moved edges may overlap again
        if m and out[r, 0] <= out[m - 1, 1]:
            out[m - 1, 1] = max(out[m - 1, 1], out[r, 1])
            out[m - 1, 2] |= out[r, 2]
        else:
            out[m, 0], out[m, 1], out[m, 2] = out[r, 0], out[r, 1], out[r, 2]
            m += 1
    return m


@njit(cache=True, nogil=True)
def _scan_all(buf, offsets, cls, out, counts):  # type: ignore[no-untyped-def]
    total = 0
    for d in range(offsets.shape[0] - 1):
        n = _scan(buf, offsets[d], offsets[d + 1], cls, out[total:], out.shape[0] - total)
        if n < 0:
            return -1
        counts[d] = n
        total += n
    return total


def regions(buf: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Regions of every document.

    Args:
        buf: uint8, the UTF-8 bytes of all documents.
        offsets: int64 (n + 1), where each begins in ``buf``.

    Returns:
        int64 (m, 3): start and end in ``buf`` and the triggers seen; int64 (n): regions of each document.
    """
    counts = np.zeros(len(offsets) - 1, np.int64)
    size = int(offsets[-1] - offsets[0]) // 512 + len(counts) + 64
    while True:
        out = np.empty((size, 3), np.int64)
        total = int(_scan_all(buf, offsets, CLASSES, out, counts))
        if total >= 0:
            return out[:total], counts
        size *= 4
