"""The script that letters are in, by ISO 15924.

Belongs here: the table from code point to script, by Unicode blocks (coarse: a block's letters count as its script),
and a count of letters by script over a column of texts. Does not belong here: which script a language is written in
(``languages.json``).
"""

import unicodedata
from functools import cache

import numpy as np
from numba import njit

from gristmill.text_units import decode

OTHER = "Zzzz"
# First code point of a block, last + 1, script.
BLOCKS: tuple[tuple[int, int, str], ...] = (
    (0x0041, 0x0370, "Latn"), (0x0370, 0x0400, "Grek"), (0x0400, 0x0530, "Cyrl"), (0x0530, 0x0590, "Armn"),
    (0x0590, 0x0600, "Hebr"), (0x0600, 0x0700, "Arab"), (0x0700, 0x0750, "Syrc"), (0x0750, 0x0780, "Arab"),
    (0x0780, 0x07C0, "Thaa"), (0x07C0, 0x0800, "Nkoo"), (0x08A0, 0x0900, "Arab"), (0x0900, 0x0980, "Deva"),
    (0x0980, 0x0A00, "Beng"), (0x0A00, 0x0A80, "Guru"), (0x0A80, 0x0B00, "Gujr"), (0x0B00, 0x0B80, "Orya"),
    (0x0B80, 0x0C00, "Taml"), (0x0C00, 0x0C80, "Telu"), (0x0C80, 0x0D00, "Knda"), (0x0D00, 0x0D80, "Mlym"),
    (0x0D80, 0x0E00, "Sinh"), (0x0E00, 0x0E80, "Thai"), (0x0E80, 0x0F00, "Laoo"), (0x0F00, 0x1000, "Tibt"),
    (0x1000, 0x10A0, "Mymr"), (0x10A0, 0x1100, "Geor"), (0x1100, 0x1200, "Hang"), (0x1200, 0x13A0, "Ethi"),
    (0x13A0, 0x1400, "Cher"), (0x1400, 0x1680, "Cans"), (0x1680, 0x16A0, "Ogam"), (0x16A0, 0x1700, "Runr"),
    (0x1780, 0x1800, "Khmr"), (0x1800, 0x18B0, "Mong"), (0x18B0, 0x1900, "Cans"), (0x1980, 0x19E0, "Talu"),
    (0x1A00, 0x1A20, "Bugi"), (0x1A20, 0x1AB0, "Lana"), (0x1B00, 0x1B80, "Bali"), (0x1B80, 0x1BC0, "Sund"),
    (0x1C50, 0x1C80, "Olck"), (0x1C80, 0x1C90, "Cyrl"), (0x1C90, 0x1CC0, "Geor"), (0x1D00, 0x1F00, "Latn"),
    (0x1F00, 0x2000, "Grek"), (0x2C00, 0x2C60, "Glag"), (0x2C60, 0x2C80, "Latn"), (0x2C80, 0x2D00, "Copt"),
    (0x2D00, 0x2D30, "Geor"), (0x2D30, 0x2D80, "Tfng"), (0x2D80, 0x2DE0, "Ethi"), (0x2DE0, 0x2E00, "Cyrl"),
    (0x2E80, 0x3040, "Hani"), (0x3040, 0x30A0, "Hira"), (0x30A0, 0x3100, "Kana"), (0x3100, 0x3130, "Bopo"),
    (0x3130, 0x3190, "Hang"), (0x31F0, 0x3200, "Kana"), (0x3400, 0xA000, "Hani"), (0xA000, 0xA4D0, "Yiii"),
    (0xA500, 0xA640, "Vaii"), (0xA640, 0xA6A0, "Cyrl"), (0xA720, 0xA800, "Latn"), (0xA980, 0xA9E0, "Java"),
    (0xA9E0, 0xAA00, "Mymr"), (0xAA60, 0xAA80, "Mymr"), (0xAB00, 0xAB30, "Ethi"), (0xAB30, 0xAB70, "Latn"),
    (0xABC0, 0xAC00, "Mtei"), (0xAC00, 0xD800, "Hang"), (0xF900, 0xFB00, "Hani"), (0xFB00, 0xFB07, "Latn"),
    (0xFB1D, 0xFB50, "Hebr"), (0xFB50, 0xFE00, "Arab"), (0xFE70, 0xFF00, "Arab"), (0xFF21, 0xFF5B, "Latn"),
    (0xFF66, 0xFFA0, "Kana"), (0xFFA0, 0xFFE0, "Hang"), (0x1E900, 0x1E960, "Adlm"), (0x20000, 0x32000, "Hani"),
)
NAMES: tuple[str, ...] = (OTHER, *sorted({s for _, _, s in BLOCKS}))
INDEX = {name: number for number, name in enumerate(NAMES)}
LIMIT = 0x32000
NOT_A_LETTER, BLANK = 255, 254  # classes of the table beside script numbers


@cache
def table() -> np.ndarray:
    """Class of every code point under ``LIMIT``: script number of a letter or its mark, BLANK, or NOT_A_LETTER."""
    out = np.full(LIMIT, NOT_A_LETTER, np.uint8)
    script = np.zeros(LIMIT, np.uint8)
    for start, end, name in BLOCKS:
        script[start:end] = INDEX[name]
    for cp in range(LIMIT):
        ch = chr(cp)
        if unicodedata.category(ch)[0] in "LM":
            out[cp] = script[cp]
        elif ch.isspace():
            out[cp] = BLANK
    out.flags.writeable = False
    return out


def script_of(ch: str) -> str | None:
    """Script of a letter; None for what is none. The plain form of the table."""
    if unicodedata.category(ch)[0] not in "LM":
        return None
    for start, end, name in BLOCKS:
        if start <= ord(ch) < end:
            return name
    return OTHER


@njit(cache=True, nogil=True)
def count(buf, off, classes, by_script, measures):  # type: ignore[no-untyped-def]
    """Letters by script, and what the degenerate gates need, for every text of a column.

    Args:
        buf, off: UTF-8 bytes and offsets of n texts.
        classes: from ``table``.
        by_script: int32[n, scripts], zeros; filled.
        measures: int64[n, 4], zeros; filled with code points, letters, non-blank characters, code points of the
            longest line.
    """
    for i in range(len(off) - 1):
        chars = letters = solid = line = longest = 0
        at = off[i]
        while at < off[i + 1]:
            c, at = decode(buf, at)
            chars += 1
            if c == 10:
                longest = max(longest, line)
                line = 0
                continue
            line += 1
            kind = classes[c] if c < 0x32000 else 255
            if kind == 254:
                continue
            solid += 1
            if kind != 255:
                letters += 1
                by_script[i, kind] += 1
        measures[i, 0] = chars
        measures[i, 1] = letters
        measures[i, 2] = solid
        measures[i, 3] = max(longest, line)
