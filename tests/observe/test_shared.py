"""What two looks find is one problem: the same subject, whoever saw it first."""

import datetime as dt

from gristmill.observe.paging import shared
from gristmill.observe.paging.problem import pages
from gristmill.release.expiring import Expiring, problems

DAY = dt.date(2026, 6, 1)
AT = dt.datetime(2026, 6, 1, 12, tzinfo=dt.UTC).timestamp()


def test_a_contract_is_the_problem_that_the_nights_sweep_notes():
    found = shared.of_check("site", "contracts", {"expiring": {"ACME-7": "2026-06-20", "OLD": "2026-05-01"},
                                                  "within_days": 60}, AT, "run-1")
    night = problems([Expiring("ACME-7", dt.date(2026, 6, 20), 19), Expiring("OLD", dt.date(2026, 5, 1), -31)], 60)
    assert [(p.key, p.at, p.severity) for p in found] == [(p.key, p.at, p.severity) for p in night]


def test_a_host_that_opted_out_has_the_sweeps_subject_and_tombstones_their_own():
    found = shared.of_check("site", "opt_outs", {
        "version": "v7", "hosts": {"shut.example": 12}, "tombstones_since": True, "likely_causes": ["build"]}, AT, "r")
    swept = shared.opted_out("shut.example", AT - 9, "closed", {}, (), group="robots")
    assert [p.subject for p in found] == [swept.subject, ("check", "site", "opt_outs", "")]
    assert "v7 shows 12 pages of shut.example" in found[0].title
    assert found[0].causes == ("build",)


def test_hosts_of_one_sweep_share_a_page():
    hosts = [shared.opted_out(f"h{n}.example", AT, f"h{n}.example opted out", {}, (), group="robots")
             for n in range(30)]
    page, = pages(hosts, "http://ui")
    assert page.title == "h0.example opted out, and 29 more like it"
    assert page.plain()["not_listed"] == 10


def test_a_verdict_that_is_its_own_fact_stays_one():
    assert shared.of_check("site", "shards", {"problems": ["x"]}, AT, "r") is None
    assert shared.of_check("language", "contracts", {"expiring": {}}, AT, "r") is None
