"""Rules of a style sheet that may hide an element by one class or id: found in its bytes, in one pass.

Belongs here: the kernels that take out comments and conditional blocks and that choose rules. They let through all
that could matter, and more. Does not belong here: what a rule means, which is asked of the few that are left
(``hidden.py``).
"""

import numpy as np
from numba import njit

# Declarations that hide have one of these in them, in whatever case, or a negative number.
WORDS = (b"none", b"hidden", b"collapse", b"opacity", b"font-size", b"font:", b"clip", b"scale")
_BYTES = np.frombuffer(b"".join(WORDS), np.uint8)
_ENDS = np.cumsum([len(w) for w in WORDS])
_BEGINS = np.zeros(256, np.bool_)  # bytes in lower case with which a word begins, and the minus
_BEGINS[[*(w[0] for w in WORDS), ord("-")]] = True
_PART = np.zeros(256, np.bool_)  # bytes of a name; all that is no ASCII may be a letter
_PART[[*range(48, 58), *range(65, 91), *range(97, 123), 45, 95, *range(128, 256)]] = True
_AT, _OPEN, _CLOSE, _STAR, _SLASH, _SEMICOLON, _COMMA = b"@{}*/;,"
_DOT, _HASH, _MINUS = b".#-"


def rules(sheet: bytes) -> list[tuple[str, str]]:
    """(selectors, declarations) of rules outside any condition (``@media``) that have a selector of one class or id and
    declarations that may hide.
    """
    buf = np.frombuffer(sheet, np.uint8)
    if b"/*" in sheet or b"@" in sheet:
        buf = plain(buf)
        sheet = buf.tobytes()
    places = np.empty((sheet.count(b"{"), 3), np.int64)
    found = _rules(buf, places)
    return [(sheet[a:b].decode("utf-8", "replace"), sheet[b + 1 : c].decode("utf-8", "replace"))
            for a, b, c in places[:found].tolist()]


def plain(sheet: np.ndarray) -> np.ndarray:
    """A blank for each comment, and then for each ``@`` rule with a block and at most blocks without blocks in it.

    Args:
        sheet: read-only, as what is returned: kernels are compiled once for it.
    """
    without = np.empty(len(sheet), np.uint8)
    without = without[: _uncomment(sheet, without)]
    without.flags.writeable = False
    out = np.empty(len(without), np.uint8)
    out = out[: _unnest(without, out)]
    out.flags.writeable = False
    return out


@njit(cache=True, nogil=True)
def _uncomment(buf, out):  # type: ignore[no-untyped-def]
    """Copy without comments; returns the size."""
    n = len(buf)
    i = size = 0
    while i < n:
        if buf[i] == _SLASH and i + 1 < n and buf[i + 1] == _STAR:
            i += 2
            while i < n and not (buf[i] == _STAR and i + 1 < n and buf[i + 1] == _SLASH):
                i += 1
            i += 2
            out[size] = 32
        else:
            out[size] = buf[i]
            i += 1
        size += 1
    return size


@njit(cache=True, nogil=True)
def _brace(buf, i):  # type: ignore[no-untyped-def]
    """The next brace at or after ``i``; the size where there is none."""
    while i < len(buf) and buf[i] != _OPEN and buf[i] != _CLOSE:
        i += 1
    return i


@njit(cache=True, nogil=True)
def _unnest(buf, out):  # type: ignore[no-untyped-def]
    """Copy without conditional blocks; returns the size."""
    n = len(buf)
    i = size = 0
    while i < n:
        if buf[i] != _AT:
            out[size] = buf[i]
            size += 1
            i += 1
            continue
        first = i + 1
        while first < n and buf[first] != _OPEN and buf[first] != _CLOSE and buf[first] != _SEMICOLON:
            first += 1
        stop = -1
        if first < n and buf[first] == _OPEN and first > i + 1:
            at = _brace(buf, first + 1)
            while at < n and buf[at] == _OPEN:
                at = _brace(buf, at + 1)
                if at >= n or buf[at] == _OPEN:
                    at = n
                    break
                at = _brace(buf, at + 1)
            stop = at + 1 if at < n else -1
        if stop >= 0:
            out[size] = 32
            size += 1
            i = stop
        else:  # nor is any other @ before that brace the beginning of one
            while i < min(first + 1, n):
                out[size] = buf[i]
                size += 1
                i += 1
    return size


@njit(cache=True, nogil=True)
def _simple(buf, a, b):  # type: ignore[no-untyped-def]
    """May one of the selectors buf[a:b] be one class or id, with a tag at most."""
    i = a
    while i < b:
        while i < b and (buf[i] == 32 or 9 <= buf[i] <= 13 or 28 <= buf[i] <= 31):
            i += 1
        while i < b and _PART[buf[i]] and buf[i] != 45 and buf[i] != 95:
            i += 1
        if i < b and (buf[i] == _DOT or buf[i] == _HASH):
            i += 1
            named = i
            while i < b and _PART[buf[i]]:
                i += 1
            if i > named:
                while i < b and (buf[i] == 32 or 9 <= buf[i] <= 13 or 28 <= buf[i] <= 31):
                    i += 1
                if i >= b or buf[i] == _COMMA:
                    return True
        while i < b and buf[i] != _COMMA:
            i += 1
        i += 1
    return False


@njit(cache=True, nogil=True)
def may_hide(buf, a, b):  # type: ignore[no-untyped-def]
    """Is one of ``WORDS`` in buf[a:b], or a minus before a digit (or before what is no ASCII)."""
    for i in range(a, b):
        c = buf[i] + 32 if 65 <= buf[i] <= 90 else buf[i]
        if not _BEGINS[c]:
            continue
        if c == _MINUS:
            k = i + 1
            while k < b and (buf[k] == 32 or 9 <= buf[k] <= 13 or 28 <= buf[k] <= 31):
                k += 1
            if k < b and (48 <= buf[k] <= 57 or buf[k] >= 128):
                return True
            continue
        begin = 0
        for word in range(len(_ENDS)):
            size = _ENDS[word] - begin
            if _BYTES[begin] == c and i + size <= b:
                same = True
                for k in range(1, size):
                    d = buf[i + k]
                    if (d + 32 if 65 <= d <= 90 else d) != _BYTES[begin + k]:
                        same = False
                        break
                if same:
                    return True
            begin = _ENDS[word]
    return False


@njit(cache=True, nogil=True)
def _rules(buf, out):  # type: ignore[no-untyped-def]
    """How many rules there are. ``out`` int64 (braces, 3): where selectors begin and end, and where the body ends."""
    found = 0
    last = -1
    at = _brace(buf, last + 1)
    while at < len(buf):
        following = _brace(buf, at + 1)
        if buf[at] == _OPEN and following < len(buf) and buf[following] == _CLOSE and at > last + 1 and (
                _simple(buf, last + 1, at) and may_hide(buf, at + 1, following)):
            out[found, 0], out[found, 1], out[found, 2] = last + 1, at, following
            found += 1
        last = at
        at = following
    return found
