"""The code location: one run takes a crawl through the grid, each partition with its own yield and verdict."""

import dagster as dg
import pytest

import launch
from checks.partitioned import latest_materializations
from definitions import build_definitions
from gristmill.funnel import FUNNEL, Plan
from gristmill.observe.progress import Silent
from gristmill.plan.stale import runs, survey
from gristmill.store import Store
from partitions.grid import range_tags
from tests.assets.conftest import CRAWL

GRID = [s.name for s in FUNNEL if s.on_grid]
KNOBS = {"config": {"workers": 1, "force": False}}


def run_grid(pipeline, instance, names=GRID, first=0, last=3):
    launch.execute(build_definitions(pipeline), instance, "funnel_job", tags=range_tags(CRAWL, first, last),
                   assets=names, ops=dict.fromkeys(names, KNOBS))


def run_landing(pipeline, instance):
    defs = build_definitions(pipeline)
    launch.execute(defs, instance, "eval_holdout_job", tags={}, ops={"eval_holdout": KNOBS})
    launch.execute(defs, instance, "landing_job", tags={}, partition=CRAWL, ops={"landing": KNOBS})


@pytest.fixture
def landed(pipeline, instance, toys):
    run_landing(pipeline, instance)
    toys.clear()
    return pipeline


def test_definitions_load_and_say_what_every_asset_is(pipeline):
    defs = build_definitions(pipeline)
    graph = defs.resolve_asset_graph()
    for stage in FUNNEL:
        node = graph.get(dg.AssetKey(stage.name))
        assert node.group_name == stage.group
        assert node.description == stage.summary
        assert node.code_version == Plan(pipeline.params).fingerprints[stage.name]
        assert node.owners
    assert {s.group for s in FUNNEL} == {"acquire", "extract", "deduplicate", "quality", "safety", "decontaminate",
                                         "semantic", "tokens", "release", "observe"}


def test_one_run_takes_a_crawl_through_the_grid_in_topological_order(landed, instance, toys):
    run_grid(landed, instance)
    assert sorted(toys) == sorted((n, b) for n in GRID for b in range(4))
    position = {n: [i for i, (m, _) in enumerate(toys) if m == n] for n in GRID}
    for stage in FUNNEL:
        for source in stage.inputs:
            if stage.on_grid and source.asset in position:
                assert max(position[source.asset]) < min(position[stage.name]), (source.asset, stage.name)
    assert len(instance.get_runs()) == 3


def test_every_partition_has_its_own_yield_and_digest(landed, instance):
    run_grid(landed, instance)
    keys = [f"{CRAWL}|{b:04d}" for b in range(4)]
    newest = latest_materializations(instance, dg.AssetKey("near"), keys)
    retention = {k: r.asset_materialization.metadata["retention"].value for k, r in newest.items()}
    assert retention == {keys[0]: 0.9, keys[1]: 0.9, keys[2]: 0.9, keys[3]: 0.5}
    digests = {r.asset_materialization.metadata["content_digest"].value for r in newest.values()}
    assert len(digests) == 4
    store, plan = Store(landed.site.store), Plan(landed.params)
    from gristmill.store import Key

    manifest = store.require(Key("near", plan.fingerprints["near"], CRAWL, 3))
    assert newest[keys[3]].asset_materialization.metadata["content_digest"].value == manifest.digest


def test_a_range_runs_checks_are_stored_by_partition(landed, instance):
    run_grid(landed, instance)
    events = [
        e.dagster_event.event_specific_data
        for run in instance.get_runs()
        for e in instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION)
    ]
    near = {e.partition: e.passed for e in events if e.asset_key == dg.AssetKey("near") and e.partition}
    assert near == {f"{CRAWL}|0000": True, f"{CRAWL}|0001": True, f"{CRAWL}|0002": True, f"{CRAWL}|0003": False}
    assert all(e.target_materialization_data is not None for e in events if e.partition)


def test_a_single_partition_runs_alone(landed, instance, toys):
    run_grid(landed, instance)
    launch.execute(build_definitions(landed), instance, "funnel_job", tags={}, partition=f"{CRAWL}|0002",
                   assets=["language"], ops={"language": {"config": {"workers": 1, "force": True}}})
    assert toys[-1] == ("language", 2)


def test_what_is_current_is_not_made_again(landed, instance, toys):
    run_grid(landed, instance)
    toys.clear()
    run_grid(landed, instance)
    assert toys == []
    states = survey(Store(landed.site.store), Plan(landed.params), landed.site, CRAWL)
    assert all(not s.wanting for s in states if s.stage in GRID)


def test_a_changed_parameter_wants_its_stage_and_those_below_and_no_others(landed, instance):
    run_grid(landed, instance)
    params = landed.params
    changed = params.model_copy(update={"quality": params.quality.model_copy(update={"first_chars": 7})})
    store, plan = Store(landed.site.store), Plan(changed)
    wanting = {s.stage for s in survey(store, plan, landed.site, CRAWL) if s.wanting}
    assert wanting == {"quality", *plan.downstream("quality"), "duplicate_pairs", "contamination_report", "yields"}


def test_a_rebuilt_input_of_the_same_bytes_stops_there(landed, instance, toys):
    run_grid(landed, instance)
    launch.execute(build_definitions(landed), instance, "funnel_job", tags=range_tags(CRAWL, 0, 3),
                   assets=["text"], ops={"text": {"config": {"workers": 1, "force": True}}})
    states = survey(Store(landed.site.store), Plan(landed.params), landed.site, CRAWL)
    assert all(not s.wanting for s in states if s.stage in GRID)


def test_a_run_of_a_dead_process_is_buried(landed, instance):
    defs = build_definitions(landed)
    job = defs.resolve_job_def("funnel_job")
    import socket

    run = instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED,
                                      tags={launch.PID_TAG: "999999@1", launch.HOST_TAG: socket.gethostname()})
    alive = instance.create_run_for_job(
        job, status=dg.DagsterRunStatus.STARTED,
        tags={launch.PID_TAG: f"1@{launch._start_time(1)}", launch.HOST_TAG: socket.gethostname()})
    assert launch.bury_the_dead(instance) == [run.run_id]
    assert instance.get_run_by_id(run.run_id).status == dg.DagsterRunStatus.FAILURE
    assert instance.get_run_by_id(alive.run_id).status == dg.DagsterRunStatus.STARTED


def test_groups_keep_grid_stages_in_one_run():
    groups = runs([s.name for s in FUNNEL])
    assert [g for g in groups if g[1]] == [(GRID, True)]
    assert [g[0][0] for g in groups] == ["eval_holdout", "landing", GRID[0], "duplicate_pairs", "semantic_pairs",
                                        "contamination_report", "yields", "crawl_report"]


def test_reporters_are_told(landed, instance):
    told = []

    class Told(Silent):
        def partition(self, stage, made):
            told.append((stage, made.bucket))

    launch.execute(build_definitions(landed, reporter=Told()), instance, "funnel_job", tags=range_tags(CRAWL, 0, 1),
                   assets=["crawl_slices"], ops={"crawl_slices": KNOBS})
    assert told == [("crawl_slices", 0), ("crawl_slices", 1)]
