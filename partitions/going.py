"""Which crawls runs are taking on right now, whoever started them.

Belongs here: reading Dagster's runs in progress by their tags. Does not belong here: what is committed (the store).
"""

import dagster as dg

CRAWL_TAG = "gristmill/crawl"
GOING = [dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING,
         dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING]


def going(instance: dg.DagsterInstance) -> set[str]:
    """Crawls of all runs that are queued or going on."""
    found: set[str | None] = set()
    for run in instance.get_runs(dg.RunsFilter(statuses=GOING)):
        tags = (run.tags.get(f"dagster/{name}", "") for name in ("partition", "asset_partition_range_start"))
        found |= {run.tags.get(CRAWL_TAG), *(tag.partition("|")[0] for tag in tags)}
    return {crawl for crawl in found if crawl}
