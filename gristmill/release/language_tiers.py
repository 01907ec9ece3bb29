"""Quality thresholds by the size of a language, as the manifest applies them, and the slice below them.

Belongs here: counting each language's tokens over the catalogues, the threshold that its tier gives, and what falls.
Does not belong here: scores (``gristmill/quality``), other rules (``policy.py``).

A large language can afford to keep its best third; a small one needs all that is text. The sizes are counted over the
catalogues that a manifest is made of, after deduplication, so that the table decides and not a list of languages. A
slice from below the threshold is kept on purpose (by keyed sampling, the same in every build): a classifier is wrong
about some of what it drops.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict, Field

from gristmill.errors import RecipeError
from gristmill.mixture.recipe import Exact, Tokens
from gristmill.quality import ensemble, rules
from gristmill.store import Key, Store
from gristmill.workers import run_tasks

SCORE = "ensemble_percentile"
RULE = "quality_tier"
NUMBER = 1 << 16  # of the keyed sampling: apart from those of down-weighting rules
Share = Annotated[Exact, Field(gt=0, le=1)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TierRule(_Model):
    """Languages of at least ``min_tokens`` keep the top ``keep`` by percentile; None: the rule sets alone decide."""

    min_tokens: Tokens | Annotated[int, Field(ge=0, le=0)]
    keep: Share | None = None


_REFERENCE = tuple(
    TierRule(min_tokens=t.min_tokens, keep=None if t.keep is None else Decimal(str(t.keep))) for t in ensemble.TIERS
)


class LanguageTiers(_Model):
    """The table; the reference is ``gristmill/quality/ensemble.py``'s."""

    tiers: tuple[TierRule, ...] = _REFERENCE
    # Share of a language's pool, by tokens, that is taken from under its threshold on purpose.
    below_threshold: Annotated[Exact, Field(ge=0, lt=1)] = Decimal(str(ensemble.BELOW_THRESHOLD_SLICE))
    # For languages that no classifier decides: documents pass these sets (the script was checked at the language gate).
    rule_sets: tuple[str, ...] = rules.REFERENCE
    source_tiers: tuple[str, ...] = ("cc", "own_crawl")  # the web; books and contracts are not judged by it


@dataclass(frozen=True)
class Threshold:
    """What the table gives a language: the least percentile (None: rule sets), and how much from below is kept."""

    tokens: int
    least: float | None
    below: Decimal  # share of what lies under the threshold that stays


@dataclass(frozen=True)
class Task:
    """One catalogue partition to count; picklable."""

    store: Store
    key: Key
    table: LanguageTiers

    def __str__(self) -> str:
        return f"language sizes {self.key}"


def check(table: LanguageTiers, schema: pa.Schema) -> None:
    """Can a catalogue with this schema answer the table.

    Raises:
        RecipeError: a column is missing, or a rule set is unknown.
    """
    unknown = sorted(set(table.rule_sets) - set(rules.RULE_SETS))
    if unknown:
        raise RecipeError(f"policy.language_tiers: no rule set {unknown[0]}: {', '.join(sorted(rules.RULE_SETS))}")
    missing = sorted(set(columns(table)) - set(schema.names))
    if missing:
        raise RecipeError(f"policy.language_tiers: the catalogue has no column {missing[0]}: take the crawls through "
                          "`heuristics` and `quality` again")


def columns(table: LanguageTiers) -> tuple[str, ...]:
    """Columns of the catalogue that the table is applied by."""
    chosen = {rule.measure for name in table.rule_sets for rule in rules.RULE_SETS.get(name, ())}
    return ("lang", "n_tokens", "source_tier", SCORE, *sorted(chosen))


def count_step(task: Task) -> dict[str, list[int]]:
    """Language -> tokens of its web documents in shards, then of those within each ``keep`` of the table."""
    rows = task.store.read(task.key, ["lang", "n_tokens", "source_tier", SCORE, "shard"])
    rows = rows.filter(pc.and_(pc.is_valid(rows["shard"]), _web(task.table, rows)))
    langs, scores = _langs(rows), _scores(rows)
    tokens = rows["n_tokens"].fill_null(0).to_numpy().astype(np.int64)
    return {
        lang: [int(tokens[langs == lang].sum()),
               *(int(tokens[(langs == lang) & (scores >= _least(keep))].sum()) for keep in _keeps(task.table))]
        for lang in sorted(set(langs.tolist()))
    }


