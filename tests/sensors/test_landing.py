"""The sensor of new crawls: one run at a time, in order, asked for until the store says that nothing is wanting."""

import gzip

import dagster as dg
import pytest

from definitions import build_definitions
from gristmill.funnel import FUNNEL, Plan
from gristmill.runner import run_funnel
from gristmill.store import Store
from resources.places import Places
from tests.assets.conftest import pipeline, toys  # noqa: F401

CRAWL = "OWN-2026-07-15"


@pytest.fixture
def watched(pipeline, toys, tmp_path):  # noqa: F811
    def land(crawl, *names):
        folder = tmp_path / "landing" / "crawl-data" / crawl
        (folder / "segments/0/warc").mkdir(parents=True, exist_ok=True)
        paths = []
        for name in names:
            (folder / "segments/0/warc" / name).write_bytes(b"x")
            paths.append(f"crawl-data/{crawl}/segments/0/warc/{name}")
        (folder / "warc.paths.gz").write_bytes(gzip.compress("\n".join(paths).encode(), mtime=0))

    defs = build_definitions(pipeline)
    sensor = defs.resolve_sensor_def("new_crawls")
    site = pipeline.site
    places = Places(store=site.store, landing=site.landing, holdout=site.holdout, models=site.models)
    with dg.DagsterInstance.ephemeral() as instance:
        cursor = None

        def tick():
            nonlocal cursor
            context = dg.build_sensor_context(instance=instance, cursor=cursor, resources={"places": places},
                                              definitions=defs)
            result = sensor.evaluate_tick(context)
            cursor = result.cursor
            return result

        yield land, tick, pipeline


def test_nothing_landed_nothing_asked(watched):
    _, tick, _ = watched
    assert tick().run_requests == []


def test_a_new_crawl_waits_until_its_listing_is_stable_and_is_then_registered(watched):
    land, tick, _ = watched
    land(CRAWL, "a.warc.gz")
    assert tick().run_requests == []
    land(CRAWL, "a.warc.gz", "b.warc.gz")  # it grew while it was read
    assert tick().run_requests == []
    asked = tick()
    assert [r.job_name for r in asked.run_requests] == ["eval_holdout_job"]
    assert [p for r in asked.dynamic_partitions_requests for p in r.partition_keys] == [CRAWL]


def test_asking_again_asks_for_the_same_run(watched):
    land, tick, _ = watched
    land(CRAWL, "a.warc.gz")
    tick()
    first, second = tick(), tick()
    assert first.run_requests[0].run_key == second.run_requests[0].run_key


def test_runs_follow_in_order_until_nothing_is_wanting(watched):
    land, tick, pipe = watched
    land(CRAWL, "a.warc.gz")
    tick()
    store, plan = Store(pipe.site.store), Plan(pipe.params)
    asked = []
    for _ in range(12):
        requests = tick().run_requests
        if not requests:
            break
        request = requests[0]
        asked.append(request.job_name)
        if request.job_name == "funnel_job":
            assert request.tags["dagster/asset_partition_range_start"] == f"{CRAWL}|0000"
            assert request.tags["dagster/asset_partition_range_end"] == f"{CRAWL}|0003"
            names = [k.to_user_string() for k in request.asset_selection]
        else:
            names = [request.job_name.removesuffix("_job")]
        list(run_funnel(store, plan, pipe.site, CRAWL, stages=names, workers=1))
    reports = [f"{st.name}_job" for st in FUNNEL if st.by == "crawl" and st.name != "landing"]
    assert asked == ["eval_holdout_job", "landing_job", "funnel_job", *reports]
    assert tick().run_requests == []


def test_a_listing_with_files_missing_waits_and_does_not_hold_up_others(watched):
    land, tick, _ = watched
    land("OWN-A", "a.warc.gz")
    land("OWN-B", "b.warc.gz")
    tick()
    from pathlib import Path

    next(Path(watched[2].site.landing).rglob("a.warc.gz")).unlink()
    tick()
    asked = tick()
    assert asked.run_requests
    assert asked.dynamic_partitions_requests[0].partition_keys == ["OWN-B"]
