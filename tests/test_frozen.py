"""The number of host buckets is recorded at first use of a store, and no other is accepted afterwards."""

import pytest

import launch
from definitions import build_definitions
from gristmill.cli import main
from gristmill.errors import ParameterError
from gristmill.frozen import GRID, recorded, require_buckets
from gristmill.funnel import BY_NAME, Plan
from gristmill.params import GridParams, Pipeline, PipelineParams, SiteConfig, read_pipeline
from gristmill.registry import Registry
from gristmill.runner import run_stage
from gristmill.store import Store
from tests.release.conftest import shared_world, world  # noqa: F401
from tests.release.test_versions import build


def plan(buckets: int) -> Plan:
    return Plan(PipelineParams(grid=GridParams(host_buckets=buckets)))


def test_the_first_use_decides(tmp_path):
    store = Store(tmp_path / "store")
    require_buckets(store, plan(8), record=False)
    assert recorded(store) is None
    require_buckets(store, plan(8))
    require_buckets(store, plan(8))
    assert recorded(store) == 8
    with pytest.raises(ParameterError, match=r"host_buckets is 9, and the store .* has 8.*set it back to 8"):
        require_buckets(store, plan(9))
    with pytest.raises(ParameterError, match="has 8"):
        next(run_stage(store, plan(9), SiteConfig(), BY_NAME["text"], "A"))
    assert recorded(store) == 8


def test_a_run_a_version_and_the_code_location_refuse_another(tmp_path, monkeypatch):
    pipeline = Pipeline(site=SiteConfig(store=str(tmp_path / "store"), recipe="recipe.yaml"), params=plan(9).params)
    store = Store(pipeline.site.store)
    require_buckets(store, plan(8))
    with pytest.raises(ParameterError, match="has 8"):
        launch.take(pipeline, "A", landing=None, workers=1, only=None, buckets=None, force=False)
    with pytest.raises(ParameterError, match="has 8"):
        launch.freeze(pipeline, "v1", [], None, False)
    with pytest.raises(ParameterError, match="has 8"):
        build_definitions(pipeline)
    assert [p for p, _ in store.blobs.list("registry")] == [GRID], "nothing was registered"


@pytest.mark.parametrize("command", [["yields"], ["bill"], ["profile"], ["status"], ["dashboard"], ["explain", "x"],
                                     ["plan", "stale"], ["plan", "change"], ["plan", "funnel"], ["robots", "list"],
                                     ["collect"], ["compact"], ["manifest", "retain", "1"]])
def test_a_command_that_looks_says_what_a_run_says(tmp_path, capsys, command):
    """It would find nothing in another grid, and show empty tables."""
    file, store = tmp_path / "pipeline.yaml", Store(tmp_path / "store")
    file.write_text("site: {store: store}\nparams: {grid: {host_buckets: 9}}\n")
    require_buckets(store, plan(8))
    Registry(store).register("C")
    assert main([*command, "--pipeline", str(file)]) == 1
    with pytest.raises(ParameterError) as refused:
        launch.take(read_pipeline(file), "A", landing=None, workers=1, only=None, buckets=None, force=False)
    assert capsys.readouterr().err == f"gristmill: {refused.value}\n"


def test_a_store_of_an_earlier_release_has_what_is_there(world):  # noqa: F811
    world.store.blobs.delete(GRID)
    buckets = world.plan.buckets
    with pytest.raises(ParameterError, match=f"has {buckets}"):  # by the highest bucket
        require_buckets(world.store, plan(buckets + 3))
    assert recorded(world.store) == buckets
    world.store.blobs.delete(GRID)
    build(world)
    for path, _ in list(world.store.blobs.list("text")):  # by its versions, where only low buckets are left
        if "host_bucket=0000" not in path:
            world.store.blobs.delete(path)
    require_buckets(world.store, world.plan)
    assert recorded(world.store) == buckets


def test_a_partial_run_of_an_earlier_release_says_how_many_there_are_at_least(tmp_path):
    store = Store(tmp_path / "store")
    store.blobs.put("crawl_slices/0123456789abcdef/crawl=A/host_bucket=0003/_manifest.json", b"{}")
    require_buckets(store, plan(4), record=False)
    require_buckets(store, plan(64), record=False)
    with pytest.raises(ParameterError, match="has 4"):
        require_buckets(store, plan(3), record=False)
    store.blobs.put(f"text/{plan(8).fingerprints['text']}/crawl=A/host_bucket=0001/_manifest.json", b"{}")
    require_buckets(store, plan(8))
    assert recorded(store) == 8
