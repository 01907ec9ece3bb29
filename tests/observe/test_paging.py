"""Pages reach each kind of target in its form, once, and are tried again until they do."""

import email
import email.policy
import json

import pytest
import yaml
from pydantic import ValidationError

from gristmill.errors import ParameterError
from gristmill.observe.paging.config import Paging
from gristmill.observe.paging.deliver import DeliveryError, deliver, redacted
from gristmill.observe.paging.ledger import LEASE, Ledger
from gristmill.observe.paging.problem import Page, Passed, Problem, check_subject
from gristmill.params import read_pipeline
from gristmill.store import Store
from tests.observe.receivers import http_receiver, smtp_receiver

UI = "http://mill.test:3000"


def failed(partition="CC-1|0007", *, asset="language", check="retention", at=100.0, run_id="run-1", severity="warning",
           **facts):
    return Problem(check_subject(asset, check, partition), severity, f"{asset} {partition}: check {check} failed", at,
                   run_id, facts, ("an encoding regression",))


def paging(*targets, **more):
    return Paging.model_validate({"targets": targets, "ui": UI, "group_seconds": 0, **more})


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def world(tmp_path):
    """A ledger with one webhook, its receiver and its clock; ``again()`` is the ledger of a restarted process."""
    with http_receiver() as receiver:
        clock, store = Clock(), Store(tmp_path / "store")

        def ledger(**more):
            targets = more.pop("targets", [{"kind": "webhook", "url": receiver.url}])
            return Ledger(store, paging(*targets, **more), clock=clock)

        yield receiver, clock, ledger


# -- forms ---------------------------------------------------------------------------------------------------------


def test_the_generic_form_links_the_partition_and_names_likely_causes():
    with http_receiver() as receiver:
        target = paging({"kind": "webhook", "url": receiver.url, "token_env": "TOKEN"}).targets[0]
        page = Page((failed(retention=0.1, median=0.6),), UI)
        deliver(target, page, environment={"TOKEN": "s3cret"})
    (_, headers, body), = receiver.got
    assert headers["Authorization"] == "Bearer s3cret"
    assert body["problems"][0]["link"] == f"{UI}/assets/language?view=partitions&partition=CC-1%7C0007"
    assert body["problems"][0]["facts"] == {"retention": 0.1, "median": 0.6}
    assert body["likely_causes"] == ["an encoding regression"]
    assert body["link"] == f"{UI}/runs/run-1"
    assert body["severity"] == "warning"


def test_slacks_form_escapes_what_a_crawl_may_hold():
    with http_receiver() as receiver:
        target = paging({"kind": "slack", "url_env": "HOOK"}).targets[0]
        page = Page((failed(top_host="<!channel> <https://evil.test|here> & more"),), UI)
        deliver(target, page, environment={"HOOK": receiver.url + "/services/T0/B0/token"})
    (path, _, body), = receiver.got
    assert path == "/services/T0/B0/token"
    assert set(body) == {"text"}
    assert "<!channel>" not in body["text"]
    assert "<https://evil.test" not in body["text"]
    assert "&lt;!channel&gt;" in body["text"]
    assert f"<{UI}/assets/language?view=partitions&partition=CC-1%7C0007|" in body["text"]


def test_pagerdutys_form_makes_one_incident_of_a_run():
    with http_receiver() as receiver:
        target = paging({"kind": "pagerduty", "key_env": "KEY", "url": receiver.url}).targets[0]
        for partition in ("CC-1|0000", "CC-1|0001"):
            deliver(target, Page((failed(partition),), UI), environment={"KEY": "r" * 32})
    a, b = receiver.bodies
    assert a["routing_key"] == "r" * 32
    assert a["event_action"] == "trigger"
    assert a["dedup_key"] == b["dedup_key"]
    assert a["payload"]["severity"] in {"critical", "error", "warning", "info"}  # what Events API v2 takes
    assert len(a["payload"]["summary"]) <= 1024
    assert a["payload"]["custom_details"]["problems"][0]["likely_causes"]


