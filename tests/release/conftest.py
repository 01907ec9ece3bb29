import datetime as dt
import shutil
from pathlib import Path

import pytest

from gristmill.mixture import recipe as recipes
from gristmill.store import Store
from tests.release.world import Doc, World, many, some_text

DEMO = {
    "seed": 3,
    "sources": {"hi": {"where": "ensemble_percentile >= 0.5"}, "lo": {"where": "ensemble_percentile < 0.5"}},
    "phases": [
        {"name": "main", "tokens": 20_000, "seq_len": 64, "samples_per_step": 8, "weights": {"hi": "0.7", "lo": "0.3"}}
    ],
}


@pytest.fixture
def recipe() -> recipes.Recipe:
    return recipes.parse(DEMO)


def standard(root: Path) -> World:
    """Two crawls of plain documents, and one document for each rule that a manifest must apply."""
    world = World.make(root)
    special = [
        Doc("https://optout.org/1", some_text(9001), robots="retro_optout", percentile=0.9),
        Doc("https://held.org/1", some_text(9002), holdout="web_sample", percentile=0.9),
        Doc("https://leak.org/1", some_text(9003), benchmark="gsm8k", percentile=0.1),
        Doc("https://toxic.org/1", some_text(9004), toxicity=0.9, percentile=0.1),
        Doc("https://pair.org/first", some_text(9005), robots="retro_optout", percentile=0.8, day="2026-01-01"),
        Doc("https://pair.org/second", some_text(9006), of="https://pair.org/first", day="2026-01-02"),
        Doc("https://late.org/1", some_text(9007), day="2026-08-01", percentile=0.7),
    ]
    world.ready("A", many(80) + special)
    world.ready("B", many(60, start=70))
    return world


@pytest.fixture(scope="session")
def shared_world(tmp_path_factory) -> World:
    """Read it; do not change it."""
    return standard(tmp_path_factory.mktemp("shared-world"))


@pytest.fixture
def world(shared_world, tmp_path) -> World:
    """A copy of it to change."""
    shutil.copytree(shared_world.site.store, tmp_path / "store")
    site = shared_world.site.model_copy(update={"store": str(tmp_path / "store")})
    return World(Store(site.store), shared_world.plan, site, dict(shared_world.docs))


TODAY = dt.date(2026, 11, 30)
