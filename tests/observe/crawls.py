"""Simulated crawls: hosts of very different sizes, each with habits of its own, that come, go, grow and change.

Pages of a host share its fate, so shares scatter far more than binomially; hosts stay in their bucket, so buckets have
habits; a few hosts change theirs between two crawls. No code of the judgement is used here.
"""

from dataclasses import dataclass, field

import numpy as np

from gristmill.observe.measure import Count

# Share kept by each stage in the reference funnel of the web, and how much hosts differ in it (a beta's concentration).
STAGES = {"text": (0.993, 60.0), "language": (0.60, 1.0), "exact": (0.75, 3.0), "near": (0.50, 3.0),
          "heuristics": (0.80, 5.0), "quality": (0.35, 3.0), "safety": (0.995, 60.0), "contamination": (0.995, 200.0),
          "tokens": (0.99, 50.0)}
BY_TEXT = ("exact",)  # ranges of a hash of the text: a host's pages lie in all of them


@dataclass
class Web:
    """What crawls are drawn from."""

    buckets: int = 64
    hosts: int = 30_000
    pages: float = 2_000_000  # expected of a crawl
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
        fetched = pages
        out: dict[str, dict[int, Count]] = {}
        for stage in STAGES:
            drift = rng.normal(0, 0.04)  # the whole web moves, in log odds: a point at most stages, inside any band
            odds = np.log(self.share[stage].clip(1e-6, 1 - 1e-6) / (1 - self.share[stage].clip(1e-6, 1 - 1e-6)))
            kept = rng.binomial(pages, 1 / (1 + np.exp(-odds - drift)))
            sides = [pages, kept, pages * self.page_bytes, kept * self.page_bytes]
            if stage in BY_TEXT:
                clump = np.ones(self.buckets)
                cut = [rng.multinomial(int(x.sum()), np.full(self.buckets, 1 / self.buckets)) for x in sides[:2]]
                sums = [cut[0], np.minimum(cut[0], cut[1]), np.zeros(self.buckets), np.zeros(self.buckets)]
            else:
                sums = [np.bincount(self.bucket, x, self.buckets) for x in sides]
                # An observer knows how many records each host had, not how many of them came to a later stage.
                records = np.maximum(np.bincount(self.bucket, fetched, self.buckets), 1)
                clump = np.bincount(self.bucket, fetched.astype(float) ** 2, self.buckets) / records
                clump = np.minimum(clump * (sums[0] / records) ** 0.5, sums[0])
            out[stage] = {b: Count(*(int(s[b]) for s in sums), clump=max(float(clump[b]), 1.0))
                          for b in range(self.buckets)}
            pages = kept
        return out
