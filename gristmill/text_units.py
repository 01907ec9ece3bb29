"""What a word is, once, for everything that counts, compares or matches words.

Belongs here: the class and the folded form of every code point, the plain Python definition of ``words``, and the
Numba helpers (UTF-8 decoding, mixing, hashing of words) that shingles, heuristics and contamination share. Does not
belong here: what is done with words.

A word is a run of letters, digits and their marks. In scripts that do not put spaces between words every character is
a word. Words are compared in folded form: lower case, without diacritics; digits stay digits, because folding them
makes pages of one template with other numbers identical.
"""

import unicodedata
from functools import cache

import numpy as np
import pyarrow as pa
from numba import njit, uint32, uint64

SEPARATOR, WORD, ALONE, DROP = 0, 1, 2, 3
LIMIT = 0x34000  # code points from here on (private use, tags, supplementary variation selectors) separate words

# Scripts written without spaces between words.
_UNSPACED = (
    (0x0E00, 0x0F00), (0x0F00, 0x1000), (0x1000, 0x10A0), (0x1780, 0x1800), (0x3040, 0x3100), (0x31F0, 0x3200),
    (0x3400, 0xA000), (0xA9E0, 0xAA00), (0xAA60, 0xAA80), (0xF900, 0xFB00), (0xFF66, 0xFFA0), (0x1B000, 0x1B170),
    (0x20000, 0x34000),
)  # Thai and Lao, Tibetan, Myanmar, Khmer, kana, CJK and their extensions

# Combining classes of marks that spell a word rather than decorate a letter: viramas and the vowels and tones of
# Thai, Lao, Tibetan, Telugu. Nukta (7) and kana voicing (8) are dropped: their composed forms fold to the bare letter.
_SPELLING = frozenset((0, 9, 84, 91, 103, 107, 118, 122, 129, 130, 132))

WORD_SEED = 0x9E3779B97F4A7C15
WORD_PRIME = 0x100000001B3
_MASK = (1 << 64) - 1
_MIX = 0xD6E8FEB86659FD93


def _is_mark(ch: str) -> bool:
    """A nonspacing mark that decorates: dropped, so that text reads the same composed, decomposed or without it."""
    return unicodedata.category(ch) == "Mn" and (
        unicodedata.combining(ch) not in _SPELLING or 0xFE00 <= ord(ch) <= 0xFE0F or ord(ch) == 0x34F
    )


def _folded(ch: str) -> int:
    """Lower case without diacritics where that is one code point; else lower case; else the code point itself.

    Hangul syllables and ligatures, which decompose into several letters, stay what they are.
    """
    lower = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", ch).lower())
    bare = [c for c in lower if not _is_mark(c)]
    if len(bare) == 1:
        return ord(bare[0])
    small = ch.lower()
    return ord(small) if len(small) == 1 else ord(ch)


