"""Upkeep as a person calls it, and as Dagster's schedules do: what is done, printed and told."""

import datetime as dt
import json

import dagster as dg
import pytest
import yaml

from definitions import build_definitions
from gristmill.acquire.robots_fetch import Answer
from gristmill.cli import main
from gristmill.observe.paging.ledger import Ledger
from gristmill.params import read_pipeline
from gristmill.release.expiring import expiring, problems
from gristmill.release.policy import Licence, put_licence
from gristmill.store import Store
from resources.places import Places
from tests.acquire.test_robots_fetch import site as web_site
from tests.observe.receivers import http_receiver
from tests.release.world import Doc, World, some_text


@pytest.fixture
def receiver():
    with http_receiver() as one:
        yield one


@pytest.fixture
def home(tmp_path, receiver):
    """A parameter file with paging; calls of the command line on it."""

    def write(**more):
        file = tmp_path / "pipeline.yaml"
        file.write_text(yaml.safe_dump({
            "site": {"paging": {"targets": [{"kind": "webhook", "url": receiver.url}], "group_seconds": 0}, **more},
            "params": {"grid": {"host_buckets": 2}}}))
        return file

    def call(*arguments):
        return main([*arguments, "--pipeline", str(tmp_path / "pipeline.yaml")])

    write()
    call.write, call.folder = write, tmp_path
    return call


def test_robots_sweep_closes_pages_lists_and_tells_once(home, receiver, capsys):
    with web_site({"/robots.txt": (200, {}, b"User-agent: *\nDisallow: /private")}) as (at, _):
        home.write(robots={"allow_networks": ["127.0.0.0/8"], "user_agent": "mill-test/1", "every_hours": 1e-9})
        pipe = read_pipeline(home.folder / "pipeline.yaml")
        world = World.make(home.folder / "other")
        world = World(Store(pipe.site.store), world.plan.__class__(pipe.params), pipe.site)
        world.add("A", [Doc(f"{at}/private/1", some_text(1)), Doc(f"{at}/open", some_text(2))])
        world.run("A", ("catalogue_records",))
        assert home("robots", "sweep") == 0
        said = capsys.readouterr().out
        assert "1 hosts asked: 1 with new rules" in said
        assert f"1 of 2 pages closed since {dt.datetime.now(dt.UTC).date()}  {at}" in said
        assert home("robots", "list") == 0
        assert at in capsys.readouterr().out
        assert home("robots", "sweep") == 0
        assert "1 unchanged" in capsys.readouterr().out
    page, = receiver.bodies
    assert page["severity"] == "warning"
    assert page["problems"][0]["facts"] == {"closed": "1 of 2 pages"}
    assert page["problems"][0]["subject"] == ["opted_out", "127.0.0.1"]


def test_licences_that_end_are_told_when_the_bound_is_passed_and_at_each_step(home, receiver, capsys):
    assert home("licences", "put", "ACME-7", "--expires", "2026-12-31", "--scope", "training") == 0
    assert home("licences", "put", "FREE") == 0
    assert home("licences", "list") == 0
    assert "ACME-7" in capsys.readouterr().out
    days = [dt.date(2026, 10, 30) + dt.timedelta(days=n) for n in range(65)]
    told = []
    for day in days:
        assert home("licences", "sweep", "--today", day.isoformat()) == 0
        if len(receiver.got) > len(told):
            told.append(day)
    assert told == [dt.date(2026, 11, 1), dt.date(2026, 12, 1), dt.date(2026, 12, 24), dt.date(2026, 12, 30),
                    dt.date(2026, 12, 31)]  # 60, 30, 7 and 1 days before, and on the day
    assert [b["severity"] for b in receiver.bodies] == ["warning"] * 4 + ["error"]
    assert home("licences", "put", "ACME-7", "--expires", "2028-12-31") == 0  # renewed
    capsys.readouterr()
    assert home("licences", "sweep", "--today", "2027-01-01") == 0
    assert "none ends" in capsys.readouterr().out


