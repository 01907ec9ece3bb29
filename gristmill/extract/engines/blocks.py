"""Our own fast engine: blocks of the page scored by two small forests, learnt on public gold pages.

The first forest looks at a block, its neighbours and its boxes; the second also at what the first thought of them.
The weights are in ``blocks.json``; ``bench/train_two_pass.py`` makes them.
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
LEAST, MOST = 0.35, 0.42  # cross-validated: wider bounds gain on listings what they lose on articles, or leak more


@dataclass(frozen=True)
class Scored:
    """Blocks of a page, and each one's probability to be main text.

    Attributes:
        page: the blocks.
        columns: float32[n, measures.COLUMNS], what the first forest read.
        score: float64[n], the mean of both, which decides.
        chosen: bool[n].
    """

    page: Blocks
    columns: np.ndarray
    score: np.ndarray
    chosen: np.ndarray


@cache
def weights() -> dict[str, Any]:
    """The trained weights."""
    return forest.read(WEIGHTS)


def score(page: Page, learnt: dict[str, Any] | None = None) -> Scored:
    """Score and choose the blocks of a page (with other weights, in cross-validation)."""
    learnt = learnt or weights()
    found = blocks(scan(page.raw))
    columns = measures.first_pass(found, page.traits)
    first = learnt["first"].probability(columns)
    both = (first + learnt["second"].probability(measures.second_pass(found, columns, first))) / 2
    return Scored(found, columns, both, choose(both, found.counts[:, 0]))


def choose(probability: np.ndarray, words: np.ndarray) -> np.ndarray:
    """The likeliest blocks, as many as make the expected word F1 greatest.

    With p the probabilities and w the words, the F1 of a set S is about 2 sum_S(wp) / (sum_S(w) + sum(wp)). A page of
    sure blocks gets a high threshold, a page of doubtful ones a low one; both stay between ``LEAST`` and ``MOST``.
    """
    if not len(probability):
        return np.zeros(0, bool)
    order = np.argsort(-probability, kind="stable")
    weight = words.astype(np.float64)
    mass = weight * probability
    expected = 2 * np.cumsum(mass[order]) / np.maximum(np.cumsum(weight[order]) + mass.sum(), 1e-9)
    bound = float(np.clip(probability[order[int(np.argmax(expected))]], LEAST, MOST))
    chosen: np.ndarray = probability >= bound
    return chosen


def extract(page: Page) -> Extracted:
    """Main text of a page."""
    scored = score(page)
    return Extracted(render.text(scored.page, render.whole_rows(scored.page, scored.chosen)), "blocks")
