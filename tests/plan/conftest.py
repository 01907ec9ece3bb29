"""A small real crawl, taken through the funnel bare once a session, and copies of its store to change."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from gristmill.demo.make import make_demo
from gristmill.funnel import Plan
from gristmill.params import Pipeline, PipelineParams, SiteConfig, read_pipeline
from gristmill.registry import Registry
from gristmill.runner import run_funnel
from gristmill.store import Key, Store


@dataclass
class Small:
    """A site with one crawl."""

    pipeline: Pipeline
    crawl: str

    @property
    def store(self) -> Store:
        return Store(self.pipeline.site.store)

    @property
    def plan(self) -> Plan:
        return Plan(self.pipeline.params)

    @property
    def site(self) -> SiteConfig:
        return self.pipeline.site

    def key(self, asset: str, bucket: int | None) -> Key:
        return Key(asset, self.plan.fingerprints[asset], self.crawl, bucket)

    def take(self, params: PipelineParams | None = None) -> set[tuple[str, int | None]]:
        """Run the funnel; which (stage, bucket) were computed."""
        plan = Plan(params or self.pipeline.params)
        made = run_funnel(self.store, plan, self.site, self.crawl, workers=1)
        return {(stage.name, m.bucket) for stage, m in made if m.computed}

    def changed(self, **fields: dict[str, object]) -> Pipeline:
        """The same site with other parameters: ``changed(quality={"first_chars": 900})``."""
        data = self.pipeline.params.model_dump()
        for section, values in fields.items():
            data[section] |= values
        return self.pipeline.model_copy(update={"params": PipelineParams.model_validate(data)})


@pytest.fixture(scope="session")
def taken_once(tmp_path_factory) -> Small:
    """Read it; do not change it."""
    folder = tmp_path_factory.mktemp("small")
    made = make_demo(folder, pages=60)
    small = Small(read_pipeline(folder / "pipeline.yaml"), sorted(made.crawls)[0])
    Registry(small.store).register(small.crawl)
    small.take()
    return small


@pytest.fixture
def small(taken_once, tmp_path) -> Small:
    """A copy of it to change."""
    shutil.copytree(taken_once.site.store, tmp_path / "store")
    site = taken_once.site.model_copy(update={"store": str(tmp_path / "store"), "recipe": None})
    return Small(taken_once.pipeline.model_copy(update={"site": site}), taken_once.crawl)


@pytest.fixture
def elsewhere(tmp_path) -> Path:
    return tmp_path / "archive"
