"""The nightly sweep: who disallows now is out of later manifests; who does not answer keeps the rules that it had."""

import itertools
import shutil
import time
from datetime import UTC, datetime, timedelta

import pytest

from gristmill.acquire.robots_fetch import Answer, Refused
from gristmill.acquire.robots_sweep import authorities, consumed, opted_out, sweep, versions
from gristmill.errors import PartitionBusyError
from gristmill.params import RobotsSweep
from gristmill.release.policy import Policy
from gristmill.store import Key, Store
from tests.acquire.test_robots_fetch import site
from tests.release.test_eligibility import excluded
from tests.release.world import Doc, World, some_text

NIGHT = datetime(2026, 12, 1, 3, tzinfo=UTC)
CLOSED = b"User-agent: CCBot\nDisallow: /\n"
CONFIG = RobotsSweep(address_seconds=0)


class Net:
    """Hosts and what they answer; asking is recorded."""

    def __init__(self, **answers):
        self.answers, self.asked = {f"https://{h}.org": a for h, a in answers.items()}, []

    def addresses(self, authority):
        if authority not in self.answers:
            raise Refused("the name does not resolve")
        return (authority,)

    def read(self, authority, addresses):
        self.asked.append(authority)
        return self.answers[authority]


def text(body, status=200):
    return Answer(status, body)


DOCS = [Doc(f"https://{host}.org/{page}", some_text(i * 10 + n))
        for i, host in enumerate(("open", "private", "shut", "gone"))
        for n, page in enumerate(("a", "private/b"))]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    world = World.make(tmp_path_factory.mktemp("made"))
    world.add("A", DOCS)
    world.run("A")
    return world


@pytest.fixture
def world(made, tmp_path):
    shutil.copytree(made.site.store, tmp_path / "store")
    return World(Store(tmp_path / "store"), made.plan, made.site.model_copy(update={"store": str(tmp_path / "store")}))


def night(world, net, at=NIGHT, **more):
    return sweep(world.store, world.plan, CONFIG.model_copy(update=more), fetcher=net, now=lambda: at)


def out(world, policy=Policy()):  # noqa: B008
    ids = {d.id: d.url for d in DOCS}
    return {ids[doc]: rule for (_, doc), (rule, _) in excluded(world, policy, ["A"]).items()}


def robots_digest(world):
    return [consumed(world.store, b) for b in range(world.plan.buckets)]


def test_every_host_of_the_corpus_is_asked_once(world):
    found = sorted(a for b in range(world.plan.buckets) for a in authorities(world.store, world.plan, b))
    assert found == ["https://gone.org", "https://open.org", "https://private.org", "https://shut.org"]
    net = Net(open=text(b""), private=text(b""), shut=text(b""))
    done = night(world, net)
    assert sorted(net.asked) == ["https://open.org", "https://private.org", "https://shut.org"]
    assert (done.asked, done.refused, done.left) == (4, 1, 0)


def test_pages_that_are_closed_now_are_out_by_path_and_agent_and_the_host_is_listed(world):
    assert out(world) == {}
    done = night(world, Net(open=text(b"User-agent: *\nDisallow: /private/\nAllow: /private/b$"),
                            private=text(b"User-agent: *\nDisallow: /private/"), shut=text(CLOSED),
                            gone=text(b"", 404)))
    assert out(world) == {"https://private.org/private/b": "robots_retro", "https://shut.org/a": "robots_retro",
                          "https://shut.org/private/b": "robots_retro"}
    assert out(world, Policy(robots_agents=("GPTBot",))) == {"https://private.org/private/b": "robots_retro"}
    assert {h.authority: (h.pages, h.closed) for h in done.opted_out} == {
        "https://shut.org": (2, 2), "https://private.org": (2, 1)}
    assert [h.authority for h in opted_out(world.store, world.plan.buckets)] == ["https://shut.org",
                                                                                "https://private.org"]


def test_a_night_without_changes_leaves_manifests_current_and_one_with_a_change_does_not(world):
    net = Net(open=text(b""), private=text(b"# x\n"), shut=text(CLOSED), gone=text(b"", 404))
    night(world, net)
    before = robots_digest(world)
    done = night(world, net, NIGHT + timedelta(days=1))
    assert (done.asked, done.unchanged, done.changed) == (4, 4, 0)
    assert robots_digest(world) == before
    net.answers["https://open.org"] = text(CLOSED)
    night(world, net, NIGHT + timedelta(days=2))
    assert robots_digest(world) != before
    assert out(world)["https://open.org/a"] == "robots_retro"


def test_a_host_that_comes_back_is_in_again_and_its_history_stays(world):
    night(world, Net(shut=text(CLOSED)))
    done = night(world, Net(shut=text(b"", 404)), NIGHT + timedelta(days=1))  # 4xx: nothing is disallowed
    assert done.returned == ["https://shut.org"]
    assert out(world) == {}
    rows = [r for b in range(world.plan.buckets) for r in versions(world.store, b).to_pylist()]
    assert [(r["authority"], r["http_status"]) for r in rows] == [("https://shut.org", 200), ("https://shut.org", 404)]


