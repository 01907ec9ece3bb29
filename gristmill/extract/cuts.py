"""What goes out of a scanned page, as byte ranges; and hidden text that may be a message.

Belongs here: the kernels that walk tokens for ``sanitize.py``. Does not belong here: which elements are hidden
(``hidden.py``) and what stands for a formula (``maths.py``).
"""
# Compiled code compares with each constant; the set that this rule asks for is slower there.
# ruff: noqa: PLR1714

import numpy as np
from numba import njit, uint64

from gristmill.extract import scan, tags
from gristmill.extract.scan import Scan

_GREATER = 62
_P = tags.ID["p"]
FEW_WORDS, FEW_BYTES = 8, 80  # of a paragraph that is running text


def spans(page: Scan, inert: np.ndarray, unseen: np.ndarray, formulae: np.ndarray) -> np.ndarray:
    """int64[n, 3]: where each piece that goes begins and ends, and which formula stands for it, or -1.

    Of pieces inside each other the outer is listed; of equal ones the formula.

    Args:
        page: the scan.
        inert: bool by tag, elements that go.
        unseen: elements that are hidden.
        formulae: int64[m, 2], where each begins and ends; ascending, each beginning at a token.
    """
    gone = np.zeros(len(page), np.bool_)
    gone[unseen] = True
    return _spans(page.buf, page.kind, page.tag, page.start, page.end, page.flags, page.parent, page.close, inert, gone,
                  formulae)


@njit(cache=True, nogil=True)
def _outer_end(t, kind, tag, start, end, parent, close, size):  # type: ignore[no-untyped-def]
    """``Scan.outer_end``."""
    closed = close[t]
    if closed == t:
        return end[t]
    if closed >= len(kind):
        return size
    return end[closed] if kind[closed] == 2 and tag[closed] == tag[t] and parent[closed] == t else start[closed]


@njit(cache=True, nogil=True)
def _spans(buf, kind, tag, start, end, flags, parent, close, inert, gone, formulae):  # type: ignore[no-untyped-def]
    """See ``spans``. Beside what is asked for go comments and the like, and tags that parsers read differently: cut
    short by the end of the page (the standard drops them), or with the beginning of a comment or script inside, which
    some parsers would obey.
    """
    n = len(kind)
    out = np.empty((n, 3), np.int64)
    found = 0
    at = np.int64(0)
    formula = 0
    for t in range(n):
        if start[t] < at:
            continue
        while formula < len(formulae) and formulae[formula, 0] < start[t]:
            formula += 1
        k = kind[t]
        stop = np.int64(-1)
        if k == 4:
            stop = np.int64(end[t])
        elif k == 1 or k == 2:
            if flags[t] & 16 or (t == n - 1 and buf[end[t] - 1] != _GREATER):
                stop = np.int64(end[t])
            if k == 1 and (inert[tag[t]] or gone[t]):
                stop = max(stop, np.int64(_outer_end(t, kind, tag, start, end, parent, close, len(buf))))
        which = -1
        if formula < len(formulae) and formulae[formula, 0] == start[t] and formulae[formula, 1] >= stop:
            stop = formulae[formula, 1]
            which = formula
        if stop >= 0:
            out[found, 0], out[found, 1], out[found, 2] = start[t], stop, which
            found += 1
            at = stop
    return out[:found]


def suspects(page: Scan, unseen: np.ndarray, excused: np.ndarray, excused_hints: int, least: int) -> np.ndarray:
    """Text tokens of at least ``least`` bytes in hidden elements that nothing excuses.

    Text is suspect where no script could show it: its element has neither id nor class by which one would find it, or
    it stands among the paragraphs that a reader sees. ``aria-hidden`` alone hides nothing from the eye.

    Args:
        page: the scan.
        unseen: elements that are hidden, ascending.
        excused: bool by tag, elements that excuse what is in them.
        excused_hints: bits of hints that do.
        least: bytes.
    """
    return _suspects(page.buf, page.kind, page.tag, page.start, page.end, page.attrs, page.flags, page.hint,
                     page.parent, page.close, unseen, excused, uint64(excused_hints), least)


