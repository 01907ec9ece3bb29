"""The yield checks: retention of every stage, how much came in, hosts, the index, the scorers, the crawl as a whole.

Belongs here: wiring findings of ``gristmill.observe.assess`` to Dagster's checks, in single-partition and range runs.
Does not belong here: judging (the library) and telling people (paging). A result of a range run is the crawl's finding;
each partition's own is written beside it (``partitioned.py``).
"""

from collections.abc import Callable, Sequence
from typing import Any

import dagster as dg

from checks.partitioned import Evaluation, report_evaluations
from gristmill.funnel import BY_NAME, Plan
from gristmill.observe import assess
from gristmill.observe.assess import Finding, Past
from gristmill.observe.bands import Band, bands
from gristmill.observe.measure import LOOKS_BACK
from gristmill.observe.yields import MAIN_PATH
from partitions import grid as grids
from resources.places import Places

VOLUME = ("crawl_slices", "raw_warc")
Assess = Callable[[Past, Sequence[int]], list[Finding]]


def _by_crawl(context: dg.AssetCheckExecutionContext) -> dict[str, list[int]]:
    out: dict[str, list[int]] = {}
    for key in context.partition_keys:
        assert isinstance(key, dg.MultiPartitionKey)
        dims = key.keys_by_dimension
        out.setdefault(dims[grids.CRAWL], []).append(int(dims[grids.HOST_BUCKET]))
    return {crawl: sorted(buckets) for crawl, buckets in sorted(out.items())}


def _check(asset: dg.AssetsDefinition, name: str, description: str, plan: Plan, blocking: bool, judge: Assess
           ) -> dg.AssetChecksDefinition:
    severity = dg.AssetCheckSeverity.ERROR if blocking else dg.AssetCheckSeverity.WARN

    @dg.asset_check(asset=asset, name=name, partitions_def=asset.partitions_def, blocking=blocking,
                    description=description)
    def _judged(context: dg.AssetCheckExecutionContext, places: Places) -> dg.AssetCheckResult:
        store = places.open_store()
        found = [f for crawl, buckets in _by_crawl(context).items() for f in judge(Past(store, plan, crawl), buckets)]
        whole = [f for f in found if f.bucket is None]
        parts = [Evaluation(f"{f.crawl}|{grids.bucket_key(f.bucket)}", f.passed, f.metadata)
                 for f in found if f.bucket is not None]
        if not context.has_partition_key:  # a range run: Dagster would store one result for all of them
            report_evaluations(context, dg.AssetCheckKey(asset.key, name), parts, severity, blocking)
        return dg.AssetCheckResult(passed=all(f.passed for f in found), severity=severity,
                                   metadata=summary(parts, [f.metadata for f in whole if not f.passed]
                                                    or [f.metadata for f in whole]))

    return _judged


def summary(parts: Sequence[Evaluation], whole: Sequence[Any]) -> dict[str, Any]:
    """Metadata of the run's own result: which partitions are out, and the crawl's numbers or the first one out's."""
    bad = [e for e in parts if not e.passed]
    if len(parts) == 1 or (bad and all(e.metadata.get("judged") != "crawl" for e in bad)):
        chosen = bad[0].metadata if bad else parts[0].metadata
    else:
        chosen = whole[0] if whole else (bad or parts)[0].metadata
    return {"out_of_band": [e.partition for e in bad], "evaluated": len(parts), **plain(chosen)}


def plain(metadata: Any) -> dict[str, Any]:
    """Metadata with lists and mappings as JSON."""
    return {k: dg.MetadataValue.json(v) if isinstance(v, dict | list) else v for k, v in metadata.items()}


def yield_checks(assets: Sequence[dg.AssetsDefinition], plan: Plan) -> list[dg.AssetChecksDefinition]:
    """All checks of the funnel's yields."""
    by_name = {a.key.to_user_string(): a for a in assets}
    table = bands(plan.params.observe)
    out = []
    for stage in MAIN_PATH:
        if BY_NAME[stage].on_grid:
            band = table.get(stage, Band())
            out.append(_check(
                by_name[stage], "retention",
                f"What {stage} keeps, of documents and bytes: within {band.width:.1%} and sampling error of the last "
                "crawls, for the crawl first, then its buckets; and nothing lost before it.",
                plan, band.blocking, _retention(stage)))
    for stage in VOLUME:
        out.append(_check(by_name[stage], "volume", "As many documents as the last crawls had, in every bucket.",
                          plan, False, _volume(stage)))
    out.append(_check(by_name["unique_records"], "host_flood", "No host's share of the crawl has exploded.",
                      plan, False, assess.host_flood))
    for stage in LOOKS_BACK:
        out.append(_check(by_name[stage], "index_loaded",
                          "Compared with every earlier crawl, and copies were found in them. Blocks what follows.",
                          plan, True, _index(stage)))
    out.append(_check(by_name["quality"], "same_scorers",
                      "Scores come from the models of the last crawls, by hash and by behaviour, or the change was "
                      "acknowledged. Blocks what follows.", plan, True, assess.same_scorers))
    return out


def _retention(stage: str) -> Assess:
    return lambda past, buckets: assess.retention(past, stage, buckets)


def _volume(stage: str) -> Assess:
    return lambda past, buckets: assess.volume(past, stage, buckets)


def _index(stage: str) -> Assess:
    return lambda past, buckets: assess.index_loaded(past, stage, buckets)
