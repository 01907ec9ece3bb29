"""Reference quantiles, frozen per scorer, language and tier: what a percentile is measured against.

Belongs here: freezing them from scores, the file they lie in (a registered model file, pinned by hash), and looking a
score up. Does not belong here: scoring. A crawl's own quantiles measure drift only: a junk crawl also has a top 35 %.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gristmill.errors import ModelError
from gristmill.fingerprint import canonical_json

ANY = "*"
LEVELS = 1001  # every tenth of a percent
MIN_SCORES = 20  # fewer scores than this give no quantiles of their own

QuantileKey = tuple[str, str, str]  # scorer, language or ANY, tier or ANY


@dataclass(frozen=True)
class Reference:
    """Quantiles at ``LEVELS`` equally spaced levels, by (scorer, language, tier)."""

    tables: Mapping[QuantileKey, np.ndarray]

    def of(self, scorer: str, lang: str, tier: str = ANY) -> np.ndarray | None:
        """The most specific frozen table: language and tier, language, all."""
        for key in ((scorer, lang, tier), (scorer, lang, ANY), (scorer, ANY, ANY)):
            if key in self.tables:
                return self.tables[key]
        return None

    def percentiles(self, scorer: str, scores: np.ndarray, langs: np.ndarray, tiers: np.ndarray) -> np.ndarray:
        """Share of the reference at or below each score, in [0, 1]; NaN where nothing is frozen or no score is.

        Args:
            scorer: its name.
            scores: float64 (n), NaN where there is none.
            langs, tiers: str (n): language and source tier of each.
        """
        out = np.full(len(scores), np.nan)
        for lang, tier in sorted(set(zip(langs.tolist(), tiers.tolist(), strict=True))):
            table = self.of(scorer, lang, tier)
            if table is not None:
                rows = np.flatnonzero((langs == lang) & (tiers == tier) & ~np.isnan(scores))
                # between two equal levels the middle: ties then map to the middle of their own share
                low = np.searchsorted(table, scores[rows], side="left")
                high = np.searchsorted(table, scores[rows], side="right")
                out[rows] = (low + high) / 2 / LEVELS
        return out


def freeze(scores: Mapping[QuantileKey, np.ndarray]) -> Reference:
    """Quantiles of each key's scores, and of each scorer over everything. Keys with few scores are left out."""
    pooled: dict[QuantileKey, list[np.ndarray]] = {}
    for (scorer, lang, tier), values in scores.items():
        for key in {(scorer, lang, tier), (scorer, lang, ANY), (scorer, ANY, ANY)}:
            pooled.setdefault(key, []).append(np.asarray(values, np.float64))
    tables = {}
    for key, parts in pooled.items():
        values = np.concatenate(parts)
        values = values[~np.isnan(values)]
        if len(values) >= MIN_SCORES:
            tables[key] = np.round(np.quantile(values, np.linspace(0, 1, LEVELS)), 6)
    return Reference(tables)


def write(reference: Reference, path: Path) -> Path:
    """Write as canonical JSON; equal quantiles are equal bytes."""
    rows = [[*key, [float(v) for v in table]] for key, table in sorted(reference.tables.items())]
    path.write_bytes(canonical_json({"format": 1, "kind": "gristmill-quantiles", "levels": LEVELS, "tables": rows}))
    return path


def read(path: Path) -> Reference:
    """Read a frozen file.

    Raises:
        ModelError: it is not one.
    """
    try:
        data = json.loads(path.read_bytes())
        if data["kind"] != "gristmill-quantiles" or data["format"] != 1 or data["levels"] != LEVELS:
            raise ValueError("another format")
        tables = {(str(s), str(lang), str(tier)): np.array(v, np.float64) for s, lang, tier, v in data["tables"]}
        for key, table in tables.items():
            if table.shape != (LEVELS,) or not (np.diff(table) >= 0).all():
                raise ValueError(f"the quantiles of {', '.join(key)} are not {LEVELS} numbers in order")
        return Reference(tables)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{path} is no file of reference quantiles ({error}): freeze them again") from error