def test_mail_reaches_an_smtp_server_and_a_crawled_line_break_adds_no_header():
    with smtp_receiver() as (port, got):
        target = paging({"kind": "email", "host": "127.0.0.1", "port": port, "security": "none",
                         "sender": "mill@example.test", "to": ["a@example.test", "b@example.test"]}).targets[0]
        problem = Problem(("check", "near", "retention", "C|0"), "error", "near\r\nBcc: c@example.test", 100.0, "run-1",
                          {"host": "bücher.example"})
        deliver(target, Page((problem,), UI))
    (sender, to, text), = got
    assert sender == "mill@example.test"
    assert to == ["a@example.test", "b@example.test"]
    message = email.message_from_bytes(text, policy=email.policy.default)
    assert message["Bcc"] is None
    assert "gristmill error" in message["Subject"]
    assert "bücher.example" in message.get_content()
    assert f"{UI}/assets/near?view=partitions&partition=C%7C0" in message.get_content()


def test_a_file_gets_one_json_line_a_page(tmp_path):
    target = paging({"kind": "file", "path": str(tmp_path / "x/pages.jsonl")}).targets[0]
    for partition in ("CC-1|0000", "CC-1|0001"):
        deliver(target, Page((failed(partition),), UI))
    lines = [json.loads(line) for line in (tmp_path / "x/pages.jsonl").read_text().splitlines()]
    assert [p["problems"][0]["subject"][3] for p in lines] == ["CC-1|0000", "CC-1|0001"]


# -- secrets -------------------------------------------------------------------------------------------------------


def test_an_error_names_the_target_and_never_the_secret():
    with http_receiver() as receiver:
        receiver.answers = [404, (302, {"Location": "http://127.0.0.1:9/elsewhere"})]
        target = paging({"kind": "slack", "url_env": "HOOK"}).targets[0]
        secret = {"HOOK": f"{receiver.url}/services/T0/topsecret"}
        for status in ("404", "302"):  # a redirect is not followed: it would carry the token elsewhere
            with pytest.raises(DeliveryError, match=status) as error:
                deliver(target, Page((failed(),), UI), environment=secret)
            assert "topsecret" not in str(error.value)
    with pytest.raises(DeliveryError) as error:  # nobody listens there now
        deliver(target, Page((failed(),), UI), environment=secret, timeout=2)
    assert "topsecret" not in str(error.value)
    assert redacted("https://user:pw@hooks.test:8443/a/b?token=x") == "https://hooks.test:8443/***"


def test_a_missing_secret_is_named_by_its_variable():
    target = paging({"kind": "slack", "url_env": "HOOK"}).targets[0]
    with pytest.raises(DeliveryError, match="HOOK is not set"):
        deliver(target, Page((failed(),), UI), environment={})


@pytest.mark.parametrize("target", [
    {"kind": "webhook", "url": "https://user:pw@hooks.test/x"},
    {"kind": "webhook", "url": "https://hooks.test/x?token=abc"},
    {"kind": "slack", "url_env": "https://hooks.slack.test/services/T0/B0/token"},
    {"kind": "slack", "url": "https://hooks.slack.test/services/T0/B0/token"},
    {"kind": "webhook"},
    {"kind": "email", "host": "mx", "sender": "a@b.test", "to": ["x@y.test\nBcc: z@y.test"]},
])
def test_a_configuration_that_holds_a_secret_or_no_address_is_refused(target):
    with pytest.raises(ValidationError):
        paging(target)


def test_the_parameter_file_places_a_files_target_beside_itself(tmp_path):
    file = tmp_path / "pipeline.yaml"
    file.write_text(yaml.safe_dump({"site": {"paging": {"targets": [{"kind": "file", "path": "pages.jsonl"}]}}}))
    assert read_pipeline(file).site.paging.targets[0].path == str(tmp_path / "pages.jsonl")
    file.write_text(yaml.safe_dump({"site": {"paging": {"targets": [{"kind": "pigeon"}]}}}))
    with pytest.raises(ParameterError, match="paging"):
        read_pipeline(file)


# -- the ledger ----------------------------------------------------------------------------------------------------


def test_a_runs_problems_are_one_page_and_another_runs_another(world):
    receiver, _, ledger = world
    one = ledger()
    one.note([failed(f"CC-1|{b:04d}") for b in range(64)] + [failed("CC-2|0000", run_id="run-2")])
    assert one.flush().delivered == 2
    first, second = receiver.bodies
    assert (first["count"], second["count"]) == (64, 1)
    assert first["not_listed"] == 64 - len(first["problems"])
    assert "64 partitions" in first["title"]


