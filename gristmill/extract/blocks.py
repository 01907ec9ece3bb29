"""A page as blocks of text, each with the measures by which main text is told from the rest.

Belongs here: cutting a scanned page into blocks at the edges of block elements, counting what is in each, and what the
elements around it say. Does not belong here: the matrix of measures (``measures.py``) and which blocks are main text
(``forest.py``, ``engines/blocks.py``).
"""
# Compiled code compares with each constant; the set that these rules ask for is slower there.
# ruff: noqa: PLR1714, SIM109

from dataclasses import dataclass

import numpy as np
from numba import njit, uint64

from gristmill.extract import scan, tags
from gristmill.extract.scan import Scan

# Per-block counts, columns of ``Blocks.counts``.
COUNTS = ("words", "chars", "link_words", "links", "upper", "digits", "stops", "commas", "breaks", "strong",
          "last_stop", "tokens", "title_words")

_ANCESTORS = ("p", "li", "td", "th", "table", "form", "nav", "header", "footer", "aside", "article", "main", "section",
              "figure", "figcaption", "blockquote", "pre", "dl", "button", "label", "select", "option", "ul", "ol",
              "h1", "h2", "h3", "h4", "a", "details", "fieldset", "address", "title", "head", "summary", "div")
_ANCESTOR_BIT = np.full(len(tags.NAMES), -1, np.int32)
for _i, _n in enumerate(_ANCESTORS):
    _ANCESTOR_BIT[tags.ID[_n]] = _i
_INLINE_BREAK = tags.ID["br"]
_A, _B, _STRONG_TAG = (tags.ID[n] for n in ("a", "b", "strong"))
MAX_TITLE = 500  # bytes of a title that are looked at
LEVELS = 5  # boxes around a block whose sums are measures


@dataclass(frozen=True)
class Blocks:
    """Blocks in page order.

    Attributes:
        page: the scan.
        first, last: int32, token range [first, last) of each block; other blocks' tokens are never inside.
        element: int32, the innermost block element around it; -1 at the top.
        counts: int32[n, COUNTS].
        within: uint64, bits of ``_ANCESTORS`` around it.
        hints: uint64, hints of all boxes around it.
        near: uint64, hints of its element and the two around that.
        path: uint64, hash of the tags and classes of the four innermost boxes: blocks of one template share it.
        print_: uint64, hash of its text: repeated blocks share it.
    """

    page: Scan
    first: np.ndarray
    last: np.ndarray
    element: np.ndarray
    counts: np.ndarray
    within: np.ndarray
    hints: np.ndarray
    near: np.ndarray
    path: np.ndarray
    print_: np.ndarray

    def __len__(self) -> int:
        return len(self.first)


def blocks(page: Scan) -> Blocks:
    """Cut a scanned page into blocks."""
    n = len(page)
    room = int((page.kind == scan.TEXT).sum()) + 1
    first, last, element = np.zeros(room, np.int32), np.zeros(room, np.int32), np.zeros(room, np.int32)
    counts = np.zeros((room, len(COUNTS)), np.int32)
    prints = np.zeros(room, np.uint64)
    m = _cut(page.buf, page.kind, page.tag, page.start, page.end, page.parent, tags.FLAGS, _title_words(page), first,
             last, element, counts, prints)
    within, every, near, path = (np.zeros(m, np.uint64) for _ in range(4))
    e_within, e_hints, e_path = (np.zeros(n, np.uint64) for _ in range(3))
    _around(page.buf, page.kind, page.tag, page.parent, page.hint, page.attrs, _ANCESTOR_BIT, tags.FLAGS, element[:m],
            e_within, e_hints, e_path, within, every, near, path)
    return Blocks(page, first[:m], last[:m], element[:m], counts[:m], within, every, near, path, prints[:m])


def within(page: Blocks, *names: str) -> np.ndarray:
    """bool[n]: which blocks are in an element of one of the names, all of ``_ANCESTORS``."""
    found: np.ndarray = (page.within & np.uint64(sum(1 << _ANCESTORS.index(n) for n in names))) != 0
    return found


def _title_words(page: Scan) -> np.ndarray:
    """uint64 hashes of the words of the document's title, sorted; letters of ASCII in lower case."""
    raw = np.flatnonzero((page.kind == scan.RAW) & (page.tag == tags.ID["title"]))
    if not len(raw):
        return np.zeros(0, np.uint64)
    first = int(page.start[raw[0]])
    return np.unique(_word_hashes(page.buf[first : min(int(page.end[raw[0]]), first + MAX_TITLE)]))


