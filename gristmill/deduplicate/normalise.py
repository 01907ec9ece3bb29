"""The text that names a document: ``doc_id`` is a hash of normalised text, so equal texts have equal ids.

Belongs here: normalisation, its plain Python definition and the fast path that yields the same bytes. Does not belong
here: which document of a group represents it (``exact.py``), nor the stored text, which is what was extracted.

Definition (prose): lines with no letter or digit go; NFKC(casefold(NFKC(text))); runs of white space become one space.
Code: bytes as they are, line ends to LF.

The fast path maps code point by code point, which equals the definition exactly where normalisation cannot reach over
a code point's edge (Unicode Standard Annex #15, "stable code points"). The tables know which code points those are;
a text with others (a decomposed accent, conjoining Hangul letters) takes the definition itself.
"""

import unicodedata
from functools import cache

import numpy as np
import pyarrow as pa
from blake3 import blake3
from numba import njit, uint8, uint32

from gristmill.text_units import decode, text_buffers

ID_BYTES = 16
_LIMIT = 0x110000

# Flags of the info table, above the 21 bits of a code point (or of an index into the expansions).
_EXPANDS = 1 << 21
_SPACE = 1 << 22  # white space by itself
_ALNUM = 1 << 23  # a letter or digit keeps its line
_FIRST = 1 << 24  # may compose with a following starter
_KIND = 25  # 2 bits: how far normalisation may reach
_EDGE, _MARK, _SECOND, _REACHES = 0, 1, 2, 3


def normalise(text: str) -> str:
    """The normalised form of prose: the definition."""
    kept = "\n".join(line for line in text.split("\n") if any(c.isalnum() for c in line))
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", kept).casefold())
    return " ".join(folded.split())


def doc_id(text: str, *, code: bool = False) -> bytes:
    """16 bytes: the first half of blake3 over the normalised text; for code, over the text with LF line ends."""
    plain = text.replace("\r\n", "\n").replace("\r", "\n") if code else normalise(text)
    return blake3(plain.encode("utf-8")).digest(length=ID_BYTES)


def doc_ids(texts: pa.Array | pa.ChunkedArray, *, code: bool = False) -> pa.Array:
    """``doc_id`` of every text of a string column, as binary(16).

    Raises:
        ValueError: for a null text; an empty one has an id like any other.
    """
    if code:
        out = b"".join(doc_id(t, code=True) for t in _no_nulls(texts).to_pylist())
        return pa.FixedSizeBinaryArray.from_buffers(pa.binary(ID_BYTES), len(texts), [None, pa.py_buffer(out)])
    buf, off = text_buffers(texts)
    n = len(off) - 1
    scratch = _scratch(int((off[1:] - off[:-1]).max(initial=0)))
    ids = b"".join(_id(buf, int(off[i]), int(off[i + 1]), scratch) for i in range(n))
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(ID_BYTES), n, [None, pa.py_buffer(ids)])


def utf8_id(text: bytes) -> bytes:
    """``doc_id`` of one prose text in UTF-8."""
    return _id(np.frombuffer(text, np.uint8), 0, len(text), _scratch(len(text)))


def _scratch(widest: int) -> np.ndarray:
    return np.empty(widest * _GROWTH + 64, np.uint8)


def _id(buf: np.ndarray, start: int, end: int, scratch: np.ndarray) -> bytes:
    size = _normalised(buf, start, end, *_tables(), scratch)
    if size >= 0:
        return blake3(scratch.data[:size]).digest(length=ID_BYTES)
    return doc_id(buf[start:end].tobytes().decode("utf-8"))


def normalise_fast(text: str) -> bytes | None:
    """The fast path on one text: the normalised UTF-8, or None where the text must take the definition."""
    raw = np.frombuffer(text.encode("utf-8"), np.uint8)
    scratch = _scratch(len(raw))
    size = _normalised(raw, 0, len(raw), *_tables(), scratch)
    return scratch[:size].tobytes() if size >= 0 else None