def test_a_problem_is_told_once_over_restarts_and_read_again(world):
    receiver, clock, ledger = world
    for _ in range(3):
        one = ledger()
        one.note([failed()])
        one.flush()
        clock.now += 60
    assert receiver.tried == 1
    ledger().note([failed(at=200.0, run_id="run-2")])  # still failing in the next run
    assert ledger().flush().delivered == 0


def test_it_is_told_again_after_it_passed_or_got_worse_or_a_day_went_by(world):
    receiver, _, ledger = world
    one = ledger()

    def told(problem, *passed):
        one.note([problem], passed)
        return one.flush().delivered

    assert told(failed(at=100)) == 1
    assert told(failed(at=300), Passed(check_subject("language", "retention", "CC-1|0007"), 200.0)) == 1
    assert told(failed(at=150)) == 0  # an old failure, read late
    assert told(failed(at=310, severity="error")) == 1
    assert told(failed(at=320, severity="error")) == 0
    assert told(failed(at=310 + 86_400, severity="error")) == 1
    assert len(receiver.got) == 4


def test_a_page_that_is_refused_is_kept_and_tried_again_later_and_later(world):
    receiver, clock, ledger = world
    receiver.answers = [500, 503, (429, {"Retry-After": "40"})]
    ledger().note([failed()])
    waits = []
    for _ in range(4):
        outcome = ledger().flush()  # each time as if the process had been restarted
        if outcome.delivered:
            break
        assert outcome.waiting == 1
        assert ledger().flush().failed == ()  # not due: not tried
        start = clock.now
        record, = ledger().pending()
        clock.now = record.targets["webhook"]["next_at"]
        waits.append(clock.now - start)
    assert waits == [5.0, 10.0, 40.0]
    assert [b["count"] for b in receiver.bodies] == [1]
    assert ledger().pending() == []


def test_one_target_that_is_down_holds_up_no_other_and_gets_what_it_missed(world):
    receiver, clock, ledger = world
    with http_receiver() as other:
        both = {"targets": [{"kind": "webhook", "name": "a", "url": other.url},
                            {"kind": "webhook", "name": "b", "url": receiver.url}]}
        other.answers = [500]
        one = ledger(**both)
        one.note([failed()])
        assert one.flush().delivered == 1
        clock.now += 3600
        assert one.flush().delivered == 1
        assert (len(other.got), len(receiver.got)) == (1, 1)
        assert other.bodies[0]["key"] == receiver.bodies[0]["key"]


def test_a_target_for_errors_gets_no_warnings(world):
    receiver, _, ledger = world
    one = ledger(targets=[{"kind": "webhook", "url": receiver.url, "least": "error"}])
    one.note([failed(), failed("CC-1|0001", severity="error", run_id="run-2")])
    one.flush()
    assert [b["severity"] for b in receiver.bodies] == ["error"]
    assert one.pending() == []


def test_a_run_that_goes_on_gathers_problems_for_a_moment(world):
    receiver, clock, ledger = world
    one = ledger(group_seconds=15)
    one.note([failed("CC-1|0000")])
    assert one.flush(ended=lambda _: False).delivered == 0
    clock.now += 10
    one.note([failed("CC-1|0001")])
    clock.now += 6
    one.flush(ended=lambda _: False)
    one.flush(ended=lambda _: True)
    assert sum(b["count"] for b in receiver.bodies) == 2


def test_two_processes_do_not_deliver_at_once_and_a_dead_ones_lease_runs_out(world):
    receiver, clock, ledger = world
    one, two = ledger(), ledger()
    one.note([failed()])
    one.blobs.create(LEASE, json.dumps({"token": "of a process that died", "until": clock.now + 60}).encode())
    assert two.flush().delivered == 0
    clock.now += 61
    assert two.flush().delivered == 1
    assert one.flush().delivered == 0
    assert receiver.tried == 1


def test_noting_from_many_threads_tells_once(world):
    from concurrent.futures import ThreadPoolExecutor

    receiver, _, ledger = world

    def work(_):
        one = ledger()
        one.note([failed()])
        one.flush()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(16)))
    ledger().flush()
    assert receiver.tried == 1