@njit(cache=True, nogil=True)
def _word_hashes(buf):  # type: ignore[no-untyped-def]
    """Hashes of words of three bytes and more, of letters, digits and what is no ASCII, as ``_count_text`` has them."""
    out = np.empty(len(buf) // 3 + 1, np.uint64)
    n = 0
    h = uint64(0xCBF29CE484222325)
    size = 0
    for i in range(len(buf) + 1):
        c = buf[i] if i < len(buf) else 32
        capital = 65 <= c <= 90
        if capital or 97 <= c <= 122 or 48 <= c <= 57 or c >= 128:
            h = (h ^ uint64(c + 32 if capital else c)) * uint64(0x100000001B3)
            size += 1
            continue
        if size > 2:
            out[n] = h
            n += 1
        h = uint64(0xCBF29CE484222325)
        size = 0
    return out[:n]


@njit(cache=True, nogil=True)
def _in(table, value):  # type: ignore[no-untyped-def]
    """1 where a sorted array holds a value, else 0."""
    at = np.searchsorted(table, value)
    return 1 if at < len(table) and table[at] == value else 0


@njit(cache=True, nogil=True)
def _count_text(buf, a, b, row, state, in_link, strong, title):  # type: ignore[no-untyped-def]
    """Add the characters and words of buf[a:b] to a block's counts; ``state`` is [inside a word, print, odd ideograph,
    hash of the word so far].
    """
    h = state[1]
    word = state[3]
    inside = state[0] != 0
    i = a
    while i < b:
        c = buf[i]
        if c < 128:
            if c == 38 and i + 2 < b:  # an entity is one character; &nbsp; and numbers of blanks are rare inside words
                j = i + 1
                while j < b and j < i + 10 and buf[j] != 59 and buf[j] != 32:
                    j += 1
                if j < b and buf[j] == 59:
                    i = j + 1
                    inside = False
                    row[1] += 1
                    continue
            if c == 32 or (9 <= c <= 13):
                if inside:
                    row[12] += _in(title, word)
                inside = False
                i += 1
                continue
            row[1] += 1
            h = (h ^ uint64(c)) * uint64(0x100000001B3)
            letter = 97 <= c <= 122 or 65 <= c <= 90
            digit = 48 <= c <= 57
            if letter or digit:
                if not inside:
                    word = uint64(0xCBF29CE484222325)
                    row[0] += 1
                    row[2] += in_link
                    row[9] += strong
                    if 65 <= c <= 90:
                        row[4] += 1
                    if digit:
                        row[5] += 1
                inside = True
                word = (word ^ uint64(c + 32 if 65 <= c <= 90 else c)) * uint64(0x100000001B3)
                row[10] = 0
            else:
                if inside:
                    row[12] += _in(title, word)
                if c != 39 and c != 45:
                    inside = False
                if c == 46 or c == 33 or c == 63:
                    row[6] += 1
                    row[10] = 1
                elif c == 44 or c == 59:
                    row[7] += 1
                    row[10] = 0
                elif c == 58:
                    row[10] = 2
                elif c != 34 and c != 41:
                    row[10] = 0
            i += 1
            continue
        h = (h ^ uint64(c)) * uint64(0x100000001B3)
        if c < 0xC0:
            i += 1
            continue
        row[1] += 1
        if c == 0xC2 and i + 1 < b and buf[i + 1] == 0xA0:
            inside = False
            i += 2
            continue
        if c == 0xE2 and i + 1 < b and buf[i + 1] == 0x80:  # general punctuation
            inside = False
            row[10] = 0 if buf[i + 2] != 0x9D and buf[i + 2] != 0xA6 else row[10]
            i += 3
            continue
        if c == 0xE3 and i + 2 < b and buf[i + 1] == 0x80:  # CJK punctuation: ideographic comma and full stop
            if buf[i + 2] == 0x82:
                row[6] += 1
                row[10] = 1
            elif buf[i + 2] == 0x81:
                row[7] += 1
                row[10] = 0
            inside = False
            i += 3
            continue
        if c == 0xEF and i + 2 < b and buf[i + 1] == 0xBC:  # full-width ! , ?
            if buf[i + 2] == 0x81 or buf[i + 2] == 0x9F:
                row[6] += 1
                row[10] = 1
            elif buf[i + 2] == 0x8C:
                row[7] += 1
                row[10] = 0
            inside = False
            i += 3
            continue
        if 0xE3 <= c <= 0xE9:  # kana and ideographs: two characters make about one word
            state[2] ^= uint64(1)
            if state[2] == uint64(1):
                row[0] += 1
                row[2] += in_link
                row[9] += strong
            inside = False
            row[10] = 0
            i += 3
            continue
        if not inside:
            word = uint64(0xCBF29CE484222325)
            row[0] += 1
            row[2] += in_link
            row[9] += strong
        inside = True
        for k in range(i, min(i + (2 if c < 0xE0 else (3 if c < 0xF0 else 4)), b)):
            word = (word ^ uint64(buf[k])) * uint64(0x100000001B3)
        row[10] = 0
        i += 2 if c < 0xE0 else (3 if c < 0xF0 else 4)
    if inside:
        row[12] += _in(title, word)
    state[3] = word
    state[0] = uint64(1) if inside else uint64(0)
    state[1] = h


@njit(cache=True, nogil=True)
def _cut(buf, kind, tag, start, end, parent, tag_flags, title, first, last,  # type: ignore[no-untyped-def]
         element, counts, prints):
    """Fill the blocks; returns how many there are. Two line breaks in a row end a block, as an element does."""
    n = len(kind)
    m = 0
    box = -1
    strong = 0
    breaks = 0
    empty = True
    state = np.zeros(4, np.uint64)
    state[1] = uint64(0xCBF29CE484222325)
    first[0] = 0
    for t in range(n):
        k = kind[t]
        name = tag[t]
        cut = False
        if k == 1 or k == 2:
            if tag_flags[name] & 4:
                cut = True
            elif name == _INLINE_BREAK:
                breaks += 1
                state[0] = uint64(0)
                if breaks >= 2:
                    cut = True
                elif not empty:
                    counts[m, 8] += 1
            elif name == _A:
                counts[m, 3] += k == 1
            elif name == _B or name == _STRONG_TAG:
                strong = 1 if k == 1 else 0
        if cut:
            if not empty:
                last[m] = t
                prints[m] = state[1]
                m += 1
            counts[m, :] = 0
            first[m] = t
            empty = True
            state[0] = uint64(0)
            state[1] = uint64(0xCBF29CE484222325)
            if tag_flags[name] & 4:
                strong = 0
                breaks = 0
        if k == 0:
            blank = True
            for i in range(start[t], end[t]):
                c = buf[i]
                if not (c == 32 or (9 <= c <= 13)):
                    blank = False
                    break
            if blank:
                state[0] = uint64(0)
                continue
            breaks = 0
            if empty:
                empty = False
                box = parent[t]
                while box >= 0 and not tag_flags[tag[box]] & 4:
                    box = parent[box]
                element[m] = box
            # An a that was never closed ends with its box; the nesting knows.
            inside_link = 0
            up = parent[t]
            hops = 0
            while up >= 0 and hops < 12:
                if tag[up] == _A:
                    inside_link = 1
                    break
                up = parent[up]
                hops += 1
            counts[m, 11] += 1
            _count_text(buf, start[t], end[t], counts[m], state, inside_link, strong, title)
    if not empty:
        last[m] = n
        prints[m] = state[1]
        m += 1
    return m


@njit(cache=True, nogil=True)
def _around(buf, kind, tag, parent, hint, attrs, bit, tag_flags, element,  # type: ignore[no-untyped-def]
            e_within, e_hints, e_path, within, every, near, path):
    """Fill what is said of a block by the elements around it."""
    prime = uint64(0x9E3779B97F4A7C15)
    for t in range(len(kind)):
        if kind[t] != 1:
            continue
        up = parent[t]
        own = uint64(0)
        if bit[tag[t]] >= 0:
            own = uint64(1) << uint64(bit[tag[t]])
        e_within[t] = own | (e_within[up] if up >= 0 else uint64(0))
        e_hints[t] = hint[t] | (e_hints[up] if up >= 0 else uint64(0))
        h = uint64(tag[t] + 1) * prime
        a = attrs[t, 0]
        if a >= 0:
            for i in range(a, min(attrs[t, 1], a + 64)):
                c = buf[i]
                if 48 <= c <= 57:
                    continue
                h = (h ^ uint64(c)) * uint64(0x100000001B3)
        e_path[t] = h
    for b in range(len(element)):
        e = element[b]
        if e < 0:
            continue
        within[b] = e_within[e]
        every[b] = e_hints[e]
        h = uint64(0)
        up = e
        for level in range(4):
            if up < 0:
                break
            if level < 3:
                near[b] |= hint[up]
            h = (h * prime) ^ e_path[up]
            up = parent[up]
        path[b] = h
