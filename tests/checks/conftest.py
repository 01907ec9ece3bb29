"""A site with a past: a small demo taken through the real funnel, and crawls before it that went the same way.

The crawl under test is the demo's second. Between its two crawls stand others whose reports are the second's own with
sampling noise: what a site looks like after some ordinary months.
"""

import json
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np
import pytest

import launch
from definitions import build_definitions
from gristmill.demo.make import make_demo
from gristmill.fingerprint import canonical_json
from gristmill.funnel import BY_NAME, Plan
from gristmill.observe.paging.problem import Page, pages
from gristmill.params import Pipeline, read_pipeline
from gristmill.partition import Partition
from gristmill.registry import Registry
from gristmill.runner import run_funnel
from gristmill.store import Key, Store
from partitions import grid as grids
from sensors.pages import collect

FIRST, NOW = "CC-DEMO-2026-01", "CC-DEMO-2026-05"
MONTHS = ("CC-DEMO-2026-02", "CC-DEMO-2026-03", "CC-DEMO-2026-04")
OBSERVE = {"min_docs": 15}


def with_params(pipeline: Pipeline, **stages: Mapping[str, Any]) -> Pipeline:
    """A site's parameters with some changed, as a person's edit of the file would."""
    params = pipeline.params
    changed = {n: getattr(params, n).model_copy(update=dict(fields)) for n, fields in stages.items()}
    return pipeline.model_copy(update={"params": params.model_copy(update=changed)})


def noisy(report: dict[str, Any], crawl: str, rng: np.random.Generator) -> dict[str, Any]:
    """The same month again: what every bucket keeps, drawn anew."""
    out = json.loads(json.dumps(report)) | {"crawl": crawl}
    for held in out["stages"].values():
        for cell in held["buckets"].values():
            if cell[0]:
                share = cell[1] / cell[0]
                cell[1] = int(rng.binomial(cell[0], share))
                cell[3] = int(cell[3] * (cell[1] / cell[0] / share if share else 1))
    return out


@dataclass
class Site:
    """A copy of the site, whose current crawl a test may take again with a fault."""

    pipeline: Pipeline
    instance: dg.DagsterInstance
    failed: dict[tuple[str, str], Any] = field(default_factory=dict)
    runs: int = 0

    @property
    def store(self) -> Store:
        return Store(self.pipeline.site.store)

    def take(self, names: list[str], pipeline: Pipeline | None = None) -> bool:
        """One Dagster run of some stages over all buckets of the current crawl; did it succeed."""
        used = pipeline or self.pipeline
        self.runs += 1
        defs = build_definitions(used)
        knobs = {"config": {"workers": 1, "force": True}}
        try:
            launch.execute(defs, self.instance, "funnel_job", assets=names, ops=dict.fromkeys(names, knobs),
                           tags=grids.range_tags(NOW, 0, used.params.grid.host_buckets - 1))
        except dg.DagsterError:
            return False
        return True

    def verdicts(self) -> dict[tuple[str, str], dg.AssetCheckEvaluation]:
        """(asset, check) -> the run's own verdict, of the last run."""
        return {(e.asset_key.to_user_string(), e.check_name): e for e in self._events() if e.partition is None}

    def partitions(self, asset: str, check: str) -> dict[str, dg.AssetCheckEvaluation]:
        """Partition -> its verdict, of the last run."""
        return {e.partition: e for e in self._events()
                if e.partition and (e.asset_key.to_user_string(), e.check_name) == (asset, check)}

    def _events(self) -> list[dg.AssetCheckEvaluation]:
        run = self.instance.get_runs(limit=1)[0]
        logs = self.instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION)
        return [e.dagster_event.event_specific_data for e in logs]

    def out(self) -> set[tuple[str, str]]:
        """(asset, check) that did not pass."""
        return {k for k, e in self.verdicts().items() if not e.passed}

    def pages(self) -> list[Page]:
        """What would be told of everything that this instance has run."""
        return pages(collect(self.instance, None).problems, "http://ui")


@pytest.fixture(scope="session")
def history(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """The site after some ordinary months and its current crawl, which went well."""
    folder = tmp_path_factory.mktemp("site")
    make_demo(folder, 60)
    pipeline = with_params(read_pipeline(folder / "pipeline.yaml"), observe=OBSERVE)
    store, plan, site = Store(pipeline.site.store), Plan(pipeline.params), pipeline.site
    list(run_funnel(store, plan, site, FIRST))
    for month in MONTHS:
        Registry(store).register(month)
    list(run_funnel(store, plan, site, NOW))
    key = Key("crawl_report", plan.fingerprints["crawl_report"], NOW)
    report = json.loads(store.read_file(key, store.require(key).role("data")[0]))
    rng = np.random.default_rng(6)
    for month in MONTHS:
        part = Partition(store, plan, replace(BY_NAME["crawl_report"], inputs=()), month, None, site)
        part.write_bytes(canonical_json(noisy(report, month, rng)), role="data", suffix=".json")
        part.commit(time.time())
    return pipeline


@pytest.fixture
def site(history: Pipeline, tmp_path: Path) -> Iterator[Site]:
    """A copy for one test, with a Dagster instance of its own."""
    shutil.copytree(history.site.store, tmp_path / "store")
    mine = history.model_copy(update={"site": history.site.model_copy(update={"store": str(tmp_path / "store")})})
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("crawl", [FIRST, *MONTHS, NOW])
        yield Site(mine, instance)
