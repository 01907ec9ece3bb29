"""Failed runs and failed checks of real Dagster runs reach a receiver, once, with and without the daemon."""

import time

import dagster as dg
import pytest

from definitions import build_definitions
from gristmill.errors import LandingError
from gristmill.funnel import FUNNEL, Plan, Stage
from gristmill.observe.paging.config import Paging
from gristmill.observe.paging.ledger import Ledger
from gristmill.registry import Registry
from gristmill.runner import run_funnel
from gristmill.store import Store
from partitions import grid as grids
from resources.places import Places
from sensors.pages import pages_sensor, watching
from tests.assets.conftest import pipeline, toy_body, toys  # noqa: F401
from tests.observe.receivers import http_receiver

CRAWL = "CC-TOY-1"


@pytest.fixture
def receiver():
    with http_receiver() as one:
        yield one


def paging(receiver, **more):
    return Paging.model_validate({"targets": [{"kind": "webhook", "url": receiver.url}], "group_seconds": 0, **more})


@dg.asset(partitions_def=grids.grid(4), backfill_policy=dg.BackfillPolicy.single_run())
def kept(context) -> None:
    pass


def checked(state):
    """An asset on the grid and its check, as the house writes them: one verdict a partition, and the run's summary."""
    from checks.partitioned import Evaluation, report_evaluations

    @dg.asset_check(asset=kept, name="retention", partitions_def=kept.partitions_def)
    def _check(context):
        told = [Evaluation(str(k), state["ok"], {"retention": 0.1, "median": 0.6, "likely_causes": ["a typo"]})
                for k in context.partition_keys]
        report_evaluations(context, dg.AssetCheckKey(kept.key, "retention"), told, dg.AssetCheckSeverity.WARN, False)
        return dg.AssetCheckResult(passed=state["ok"], severity=dg.AssetCheckSeverity.WARN)

    job = dg.define_asset_job("job", selection=[kept], executor_def=dg.in_process_executor)
    return dg.Definitions(assets=[kept], asset_checks=[_check], jobs=[job])


def take(defs, instance, crawl=CRAWL):
    if not instance.has_dynamic_partition(grids.CRAWL, crawl):
        instance.add_dynamic_partitions(grids.CRAWL, [crawl])
    result = defs.resolve_job_def("job").execute_in_process(
        instance=instance, tags=grids.range_tags(crawl, 0, 3), raise_on_error=False)
    return result.run_id


class Daemon:
    """Ticks of the sensor, with its cursor; made anew it is a restarted daemon that lost it."""

    def __init__(self, instance, store, receiver):
        self.sensor = pages_sensor(paging(receiver))
        self.instance, self.cursor = instance, None
        self.places = Places(store=str(store), landing="", holdout="", models="")

    def tick(self):
        context = dg.build_sensor_context(instance=self.instance, cursor=self.cursor,
                                          resources={"places": self.places})
        result = self.sensor.evaluate_tick(context)
        self.cursor = context.cursor
        return result.skip_message


def test_a_check_that_fails_on_every_bucket_is_one_page_with_links_and_causes(tmp_path, receiver):
    state = {"ok": False}
    with dg.instance_for_test() as instance:
        daemon = Daemon(instance, tmp_path, receiver)
        run_id = take(checked(state), instance)
        daemon.tick()
        page, = receiver.bodies
        assert page["run_id"] == run_id
        assert page["severity"] == "warning"
        assert page["count"] == 4  # and not the run's summary beside them
        assert [p["subject"] for p in page["problems"]] == [
            ["check", "kept", "retention", f"{CRAWL}|{b:04d}"] for b in range(4)]
        assert page["problems"][3]["link"].endswith("/assets/kept?view=partitions&partition=CC-TOY-1%7C0003")
        assert page["likely_causes"] == ["a typo"]

        daemon.tick()
        Daemon(instance, tmp_path, receiver).tick()  # restarted, with its cursor lost
        take(checked(state), instance)  # the same buckets fail in the next run
        daemon.tick()
        assert len(receiver.got) == 1

        state["ok"] = True
        take(checked(state), instance)
        daemon.tick()
        state["ok"] = False
        take(checked(state), instance)
        daemon.tick()
        assert len(receiver.got) == 2  # it was well in between