@pytest.mark.parametrize("silent", [Answer(503), Answer(429), Answer(0, error="no answer in time")])
def test_who_does_not_answer_keeps_the_rules_that_it_had(world, silent):
    night(world, Net(shut=text(CLOSED), open=text(b"User-agent: *\nAllow: /")))
    done = night(world, Net(shut=silent, open=silent), NIGHT + timedelta(days=1))
    assert done.unreachable == 2
    assert set(out(world)) == {"https://shut.org/a", "https://shut.org/private/b"}


def test_who_never_answered_says_nothing_unless_the_site_takes_silence_for_no(world):
    others = {"open": text(b""), "private": text(b""), "shut": text(b"")}
    night(world, Net(gone=Answer(503), **others))
    assert out(world) == {}
    # RFC 9309 section 2.3.1.4
    night(world, Net(gone=Answer(503), **others), NIGHT + timedelta(days=1), unreachable="disallow")
    assert set(out(world)) == {"https://gone.org/a", "https://gone.org/private/b"}
    back = Net(gone=text(b"User-agent: *\nAllow: /"), **others)
    night(world, back, NIGHT + timedelta(days=2), unreachable="disallow")
    assert out(world) == {}


def test_the_newest_of_crawls_and_sweeps_counts(tmp_path):
    world = World.make(tmp_path)
    world.robots("A", "shut.org", "User-agent: *\nDisallow:\n")
    world.add("A", DOCS)
    world.run("A")
    night(world, Net(shut=text(CLOSED)), datetime(2026, 2, 1, tzinfo=UTC))
    assert "https://shut.org/a" in out(world)
    world.robots("B", "shut.org", "User-agent: *\nDisallow: /none\n", day="2026-03-01")  # a crawl read it later
    world.add("B", DOCS[-1:])
    world.run("B")
    assert "https://shut.org/a" not in out(world)
    night(world, Net(shut=text(CLOSED)), datetime(2026, 4, 1, tzinfo=UTC))  # closed again: new, though a sweep saw it
    assert "https://shut.org/a" in out(world)


def test_one_night_asks_once_and_a_stopped_sweep_goes_on_with_who_was_not_asked(world):
    net = Net(open=text(b""), private=text(b""), shut=text(b""), gone=text(b""))
    ticks = iter(range(10**9))
    short = CONFIG.model_copy(update={"most_seconds": 10, "concurrency": 1})
    first = sweep(world.store, world.plan, short, fetcher=net, now=lambda: NIGHT, clock=lambda: next(ticks))
    assert 0 < first.asked < 4
    assert first.left == 4 - first.asked
    second = night(world, net, NIGHT + timedelta(minutes=5))
    assert (second.asked, second.not_due) == (first.left, first.asked)
    assert sorted(net.asked) == sorted(net.answers)
    assert night(world, net, NIGHT + timedelta(hours=1)).asked == 0
    assert night(world, net, NIGHT + timedelta(hours=25)).asked == 4


def test_one_address_is_asked_at_the_pace_and_others_do_not_wait_for_it(world):
    asked = []

    class Shared(Net):
        def addresses(self, authority):
            return ("own",) if "gone" in authority else ("shared",)

        def read(self, authority, addresses):
            asked.append((time.monotonic(), addresses[0]))
            return super().read(authority, addresses)

    begun = time.monotonic()
    night(world, Shared(open=text(b""), private=text(b""), shut=text(b""), gone=text(b"")), address_seconds=0.2)
    shared = [t for t, a in sorted(asked) if a == "shared"]
    assert all(b - a >= 0.19 for a, b in itertools.pairwise(shared))
    assert len(shared) == 3
    assert next(t for t, a in asked if a == "own") - begun < 10


def test_two_sweeps_at_once_are_refused(world):
    with world.store.lock(Key("robots_sweep", "registry")), pytest.raises(PartitionBusyError):
        night(world, Net())


def test_a_fetcher_that_breaks_ends_the_sweep_with_its_error_and_what_was_answered_is_kept(world):
    class Broken(Net):
        def read(self, authority, addresses):
            if authority == "https://shut.org":
                raise RuntimeError("broken")
            return super().read(authority, addresses)

    net = Broken(**{h: text(CLOSED) for h in ("open", "private", "shut", "gone")})
    with pytest.raises(RuntimeError, match="broken"):
        night(world, net, concurrency=1)
    assert set(out(world)) == {d.url for d in DOCS if f"https://{d.host}" in net.asked} != set()


def test_over_http_from_the_corpus_to_the_manifest(tmp_path):
    """Nothing replaced but the network: a server on loopback that the site allows."""
    with site({"/robots.txt": (200, {}, CLOSED)}) as (at, asked):
        world = World.make(tmp_path)
        docs = [Doc(f"{at}/page", some_text(1)), Doc("https://elsewhere.invalid/", some_text(2))]
        world.add("A", docs)
        world.run("A")
        config = RobotsSweep(allow_networks=["127.0.0.0/8"], user_agent="mill-test/1")
        done = sweep(world.store, world.plan, config, now=lambda: NIGHT)
    assert (done.changed, done.refused) == (1, 1)
    assert asked[0][1]["User-Agent"] == "mill-test/1"
    assert {doc for (_, doc) in excluded(world, Policy(), ["A"])} == {docs[0].id}
