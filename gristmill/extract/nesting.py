"""Which element each token is in: implied end tags and scopes, as Numba kernels over tokens.

Belongs here: the stack of open elements. Does not belong here: finding tokens (``scan.py``, whose numbers of kinds and
flags these are, and which says what of the HTML standard is followed).
"""
# Compiled code compares with each constant; the set that these rules ask for is slower there.
# ruff: noqa: PLR1714, SIM109

import numpy as np
from numba import njit

from gristmill.extract import tags

_P, _LI, _DT, _DD, _TR, _TD, _TH, _OPTION = (tags.ID[n] for n in ("p", "li", "dt", "dd", "tr", "td", "th", "option"))
_UL, _OL, _DL, _TABLE, _HTML, _BODY, _A = (tags.ID[n] for n in ("ul", "ol", "dl", "table", "html", "body", "a"))
_THEAD, _TBODY, _TFOOT = (tags.ID[n] for n in ("thead", "tbody", "tfoot"))
_REACH = 256  # how far up an end tag looks for its element


@njit(cache=True, nogil=True)
def _implied(stack, size, tag, name, tag_flags):  # type: ignore[no-untyped-def]
    """New size of the stack after a start tag of ``name`` has closed what it implies the end of."""
    if tag_flags[name] & 16:
        for d in range(size - 1, max(size - 64, -1), -1):  # an open p
            at = tag[stack[d]]
            if at == _P:
                size = d
                break
            if tag_flags[at] & 32 or at == _BODY:
                break
    if name == _LI or name == _DT or name == _DD or name == _OPTION:
        for d in range(size - 1, max(size - 64, -1), -1):
            at = tag[stack[d]]
            if at == name or (name == _DT and at == _DD) or (name == _DD and at == _DT):
                return d
            if at == _UL or at == _OL or at == _DL or tag_flags[at] & 32:
                break
    elif name == _TR or name == _TD or name == _TH or name == _TBODY or name == _THEAD or name == _TFOOT:
        for d in range(size - 1, max(size - 256, -1), -1):
            at = tag[stack[d]]
            if at == _TABLE:
                break
            cell = at == _TD or at == _TH
            row = at == _TR
            group = at == _TBODY or at == _THEAD or at == _TFOOT
            if cell or (row and name != _TD and name != _TH) or (group and name != _TD and name != _TH and name != _TR):
                size = d
            if (row and (name == _TD or name == _TH)) or (group and name == _TR):
                break
    elif 17 <= name <= 22 and size and 17 <= tag[stack[size - 1]] <= 22:  # a heading in a heading
        return size - 1
    elif name == _A:
        for d in range(size - 1, max(size - 16, -1), -1):
            at = tag[stack[d]]
            if at == _A:
                return d
            if tag_flags[at] & 8:
                break
    return size


@njit(cache=True, nogil=True)
def nest(kind, tag, tag_flags, flags, parent, close, depth):  # type: ignore[no-untyped-def]
    """Fill the parent of every token, and the closing token and depth of every element."""
    n = len(kind)
    stack = np.empty(n + 1, np.int32)
    size = 0
    for t in range(n):
        name = tag[t]
        if kind[t] == 1:
            kept = _implied(stack, size, tag, name, tag_flags)
            for d in range(kept, size):
                close[stack[d]] = t
            size = kept
            parent[t] = stack[size - 1] if size else -1
            depth[t] = size
            if tag_flags[name] & 1 or (name == 0 and flags[t] & 8):
                close[t] = t
            else:
                stack[size] = t
                size += 1
            continue
        parent[t] = stack[size - 1] if size else -1
        if kind[t] != 2 or name == _BODY or name == _HTML:
            continue
        special = tag_flags[name] & 8
        barrier = tag_flags[name] & 32 or name == _TR or name == _TBODY or name == _THEAD or name == _TFOOT
        for d in range(size - 1, max(size - _REACH, -1), -1):
            at = tag[stack[d]]
            if at == name:
                for e in range(d, size):
                    close[stack[e]] = t
                parent[t] = stack[d]
                size = d
                break
            if tag_flags[at] & 8 and not special:
                break
            if tag_flags[at] & 32 and not barrier:
                break