def test_a_run_that_fails_is_paged_with_its_step_and_error(pipeline, toys, receiver, monkeypatch):  # noqa: F811
    Registry(Store(pipeline.site.store)).register(CRAWL)
    names = [s.name for s in FUNNEL]
    list(run_funnel(Store(pipeline.site.store), Plan(pipeline.params), pipeline.site, CRAWL,
                    stages=names[:names.index("language")]))

    def body(part):
        if part.stage.name == "language" and part.bucket == 2:
            raise LandingError("bucket 2 is not readable")
        toy_body(part)

    monkeypatch.setattr(Stage, "load", lambda self: body)
    site = pipeline.site.model_copy(update={"paging": paging(receiver)})
    defs = build_definitions(pipeline.model_copy(update={"site": site}))
    sensor = defs.resolve_sensor_def("pages")
    assert sensor.default_status == dg.DefaultSensorStatus.RUNNING
    with dg.instance_for_test() as instance:
        instance.add_dynamic_partitions(grids.CRAWL, [CRAWL])
        result = defs.resolve_job_def("funnel_job").execute_in_process(
            instance=instance, tags=grids.range_tags(CRAWL, 0, 3), raise_on_error=False,
            asset_selection=[dg.AssetKey("text"), dg.AssetKey("language")],
            run_config={"ops": {n: {"config": {"workers": 1}} for n in ("text", "language")}})
        assert not result.success
        places = Places(store=site.store, landing=site.landing, holdout=site.holdout, models=site.models)
        context = dg.build_sensor_context(instance=instance, resources={"places": places}, definitions=defs)
        sensor.evaluate_tick(context)
    page, = receiver.bodies
    assert page["severity"] == "error"
    failed = page["problems"][0]
    assert failed["subject"] == ["run", result.run_id]
    assert failed["facts"]["step"] == "language"
    assert failed["facts"]["partitions"] == f"{CRAWL}|0000 to {CRAWL}|0003"
    assert "bucket 2 is not readable" in failed["facts"]["error"]
    assert failed["link"].endswith(f"/runs/{result.run_id}")


def test_where_no_paging_is_configured_nothing_looks(pipeline):  # noqa: F811
    assert "pages" not in {s.name for s in build_definitions(pipeline).get_repository_def().sensor_defs}


def test_a_command_without_a_daemon_pages_while_it_runs_and_the_daemon_does_not_repeat_it(tmp_path, receiver):
    with dg.instance_for_test() as instance:
        daemon = Daemon(instance, tmp_path, receiver)
        with watching(instance, Store(tmp_path), paging(receiver), every_s=0.2):
            begun = time.monotonic()
            take(checked({"ok": False}), instance)
            while sum(b["count"] for b in receiver.bodies) < 4 and time.monotonic() - begun < 60:
                time.sleep(0.05)
            told = len(receiver.got)  # and the command has not ended yet
        daemon.tick()
        assert len(receiver.got) == told
        partitions = [p["subject"][3] for b in receiver.bodies for p in b["problems"]]
        assert sorted(partitions) == [f"{CRAWL}|{b:04d}" for b in range(4)]  # each once


def test_a_command_whose_run_fails_pages_and_raises_its_own_error(tmp_path, receiver):
    def command(instance):
        with watching(instance, Store(tmp_path), paging(receiver)):
            take(checked({"ok": False}), instance)
            raise LandingError("mine")

    with dg.instance_for_test() as instance, pytest.raises(LandingError, match="mine"):
        command(instance)
    assert [b["count"] for b in receiver.bodies] == [4]


def test_what_a_command_could_not_deliver_is_said_kept_and_delivered_by_the_daemon(tmp_path, receiver, capsys,
                                                                                  monkeypatch):
    monkeypatch.setattr("sensors.pages.RETRIES_S", ())
    monkeypatch.setattr("gristmill.observe.paging.ledger.FIRST_WAIT_S", 0.5)
    receiver.answers = [503]
    with dg.instance_for_test() as instance:
        with watching(instance, Store(tmp_path), paging(receiver)):
            take(checked({"ok": False}), instance)
        said = capsys.readouterr().err
        assert "4 problem(s) could not be told yet" in said
        assert "503" in said
        assert receiver.got == []
        kept_ones = Ledger(Store(tmp_path), paging(receiver)).pending()
        time.sleep(max(max(r.targets["webhook"]["next_at"] for r in kept_ones) - time.time(), 0) + 0.1)
        Daemon(instance, tmp_path, receiver).tick()
    assert [b["count"] for b in receiver.bodies] == [4]
