"""Schedules of a site's upkeep: robots.txt and licences at night, the band index once a month. Off until turned on.

Belongs here: wiring ``gristmill/observe/upkeep.py`` to jobs and schedules. Does not belong here: the work, which cron
can start as well (``gristmill robots sweep``, ``gristmill licences sweep``, ``gristmill compact``).
"""

import datetime as dt
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import dagster as dg

from gristmill.funnel import Plan
from gristmill.observe import upkeep
from gristmill.params import SiteConfig
from gristmill.store import Store
from resources.places import Places

Work = Callable[[Store], dict[str, Any]]


def _job(name: str, description: str, work: Work) -> dg.JobDefinition:
    @dg.op(name=f"do_{name}", description=description, out=dg.Out(dg.Nothing))
    def _op(context: dg.OpExecutionContext, places: Places) -> None:
        facts = work(places.open_store())
        context.log.info(", ".join(f"{k}: {v}" for k, v in facts.items()))
        context.add_output_metadata({k: v for k, v in facts.items() if isinstance(v, bool | int | float | str)})

    @dg.job(name=name, description=description, executor_def=dg.in_process_executor, tags={"gristmill/upkeep": name})
    def _graph() -> None:
        _op()

    return _graph


def upkeep_schedules(plan: Plan, site: SiteConfig) -> list[dg.ScheduleDefinition]:
    """A schedule for each kind of upkeep, with its job."""

    def robots(store: Store) -> dict[str, Any]:
        done = asdict(upkeep.sweep_robots(store, plan, site))
        return {**done, "opted_out": len(done["opted_out"]), "returned": len(done["returned"])}

    def licences(store: Store) -> dict[str, Any]:
        days = plan.params.observe.contract_days
        found = upkeep.sweep_licences(store, site, dt.datetime.now(dt.UTC).date(), days)
        return {"ending": len(found), "ids": ", ".join(e.license_id for e in found[:20])}

    def compaction(store: Store) -> dict[str, Any]:
        done = upkeep.compact(store, plan, site)
        return {"generations": len(done.crawls), "new": done.new, "entries": done.entries,
                "deleted": len(done.dropped), "stopped_at": done.stopped_at or ""}

    table: list[tuple[str, str, str, Work]] = [
        ("robots_sweep", "20 3 * * *", "robots.txt of every host in the corpus, read again.", robots),
        ("licence_sweep", "40 2 * * *", "Licences and contracts that end soon.", licences),
        ("band_index_compaction", "0 4 1 * *", "The band index's generations, merged.", compaction),
    ]
    return [
        dg.ScheduleDefinition(name=f"{name}_schedule", job=_job(name, text, work), cron_schedule=cron,
                              execution_timezone="UTC", default_status=dg.DefaultScheduleStatus.STOPPED,
                              description=text)
        for name, cron, text, work in table
    ]