@cache
def tables(fold: bool = True, fold_digits: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Class and folded form of every code point under ``LIMIT``.

    Args:
        fold: lower-case and strip diacritics; without it a letter is itself (exact Jaccard compares unfolded words).
        fold_digits: every decimal digit reads as 0.

    Returns:
        ``cls``: uint8[LIMIT], SEPARATOR, WORD, ALONE (a word by itself) or DROP (a mark).
        ``folded``: uint32[LIMIT] code points.
    """
    cls = np.zeros(LIMIT, np.uint8)
    folded = np.arange(LIMIT, dtype=np.uint32)
    for cp in range(LIMIT):
        ch = chr(cp)
        category = unicodedata.category(ch)
        if category in ("Cn", "Cs", "Co", "Cc") or category[0] not in "LNM":
            continue
        if _is_mark(ch):
            cls[cp] = DROP if fold else WORD
            continue
        cls[cp] = WORD
        if fold:
            folded[cp] = _folded(ch)
        if fold_digits and category == "Nd":
            folded[cp] = 48
    for start, end in _UNSPACED:
        span = cls[start:end]
        span[span == WORD] = ALONE
    cls[0x200C:0x200E] = DROP  # zero-width non-joiner and joiner stand inside words of Persian and Indic scripts
    cls[0xAD] = DROP  # soft hyphen
    cls.flags.writeable = False
    folded.flags.writeable = False
    return cls, folded


@cache
def packed(fold: bool = True, fold_digits: bool = False) -> np.ndarray:
    """``tables`` in one uint32 a code point, class << 24 | folded: one look-up a character in hot loops."""
    cls, folded = tables(fold, fold_digits)
    both = (cls.astype(np.uint32) << np.uint32(24)) | folded
    both.flags.writeable = False
    return both


def words(text: str, *, fold: bool = True, fold_digits: bool = False) -> list[str]:
    """The words of a text, folded, in order: the definition that the kernels are held against."""
    cls, folded = tables(fold, fold_digits)
    out: list[str] = []
    current: list[str] = []
    for ch in text:
        cp = ord(ch)
        kind = int(cls[cp]) if cp < LIMIT else SEPARATOR
        if kind == DROP:
            continue
        if kind == WORD:
            current.append(chr(folded[cp]))
            continue
        if current:
            out.append("".join(current))
            current = []
        if kind == ALONE:
            out.append(chr(folded[cp]))
    if current:
        out.append("".join(current))
    return out


def word_hash(word: str) -> int:
    """64-bit hash of one folded word; the same integer as the kernels'."""
    h = WORD_SEED
    for ch in word:
        h = ((h ^ ord(ch)) * WORD_PRIME) & _MASK
    return mix64_plain(h)


def mix64_plain(h: int) -> int:
    """``mix64`` in plain Python."""
    for _ in range(2):
        h ^= h >> 32
        h = (h * _MIX) & _MASK
    return h ^ (h >> 32)


@njit(inline="always")
def mix64(h):  # type: ignore[no-untyped-def]
    """A bijection of 64 bits that leaves none of them predictable from few others (rrxmrrxmsx form)."""
    h ^= h >> uint64(32)
    h *= uint64(0xD6E8FEB86659FD93)
    h ^= h >> uint64(32)
    h *= uint64(0xD6E8FEB86659FD93)
    h ^= h >> uint64(32)
    return h


@njit(inline="always")
def decode(buf, i):  # type: ignore[no-untyped-def]
    """The code point at byte ``i`` of valid UTF-8, and the byte after it."""
    c = uint32(buf[i])
    if c < 0x80:
        return c, i + 1
    if c < 0xE0:
        return ((c & uint32(31)) << uint32(6)) | uint32(buf[i + 1] & 63), i + 2
    if c < 0xF0:
        return (
            ((c & uint32(15)) << uint32(12)) | (uint32(buf[i + 1] & 63) << uint32(6)) | uint32(buf[i + 2] & 63)
        ), i + 3
    return (
        ((c & uint32(7)) << uint32(18)) | (uint32(buf[i + 1] & 63) << uint32(12))
        | (uint32(buf[i + 2] & 63) << uint32(6)) | uint32(buf[i + 3] & 63)
    ), i + 4


@njit(cache=True, nogil=True)
def word_hashes(buf, start, end, table, hashes, starts, ends):  # type: ignore[no-untyped-def]
    """Hash and byte range of every word of ``buf[start:end]``.

    Args:
        buf: uint8, valid UTF-8 between start and end.
        table: from ``packed``.
        hashes, starts, ends: uint64, int64, int64, at least ``end - start`` long; filled.

    Returns:
        The number of words.
    """
    n = 0
    h = uint64(0x9E3779B97F4A7C15)
    inside = False
    first = start
    i = start
    while i < end:
        c = uint32(buf[i])
        if c < uint32(0x80):
            # Where words end is what no processor predicts, so ASCII has no branch for it: the word so far is written
            # at every byte, and a separator merely moves on.
            t = table[c]
            word = (t >> uint32(24)) == uint32(1)
            n += inside and not word
            h = (h ^ uint64(t & uint32(0xFFFFFF))) * uint64(0x100000001B3) if word else uint64(0x9E3779B97F4A7C15)
            first = first if inside else i
            i += 1
            hashes[n] = h
            starts[n] = first
            ends[n] = i
            inside = word
            continue
        at = i
        c, i = decode(buf, i)
        t = table[c] if c < uint32(0x34000) else uint32(0)
        kind = t >> uint32(24)
        if kind == 3:
            continue
        if kind == 1:
            h = (h ^ uint64(t & uint32(0xFFFFFF))) * uint64(0x100000001B3)
            first = first if inside else at
            hashes[n] = h
            starts[n] = first
            ends[n] = i
            inside = True
            continue
        n += inside
        if kind == 2:
            hashes[n] = (uint64(0x9E3779B97F4A7C15) ^ uint64(t & uint32(0xFFFFFF))) * uint64(0x100000001B3)
            starts[n] = at
            ends[n] = i
            n += 1
        h = uint64(0x9E3779B97F4A7C15)
        inside = False
    n += inside
    for k in range(n):
        hashes[k] = mix64(hashes[k])
    return n


def text_buffers(texts: pa.Array | pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
    """The UTF-8 bytes (uint8) and offsets (int64[n + 1]) of a string column, without a Python string.

    Raises:
        ValueError: for a null text, which has no bytes.
    """
    array = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    if array.null_count:
        raise ValueError(f"{array.null_count} of {len(array)} texts are null")
    array = array.cast(pa.large_string())
    if len(array) == 0:
        return np.zeros(0, np.uint8), np.zeros(1, np.int64)
    _, offsets, data = array.buffers()
    off = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    buf = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
    return buf, off
