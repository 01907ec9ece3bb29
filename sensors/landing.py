"""New crawls: a listing appears in the landing area, and runs take it through the funnel.

Belongs here: watching listings and asking for runs. Does not belong here: what a run does. The sensor keeps no promise
in its cursor that it could lose: it asks for whatever the store says is wanting, and a run key makes asking twice
harmless. A listing that still changes between two ticks waits. Crawls go in the order of their names, one at a time, so
that a later one finds the earlier one's generation in the band index.
"""

import json
from typing import Any

import dagster as dg

from gristmill.acquire.landing import crawls, read_listing
from gristmill.blobs import open_blobs
from gristmill.errors import GristmillError
from gristmill.fingerprint import fingerprint
from gristmill.funnel import BY_NAME, Plan
from gristmill.plan.stale import runs, span, survey
from gristmill.registry import Registry
from partitions import grid as grids
from resources.places import Places


def landing_sensor(plan: Plan, jobs: list[Any], interval_s: int = 60) -> dg.SensorDefinition:
    """Watch the site's landing area. Off until someone turns it on."""
    signature = fingerprint(plan.fingerprints)

    @dg.sensor(name="new_crawls", jobs=jobs, minimum_interval_seconds=interval_s,
               description="Registers crawls whose listing has appeared, and asks for the runs that they want.")
    def _new_crawls(context: dg.SensorEvaluationContext, places: Places) -> dg.SensorResult | dg.SkipReason:
        seen: dict[str, Any] = json.loads(context.cursor or "{}")
        store, site, landing = places.open_store(), places.site(), open_blobs(places.landing)
        registry = Registry(store)
        waiting: list[str] = []
        for crawl in crawls(landing):
            try:
                listing = read_listing(landing, crawl).digest
            except GristmillError as error:  # a listing may name files that have not arrived yet
                waiting.append(f"{crawl}: {error}")
                continue
            before = seen.get(crawl, {})
            if before.get("listing") != listing:
                seen[crawl] = {"listing": listing}
                waiting.append(f"{crawl}: first seen, or it changed; waiting until it is stable")
                continue
            if before.get("done") == signature:
                continue
            registry.register(crawl)
            states = {s.stage: s for s in survey(store, plan, site, crawl) if s.wanting}
            if not states:
                seen[crawl] = {"listing": listing, "done": signature}
                continue
            names, on_grid = runs(states)[0]
            request = dg.RunRequest(
                run_key=fingerprint([crawl, listing, signature, names]),
                job_name="funnel_job" if on_grid else f"{names[0]}_job",
                # As a tag, not as partition_key: that is resolved before this result's new partition is added.
                tags=grids.range_tags(crawl, *span([states[n] for n in names])) if on_grid else
                {"dagster/partition": crawl} if BY_NAME[names[0]].by == "crawl" else {},
                asset_selection=[dg.AssetKey(n) for n in names] if on_grid else None,
            )
            add = [] if context.instance.has_dynamic_partition(grids.CRAWL, crawl) else [
                grids.crawls().build_add_request([crawl])
            ]
            return dg.SensorResult(run_requests=[request], dynamic_partitions_requests=add, cursor=json.dumps(seen))
        if waiting:
            context.log.info("; ".join(waiting))
        return dg.SensorResult(run_requests=[], cursor=json.dumps(seen),
                               skip_reason=None if not waiting else dg.SkipReason("; ".join(waiting)[:1000]))

    return _new_crawls
