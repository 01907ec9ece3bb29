"""What must be made again: which partitions are missing or were made from other inputs than today's.

Belongs here: comparing manifests; this is the authority on staleness (Dagster's own stops at 100 upstream partitions).
Does not belong here: launching anything.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

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


def survey(store: Store, plan: Plan, site: SiteConfig, crawl: str,
           touched: Mapping[str, Collection[int]] | None = None) -> list[StageState]:
    """Every stage of a crawl: which partitions are current, and which are not.

    A partition below one that is not current counts as not current: what it will read may change.

    Args:
        touched: stage -> buckets that count as not current, for a question of what a change would cost.
    """
    out: list[StageState] = []
    wanting_stages: dict[str, set[int]] = {}
    seen: dict[str, Any] = {}
    for stage in FUNNEL:
        buckets: list[int] = list(range(plan.buckets)) if stage.on_grid else [-1]
        stage.load()  # registers the check of outside state
        of = partition_of(Task(store, plan.params, site, stage.name, None if stage.by == "site" else crawl, None))
        of = replace(of, plan=plan, seen=seen)  # this plan's fingerprints have been computed
        current: list[int] = []
        wanting: list[int] = []
        for bucket in buckets:
            upstream = any(
                bucket in wanting_stages.get(i.asset, ()) if i.scope == "bucket" else bool(wanting_stages.get(i.asset))
                for i in stage.inputs
            ) or bucket in (touched or {}).get(stage.name, ())
            if upstream or is_current(replace(of, bucket=None if bucket < 0 else bucket)) is None:
                wanting.append(bucket)
            else:
                current.append(bucket)
        if wanting:
            wanting_stages[stage.name] = set(wanting)
        out.append(StageState(stage.name, tuple(current), tuple(wanting)))
    return out


def runs(names: Collection[str]) -> list[tuple[list[str], bool]]:
    """Cut stages into runs, in order: (names, are they on the grid). A job holds one partitions definition only.

    Assets without partitions come first, then the landing, the grid in one run, and the reports that read it.
    """
    out: list[tuple[list[str], bool]] = [([s.name], False) for s in FUNNEL if s.name in names and s.by == "site"]
    group: list[str] = []
    for stage in FUNNEL:
        if stage.name not in names or stage.by == "site":
            continue
        if stage.on_grid:
            group.append(stage.name)
            continue
        if group and any(i.asset in group for i in stage.inputs):
            out.append((group, True))
            group = []
        out.append(([stage.name], False))
    if group:
        out.append((group, True))
    return out


def span(states: Collection[StageState]) -> tuple[int, int]:
    """The smallest range that holds every bucket to be made; a current one inside is skipped by its stage."""
    wanting = [b for s in states for b in s.wanting]
    return min(wanting), max(wanting)