def _no_nulls(texts: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    if texts.null_count:
        raise ValueError(f"{texts.null_count} of {len(texts)} texts are null")
    return texts


# U+FDFA is 3 bytes and normalises to 18 code points of 2 bytes and spaces: 33 bytes, the largest growth there is.
_GROWTH = 12


@cache
def _tables() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """info, combining class at the front, at the end (uint8), expansion starts (int64), expansion code points."""
    firsts, seconds = _composition()
    either = firsts | seconds
    info = np.arange(_LIMIT, dtype=np.uint32)
    lead = np.zeros(_LIMIT, np.uint8)
    last = np.zeros(_LIMIT, np.uint8)
    starts = [0]
    pool: list[int] = []
    for cp in range(_LIMIT):
        ch = chr(cp)
        category = unicodedata.category(ch)
        if category in ("Cn", "Co", "Cs"):
            continue
        once = unicodedata.normalize("NFKC", ch)
        folded = once.casefold()
        mapped = unicodedata.normalize("NFKC", folded)
        flags = _ALNUM if ch.isalnum() else 0
        if ch == mapped and category == "Lo" and not (unicodedata.decomposition(ch) or ch in either or _is_lv(ch)):
            info[cp] = cp | flags  # the mass of CJK: nothing to look up
            continue
        deep = (unicodedata.normalize("NFKD", ch), unicodedata.normalize("NFKD", folded))
        kind = _kind(ch, mapped, deep, seconds)
        lead[cp] = unicodedata.combining(deep[0][0])
        last[cp] = max(unicodedata.combining(d[-1]) for d in deep)
        if any(s[-1] in firsts or _is_lv(s[-1]) for s in (once, mapped, *deep)):
            flags |= _FIRST
        if mapped.isspace() and len(mapped) == 1:
            info[cp] = 32 | flags | _SPACE
        elif len(mapped) == 1:
            info[cp] = ord(mapped) | flags | kind << _KIND
        else:
            info[cp] = (len(starts) - 1) | flags | kind << _KIND | _EXPANDS
            pool.extend(ord(c) for c in mapped)
            starts.append(len(pool))
    return info, lead, last, np.array(starts, np.int64), np.array(pool, np.uint32)


def _composition() -> tuple[frozenset[str], frozenset[str]]:
    """Code points that canonical composition may join: as the first, and as the second, of two."""
    firsts = {chr(c) for c in range(0x1100, 0x1113)}
    seconds = {chr(c) for c in (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))}  # Hangul vowels and finals
    for cp in range(0x20000):
        parts = unicodedata.decomposition(chr(cp)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            firsts.add(chr(int(parts[0], 16)))
            seconds.add(chr(int(parts[1], 16)))
    return frozenset(firsts), frozenset(seconds)


def _is_lv(ch: str) -> bool:
    """A Hangul syllable without a final, which a following final would join."""
    return 0xAC00 <= ord(ch) < 0xD7A4 and (ord(ch) - 0xAC00) % 28 == 0


def _kind(ch: str, mapped: str, deep: tuple[str, str], seconds: frozenset[str]) -> int:
    """How far normalisation may reach over this code point's front edge.

    _EDGE: never. _MARK: it is a mark that stays itself, in place, while classes do not fall. _SECOND: it is a starter
    that stays itself unless it composes with what stands before it. _REACHES: do not try.
    """
    if all(unicodedata.combining(d[0]) == 0 and d[0] not in seconds for d in deep):
        return _EDGE
    inert = mapped == ch and all(d == ch for d in deep)
    if inert and unicodedata.combining(ch) and ch not in seconds:
        return _MARK
    if inert and not unicodedata.combining(ch):
        return _SECOND
    return _REACHES


@njit(inline="always")
def _put(out, n, c):  # type: ignore[no-untyped-def]
    if c < 0x80:
        out[n] = uint8(c)
        return n + 1
    if c < 0x800:
        out[n] = uint8(0xC0 | (c >> 6))
        out[n + 1] = uint8(0x80 | (c & 63))
        return n + 2
    if c < 0x10000:
        out[n] = uint8(0xE0 | (c >> 12))
        out[n + 1] = uint8(0x80 | ((c >> 6) & 63))
        out[n + 2] = uint8(0x80 | (c & 63))
        return n + 3
    out[n] = uint8(0xF0 | (c >> 18))
    out[n + 1] = uint8(0x80 | ((c >> 12) & 63))
    out[n + 2] = uint8(0x80 | ((c >> 6) & 63))
    out[n + 3] = uint8(0x80 | (c & 63))
    return n + 4


@njit(cache=True, nogil=True)
def _normalised(buf, start, end, info, lead, last, starts, pool, out):  # type: ignore[no-untyped-def]
    """Normalise ``buf[start:end]`` into ``out``; its size, or -1 for a text whose normalisation crosses code points."""
    n = 0
    line = 0  # size of the output where this line began
    space = False  # a space is due before the next character
    keep = False  # this line has a letter or digit
    before = uint8(0)  # combining class that the text so far ends with
    first = False  # it ends with what may compose
    i = start
    while i < end:
        c, i = decode(buf, i)
        t = info[c]
        if c == 10:
            if not keep:
                n = line
            line = n
            keep = False
            space = True
            before = uint8(0)
            first = False
            continue
        if t & uint32(1 << 22):
            space = True
            before = uint8(0)
            first = False
            continue
        kind = (t >> uint32(25)) & uint32(3)
        if kind != 0 and (
            kind == 3 or (kind == 1 and before > lead[c]) or (kind == 2 and (first or before != 0))
        ):
            return -1
        before = last[c]
        first = (t & uint32(1 << 24)) != 0
        if t & uint32(1 << 23):
            keep = True
        m = t & uint32(0x1FFFFF)
        if t & uint32(1 << 21):
            for k in range(starts[m], starts[m + uint32(1)]):
                if pool[k] == 32:
                    space = True
                    continue
                if space and n > 0:
                    out[n] = 32
                    n += 1
                space = False
                n = _put(out, n, pool[k])
            continue
        if space and n > 0:
            out[n] = 32
            n += 1
        space = False
        n = _put(out, n, m)
    if not keep:
        n = line
    return n
