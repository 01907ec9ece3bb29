"""Chosen blocks of a page as text that keeps what structure says.

Belongs here: headings as lines that begin with ``#``, list items with their bullet or number and their depth, rows of
tables as ``| a | b |``, preformatted text with its indentation, inline elements on the line they stand in, line
breaks. Does not belong here: which blocks are chosen.
"""
# Compiled code compares with each constant; the set that these rules ask for is slower there.
# ruff: noqa: PLR1714, SIM109

import html
import re

import numpy as np
from numba import njit

from gristmill.extract import tags
from gristmill.extract.blocks import COUNTS, Blocks, within
from gristmill.extract.scan import Scan

_LI, _UL, _OL, _TABLE, _TR, _TD, _TH, _PRE, _BR, _H1, _H6 = (
    tags.ID[n] for n in ("li", "ul", "ol", "table", "tr", "td", "th", "pre", "br", "h1", "h6"))
_DT, _DD, _LISTING, _XMP, _CAPTION = (tags.ID[n] for n in ("dt", "dd", "listing", "xmp", "caption"))
MAX_CELL = 400  # characters: a table with longer cells lays out a page, and its cells are paragraphs
MAX_DEPTH = 8  # of items in items that is shown
MAX_BESIDE = 60  # characters of a cell of data; longer ones lay out a page
INDENT = "  "
_CHARS = COUNTS.index("chars")
_LINE_NUMBERS = re.compile(r"\s*\d+(?:\s+\d+)*\s*")


def text(page: Blocks, chosen: np.ndarray) -> str:
    """The text of the chosen blocks, in page order."""
    scanned = page.page
    lines: list[tuple[str, bool]] = []  # line, close to the one before
    items: set[int] = set()  # list items that have their bullet
    row = -1
    cells: list[tuple[int, str]] = []
    code = False  # does a cell of the row hold preformatted lines
    last_list = -1
    taken = np.flatnonzero(chosen)
    places = _places(scanned.tag, scanned.parent, page.element[taken]).tolist()
    bodies = _bodies(page, taken, [place[0] >= 0 for place in places])
    for body, (pre, item, cell, heading, here, outer_list, depth) in zip(bodies, places, strict=True):
        if not body:
            continue
        if here != row:
            _flush(lines, scanned, row, cells, code)
            row, cells, code = here, [], False
        if here >= 0:
            cells.append((cell, body))
            code |= pre > cell and "\n" in body
            last_list = -1
            continue
        if pre >= 0:
            lines.append((body, False))
        elif heading:
            lines.append((f"{'#' * heading} {body}", False))
        elif item >= 0:
            indent = INDENT * (depth - 1)
            if item in items:
                lines.append((f"{indent}  {body}", True))
            else:
                items.add(item)
                lines.append((f"{indent}{_bullet(scanned, item)} {body}", outer_list == last_list))
        else:
            lines.append((body, False))
        last_list = outer_list
    _flush(lines, scanned, row, cells, code)
    out: list[str] = []
    for line, close in lines:
        if out:
            out.append("\n" if close else "\n\n")
        out.append(line)
    return "".join(out)


def whole_rows(page: Blocks, chosen: np.ndarray) -> np.ndarray:
    """The chosen blocks, and the rest of rows of short cells of which half is chosen: a row of data with a hole in it
    says something else.
    """
    inside = np.flatnonzero(within(page, "td", "th"))
    if not chosen[inside].any():
        return chosen
    rows = _places(page.page.tag, page.page.parent, page.element[inside])[:, 4]
    row, of = np.unique(rows, return_inverse=True)
    longest = np.zeros(len(row), np.int64)
    np.maximum.at(longest, of, page.counts[inside, _CHARS])
    taken = np.bincount(of, chosen[inside], len(row))
    fit = (row >= 0) & (longest <= MAX_BESIDE) & (2 * taken >= np.bincount(of, minlength=len(row)))
    whole = chosen.copy()
    whole[inside[fit[of]]] = True
    return whole


@njit(cache=True, nogil=True)
def _places(tag, parent, elements):  # type: ignore[no-untyped-def]
    """int32[n, 7]: the pre (outermost), list item and table cell (innermost) that elements are in (-1), the level of
    their heading (0), the table row of the cell (-1), the outermost list of the item (-1) and how many items it is in.
    """
    out = np.empty((len(elements), 7), np.int32)
    for i in range(len(elements)):
        pre = item = cell = -1
        heading = hops = 0
        element = elements[i]
        while element >= 0 and hops < 64:
            name = tag[element]
            if name == _PRE or name == _LISTING or name == _XMP:
                pre = element
            elif name == _LI and item < 0 and cell < 0:
                item = element
            elif (name == _TD or name == _TH) and cell < 0:
                cell = element
            elif _H1 <= name <= _H6 and heading == 0:
                heading = name - _H1 + 1
            element = parent[element]
            hops += 1
        row = cell
        while row >= 0 and tag[row] != _TR:
            row = parent[row] if tag[row] != _TABLE else -1
        outer_list = -1
        depth = 0
        element = item
        while element >= 0:
            name = tag[element]
            if name == _UL or name == _OL:
                outer_list = element
            depth += name == _LI
            element = parent[element]
        out[i, 0], out[i, 1], out[i, 2], out[i, 3] = pre, item, cell, heading
        out[i, 4], out[i, 5], out[i, 6] = row, outer_list, min(depth, MAX_DEPTH)
    return out


