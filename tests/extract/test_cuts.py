"""What goes out of a page goes out whole, and once."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gristmill.extract import cuts, scan, tags

PIECES = ("<p>", "</p>", "<div hidden>", "</div>", "<script>", "</script>", "x", " ", "<!-- c -->", "<svg>", "</svg>",
          "<li>", "<a title='<!--'>", "<b <script>", "<td>", "</table>", "<br>", "<math>", "</math>", "<", "<p")
INERT = np.zeros(len(tags.NAMES), bool)
INERT[[tags.ID["script"], tags.ID["svg"], tags.ID["math"]]] = True


@given(st.lists(st.sampled_from(PIECES), max_size=30))
def test_spans_are_the_outermost_pieces(pieces: list[str]) -> None:
    """Held against the plain reading: all pieces, each wanted one with its end, the outer of nested ones kept."""
    page = scan.scan("".join(pieces).encode())
    unseen = np.flatnonzero((page.kind == scan.START) & (page.flags & scan.A_HIDDEN != 0))
    formulae = [(int(page.start[t]), page.outer_end(t)) for t in range(len(page))
                if page.kind[t] == scan.START and page.tag[t] == tags.ID["math"]]
    outer = [f for f in formulae if not any(a < f[0] < b for a, b in formulae)]
    wanted = [(a, -b, k) for k, (a, b) in enumerate(outer)]
    last = len(page) - 1
    for t in range(len(page)):
        a, b, kind = int(page.start[t]), int(page.end[t]), page.kind[t]
        tag = page.raw[a:b].lower()
        if kind == scan.SKIPPED:
            wanted.append((a, -b, 99))
        if kind == scan.START and (INERT[page.tag[t]] or t in unseen):
            wanted.append((a, -page.outer_end(t), 99))
        if kind in (scan.START, scan.END) and (
            b"<!--" in tag[1:] or b"<script" in tag[1:] or (t == last and not tag.endswith(b">"))
        ):
            wanted.append((a, -b, 99))
    kept, at = [], 0
    for start, end, which in sorted(wanted):
        if start >= at:
            kept.append([start, -end, -1 if which == 99 else which])
            at = -end
    found = cuts.spans(page, INERT, unseen, np.array(outer, np.int64).reshape(-1, 2))
    assert found.tolist() == kept
