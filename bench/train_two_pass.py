"""Train the weights of the engines ``blocks`` and ``two_pass`` on the public gold pages: python -m
bench.train_two_pass.

Belongs here: aligning gold texts with blocks, fitting both forests and the test between engines, and scoring every page
out of fold (folds by host: no page is scored by weights that saw its site). Does not belong here: the comparison that
is published (``extraction.py``), which reads the out-of-fold scores written here.
"""

import json
import time
import zlib
from dataclasses import dataclass, replace

import numpy as np
from numba import njit

from bench import gold
from bench.boosting import Settings, mean, train
from bench.report import RESULTS
from gristmill.extract import charset, measures, render, sanitize
from gristmill.extract.blocks import Blocks, blocks
from gristmill.extract.engines import Page, two_pass
from gristmill.extract.engines import blocks as engine
from gristmill.extract.engines import trafilatura as slow_engine
from gristmill.extract.forest import Forest
from gristmill.extract.scan import scan

FOLDS = 4
MAX_CELLS = 1_200_000_000  # of an alignment's table; longer pages give no labels
FIRST = Settings(trees=110, depth=5, rate=0.1)
SECOND = Settings(trees=90, depth=5, rate=0.1, seed=2)
GAIN = Settings(
    trees=40, depth=2, rate=0.1, ridge=5, min_weight=12, row_share=0.8, column_share=0.5, loss="squared", seed=3
)
LEAST_GAIN = 0.02
BAGS = 3  # forests of each kind, by seed: what one draw of rows and columns finds by chance is averaged out
CV = RESULTS / "two_pass_cv.json"


@dataclass
class Sample:
    """A gold page, its blocks, and what is known of each block."""

    gold: gold.Page
    page: Page
    found: Blocks
    columns: np.ndarray
    label: np.ndarray  # float64[n], 1 main text
    weight: np.ndarray  # float64[n]
    fold: int


def fold_of(host: str) -> int:
    """Pages of one site are in one fold."""
    return zlib.crc32(".".join(host.split(".")[-2:]).encode()) % FOLDS


@njit(cache=True)
def _align(a, b, table):  # type: ignore[no-untyped-def]
    """Which entries of ``a`` are in a longest common subsequence of ``a`` and ``b``."""
    n, m = len(a), len(b)
    before = np.zeros(m + 1, np.int32)
    now = np.zeros(m + 1, np.int32)
    for i in range(n):
        for j in range(m):
            if a[i] == b[j]:
                now[j + 1] = before[j] + 1
                table[i, j] = 0
            elif before[j + 1] >= now[j]:
                now[j + 1] = before[j + 1]
                table[i, j] = 1
            else:
                now[j + 1] = now[j]
                table[i, j] = 2
        before, now = now, before
    hit = np.zeros(n, np.uint8)
    i, j = n - 1, m - 1
    while i >= 0 and j >= 0:
        if table[i, j] == 0:
            hit[i] = 1
            i -= 1
            j -= 1
        elif table[i, j] == 1:
            i -= 1
        else:
            j -= 1
    return hit


def prepare(page: gold.Page) -> Sample:
    """Clean and cut a gold page, and label its blocks by alignment with its gold text (or by its segments)."""
    clean = sanitize.clean(charset.decode(page.body, _charset(page)).text)
    ready = Page(clean.html, page.url, clean.title, clean.traits)
    found = blocks(scan(clean.html.encode()))
    texts = [sanitize.visible(render.block_text(found, b)) for b in range(len(found))]
    words = [gold.words(t) for t in texts]
    label, weight = np.zeros(len(found)), np.zeros(len(found))
    if page.text is not None:
        known: dict[str, int] = {}
        mine = np.array([known.setdefault(w, len(known)) for ws in words for w in ws], np.int32)
        theirs = np.array([known.setdefault(w, len(known)) for w in gold.words(page.text)], np.int32)
        if 0 < len(mine) * len(theirs) <= MAX_CELLS:
            hit = _align(mine, theirs, np.zeros((len(mine), len(theirs)), np.uint8))
            sizes = np.array([len(ws) for ws in words], np.float64)
            ends = np.cumsum(sizes).astype(int)
            sums = np.array([hit[e - int(s) : e].sum() for e, s in zip(ends, sizes, strict=True)], np.float64)
            label = (sums >= 0.5 * np.maximum(sizes, 1)).astype(np.float64)
            weight = sizes**0.7 / (len(theirs) + 50.0) ** 0.6
    else:
        flat = [" ".join(t.split()) for t in texts]
        for segments, value in ((page.must_not, 0.0), (page.must, 1.0)):
            for b, text in enumerate(flat):
                if any(" ".join(s.split()) in text for s in segments):
                    label[b], weight[b] = value, max(len(words[b]), 1) ** 0.5 / 15
    return Sample(page, ready, found, measures.first_pass(found, clean.traits), label, weight, fold_of(page.host))


def _charset(page: gold.Page) -> str | None:
    _, _, parameter = (page.content_type or "").partition("charset=")
    return parameter.strip() or None


