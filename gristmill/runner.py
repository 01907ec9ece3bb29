"""Running stages without Dagster: one stage over the buckets of a crawl, in processes.

Belongs here: the loop that the assets call, and that tests and benchmarks use bare. Does not belong here: Dagster's
events (``assets/``) and what a stage computes.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from gristmill.frozen import require_buckets
from gristmill.funnel import BY_NAME, FUNNEL, Plan, Stage
from gristmill.params import PipelineParams, SiteConfig
from gristmill.partition import Made, Partition, make
from gristmill.registry import Registry
from gristmill.store import Store
from gristmill.workers import never, run_tasks


@dataclass(frozen=True)
class Task:
    """One partition to make; picklable."""

    store: Store
    params: PipelineParams
    site: SiteConfig
    stage: str
    crawl: str | None
    bucket: int | None
    workers: int = 1
    force: bool = False

    def __str__(self) -> str:
        return f"{self.stage}[{self.crawl}|{self.bucket if self.bucket is None else format(self.bucket, '04d')}]"


def make_task(task: Task, progress: Callable[[int, int], None] = never) -> Made:
    """Make a task's partition in this process."""
    return make(partition_of(task, progress), force=task.force)


def partition_of(task: Task, progress: Callable[[int, int], None] = never) -> Partition:
    """The partition that a task names, with the place where its crawl landed."""
    site = task.site
    if task.crawl is not None and BY_NAME[task.stage].group == "acquire":
        landing = Registry(task.store).landing(task.crawl)
        site = site.model_copy(update={"landing": landing}) if landing else site
    return Partition(
        store=task.store, plan=Plan(task.params), stage=BY_NAME[task.stage], crawl=task.crawl, bucket=task.bucket,
        site=site, workers=task.workers, progress=progress,
    )


def run_stage(store: Store, plan: Plan, site: SiteConfig, stage: Stage, crawl: str | None, *,
              buckets: Sequence[int] | None = None, workers: int = 1, force: bool = False,
              progress: Callable[[int, int], None] = never) -> Iterator[Made]:
    """Make a stage's partitions of a crawl (all, or ``buckets``), yielding each as it ends.

    With ``workers`` 0 everything happens in this process, one after the other.

    Raises:
        ParameterError: the store's grid has another number of host buckets than the plan's.
    """
    require_buckets(store, plan)
    if not stage.on_grid:
        yield make_task(Task(store, plan.params, site, stage.name, None if stage.by == "site" else crawl, None, workers,
                             force), progress)
        return
    chosen = list(range(plan.buckets)) if buckets is None else sorted(buckets)
    tasks = [Task(store, plan.params, site, stage.name, crawl, b, max(workers, 1), force) for b in chosen]
    if stage.own_pool or workers <= 1:
        # With one worker the parent works: a second process would only wait for it.
        for task in tasks:
            yield make_task(task, progress)
        return
    if stage.first_alone and tasks and tasks[0].bucket == 0:
        yield make_task(tasks[0], progress)
        tasks = tasks[1:]
    for _, made in run_tasks(make_task, tasks, workers):
        yield made


def run_funnel(store: Store, plan: Plan, site: SiteConfig, crawl: str, *, workers: int = 1,
               stages: Sequence[str] | None = None) -> Iterator[tuple[Stage, Made]]:
    """Take a crawl through all stages (or the named ones), in order."""
    for stage in FUNNEL:
        if stages is None or stage.name in stages:
            for made in run_stage(store, plan, site, stage, crawl, workers=workers):
                yield stage, made
