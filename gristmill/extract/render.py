"""Chosen blocks of a page as text that keeps what structure says.

Belongs here: headings as lines that begin with ``#``, list items with their bullet or number and their depth, rows of
tables as ``| a | b |``, preformatted text with its indentation, inline elements on the line they stand in, line
breaks. Does not belong here: which blocks are chosen.
"""

import html

import numpy as np
from numba import njit

from gristmill.extract import scan, tags
from gristmill.extract.blocks import Blocks
from gristmill.extract.scan import Scan

_LI, _UL, _OL, _TABLE, _TR, _TD, _TH, _PRE, _BR, _H1, _H6 = (
    tags.ID[n] for n in ("li", "ul", "ol", "table", "tr", "td", "th", "pre", "br", "h1", "h6"))
_DT, _DD, _LISTING, _XMP, _CAPTION = (tags.ID[n] for n in ("dt", "dd", "listing", "xmp", "caption"))
MAX_CELL = 400  # characters: a table with longer cells lays out a page, and its cells are paragraphs
INDENT = "  "


def text(page: Blocks, chosen: np.ndarray) -> str:
    """The text of the chosen blocks, in page order."""
    scanned = page.page
    lines: list[tuple[str, bool]] = []  # line, close to the one before
    items: set[int] = set()  # list items that have their bullet
    row = -1
    cells: list[tuple[int, str]] = []
    last_list = -1
    taken = np.flatnonzero(chosen)
    places = _places(scanned.tag, scanned.parent, page.element[taken]).tolist()
    for block, (pre, item, cell, heading) in zip(taken.tolist(), places, strict=True):
        body = _body(page, block, pre >= 0)
        if not body:
            continue
        here = _row_of(scanned, cell)
        if here != row:
            _flush(lines, scanned, row, cells)
            row, cells = here, []
        if here >= 0:
            cells.append((cell, body))
            last_list = -1
            continue
        outer_list = _outermost_list(scanned, item) if item >= 0 else -1
        if pre >= 0:
            lines.append((body, False))
        elif heading:
            lines.append((f"{'#' * heading} {body}", False))
        elif item >= 0:
            indent = INDENT * (_depth(scanned, item) - 1)
            if item in items:
                lines.append((f"{indent}  {body}", True))
            else:
                items.add(item)
                lines.append((f"{indent}{_bullet(scanned, item)} {body}", outer_list == last_list))
        else:
            lines.append((body, False))
        last_list = outer_list
    _flush(lines, scanned, row, cells)
    out: list[str] = []
    for line, close in lines:
        if out:
            out.append("\n" if close else "\n\n")
        out.append(line)
    return "".join(out)


@njit(cache=True, nogil=True)
def _places(tag, parent, elements):  # type: ignore[no-untyped-def]
    """int32[n, 4]: the pre (outermost), list item and table cell (innermost) that elements are in (-1), and the level
    of their heading (0).
    """
    out = np.empty((len(elements), 4), np.int32)
    for i in range(len(elements)):
        pre = item = cell = -1
        heading = hops = 0
        element = elements[i]
        while element >= 0 and hops < 64:
            name = tag[element]
            if name == _PRE or name == _LISTING or name == _XMP:  # noqa: PLR1714, SIM109 - compiled code compares with each
                pre = element
            elif name == _LI and item < 0 and cell < 0:
                item = element
            elif (name == _TD or name == _TH) and cell < 0:  # noqa: PLR1714, SIM109
                cell = element
            elif _H1 <= name <= _H6 and heading == 0:
                heading = name - _H1 + 1
            element = parent[element]
            hops += 1
        out[i, 0], out[i, 1], out[i, 2], out[i, 3] = pre, item, cell, heading
    return out


def _row_of(page: Scan, cell: int) -> int:
    while cell >= 0 and page.tag[cell] != _TR:
        if page.tag[cell] == _TABLE:
            return -1
        cell = int(page.parent[cell])
    return cell


def _outermost_list(page: Scan, item: int) -> int:
    found = -1
    while item >= 0:
        if page.tag[item] in (_UL, _OL):
            found = item
        item = int(page.parent[item])
    return found


def _depth(page: Scan, item: int) -> int:
    depth = 0
    while item >= 0:
        depth += page.tag[item] == _LI
        item = int(page.parent[item])
    return min(int(depth), 8)


def _bullet(page: Scan, item: int) -> str:
    parent = int(page.parent[item])
    if parent < 0 or page.tag[parent] != _OL:
        return "-"
    before = np.arange(parent + 1, item)
    items = (page.kind[before] == scan.START) & (page.tag[before] == _LI) & (page.parent[before] == parent)
    return f"{int(items.sum()) + 1}."


def _flush(lines: list[tuple[str, bool]], page: Scan, row: int, cells: list[tuple[int, str]]) -> None:
    """Write the cells of a row: as one line where it is a row of data, else as paragraphs."""
    if not cells:
        return
    first = row + 1
    inside = np.arange(first, min(int(page.close[row]), len(page)))
    starts = inside[(page.kind[inside] == scan.START) & (page.parent[inside] == row)
                    & ((page.tag[inside] == _TD) | (page.tag[inside] == _TH))].tolist()
    nested = bool(((page.kind[inside] == scan.START) & (page.tag[inside] == _TABLE)).any())
    if nested or len(starts) < 2 or any(len(body) > MAX_CELL for _, body in cells):
        lines.extend((body, False) for _, body in cells)
        return
    by_cell: dict[int, list[str]] = {}
    for cell, body in cells:
        by_cell.setdefault(cell, []).append(" ".join(body.split("\n")))
    line = " | ".join(" ".join(by_cell.get(cell, [])) for cell in starts)
    lines.append((f"| {line} |", bool(lines) and lines[-1][0].startswith("| ") and "\n" not in lines[-1][0]))


def block_text(page: Blocks, block: int) -> str:
    """The text of one block, white space folded."""
    return _body(page, block, False)


def _body(page: Blocks, block: int, pre: bool) -> str:
    """A block's text; white space folds as browsers do, but in preformatted text."""
    scanned = page.page
    parts: list[str] = []
    for token in range(int(page.first[block]), int(page.last[block])):
        kind = scanned.kind[token]
        if kind == scan.TEXT:
            raw = scanned.raw[scanned.start[token] : scanned.end[token]].decode("utf-8", "replace")
            parts.append(html.unescape(raw) if "&" in raw else raw)
        elif kind == scan.START and scanned.tag[token] == _BR:
            parts.append("\n" if pre else "\0")
    joined = "".join(parts)
    if pre:
        return "\n".join(line.rstrip() for line in joined.replace("\r\n", "\n").split("\n")).strip("\n")
    if "\0" not in joined:
        return " ".join(joined.split())
    lines = (" ".join(line.split()) for line in joined.split("\0"))
    return "\n".join(line for line in lines if line)