def test_what_ends_is_found_soonest_first(tmp_path):
    store, today = Store(tmp_path), dt.date(2026, 12, 1)
    for name, days in (("late", 90), ("soon", 3), ("gone", -5), ("never", None)):
        put_licence(store, Licence(license_id=name, expires=None if days is None else today + dt.timedelta(days=days)))
    found = expiring(store, today, 60)
    assert [(e.license_id, e.days_left) for e in found] == [("gone", -5), ("soon", 3)]
    assert [e.told for e in found] == ["ended on 2026-11-26, 5 days ago", "ends on 2026-12-04, in 3 days"]
    assert [e.told for e in expiring(store, dt.date(2026, 11, 26), 9)] == ["ended on 2026-11-26, today",
                                                                          "ends on 2026-12-04, in 8 days"]
    assert [p.severity for p in problems(found, 60)] == ["error", "warning"]


@pytest.mark.parametrize("option", ["--expires", "--signed"])
def test_what_is_no_date_is_told_what_one_looks_like(home, option, capsys):
    with pytest.raises(SystemExit):
        home("licences", "put", "ACME-7", option, "2026-13-01")
    assert f"argument {option}: '2026-13-01' is no date, such as 2026-12-31" in capsys.readouterr().err


def test_pages_are_listed_sent_again_and_tested(home, receiver, capsys):
    assert home("pages") == 0
    receiver.answers = [500]
    home("licences", "put", "ACME-7", "--expires", "2026-12-31")
    home("licences", "sweep", "--today", "2026-12-30")
    capsys.readouterr()
    assert home("pages") == 1
    said = capsys.readouterr().out
    assert "waiting" in said
    assert "tried 1 times" in said
    assert "answered 500" in said
    pipe = read_pipeline(home.folder / "pipeline.yaml")
    Ledger(Store(pipe.site.store), pipe.site.paging, clock=lambda: 2e9).flush()  # its time has come
    assert home("pages", "list") == 0
    assert "told " in capsys.readouterr().out
    assert home("pages", "test") == 0
    assert receiver.bodies[-1]["title"] == "a test page: nothing is wrong"
    receiver.answers = [404]
    assert home("pages", "test") == 1
    assert "404" in capsys.readouterr().out


def test_where_nobody_is_paged_the_commands_say_so_or_do_their_work(tmp_path, capsys):
    file = tmp_path / "pipeline.yaml"
    file.write_text("params: {grid: {host_buckets: 2}}")
    assert main(["pages", "--pipeline", str(file)]) == 1
    assert "site.paging" in capsys.readouterr().err
    assert main(["licences", "sweep", "--pipeline", str(file)]) == 0
    assert main(["compact", "--pipeline", str(file)]) == 0
    assert "nothing to merge" in capsys.readouterr().out


def test_schedules_are_off_and_their_jobs_do_the_work(home, receiver, monkeypatch):
    pipe = read_pipeline(home.folder / "pipeline.yaml")
    put_licence(Store(pipe.site.store), Licence(license_id="ACME-7", expires=dt.datetime.now(dt.UTC).date()))
    monkeypatch.setattr("gristmill.acquire.robots_fetch.Http.read", lambda *_: Answer(404))
    defs = build_definitions(pipe)
    with dg.DagsterInstance.ephemeral() as instance:
        for name in ("robots_sweep", "licence_sweep", "band_index_compaction"):
            schedule = defs.resolve_schedule_def(f"{name}_schedule")
            assert schedule.default_status == dg.DefaultScheduleStatus.STOPPED
            assert defs.resolve_job_def(name).execute_in_process(instance=instance).success
        # The hourly check finds the same contract: that is told already.
        assert defs.resolve_job_def("standing_job").execute_in_process(instance=instance).success
        places = Places(store=pipe.site.store, landing=pipe.site.landing, holdout="", models="")
        defs.resolve_sensor_def("pages").evaluate_tick(
            dg.build_sensor_context(instance=instance, resources={"places": places}, definitions=defs))
    page, = receiver.bodies
    assert page["problems"][0]["subject"][:2] == ["licence", "ACME-7"]
    assert json.dumps(page)  # and nothing in it that JSON cannot hold
