"""The sensor of new crawls: one run at a time, in order, asked for until the store says that nothing is wanting."""

import gzip
import json
import os
import time
from pathlib import Path

import dagster as dg
import pytest

from definitions import build_definitions
from gristmill.blobs import open_blobs
from gristmill.funnel import FUNNEL, Plan
from gristmill.plan.stale import runs
from gristmill.registry import Registry
from gristmill.runner import run_funnel, run_stage
from gristmill.store import Store
from partitions import grid as grids
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

    def age():
        for file in (tmp_path / "landing").rglob("*"):
            if file.is_file():
                os.utime(file, (time.time() - 3600, time.time() - 3600))

    land.age = age
    defs = build_definitions(pipeline)
    sensor = defs.resolve_sensor_def("new_crawls")
    site = pipeline.site
    places = Places(store=site.store, landing=site.landing, holdout=site.holdout, models=site.models)
    with dg.DagsterInstance.ephemeral() as instance:

        def tick():
            context = dg.build_sensor_context(instance=instance, cursor=tick.cursor, resources={"places": places},
                                              definitions=defs)
            result = sensor.evaluate_tick(context)
            tick.cursor = result.cursor
            return result

        def forget():
            tick.cursor = None

        tick.cursor, tick.forget, tick.instance, tick.defs = None, forget, instance, defs

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
    for _ in range(30):
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
    whole = runs([s.name for s in FUNNEL])
    assert asked == ["funnel_job" if on_grid else f"{names[0]}_job" for names, on_grid in whole]
    assert asked[:3] == ["eval_holdout_job", "landing_job", "funnel_job"]
    assert tick().run_requests == []


def test_a_listing_at_rest_is_registered_and_run_by_the_first_tick_that_sees_it(watched):
    land, tick, _ = watched
    land(CRAWL, "a.warc.gz")
    land.age()
    asked = tick()
    assert [r.job_name for r in asked.run_requests] == ["eval_holdout_job"]
    assert [p for r in asked.dynamic_partitions_requests for p in r.partition_keys] == [CRAWL]


def test_a_file_still_being_copied_in_holds_a_listing_up_however_old_the_listing_is(watched):
    land, tick, pipe = watched
    land(CRAWL, "a.warc.gz")
    land.age()
    file = next(Path(pipe.site.landing).rglob("a.warc.gz"))
    for n in range(3):  # it grows between ticks
        file.write_bytes(b"x" * (n + 2))
        assert tick().run_requests == []
    assert tick().run_requests


def test_a_restarted_sensor_without_its_cursor_asks_for_the_same_run(watched):
    land, tick, _ = watched
    land(CRAWL, "a.warc.gz")
    land.age()
    first = tick()
    tick.forget()
    again = tick()
    assert [r.run_key for r in first.run_requests] == [r.run_key for r in again.run_requests]


def test_while_a_run_of_the_crawl_goes_on_nothing_is_asked_and_what_it_left_is_asked_anew(watched):
    land, tick, pipe = watched
    land(CRAWL, "a.warc.gz")
    land.age()
    store, plan = Store(pipe.site.store), Plan(pipe.params)
    first = tick().run_requests[0]
    list(run_funnel(store, plan, pipe.site, CRAWL, stages=["eval_holdout", "landing"], workers=1))
    whole = tick().run_requests[0]
    tick.instance.add_dynamic_partitions(grids.CRAWL, [CRAWL])
    run = tick.instance.create_run_for_job(
        tick.defs.resolve_job_def("funnel_job"), status=dg.DagsterRunStatus.STARTED, tags=whole.tags)
    assert tick().run_requests == []
    list(run_stage(store, plan, pipe.site, FUNNEL[2], CRAWL, buckets=[0, 1]))  # it got this far, and its machine died
    assert tick().run_requests == []
    tick.instance.report_run_failed(run)
    rest = tick().run_requests[0]
    assert rest.job_name == "funnel_job"
    assert len({first.run_key, whole.run_key, rest.run_key}) == 3


