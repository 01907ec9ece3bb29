"""One pass over HTML bytes: tokens, and which element each belongs to, without building a tree.

Belongs here: the tokenizer, as Numba kernels over bytes. It and the nesting of elements (``nesting.py``)
follow the HTML standard (https://html.spec.whatwg.org/#parsing) where that decides what text is in which element, and
not in foster parenting, the adoption agency and foreign content. A page of any depth costs the same: nothing recurses.
Does not belong here: what is done with elements (``sanitize.py``, ``blocks.py``).
"""
# Compiled code compares with each constant; the set that these rules ask for is slower there.
# ruff: noqa: PLR1714, SIM109

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from numba import njit, uint8, uint64

from gristmill.extract import hints, nesting, tags

TEXT, START, END, RAW, SKIPPED = 0, 1, 2, 3, 4
# Columns of ``Scan.attrs``: byte ranges of attribute values in the page; -1 where absent.
CLASS, ID, STYLE, TYPE = 0, 2, 4, 6
A_HIDDEN, A_ARIA_HIDDEN, A_HREF, A_SELF_CLOSING, A_NESTED = 1, 2, 4, 8, 16

_N_CLASS, _N_ID, _N_STYLE, _N_TYPE, _N_HIDDEN, _N_HREF, _N_ROLE, _N_PROP, _N_ARIA = (
    uint64(tags.packed(n)[0])
    for n in ("class", "id", "style", "type", "hidden", "href", "role", "itemprop", "aria-hidden"))
_N_ARIA_REST = uint64(tags.packed("aria-hidden")[1])
_MIX, _MIX_REST, _TOO_LONG = uint64(tags.MIX), uint64(tags.MIX_REST), uint64(0xFFFFFFFFFFFFFFFF)
_TAG_SLOTS = 1024
_SCRIPT = np.frombuffer(b"script", np.uint8)
_LOWER = np.arange(256, dtype=np.uint8)
_LOWER[65:91] += 32
_LOWER[0] = 1  # no name has either
_LETTER = np.zeros(256, np.uint8)  # a letter in lower case; 0 for all else
_LETTER[65:91] = _LETTER[97:123] = np.arange(97, 123)
_STOPS = np.zeros(256, np.uint8)  # what ends a name; 2 where it may begin an attribute's name
_STOPS[[9, 10, 12, 13, 32, 47, 62]] = 1
_STOPS[61] = 2


@dataclass(frozen=True)
class Scan:
    """Tokens of a page, in order; elements are named by their start tag's token number.

    Attributes:
        raw, buf: the page in UTF-8, as bytes and as uint8.
        kind: uint8, TEXT, START, END, RAW (content of script, style, title ...) or SKIPPED (comments and the like).
        tag: int32, ``tags.ID`` of START, END and RAW.
        start, end: int32 byte ranges of tokens.
        attrs: int32[n, 8] byte ranges of class, id, style, type values.
        flags: uint8, A_HIDDEN ... of START; A_NESTED (the beginning of a comment or script inside) of END too.
        hint: uint64, what the words of class, id, role and itemprop speak of (``hints.py``), of START.
        parent: int32, the element a token is in; -1 at the top. A START's parent is its element's.
        close: int32, of START: the token that ended it (its END, or what implied the end), or n. A void element's own
        number. depth: int32, of elements.
    """

    raw: bytes
    buf: np.ndarray
    kind: np.ndarray
    tag: np.ndarray
    start: np.ndarray
    end: np.ndarray
    attrs: np.ndarray
    flags: np.ndarray
    hint: np.ndarray
    parent: np.ndarray
    close: np.ndarray
    depth: np.ndarray

    def __len__(self) -> int:
        return len(self.kind)

    def outer_end(self, element: int) -> int:
        """Byte after an element: after its own end tag, or where something else ended it."""
        closed = int(self.close[element])
        if closed == element:
            return int(self.end[element])
        if closed >= len(self.kind):
            return len(self.buf)
        own = self.kind[closed] == END and self.tag[closed] == self.tag[element] and self._closes(closed, element)
        return int(self.end[closed] if own else self.start[closed])

    def _closes(self, closed: int, element: int) -> bool:
        return int(self.parent[closed]) == element

    def with_value(self, column: int) -> Iterator[tuple[int, bytes]]:
        """Elements that have an attribute, and its raw value."""
        elements = np.flatnonzero((self.attrs[:, column] >= 0) & (self.kind == START))
        for element, (start, end) in zip(
            elements.tolist(), self.attrs[elements, column : column + 2].tolist(), strict=True
        ):
            yield element, self.raw[start:end]

    def value(self, element: int, column: int) -> bytes:
        """An attribute's raw value; empty where absent."""
        start = int(self.attrs[element, column])
        return b"" if start < 0 else self.raw[start : int(self.attrs[element, column + 1])]


