"""What must be made again: which partitions are missing or were made from other inputs than today's.

Belongs here: comparing manifests; this is the authority on staleness (Dagster's own stops at 100 upstream partitions).
Does not belong here: launching anything.
"""

from dataclasses import dataclass

from gristmill.funnel import FUNNEL, Plan
from gristmill.params import SiteConfig
from gristmill.partition import is_current
from gristmill.runner import Task, partition_of
from gristmill.store import Store


@dataclass(frozen=True)
class StageState:
    """How a stage of a crawl stands."""

    stage: str
    current: tuple[int, ...]  # buckets; (-1,) for an asset without buckets
    wanting: tuple[int, ...]


def survey(store: Store, plan: Plan, site: SiteConfig, crawl: str) -> list[StageState]:
    """Every stage of a crawl: which partitions are current, and which are not.

    A partition below one that is not current counts as not current: what it will read may change.
    """
    out: list[StageState] = []
    wanting_stages: dict[str, set[int]] = {}
    for stage in FUNNEL:
        buckets: list[int] = list(range(plan.buckets)) if stage.on_grid else [-1]
        stage.load()  # registers the check of outside state
        current: list[int] = []
        wanting: list[int] = []
        for bucket in buckets:
            upstream = any(
                bucket in wanting_stages.get(i.asset, ()) if i.scope == "bucket" else bool(wanting_stages.get(i.asset))
                for i in stage.inputs
            )
            part = partition_of(Task(store, plan.params, site, stage.name, None if stage.by == "site" else crawl,
                                     None if bucket < 0 else bucket))
            (wanting if upstream or is_current(part) is None else current).append(bucket)
        if wanting:
            wanting_stages[stage.name] = set(wanting)
        out.append(StageState(stage.name, tuple(current), tuple(wanting)))
    return out