def test_crawls_go_in_the_order_of_their_names_and_one_at_a_time(watched):
    land, tick, pipe = watched
    for crawl in ("OWN-B", "OWN-A"):
        land(crawl, "a.warc.gz")
    land.age()
    store, plan = Store(pipe.site.store), Plan(pipe.params)
    assert tick().dynamic_partitions_requests[0].partition_keys == ["OWN-A"]
    list(run_funnel(store, plan, pipe.site, "OWN-A", workers=1))
    asked = tick()
    assert asked.dynamic_partitions_requests[0].partition_keys == ["OWN-B"]
    assert Registry(store).ordinals() == {"OWN-A": 0, "OWN-B": 1}


def test_a_finished_crawl_whose_listing_grew_is_taken_up_again(watched):
    land, tick, pipe = watched
    land(CRAWL, "a.warc.gz")
    land.age()
    tick()
    list(run_funnel(Store(pipe.site.store), Plan(pipe.params), pipe.site, CRAWL, workers=1))
    assert tick().run_requests == []
    assert tick().run_requests == []
    land(CRAWL, "a.warc.gz", "b.warc.gz")
    assert tick().run_requests == []
    seen = json.loads(tick.cursor)["crawls"][CRAWL]
    assert "done" not in seen


def test_with_its_time_up_a_tick_stops_and_the_next_goes_on(watched, monkeypatch):
    land, tick, pipe = watched
    for n in range(3):
        land(f"OWN-{n}", "a.warc.gz")
    land.age()
    for n in range(3):
        Registry(Store(pipe.site.store)).register(f"OWN-{n}")
        list(run_funnel(Store(pipe.site.store), Plan(pipe.params), pipe.site, f"OWN-{n}", workers=1))
    monkeypatch.setattr("sensors.landing.BUDGET_S", 0.0)  # a tick has time for the crawl that it has begun
    done = []
    for _ in range(3):
        assert tick().run_requests == []
        done.append(sum("done" in e for e in json.loads(tick.cursor)["crawls"].values()))
    assert done == [1, 2, 3]


def test_a_listing_with_files_missing_waits_and_does_not_hold_up_others(watched):
    land, tick, _ = watched
    land("OWN-A", "a.warc.gz")
    land("OWN-B", "b.warc.gz")
    tick()
    next(Path(watched[2].site.landing).rglob("a.warc.gz")).unlink()
    tick()
    asked = tick()
    assert asked.run_requests
    assert asked.dynamic_partitions_requests[0].partition_keys == ["OWN-B"]


@pytest.mark.service
def test_a_listing_in_a_bucket_is_registered_and_asked_for(pipeline, toys, s3_server, monkeypatch):  # noqa: F811
    for name, value in s3_server.environment().items():
        monkeypatch.setenv(name, value)
    root = f"s3://mill/{time.time_ns()}"
    landing = open_blobs(root)
    landing.put(f"crawl-data/{CRAWL}/segments/0/warc/a.warc.gz", b"x")
    landing.put(f"crawl-data/{CRAWL}/warc.paths.gz",
                gzip.compress(f"crawl-data/{CRAWL}/segments/0/warc/a.warc.gz".encode(), mtime=0))
    defs = build_definitions(pipeline)
    site = pipeline.site
    places = Places(store=site.store, landing=root, holdout=site.holdout, models=site.models)
    cursor = None
    with dg.DagsterInstance.ephemeral() as instance:
        asked = []
        for _ in range(2):
            context = dg.build_sensor_context(instance=instance, cursor=cursor, resources={"places": places},
                                              definitions=defs)
            result = defs.resolve_sensor_def("new_crawls").evaluate_tick(context)
            cursor = result.cursor
            asked.append([r.job_name for r in result.run_requests])
    assert asked == [[], ["eval_holdout_job"]]  # written a moment ago; the same in the next tick
    assert result.dynamic_partitions_requests[0].partition_keys == [CRAWL]