@njit(cache=True, nogil=True)
def _suspects(buf, kind, tag, start, end, attrs, flags, hint, parent, close, unseen, excused,  # type: ignore[no-untyped-def]
              excused_hints, least):
    """See ``suspects``."""
    n = len(kind)
    out = np.empty(n, np.int64)
    found = 0
    done = -1
    for element in unseen:
        last = close[element]
        if element <= done or excused[tag[element]] or hint[element] & excused_hints:
            continue
        silent = attrs[element, scan.STYLE] < 0 and not flags[element] & scan.A_HIDDEN
        named = attrs[element, scan.CLASS] >= 0 or attrs[element, scan.ID] >= 0
        if (named or silent) and not _among_prose(buf, kind, tag, start, end, attrs, flags, parent, close, element):
            continue
        if silent and flags[element] & scan.A_ARIA_HIDDEN:
            continue
        done = last
        for t in range(element + 1, min(last, n)):
            if kind[t] != 0 or end[t] - start[t] < least:
                continue
            up = parent[t]
            while up > element and not (excused[tag[up]] or hint[up] & excused_hints):
                up = parent[up]
            if up <= element:
                out[found] = t
                found += 1
    return out[:found]


def beside_prose(page: Scan, elements: np.ndarray) -> np.ndarray:
    """bool[n]: which of the elements stand beside a visible paragraph of running text that is none of them."""
    among = np.zeros(len(page), np.bool_)
    among[elements] = True
    around = np.zeros(len(page), np.bool_)
    up = page.parent[elements]
    around[up[up >= 0]] = True
    _with_prose(page.buf, page.kind, page.tag, page.start, page.end, page.attrs, page.flags, page.parent, page.close,
                among, around)
    found: np.ndarray = (up >= 0) & around[up]
    return found


@njit(cache=True, nogil=True)
def _with_prose(buf, kind, tag, start, end, attrs, flags, parent, close, among, around):  # type: ignore[no-untyped-def]
    """Leave of the elements ``around`` those with a visible paragraph of running text in them, none of ``among``."""
    found = np.zeros(len(around), np.bool_)
    for t in range(len(kind)):
        up = parent[t]
        if kind[t] != 1 or tag[t] != _P or up < 0 or not around[up] or found[up] or among[t]:
            continue
        found[up] = _running(buf, kind, tag, start, end, attrs, flags, parent, close, t)
    around[:] = found


@njit(cache=True, nogil=True)
def _running(buf, kind, tag, start, end, attrs, flags, parent, close, t):  # type: ignore[no-untyped-def]
    """Is a paragraph visible, as far as its own attributes say, and of running text."""
    if flags[t] & scan.A_HIDDEN or attrs[t, scan.STYLE] >= 0:
        return False
    stop = _outer_end(t, kind, tag, start, end, parent, close, len(buf))
    if stop - end[t] < FEW_BYTES:
        return False
    words = 0
    inside = False
    for i in range(end[t], stop):
        blank = buf[i] == 32 or 9 <= buf[i] <= 13
        words += not blank and not inside
        inside = not blank
    return words >= FEW_WORDS


@njit(cache=True, nogil=True)
def _among_prose(buf, kind, tag, start, end, attrs, flags, parent, close, element):  # type: ignore[no-untyped-def]
    """Has a hidden element a neighbour that is a visible paragraph of running text."""
    up = parent[element]
    if up < 0:
        return False
    for t in range(up + 1, min(close[up], len(kind))):
        if kind[t] == 1 and tag[t] == _P and parent[t] == up and t != element and _running(
                buf, kind, tag, start, end, attrs, flags, parent, close, t):
            return True
    return False
