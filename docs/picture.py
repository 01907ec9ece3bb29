"""Draws ``docs/architecture.svg`` from the funnel's own list: ``python docs/picture.py``.

Belongs here: where boxes and arrows stand on the page. Does not belong here: which stages there are
(``gristmill/funnel.py``); a test holds the committed picture to what this draws, so that the two cannot part.
"""

from html import escape
from pathlib import Path

from gristmill.funnel import FUNNEL, Stage

PICTURE = Path(__file__).with_name("architecture.svg")

# (columns of groups, left to right): what reads from left to right is the way of a page.
COLUMNS: tuple[tuple[str, ...], ...] = (
    ("acquire",), ("extract",), ("deduplicate",), ("quality", "semantic", "safety", "decontaminate"), ("tokens",),
    ("release", "observe"),
)
BY = {"bucket": "host bucket", "range": "range of a hash", "slice": "slice of the listing", "crawl": "crawl",
      "site": "site"}
COLOUR = {"acquire": "#1f6f8b", "extract": "#2e7d5b", "deduplicate": "#7a5195", "quality": "#b5651d",
          "semantic": "#7a5195", "safety": "#b5651d", "decontaminate": "#b5651d", "tokens": "#33658a",
          "release": "#8c2f39", "observe": "#555555"}

WIDTH, LEFT, TOP = 184, 16, 118  # of a column; margins, in pixels
GAP, ROW, HEAD = 26, 30, 24
ABOVE = (("WARC files, listings", "landing area: folder or s3://"), ("hold-outs", "write-once, a root of their own"))


def _text(x: float, y: float, words: str, size: int = 12, *, fill: str = "#222", anchor: str = "start",
          weight: str = "normal") -> str:
    return (f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{fill}" text-anchor="{anchor}" '
            f'font-weight="{weight}">{escape(words)}</text>')


def _box(x: float, y: float, width: float, height: float, stroke: str, fill: str = "#fff") -> str:
    return (f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="5" fill="{fill}" stroke="{stroke}" '
            'stroke-width="1.4"/>')


def _arrow(x1: float, y1: float, x2: float, y2: float, *, dashed: bool = False) -> str:
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    return (f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="#444" stroke-width="1.6"{dash} '
            'marker-end="url(#tip)"/>')


def _column(number: int, groups: tuple[str, ...]) -> tuple[list[str], float]:
    """The boxes of one column, and where the lowest of them ends."""
    x, y = LEFT + number * (WIDTH + GAP), float(TOP)
    out = []
    for group in groups:
        stages: list[Stage] = [s for s in FUNNEL if s.group == group]
        height = HEAD + ROW * len(stages) + 6
        out.append(_box(x, y, WIDTH, height, COLOUR[group], "#fafafa"))
        out.append(_text(x + 10, y + 17, group, 13, fill=COLOUR[group], weight="bold"))
        for line, stage in enumerate(stages):
            top = y + HEAD + line * ROW
            out.append(f'<g><title>{escape(stage.summary)}</title>{_text(x + 10, top + 12, stage.name, 12)}'
                       f'{_text(x + 10, top + 23, "by " + BY[stage.by], 9, fill="#777")}</g>')
        y += height + 14
    return out, y - 14


def draw() -> str:
    """The picture: the way of a page from the landing area to the trainer, over one store, with the stages by name."""
    undrawn = [s.name for s in FUNNEL if all(s.group not in groups for groups in COLUMNS)]
    if undrawn:
        raise ValueError(f"no column draws {', '.join(undrawn)}: give their group a place in COLUMNS")
    body: list[str] = []
    bottoms = []
    for number, groups in enumerate(COLUMNS):
        boxes, bottom = _column(number, groups)
        body += boxes
        bottoms.append(bottom)
        if number:
            x = LEFT + number * (WIDTH + GAP)
            body.append(_arrow(x - GAP + 2, TOP + 60, x - 3, TOP + 60))
    right = LEFT + len(COLUMNS) * (WIDTH + GAP) - GAP
    floor = max(bottoms) + 22

    for number, (title, words) in enumerate(ABOVE):
        x = LEFT + number * (WIDTH + GAP)
        body += [_box(x, 52, WIDTH, 42, "#888"), _text(x + 10, 70, title, 12, weight="bold"),
                 _text(x + 10, 85, words, 9)]
    body.append(_arrow(LEFT + WIDTH / 2, 94, LEFT + WIDTH / 2, TOP - 3))
    body.append(_arrow(LEFT + WIDTH + GAP + 20, 94, LEFT + WIDTH - 20, TOP - 3))

    body += [_box(LEFT, floor, right - LEFT, 44, "#333", "#eef2f4"),
             _text(LEFT + 12, floor + 18, "the store: one folder or bucket", 13, weight="bold"),
             _text(LEFT + 12, floor + 34, "asset / fingerprint / crawl / host_bucket / {content hash}.parquet and "
                   "_manifest.json; a partition is whole or not there", 11)]
    for number in range(len(COLUMNS)):
        x = LEFT + number * (WIDTH + GAP) + WIDTH / 2
        body.append(_arrow(x, bottoms[number] + 2, x, floor - 3))

    low = floor + 66
    third = (right - LEFT - 2 * GAP) / 3
    boxes = (
        ("Dagster", "assets, checks and sensors over the same list;", "crawl x host_bucket; runs what is not current"),
        ("manifest", "recipe + policy + catalogue -> selection of shards;",
         "frozen, hashed, with card and contamination report"),
        ("loader", "a pure function of recipe, manifest, seed, step, rank;",
         "any number of hosts, resumed at any step"),
    )
    for number, (title, one, two) in enumerate(boxes):
        x = LEFT + number * (third + GAP)
        body += [_box(x, low, third, 62, "#8c2f39" if number else "#555"),
                 _text(x + 12, low + 19, title, 13, weight="bold"),
                 _text(x + 12, low + 37, one, 11), _text(x + 12, low + 52, two, 11)]
    body.append(_arrow(LEFT + third + GAP + third / 2, floor + 46, LEFT + third + GAP + third / 2, low - 3))
    body.append(_arrow(LEFT + third / 2, low - 2, LEFT + third / 2, floor + 47))
    body.append(_arrow(LEFT + 2 * third + GAP + 2, low + 31, LEFT + 2 * (third + GAP) - 3, low + 31))
    height = low + 96
    body.append(_text(LEFT, height - 14, "Lineage runs the other way: step, rank, position -> document -> provenance "
                      "row -> byte offset in the landed file.", 11, fill="#555"))
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" width="{right + LEFT:g}" height="{height:g}" '
            f'viewBox="0 0 {right + LEFT:g} {height:g}" font-family="sans-serif" role="img" '
            'aria-label="The funnel from the landing area to the trainer">\n'
            '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="6" markerHeight="6" '
            'orient="auto"><path d="M0 0 L10 5 L0 10 z" fill="#444"/></marker></defs>\n'
            '<rect width="100%" height="100%" fill="#fff"/>\n'
            + _text(LEFT, 28, "Gristmill: from a landed crawl to training batches", 17, weight="bold") + "\n")
    return head + "\n".join(body) + "\n</svg>\n"


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
