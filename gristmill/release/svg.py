"""Pictures for the data set card, as SVG text.

Belongs here: a funnel and bar charts from numbers and labels. Does not belong here: where the numbers come from
(``card.py``). Every label is escaped: it may be text from a crawled page.
"""

from collections.abc import Sequence
from html import escape

WIDTH = 860
INK, SOFT, BAR, LOST = "#1b1f24", "#6a737d", "#3b7dd8", "#d9e2ef"


def _text(x: float, y: float, label: str, *, anchor: str = "start", colour: str = INK, size: int = 12) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" font-size="{size}">'
        f"{escape(str(label))}</text>"
    )


def _svg(height: float, parts: Sequence[str], title: str) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" width="100%" role="img" aria-label="{escape(title, quote=True)}" '
        f'font-family="system-ui,sans-serif"><title>{escape(title)}</title>{"".join(parts)}</svg>'
    )


def funnel(rows: Sequence[tuple[str, int, int]], title: str) -> str:
    """One centred bar a stage: what comes in (pale) and what goes on (dark), all on one scale.

    Args:
        rows: (stage, documents in, documents out), in order.
        title: for readers who do not see it.
    """
    top = max([i for _, i, _ in rows] + [1])
    left, room, step = 150, 470, 30
    parts = []
    for n, (stage, docs_in, docs_out) in enumerate(rows):
        y = n * step + 4
        for value, colour in ((docs_in, LOST), (docs_out, BAR)):
            width = room * value / top
            if value:
                parts.append(
                    f'<rect x="{left + (room - width) / 2:.1f}" y="{y}" width="{max(width, 1):.1f}" height="22" rx="2" '
                    f'fill="{colour}"/>'
                )
        parts.append(_text(left - 10, y + 16, stage, anchor="end"))
        share = f"{docs_out / docs_in:.1%}" if docs_in else ""
        parts.append(_text(left + room + 10, y + 16, f"{docs_in:,} \u2192 {docs_out:,}", colour=SOFT))
        parts.append(_text(WIDTH - 4, y + 16, share, anchor="end"))
    return _svg(len(rows) * step + 8, parts, title)


def bars(rows: Sequence[tuple[str, float, str]], title: str) -> str:
    """Horizontal bars.

    Args:
        rows: (label, value, what to print beside it).
        title: for readers who do not see it.
    """
    top = max([v for _, v, _ in rows] + [0]) or 1
    left, room, step = 220, 400, 24
    parts = []
    for n, (label, value, told) in enumerate(rows):
        y = n * step + 4
        shown = label if len(label) <= 32 else label[:31] + "\u2026"
        width = max(room * value / top, 1 if value else 0)
        parts.append(_text(left - 10, y + 13, shown, anchor="end"))
        parts.append(f'<rect x="{left}" y="{y}" width="{width:.1f}" height="17" rx="2" fill="{BAR}"/>')
        parts.append(_text(left + room * value / top + 8, y + 13, told, colour=SOFT))
    return _svg(len(rows) * step + 8, parts, title)


def histogram(counts: Sequence[tuple[str, int]], title: str) -> str:
    """Columns side by side, labelled below.

    Args:
        counts: (label, number), in order.
        title: for readers who do not see it.
    """
    top = max([n for _, n in counts] + [1])
    height, base = 180, 150
    step = (WIDTH - 20) / max(len(counts), 1)
    parts = []
    for i, (label, n) in enumerate(counts):
        tall = 130 * n / top
        x = 10 + i * step
        parts.append(
            f'<rect x="{x + 1:.1f}" y="{base - tall:.1f}" width="{max(step - 2, 1):.1f}" height="{tall:.1f}" '
            f'fill="{BAR}"><title>{escape(label)}: {n:,}</title></rect>'
        )
        if len(counts) <= 24:
            parts.append(_text(x + step / 2, base + 16, label, anchor="middle", colour=SOFT, size=11))
    return _svg(height, parts, title)
