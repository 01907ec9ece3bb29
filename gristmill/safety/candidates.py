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


@njit(cache=True, nogil=True)
def _scan(buf, start, end, cls, out, limit):  # type: ignore[no-untyped-def]
    """Regions of one document into ``out`` (start, end, triggers); returns how many there are."""
    n = 0
    digits, gap, dots, quad_digits = 0, 0, 0, 0
    hex_run, colons = 0, 0
    token, token_digits, token_letters = 0, 0, 0
    for i in range(start, end):
        c = cls[buf[i]]
        hit = 0
        # a run of digits with at most three separators between two of them
        if c == 1:
            digits += 1
            gap = 0
            if digits == 7 or (digits > 7 and digits % 32 == 0):
                hit |= 2
        elif c in (2, 8):
            gap += 1
            if gap > 3:
                digits = 0
        else:
            digits = 0
        # four groups of one to three digits joined by dots
        if c == 1:
            quad_digits += 1
            if quad_digits > 3:
                dots = 0
            elif dots >= 3 and quad_digits == 1:
                hit |= 4
        elif buf[i] == 46 and 0 < quad_digits <= 3:
            dots += 1
            quad_digits = 0
        else:
            dots = 0
            quad_digits = 0
        # hexadecimal groups joined by colons
        if c in (1, 3):
            hex_run += 1
            if hex_run > 4:
                colons = 0
        elif c == 5:
            colons += 1
            hex_run = 0
            if colons in (2, 7):
                hit |= 8
        else:
            colons = 0
            hex_run = 0
        # a token of letters and digits
        if c in (1, 3, 4, 6) or buf[i] == 45:
            token += 1
            if c == 1:
                token_digits += 1
            elif c in (3, 4):
                token_letters += 1
            if token >= 16 and token_digits >= 2 and token_letters >= 2 and (token == 16 or token % 32 == 0):
                hit |= 16
            elif token == 24 or (token_digits == 2 and token > 16):
                if token_digits >= 2 and token_letters >= 2:
                    hit |= 16
            elif token == 5 and buf[i - 4] == 45 and buf[i - 3] == 45 and buf[i - 2] == 45 and buf[i - 1] == 45:
                hit |= 16  # ----- opens a key block
        else:
            token = 0
            token_digits = 0
            token_letters = 0
        if c == 7:
            hit |= 1
        if hit:
            a = max(start, i - 96)
            b = min(end, i + 64)
            if n and a <= out[n - 1, 1]:
                out[n - 1, 1] = b
                out[n - 1, 2] |= hit
            else:
                if n == limit:
                    return -1
                out[n, 0] = a
                out[n, 1] = b
                out[n, 2] = hit
                n += 1
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
