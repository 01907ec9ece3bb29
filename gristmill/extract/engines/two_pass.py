"""The fast engine (``blocks``) on every page, and trafilatura where the fast result is likely to be worse.

The test is a small forest over measures of the page and of the fast result, trained on the difference between the two
engines' word F1 on public gold pages, out of fold by host (``bench/train_two_pass.py``, weights in ``two_pass.json``).
"""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from gristmill.extract import forest, measures, render
from gristmill.extract.engines import Extracted, Page, blocks, trafilatura

VERSION = "two_pass-1"
WEIGHTS = Path(__file__).parent / "two_pass.json"
MAX_DEPTH = 250  # elements inside elements: deeper, trafilatura's parser takes seconds and gives nothing
MAX_BYTES = 150_000  # of cleaned HTML: one page in seven of those it would get is longer, and costs a third of its time


@cache
def weights() -> dict[str, Any]:
    """The trained test: a forest that predicts trafilatura's gain in word F1, and the gain that is worth its time."""
    return forest.read(WEIGHTS)


def doubts(scored: blocks.Scored) -> np.ndarray:
    """float32[1, 19]: what the test looks at."""
    counts, p, chosen = scored.page.counts, scored.score, scored.chosen
    words = counts[:, 0].astype(np.float64)
    total, taken = max(words.sum(), 1.0), words[chosen].sum()
    in_taken = max(taken, 1.0)
    unsure = (words * np.minimum(p, 1 - p)).sum()
    mass = words * p
    page = scored.columns[0, measures.A_PAGE :] if len(words) else np.zeros(measures.N_PAGE)
    runs = int(np.abs(np.diff(chosen.astype(np.int8))).sum())
    row = [
        np.log1p(total), np.log1p(taken), taken / total, 2 * mass[chosen].sum() / max(taken + mass.sum(), 1e-9),
        unsure / in_taken, unsure / total, mass[chosen].sum() / in_taken,
        mass[~chosen].sum() / max(words[~chosen].sum(), 1.0), chosen.sum(), np.log1p(len(words)),
        counts[chosen, 2].sum() / in_taken, counts[:, 2].sum() / total, counts[chosen, 6].sum() / in_taken, page[3],
        page[4], page[6], runs / max(int(chosen.sum()), 1), words[chosen].max(initial=0.0) / in_taken,
        np.log1p(len(scored.page.page.buf)),
    ]
    return np.array([row], np.float32)


def extract(page: Page) -> Extracted:
    """The fast result, or trafilatura's where the test prefers it."""
    scored = blocks.score(page)
    if prefers_slow(scored):
        slow = trafilatura.extract(page)
        if slow.text:
            return slow
    return Extracted(render.text(scored.page, render.whole_rows(scored.page, scored.chosen)), "blocks")


def prefers_slow(scored: blocks.Scored) -> bool:
    """Is trafilatura likely to do better by more than is worth its time."""
    learnt = weights()
    return affordable(scored) and float(learnt["gain"].raw(doubts(scored))[0]) > learnt["least_gain"]


def affordable(scored: blocks.Scored) -> bool:
    """Is the page of a size and depth that trafilatura gets through in good time."""
    page = scored.page.page
    return len(page.raw) <= MAX_BYTES and (not len(page) or int(page.depth.max()) <= MAX_DEPTH)
