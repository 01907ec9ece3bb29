"""One check a stage: the retention of each partition, against its crawl's other buckets and the crawls before.

Belongs here: turning committed yields into passed or not, with the evidence. The judgement: a partition's retention is
compared with the median of the same stage over the last crawls (or, for the first crawl, over the crawl's own
buckets), and is out of band when it differs by more than the stage's band plus a binomial margin. Small partitions are
never judged. Does not belong here: what happens when a check fails (paging).
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import dagster as dg

from checks.partitioned import Evaluation, report_evaluations
from gristmill.funnel import BY_NAME, Plan, Stage
from gristmill.observe.yields import MAIN_PATH
from gristmill.registry import Registry
from gristmill.store import Key, PartitionManifest, Store
from partitions import grid as grids
from resources.places import Places

TRAILING_CRAWLS = 5


@dataclass(frozen=True)
class Band:
    """How far a stage's retention may move, as a share, before someone is told.

    Values: the reference funnel's alert widths, in shares of documents; what has no reference gets ten points.
    """

    width: float = 0.10
    min_docs: int = 200  # below this a partition says little
    blocking: bool = False


BANDS: dict[str, Band] = {
    "text": Band(0.02), "language": Band(0.04), "exact": Band(0.06), "near": Band(0.06),
    "heuristics": Band(0.03), "safety": Band(0.01), "contamination": Band(0.005),
}


def judge(docs_in: int, docs_out: int, history: Sequence[float], band: Band) -> tuple[bool, float | None, float]:
    """(passed, the median compared with, allowed difference).

    The margin is three binomial standard errors of a retention at the median on ``docs_in`` documents.
    """
    if docs_in < band.min_docs or not history:
        return True, statistics.median(history) if history else None, band.width
    median = statistics.median(history)
    margin = 3 * math.sqrt(max(median * (1 - median), 1e-9) / docs_in)
    return abs(docs_out / docs_in - median) <= band.width + margin, median, band.width + margin


def _retentions(store: Store, plan: Plan, stage: Stage, crawl: str) -> dict[int, PartitionManifest]:
    found = {b: store.manifest(Key(stage.name, plan.fingerprints[stage.name], crawl, b)) for b in range(plan.buckets)}
    return {b: m for b, m in found.items() if m is not None}


def evaluate(store: Store, plan: Plan, stage: Stage, crawl: str, buckets: Sequence[int]) -> list[Evaluation]:
    """Judge a crawl's buckets from committed yields alone."""
    band = BANDS.get(stage.name, Band())
    earlier = Registry(store).earlier(crawl)[-TRAILING_CRAWLS:]
    history = [m for c in earlier for m in _retentions(store, plan, stage, c).values()]
    own = _retentions(store, plan, stage, crawl)
    basis = f"median of the last {len(earlier)} crawls" if history else "median of this crawl's buckets"
    compared = [m.counts.docs_out / m.counts.docs_in for m in (history or list(own.values()))
                if m.counts.docs_in >= band.min_docs]
    out = []
    for bucket in buckets:
        key = f"{crawl}|{grids.bucket_key(bucket)}"
        manifest = own.get(bucket)
        if manifest is None:
            out.append(Evaluation(key, False, {"why": f"{stage.name} {key} has not been committed"}))
            continue
        c = manifest.counts
        passed, median, allowed = judge(c.docs_in, c.docs_out, compared, band)
        out.append(Evaluation(key, passed, {
            "documents_in": c.docs_in, "documents_out": c.docs_out,
            "retention": c.docs_out / c.docs_in if c.docs_in else 1.0,
            "median": -1.0 if median is None else median, "allowed_difference": allowed,
            "compared_with": basis if compared else f"nothing yet: fewer than {band.min_docs} documents a partition",
            "top_reasons": dict(sorted(c.reasons.items(), key=lambda i: (-i[1], i[0]))[:5]),
        }))
    return out


def yield_check(asset: dg.AssetsDefinition, stage: Stage, plan: Plan) -> dg.AssetChecksDefinition:
    """The retention check of a stage."""
    band = BANDS.get(stage.name, Band())

    @dg.asset_check(
        asset=asset, name="retention", partitions_def=asset.partitions_def, blocking=band.blocking,
        description=f"Documents kept by {stage.name}, within {band.width:.1%} (and sampling error) of the median.",
    )
    def _check(context: dg.AssetCheckExecutionContext, places: Places) -> dg.AssetCheckResult:
        store = places.open_store()
        by_crawl: dict[str, list[int]] = {}
        for key in context.partition_keys:
            assert isinstance(key, dg.MultiPartitionKey)
            dims = key.keys_by_dimension
            by_crawl.setdefault(dims[grids.CRAWL], []).append(int(dims[grids.HOST_BUCKET]))
        evaluations = [e for crawl in sorted(by_crawl)
                       for e in evaluate(store, plan, stage, crawl, sorted(by_crawl[crawl]))]
        severity = dg.AssetCheckSeverity.ERROR if band.blocking else dg.AssetCheckSeverity.WARN
        if not context.has_partition_key:  # a range run: Dagster would store one result for all of them
            report_evaluations(context, dg.AssetCheckKey(asset.key, "retention"), evaluations, severity, band.blocking)
        bad = [e.partition for e in evaluations if not e.passed]
        metadata = dict(evaluations[0].metadata) if len(evaluations) == 1 else {}
        return dg.AssetCheckResult(
            passed=not bad, severity=severity,
            metadata={"out_of_band": bad, "evaluated": len(evaluations), **metadata},
        )

    return _check


def yield_checks(assets: Sequence[dg.AssetsDefinition], plan: Plan) -> list[dg.AssetChecksDefinition]:
    """A check for every stage of the main path that is on the grid."""
    by_name = {a.key.to_user_string(): a for a in assets}
    return [yield_check(by_name[s], BY_NAME[s], plan) for s in MAIN_PATH if BY_NAME[s].on_grid]