def thresholds(store: Store, keys: Sequence[Key], table: LanguageTiers, workers: int = 1,
               progress: Callable[[str, int, int], None] | None = None) -> dict[str, Threshold]:
    """Language -> what the table gives it, from its size in these catalogue partitions."""
    sums: dict[str, list[int]] = {}
    tasks = [Task(store, key, table) for key in keys]
    for done, (_, found) in enumerate(run_tasks(count_step, tasks, workers if workers > 1 else 0)):
        for lang, counts in found.items():
            sums[lang] = [a + b for a, b in zip(sums.get(lang, [0] * len(counts)), counts, strict=True)]
        if progress:
            progress("languages", done + 1, len(tasks))
    return {lang: _threshold(counts, table) for lang, counts in sorted(sums.items())}


def _keeps(table: LanguageTiers) -> list[Decimal]:
    return sorted({t.keep for t in table.tiers if t.keep is not None})


def _least(keep: Decimal) -> float:
    return float(np.float32(1 - keep))  # as percentiles are stored


def _threshold(counts: Sequence[int], table: LanguageTiers) -> Threshold:
    total = counts[0]
    fitting = [t for t in table.tiers if total >= t.min_tokens]
    keep = max(fitting, key=lambda t: t.min_tokens).keep if fitting else None
    if keep is None:
        return Threshold(total, None, Decimal(0))
    above = counts[1 + _keeps(table).index(keep)]
    under = total - above
    wanted = table.below_threshold / (1 - table.below_threshold) * above  # slice / (slice + above) = below_threshold
    below = min(Decimal(1), round(wanted / under, 9)) if under else Decimal(0)
    return Threshold(total, _least(keep), below)


def falls(table: LanguageTiers, found: Mapping[str, Threshold], rows: pa.Table,
          drops: Callable[[Decimal, str], np.ndarray]) -> np.ndarray:
    """Which documents the table leaves out: bool (rows).

    Args:
        table, found: the table and what ``thresholds`` made of it.
        rows: of the catalogue.
        drops: (share kept, language) -> which rows a keyed sampling of that share leaves out.
    """
    langs, scores = _langs(rows), _scores(rows)
    web = _web(table, rows).to_numpy(zero_copy_only=False).astype(bool)
    by_rules = ~rules.passes(rows, [r for name in table.rule_sets for r in rules.RULE_SETS[name]], langs.tolist())
    out = np.zeros(rows.num_rows, bool)
    for lang in sorted(set(langs.tolist())):
        own = web & (langs == lang)
        at = found.get(lang)
        if at is None or at.least is None:  # in no shard, or too small for a classifier to decide
            out |= own & by_rules
        else:
            under = own & ~(scores >= at.least)  # a document without a percentile was not judged good
            out |= under & drops(at.below, lang) if at.below < 1 else False
    return out


def plain(found: Mapping[str, Threshold]) -> dict[str, Any]:
    """For the manifest: language -> tokens, least percentile, share of what lies below that stays."""
    return {lang: {"tokens": t.tokens, "least": None if t.least is None else f"{t.least:.6g}", "below": str(t.below)}
            for lang, t in sorted(found.items())}


def _web(table: LanguageTiers, rows: pa.Table) -> pa.Array:
    hit = pc.is_in(rows["source_tier"], value_set=pa.array(table.source_tiers, pa.string()))
    return hit.combine_chunks() if isinstance(hit, pa.ChunkedArray) else hit


def _langs(rows: pa.Table) -> np.ndarray:
    return np.array([x or "und" for x in rows["lang"].to_pylist()], object)


def _scores(rows: pa.Table) -> np.ndarray:
    found: np.ndarray = rows[SCORE].cast(pa.float64()).to_numpy(zero_copy_only=False)
    return found
