"""Our own fast engine: blocks of the page scored by two small forests, learnt on public gold pages.

The first forest looks at a block, its neighbours and its boxes; the second also at what the first thought of them.
Weights and the share of pages they were held against are in ``blocks.json``; ``bench/train_two_pass.py`` makes them.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from gristmill.extract import forest, measures, render
from gristmill.extract.blocks import Blocks, blocks
from gristmill.extract.engines import Extracted, Page
from gristmill.extract.scan import scan

VERSION = "blocks-1"
WEIGHTS = Path(__file__).parent / "blocks.json"


@dataclass(frozen=True)
class Scored:
    """Blocks of a page, and each one's probability to be main text.

    Attributes:
        page: the blocks.
        first: float64[n], the first forest's.
        score: float64[n], the second's, which decides.
        chosen: bool[n].
    """

    page: Blocks
    first: np.ndarray
    score: np.ndarray
    chosen: np.ndarray


@cache
def weights() -> dict[str, Any]:
    """The trained weights."""
    return forest.read(WEIGHTS)


def score(html: str, learnt: dict[str, Any] | None = None) -> Scored:
    """Score the blocks of a page (with other weights, in cross-validation)."""
    learnt = learnt or weights()
    page = blocks(scan(html.encode("utf-8", "replace")))
    columns = measures.first_pass(page)
    first = learnt["first"].probability(columns)
    second = learnt["second"].probability(measures.second_pass(page, columns, first))
    return Scored(page, first, second, second >= learnt["threshold"])


def extract(page: Page) -> Extracted:
    """Main text of a page."""
    scored = score(page.html)
    return Extracted(render.text(scored.page, scored.chosen), "blocks")
