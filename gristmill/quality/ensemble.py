"""Several scorers with different labels as one value: each calibrated to percentiles, then maximum and mean.

Belongs here: combining scores, freezing what they are measured against, and language tiers as a table that a recipe
applies. Does not belong here: any scorer.
Scorers on different scales cannot be averaged; their percentiles among the same reference can. The maximum keeps what
any rubric values (Su et al. 2024, Nemotron-CC, section 2.3), the mean what most agree on.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gristmill.quality.quantiles import QuantileKey, Reference, freeze

ENSEMBLE = "ensemble"


@dataclass(frozen=True)
class Combined:
    """All float64 (n), NaN where no member has a value."""

    members: Mapping[str, np.ndarray]  # percentile of each member
    maximum: np.ndarray
    mean: np.ndarray
    percentile: np.ndarray  # of the maximum among the ensemble's own frozen quantiles; a lone member's own


def combine(scores: Mapping[str, np.ndarray], langs: np.ndarray, tiers: np.ndarray,
            reference: Reference) -> Combined:
    """Percentiles of each member and of the ensemble.

    Args:
        scores: scorer -> float64 (n), NaN where it gives none.
        langs, tiers: str (n): language and source tier of each document.
        reference: frozen quantiles; a scorer without any has no percentile and takes no part.
    """
    members = {name: reference.percentiles(name, values, langs, tiers) for name, values in sorted(scores.items())}
    n = len(langs)
    maximum, total, voters = np.full(n, np.nan), np.zeros(n), np.zeros(n)
    for values in members.values():
        maximum = np.fmax(maximum, values)
        total += np.nan_to_num(values, nan=0.0)
        voters += ~np.isnan(values)
    mean = np.where(voters > 0, total / np.maximum(voters, 1), np.nan)
    percentile = reference.percentiles(ENSEMBLE, maximum, langs, tiers)
    if len(members) == 1:
        percentile = np.where(np.isnan(percentile), maximum, percentile)
    return Combined(members, maximum, mean, percentile)


@dataclass(frozen=True)
class Tier:
    """Languages with at least ``min_tokens`` keep the top ``keep`` of the ensemble; None: heuristics only."""

    min_tokens: int
    keep: float | None


# Reference: over 100B tokens the top 35 %, 5B to 100B the top 60 %, under that heuristics and the script check only.
TIERS: tuple[Tier, ...] = (Tier(100_000_000_000, 0.35), Tier(5_000_000_000, 0.60), Tier(0, None))
BELOW_THRESHOLD_SLICE = 0.16  # share of a pool taken on purpose from under its threshold (reference)


def tier_of(tokens: int, tiers: tuple[Tier, ...] = TIERS) -> Tier:
    """The tier of a language with this many tokens."""
    return max((t for t in tiers if tokens >= t.min_tokens), key=lambda t: t.min_tokens)


def threshold(tokens: int, tiers: tuple[Tier, ...] = TIERS) -> float | None:
    """The least ``ensemble_percentile`` that a language of this size keeps; None where no classifier decides."""
    keep = tier_of(tokens, tiers).keep
    return None if keep is None else 1.0 - keep


def frozen(scores: Mapping[str, np.ndarray], langs: np.ndarray, tiers: np.ndarray) -> Reference:
    """Reference quantiles of members and, since a maximum of percentiles is no percentile, of the ensemble itself.

    Args:
        scores: scorer -> float64 (n) over the reference documents, NaN where it gives none.
        langs, tiers: str (n).
    """
    keys = sorted(set(zip(langs.tolist(), tiers.tolist(), strict=True)))

    def cut(values: Mapping[str, np.ndarray]) -> dict[QuantileKey, np.ndarray]:
        return {(name, lang, tier): v[(langs == lang) & (tiers == tier)]
                for name, v in values.items() for lang, tier in keys}

    members = freeze(cut(scores))
    best = combine(scores, langs, tiers, members).maximum
    return Reference({**members.tables, **freeze(cut({ENSEMBLE: best})).tables})
