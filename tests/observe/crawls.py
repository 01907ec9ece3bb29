"""Simulated crawls: hosts of very different sizes, each with habits of its own, that come, go, grow and change.

Pages of a host share its fate, so shares scatter far more than binomially; hosts stay in their bucket, so buckets have
habits; a few hosts change theirs between two crawls. No code of the judgement is used here.
"""

from dataclasses import dataclass, field

import numpy as np
from scipy.stats import beta

from gristmill.observe.drift import BINS
from gristmill.observe.measure import Count

# Share kept by each stage in the reference funnel of the web, and how much hosts differ in it (a beta's concentration).
STAGES = {"text": (0.993, 60.0), "language": (0.60, 1.0), "exact": (0.75, 3.0), "near": (0.50, 3.0),
          "heuristics": (0.80, 5.0), "quality": (0.35, 3.0), "safety": (0.995, 60.0), "contamination": (0.995, 200.0),
          "tokens": (0.99, 50.0)}
TOLD = ("text", "language", "heuristics")  # whose documents are counted by host
BY_TEXT = ("exact",)  # ranges of a hash of the text: a host's pages lie in all of them


@dataclass
class Web:
    """What crawls are drawn from."""

    buckets: int = 64
    hosts: int = 30_000
    pages: float = 2_000_000  # expected of a crawl
    scores: bool = False  # draw them too: it costs as much as all else
    largest: float = 0.003  # share of the largest host, before anything is dropped
    redesigned: float = 0.01  # of the hosts between two crawls: their shares are drawn anew
    seed: int = 1
    rng: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        size = self.rng.pareto(1.1, self.hosts) + 1  # near Zipf
        size = np.minimum(size, self.largest * size.sum())
        self.size = size / size.sum() * self.pages
        self.bucket = self.rng.integers(0, self.buckets, self.hosts)
        self.page_bytes = self.rng.lognormal(7.5, 0.6, self.hosts)
        self.raw_bytes = self.page_bytes * self.rng.lognormal(1.5, 0.5, self.hosts)  # of markup, hosts differ again
        self.share = {s: self._draw(s, self.hosts) for s in STAGES}

    def _draw(self, stage: str, n: int) -> np.ndarray:
        mean, concentration = STAGES[stage]
        return self.rng.beta(mean * concentration, (1 - mean) * concentration, n)

    def crawl(self) -> dict[str, dict[int, Count]]:
        """The next crawl: stage -> bucket -> count."""
        rng = self.rng
        changed = rng.random(self.hosts) < self.redesigned
        for stage in STAGES:
            self.share[stage][changed] = self._draw(stage, int(changed.sum()))
        pages = rng.poisson(self.size * rng.lognormal(0, 0.3, self.hosts) * (rng.random(self.hosts) < 0.9))
        self.records = pages
        out: dict[str, dict[int, Count]] = {}
        for stage in STAGES:
            if stage == "quality" and self.scores:
                self.histogram = self._scored(pages)
            drift = rng.normal(0, 0.04)  # the whole web moves, in log odds: a point at most stages, inside any band
            odds = np.log(self.share[stage].clip(1e-6, 1 - 1e-6) / (1 - self.share[stage].clip(1e-6, 1 - 1e-6)))
            kept = rng.binomial(pages, 1 / (1 + np.exp(-odds - drift)))
            sides = [pages, kept, pages * self.page_bytes, kept * self.page_bytes]
            if stage in BY_TEXT:
                clump, clump_bytes = np.ones(self.buckets), np.zeros(self.buckets)
                came = rng.multinomial(int(pages.sum()), np.full(self.buckets, 1 / self.buckets))
                kept_here = rng.binomial(came, kept.sum() / max(pages.sum(), 1))
                mean, spread = float(self.page_bytes.mean()), float(self.page_bytes.std())
                weigh = [n * mean + spread * n**0.5 * rng.normal(0, 1, self.buckets) for n in
                         (kept_here, came - kept_here)]
                sums = [came, kept_here, weigh[0] + weigh[1], weigh[0]]
            else:
                sums = [np.bincount(self.bucket, x, self.buckets) for x in sides]
                # As stages tell: of records at intake, of texts after extraction, of survivors after near.
                if stage in TOLD:
                    known = pages, self.page_bytes if stage != "text" else self.raw_bytes
                clump, clump_bytes = (np.clip(self._clump(known[0], w), 1.0, np.maximum(sums[0], 1))
                                      for w in (1.0, known[1]))
            out[stage] = {b: Count(*(int(s[b]) for s in sums), clump=float(clump[b]), clump_bytes=float(clump_bytes[b]))
                          for b in range(self.buckets)}
            pages = kept
        return out

    def _scored(self, pages: np.ndarray) -> np.ndarray:
        """Histogram of a score: each host's pages around a mean of its own."""
        if not hasattr(self, "score_of"):
            edges = np.linspace(0, 1, BINS + 1)
            mean = self.rng.beta(2, 4, self.hosts)
            self.score_of = np.diff(beta.cdf(edges[None, :], 12 * mean[:, None], 12 * (1 - mean)[:, None]), axis=1)
            self.score_of /= self.score_of.sum(1, keepdims=True)
        return np.asarray(self.rng.multinomial(pages, self.score_of).sum(0))

    def _clump(self, pages: np.ndarray, weight: np.ndarray | float) -> np.ndarray:
        """Bucket -> how many pages share a page's host, by what they weigh."""
        heavy = pages * weight
        whole = np.maximum(np.bincount(self.bucket, heavy, self.buckets), 1)
        n = np.bincount(self.bucket, pages, self.buckets)
        return np.asarray(n * np.bincount(self.bucket, heavy.astype(float) ** 2, self.buckets) / whole**2)