def _bullet(page: Scan, item: int) -> str:
    parent = int(page.parent[item])
    if parent < 0 or page.tag[parent] != _OL:
        return "-"
    return f"{_earlier_items(page.kind, page.tag, page.parent, parent, item) + 1}."


@njit(cache=True, nogil=True)
def _earlier_items(kind, tag, parent, up, item):  # type: ignore[no-untyped-def]
    """How many items a list has before one."""
    found = 0
    for t in range(up + 1, item):
        found += kind[t] == 1 and tag[t] == _LI and parent[t] == up
    return found


def _flush(lines: list[tuple[str, bool]], page: Scan, row: int, cells: list[tuple[int, str]],
           code: bool) -> None:
    """Write the cells of a row: as one line where it is a row of data, else as paragraphs.

    Where ``code`` is in it, it is laid out beside its line numbers, which are no part of it.
    """
    if not cells:
        return
    if code:
        lines.extend((body, False) for _, body in cells if len(cells) < 2 or not _LINE_NUMBERS.fullmatch(body))
        return
    found, nested = _cells(page.kind, page.tag, page.parent, row, int(page.close[row]))
    starts = found.tolist()
    if nested or len(starts) < 2 or any(len(body) > MAX_CELL for _, body in cells):
        lines.extend((body, False) for _, body in cells)
        return
    by_cell: dict[int, list[str]] = {}
    for cell, body in cells:
        by_cell.setdefault(cell, []).append(" ".join(body.split("\n")))
    line = " | ".join(" ".join(by_cell.get(cell, [])) for cell in starts)
    lines.append((f"| {line} |", bool(lines) and lines[-1][0].startswith("| ") and "\n" not in lines[-1][0]))


@njit(cache=True, nogil=True)
def _cells(kind, tag, parent, row, close):  # type: ignore[no-untyped-def]
    """The cells of a row, and whether a table is inside."""
    last = min(close, len(kind))
    out = np.empty(max(last - row, 0), np.int64)
    n = 0
    nested = False
    for t in range(row + 1, last):
        if kind[t] == 1:
            nested |= tag[t] == _TABLE
            if parent[t] == row and (tag[t] == _TD or tag[t] == _TH):
                out[n] = t
                n += 1
    return out[:n], nested


def block_text(page: Blocks, block: int) -> str:
    """The text of one block, white space folded."""
    return _bodies(page, np.array([block]), [False])[0]


def _bodies(page: Blocks, taken: np.ndarray, preformatted: list[bool]) -> list[str]:
    """Blocks' texts; white space folds as browsers do, but in preformatted text."""
    scanned = page.page
    raw = scanned.raw
    ends, pieces = _pieces(scanned.kind, scanned.tag, scanned.start, scanned.end, page.first[taken], page.last[taken])
    listed = pieces.tolist()
    out, at = [], 0
    for end, pre in zip(ends.tolist(), preformatted, strict=True):
        parts = []
        for a, b in listed[at:end]:
            if a < 0:
                parts.append("\n" if pre else "\0")
                continue
            piece = raw[a:b].decode("utf-8", "replace")
            parts.append(html.unescape(piece) if "&" in piece else piece)
        at = end
        joined = "".join(parts)
        if pre:
            lines = joined.replace("\r\n", "\n").split("\n")
            out.append("\n".join(line.rstrip() for line in lines).strip("\n"))
        elif "\0" not in joined:
            out.append(" ".join(joined.split()))
        else:
            folded = (" ".join(line.split()) for line in joined.split("\0"))
            out.append("\n".join(line for line in folded if line))
    return out


@njit(cache=True, nogil=True)
def _pieces(kind, tag, start, end, first, last):  # type: ignore[no-untyped-def]
    """Where each block's pieces end in a list of byte ranges of text; a line break is -1."""
    ends = np.empty(len(first), np.int64)
    room = 0
    for b in range(len(first)):
        room += last[b] - first[b]
    out = np.empty((room, 2), np.int64)
    n = 0
    for b in range(len(first)):
        for t in range(first[b], last[b]):
            if kind[t] == 0:
                out[n, 0], out[n, 1] = start[t], end[t]
                n += 1
            elif kind[t] == 1 and tag[t] == _BR:
                out[n, 0], out[n, 1] = -1, -1
                n += 1
        ends[b] = n
    return ends, out[:n]