def _fit(samples: list[Sample], rows: dict[int, np.ndarray], settings: Settings) -> Forest:
    used = [(rows[id(s)][s.weight > 0], s.label[s.weight > 0], s.weight[s.weight > 0]) for s in samples]
    columns = [np.concatenate(x) for x in zip(*used, strict=True)]
    return mean([train(*columns, replace(settings, seed=settings.seed + 10 * k)) for k in range(BAGS)])


def main() -> None:
    started = time.time()

    def say(what: str) -> None:
        print(f"{time.time() - started:7.1f} s  {what}", flush=True)

    samples = [prepare(p) for name in gold.SETS for p in gold.pages(name)]
    say(f"{len(samples)} pages, {sum(len(s.found) for s in samples)} blocks")
    plain = {id(s): s.columns for s in samples}
    first: dict[int, np.ndarray] = {}
    for fold in range(FOLDS):
        forest = _fit([s for s in samples if s.fold != fold], plain, FIRST)
        first |= {id(s): forest.probability(s.columns) for s in samples if s.fold == fold}
        say(f"first forest, fold {fold}")
    stacked = {id(s): measures.second_pass(s.found, s.columns, first[id(s)]) for s in samples}
    scored: dict[int, engine.Scored] = {}
    for fold in range(FOLDS):
        forest = _fit([s for s in samples if s.fold != fold], stacked, SECOND)
        for s in samples:
            if s.fold == fold:
                both = (first[id(s)] + forest.probability(stacked[id(s)])) / 2
                scored[id(s)] = engine.Scored(s.found, s.columns, both, engine.choose(both, s.found.counts[:, 0]))
        say(f"second forest, fold {fold}")
    weights = {"first": _fit(samples, plain, FIRST).to_json(), "second": _fit(samples, stacked, SECOND).to_json()}
    engine.WEIGHTS.write_text(json.dumps(weights, indent=0) + "\n")
    say("final forests")
    _test_between(samples, scored, say)


def _test_between(samples: list[Sample], scored: dict[int, engine.Scored], say) -> None:
    """Fit the test between the engines on out-of-fold results, and write every page's out-of-fold scores."""
    chosen = {id(s): render.whole_rows(s.found, scored[id(s)].chosen) for s in samples}
    fast = {id(s): sanitize.tidy(sanitize.visible(render.text(s.found, chosen[id(s)]))) for s in samples}
    slow = {id(s): sanitize.tidy(sanitize.visible(slow_engine.extract(s.page).text)) for s in samples}
    say("trafilatura")
    judged = [s for s in samples if s.gold.text is not None]
    rows = np.concatenate([two_pass.doubts(scored[id(s)]) for s in judged])
    gain = np.array([gold.f1(slow[id(s)], s.gold.text or "") - gold.f1(fast[id(s)], s.gold.text or "") for s in judged])
    fold = np.array([s.fold for s in judged])
    forests = [train(rows[fold != k], gain[fold != k], np.ones((fold != k).sum()), GAIN) for k in range(FOLDS)]
    final = train(rows, gain, np.ones(len(gain)), GAIN)
    two_pass.WEIGHTS.write_text(json.dumps({"gain": final.to_json(), "least_gain": LEAST_GAIN}, indent=0) + "\n")
    pages: dict[str, dict[str, object]] = {}
    for s in samples:
        affordable = two_pass.affordable(scored[id(s)])
        prefers = (
            affordable
            and float(forests[s.fold].raw(two_pass.doubts(scored[id(s)]))[0]) > LEAST_GAIN
            and bool(slow[id(s)])
        )
        text = slow[id(s)] if prefers else fast[id(s)]
        pages[s.gold.id] = {"slow": prefers}
        if s.gold.text is not None:
            pages[s.gold.id] |= {
                "blocks": round(gold.f1(fast[id(s)], s.gold.text), 4),
                "two_pass": round(gold.f1(text, s.gold.text), 4),
            }
        if s.gold.must or s.gold.must_not:
            pages[s.gold.id] |= {
                "blocks_segments": gold.segments(fast[id(s)], s.gold),
                "segments": gold.segments(text, s.gold),
            }
    CV.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(f" {json.dumps(k)}: {json.dumps(v, sort_keys=True)}" for k, v in sorted(pages.items()))
    CV.write_text("{\n" + lines + "\n}\n")
    for name in gold.SETS:
        own = [s for s in samples if s.gold.set == name]
        if own[0].gold.text is not None:
            means = {k: round(float(np.mean([pages[s.gold.id][k] for s in own])), 4) for k in ("blocks", "two_pass")}
            say(f"{name}: word F1 out of fold {means}")
        else:
            must, leak = sum(len(s.gold.must) for s in own), sum(len(s.gold.must_not) for s in own)
            for k in ("blocks_segments", "segments"):
                got = np.array([pages[s.gold.id][k] for s in own if k in pages[s.gold.id]]).sum(0)
                say(f"{name}: {k} with {got[0] / must:.4f} leak {got[1] / leak:.4f}")
    say(f"to trafilatura: {np.mean([bool(p['slow']) for p in pages.values()]):.3f} of pages")


if __name__ == "__main__":
    main()
