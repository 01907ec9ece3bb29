"""Checks of a whole crawl, on its report: end to end, drift of scores, and the dashboard as the UI's metadata.

Belongs here: wiring. Does not belong here: counting and judging (``gristmill/observe``).
"""

import json
from collections.abc import Sequence
from typing import Any

import dagster as dg

from checks.yields import plain
from gristmill.funnel import Plan
from gristmill.observe.assess import score_drift
from gristmill.observe.bands import END_TO_END
from gristmill.observe.causes import causes
from gristmill.observe.history import REPORT, trailing
from gristmill.store import Key, Store
from resources.places import Places

WARN = dg.AssetCheckSeverity.WARN


def crawl_checks(assets: Sequence[dg.AssetsDefinition], plan: Plan) -> list[dg.AssetChecksDefinition]:
    """The checks on ``crawl_report``."""
    asset = next(a for a in assets if a.key.to_user_string() == REPORT)

    @dg.multi_asset_check(
        specs=[dg.AssetCheckSpec("dashboard", asset=asset.key, partitions_def=asset.partitions_def,
                                 description="End to end by bytes in its band, or the stage that left its own has said "
                                             "so. The dashboard is here."),
               dg.AssetCheckSpec("score_drift", asset=asset.key, partitions_def=asset.partitions_def,
                                 description="Scores are distributed as in the last crawls.")],
        name="crawl_report_checks",
    )
    def _checks(context: dg.AssetCheckExecutionContext, places: Places) -> Any:
        store = places.open_store()
        for key in context.partition_keys:
            yield from _results(store, plan, str(key), asset.key)

    return [_checks]


def _results(store: Store, plan: Plan, crawl: str, asset: dg.AssetKey) -> Any:
    from gristmill.observe.dashboard import judged, metadata

    key = Key(REPORT, plan.fingerprints[REPORT], crawl)
    made = store.require(key)
    data = json.loads(store.read_file(key, made.role("data")[0]))
    reports = trailing(store, plan, crawl, plan.params.observe.trailing)
    verdicts = judged(data, reports, plan.params.observe)
    worst = verdicts[END_TO_END].worst if END_TO_END in verdicts else None
    shown: dict[str, Any] = {k: dg.MetadataValue.md(v) for k, v in metadata(data, reports, verdicts).items()}
    page = made.role("report")[0]
    shown["report"] = dg.MetadataValue.path(f"{store.root}/{key.path}/{page.name}")
    shown["out_of_band"] = dg.MetadataValue.json([s for s, v in verdicts.items() if v.worst])
    # Stages have been told of by their own checks, in the run that made them: here only what none of them shows fails.
    told = [s for s, v in verdicts.items() if s != END_TO_END and v.worst]
    if worst is not None:
        shown |= plain({"direction": worst.direction, "likely_causes": causes(END_TO_END, worst.direction)})
    yield dg.AssetCheckResult(check_name="dashboard", asset_key=asset, passed=worst is None or bool(told),
                              severity=WARN, metadata=shown)
    moved = score_drift(data)
    yield dg.AssetCheckResult(
        check_name="score_drift", asset_key=asset, passed=not moved or bool(told), severity=WARN,
        metadata=plain({"drift": data["drift"], "drifted": moved,
                        "likely_causes": causes("quality", "drift") if moved else []}))
