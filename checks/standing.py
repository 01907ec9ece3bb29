"""Standing checks: what is broken now, on an asset that stands for the site as a whole.

Belongs here: wiring, and the schedule that looks every hour. Does not belong here: looking (``observe/standing.py``).
"""

import datetime as dt
from typing import Any

import dagster as dg

from checks.yields import plain
from gristmill.funnel import Plan
from gristmill.observe.standing import CHECKS, but_going
from partitions.going import going
from resources.places import Places

SITE = dg.AssetSpec("site", group_name="observe", owners=["team:data-engineering"],
                    description="Everything under the store's root, as it stands: checked every hour, made by nobody.")


def standing_checks(plan: Plan) -> list[dg.AssetChecksDefinition]:
    """One check a question."""
    return [_check(name, plan) for name in CHECKS]


def standing_schedule(checks: list[dg.AssetChecksDefinition]) -> tuple[Any, dg.ScheduleDefinition]:
    """The job that runs them, and its schedule; off until someone turns it on."""
    job = dg.define_asset_job("standing_job", selection=dg.AssetSelection.checks(*checks),
                              description="What is broken now.", executor_def=dg.in_process_executor)
    return job, dg.ScheduleDefinition(name="standing", job=job, cron_schedule="7 * * * *",
                                      description="Looks every hour for what is broken.")


def _check(name: str, plan: Plan) -> dg.AssetChecksDefinition:
    function = CHECKS[name]

    @dg.asset_check(asset=SITE.key, name=name, description=(function.__doc__ or "").splitlines()[0])
    def _standing(context: dg.AssetCheckExecutionContext, places: Places) -> dg.AssetCheckResult:
        found = function(places.open_store(), plan, dt.datetime.now(dt.UTC))
        if name == "partitions":
            found = but_going(found, going(context.instance))
        facts = {"why": found.why, **found.facts}
        if not found.passed:
            facts["likely_causes"] = list(found.likely_causes)
        return dg.AssetCheckResult(passed=found.passed, severity=dg.AssetCheckSeverity.WARN, metadata=plain(facts))

    return _standing