@cache
def _tables() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    tag_keys, tag_values = tags.hash_table({n: i for i, n in enumerate(tags.NAMES) if i}, _TAG_SLOTS)
    hint_keys, hint_values = tags.hash_table(hints.WORDS, hints.SLOTS)
    return tag_keys, tag_values, hint_keys, hint_values


def scan(page: bytes) -> Scan:
    """Scan a page in UTF-8."""
    buf = np.frombuffer(page, np.uint8)
    room = 2 * _count(buf, 60) + 2
    kind, tag = np.empty(room, np.uint8), np.empty(room, np.int32)
    start, end = np.empty(room, np.int32), np.empty(room, np.int32)
    attrs = np.empty((room, 8), np.int32)
    flags, hint = np.empty(room, np.uint8), np.empty(room, np.uint64)
    tag_keys, tag_values, hint_keys, hint_values = _tables()
    n = _tokens(buf, tag_keys, tag_values, hint_keys, hint_values, tags.FLAGS, kind, tag, start, end, attrs, flags,
    hint)
    parent, close, depth = np.empty(n, np.int32), np.full(n, n, np.int32), np.zeros(n, np.int32)
    nesting.nest(kind[:n], tag[:n], tags.FLAGS, flags, parent, close, depth)
    return Scan(page, buf, kind[:n], tag[:n], start[:n], end[:n], attrs[:n], flags[:n], hint[:n], parent, close, depth)


@njit(inline="always")
def _lower(c):  # type: ignore[no-untyped-def]
    return c + 32 if 65 <= c <= 90 else c


@njit(inline="always")
def _blank(c):  # type: ignore[no-untyped-def]
    return c == 32 or c == 9 or c == 10 or c == 12 or c == 13


@njit(cache=True, nogil=True)
def _find(keys, values, name, rest):  # type: ignore[no-untyped-def]
    """Value of a packed name in a table of ``tags.hash_table``; 0 where it is not."""
    mask = uint64(len(keys) - 1)
    at = ((name * _MIX) ^ (rest * _MIX_REST)) >> uint64(40) & mask
    while keys[at, 0] != 0:
        if keys[at, 0] == name and keys[at, 1] == rest:
            return values[at]
        at = (at + uint64(1)) & mask
    return 0


@njit(cache=True, nogil=True)
def _hints_of(buf, a, b, keys, values):  # type: ignore[no-untyped-def]
    """Bits of the known words in buf[a:b]; words end at what is no letter and before a capital after a small letter."""
    mask = uint64(0)
    name = uint64(0)
    rest = uint64(0)
    size = 0
    small = False
    for i in range(a, b + 1):
        c = buf[i] if i < b else 32
        letter = _LETTER[c]
        if size > 0 and (letter == 0 or (small and c < 97)):
            v = _find(keys, values, name, rest)
            if v > 0:
                mask |= uint64(1) << uint64(v - 1)
            name = uint64(0)
            rest = uint64(0)
            size = 0
        if letter:
            small = c >= 97
            if size < 8:
                name = name << uint64(8) | uint64(letter)
            else:
                rest = rest << uint64(8) | uint64(letter) if size < 16 else _TOO_LONG
            size += 1
    return mask


@njit(cache=True, nogil=True)
def _attributes(buf, i, n, row, hint_keys, hint_values):  # type: ignore[no-untyped-def]
    """Read attributes from byte ``i`` on. Returns (byte after the tag's >, flags, hints)."""
    flags = 0
    hint = uint64(0)
    while i < n:
        c = buf[i]
        if c == 62:
            return i + 1, flags, hint
        if _blank(c) or c == 47:
            flags = (flags | 8) if c == 47 else flags
            i += 1
            continue
        flags &= ~8
        name = uint64(0)
        rest = uint64(0)
        first = i
        while i < n:
            c = buf[i]
            if _STOPS[c] and (_STOPS[c] == 1 or i > first):
                break
            if i - first < 8:
                name = name << uint64(8) | uint64(_LOWER[c])
            else:
                rest = rest << uint64(8) | uint64(_LOWER[c]) if i - first < 16 else _TOO_LONG
            i += 1
        while i < n and _blank(buf[i]):
            i += 1
        a = b = i
        if i < n and buf[i] == 61:
            i += 1
            while i < n and _blank(buf[i]):
                i += 1
            if i < n and (buf[i] == 34 or buf[i] == 39):
                quote = buf[i]
                a = i + 1
                b = _seek(buf, a, n, quote)
                i = b
                i += 1
            else:
                a = i
                while i < n and not (_blank(buf[i]) or buf[i] == 62):
                    i += 1
                b = i
        if rest != 0:
            if name == _N_ARIA and rest == _N_ARIA_REST and b - a == 4 and (buf[a] == 116 or buf[a] == 84):
                flags |= 2
            continue
        column = -1
        if name == _N_CLASS:
            column = 0
        elif name == _N_ID:
            column = 2
        elif name == _N_STYLE:
            column = 4
        elif name == _N_TYPE:
            column = 6
        elif name == _N_HIDDEN:
            flags |= 1
        elif name == _N_HREF:
            flags |= 4
        if column >= 0 and row[column] < 0:
            row[column] = a
            row[column + 1] = b
        if column == 0 or column == 2 or name == _N_ROLE or name == _N_PROP:
            hint |= _hints_of(buf, a, b, hint_keys, hint_values)
    return n, flags, hint


@njit(cache=True, nogil=True)
def _nested(buf, a, b):  # type: ignore[no-untyped-def]
    """Does a comment or a script begin in buf[a:b]."""
    i = _seek(buf, a, b, 60)
    while i < b:
        if i + 3 < b and buf[i + 1] == 33:
            if buf[i + 2] == 45 and buf[i + 3] == 45:
                return True
        elif i + 6 < b:
            same = True
            for k in range(6):
                if _lower(buf[i + 1 + k]) != _SCRIPT[k]:
                    same = False
                    break
            if same:
                return True
        i = _seek(buf, i + 1, b, 60)
    return False


@njit(cache=True, nogil=True)
def _count(buf, byte):  # type: ignore[no-untyped-def]
    """How often a byte occurs, in vectors."""
    found = 0
    for i in range(len(buf)):
        found += buf[i] == byte
    return found


@njit(cache=True, nogil=True)
def _seek(buf, i, n, byte):  # type: ignore[no-untyped-def]
    """The first place of a byte in buf[i:n], n where it is not there; 32 bytes at a time, which vectors compare."""
    at = uint64(i)
    end = uint64(n)
    while at + uint64(32) <= end:
        hit = uint8(0)
        for k in range(32):
            hit |= uint8(buf[at + uint64(k)] == byte)
        if hit:
            break
        at += uint64(32)
    while at < end and buf[at] != byte:
        at += uint64(1)
    return np.int64(at)


@njit(cache=True, nogil=True)
def _raw_end(buf, i, n, a, b):  # type: ignore[no-untyped-def]
    """Where ``</name`` begins, at or after byte ``i``; the name is buf[a:b]. n where it never does."""
    size = b - a
    i = _seek(buf, i, n, 60)
    while i < n:
        if i + 1 < n and buf[i + 1] == 47 and i + 2 + size <= n:
            same = True
            for k in range(size):
                if _lower(buf[i + 2 + k]) != _lower(buf[a + k]):
                    same = False
                    break
            if same:
                e = i + 2 + size
                if e >= n or _blank(buf[e]) or buf[e] == 47 or buf[e] == 62:
                    return i
        i = _seek(buf, i + 1, n, 60)
    return n


@njit(cache=True, nogil=True)
def _markup_end(buf, i, n):  # type: ignore[no-untyped-def]
    """Byte after a comment, doctype or other declaration that begins at ``i`` with ``<!``, ``<?`` or ``</`` and no
    letter.
    """
    if i + 3 < n and buf[i + 1] == 33 and buf[i + 2] == 45 and buf[i + 3] == 45:
        i += 4
        if i < n and buf[i] == 62:
            return i + 1
        if i + 1 < n and buf[i] == 45 and buf[i + 1] == 62:
            return i + 2
        while i < n:
            if buf[i] == 62 and buf[i - 1] == 45 and buf[i - 2] == 45:
                return i + 1
            if buf[i] == 62 and buf[i - 1] == 33 and buf[i - 2] == 45 and buf[i - 3] == 45:
                return i + 1
            i += 1
        return n
    while i < n and buf[i] != 62:
        i += 1
    return min(i + 1, n)


@njit(cache=True, nogil=True)
def _tokens(buf, tag_keys, tag_values, hint_keys, hint_values, tag_flags,  # type: ignore[no-untyped-def]
            kind, tag, start, end, attrs, flags, hint):
    """Fill the token arrays; returns how many tokens there are."""
    n = len(buf)
    i = 0
    t = 0
    while i < n:
        tag[t] = 0
        flags[t] = 0
        hint[t] = 0
        for k in range(8):
            attrs[t, k] = -1
        c = buf[i + 1] if buf[i] == 60 and i + 1 < n else 0
        opening = 97 <= _lower(c) <= 122
        closing = c == 47 and i + 2 < n and 97 <= _lower(buf[i + 2]) <= 122
        if not opening and not closing and not (c == 33 or c == 63 or c == 47):
            j = _seek(buf, i + 1, n, 60)
            while j < n and not (j + 1 < n and (
                    97 <= _lower(buf[j + 1]) <= 122 or buf[j + 1] == 33 or buf[j + 1] == 63 or buf[j + 1] == 47)):
                j = _seek(buf, j + 1, n, 60)
            kind[t] = 0
            start[t] = i
            end[t] = j
            t += 1
            i = j
            continue
        start[t] = i
        if not opening and not closing:
            kind[t] = 4
            i = _markup_end(buf, i, n)
            end[t] = i
            t += 1
            continue
        a = i + (1 if opening else 2)
        b = a
        packed = uint64(0)
        rest = uint64(0)
        while b < n and _STOPS[buf[b]] != 1:
            if b - a < 8:
                packed = packed << uint64(8) | uint64(_LOWER[buf[b]])
            else:
                rest = rest << uint64(8) | uint64(_LOWER[buf[b]]) if b - a < 16 else _TOO_LONG
            b += 1
        name = _find(tag_keys, tag_values, packed, rest)
        tag[t] = name
        i, seen, words = _attributes(buf, b, n, attrs[t], hint_keys, hint_values)
        end[t] = i
        nested = 16 if _nested(buf, a, i) else 0
        if closing:
            kind[t] = 2
            flags[t] = nested
            attrs[t, :] = -1
            t += 1
            continue
        kind[t] = 1
        flags[t] = seen | nested
        hint[t] = words
        t += 1
        if tag_flags[name] & 2:
            j = _raw_end(buf, i, n, a, b)
            if j > i:
                kind[t] = 3
                tag[t] = name
                start[t] = i
                end[t] = j
                flags[t] = 0
                hint[t] = 0
                for k in range(8):
                    attrs[t, k] = -1
                t += 1
            i = j
    return t
