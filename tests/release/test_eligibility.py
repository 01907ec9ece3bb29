"""Record policy, and what follows for documents and clusters, against a plain reading of the rules."""

import datetime as dt
import random
import tempfile

import pytest

from gristmill.errors import ManifestError
from gristmill.registry import Registry
from gristmill.release import eligibility, policy, tombstones
from gristmill.release.examine import robots_partitions
from gristmill.release.policy import RULES, Licence, Policy, put_licence
from gristmill.store import Key
from tests.release.world import Doc, World, many, some_text


def excluded(
    world: World, given: Policy, crawls: list[str], workers: int = 1
) -> dict[tuple[str, bytes], tuple[str, bytes | None]]:
    """(crawl, doc_id) -> (rule, elected doc_id)."""
    ordinals = Registry(world.store).ordinals()
    places = [(c, b) for c in sorted(crawls, key=ordinals.get) for b in range(world.plan.buckets)]
    rules = robots_partitions(world.store, world.plan)
    records = world.plan.fingerprints["catalogue_records"]
    keys = [eligibility.Place(ordinals[c], Key("catalogue_records", records, c, b), rules[b]) for c, b in places]
    out = {}
    with tempfile.TemporaryDirectory() as scratch:
        eligibility.run(world.store, given, keys, scratch, world.plan.buckets, workers)
        for place, (crawl, _) in enumerate(places):
            for row in eligibility.read_excluded(scratch, world.plan.buckets, place).to_pylist():
                out[crawl, row["doc_id"]] = (RULES[row["rule"]], row["elected"])
    return out


def make(tmp_path, *crawls: tuple[str, list[Doc]]) -> World:
    world = World.make(tmp_path)
    for name, docs in crawls:
        world.add(name, docs)
        world.run(name, ("catalogue_records",))
    return world


def one(tmp_path, given: Policy, *docs: Doc) -> dict[str, str]:
    """url -> rule, of documents that are excluded."""
    world = make(tmp_path, ("A", list(docs)))
    found = excluded(world, given, ["A"])
    return {d.url: found["A", d.id][0] for d in docs if ("A", d.id) in found}


def doc(name: str, seed: int, **facts) -> Doc:
    return Doc(f"https://{name}.org/x", some_text(seed), **facts)


def test_robots_hosts_traps_and_cutoffs(tmp_path):
    given = Policy(
        hosts=("bad.org",),
        traps=("trap.org",),
        knowledge_cutoff=dt.date(2026, 6, 1),
        tier_cutoffs={"code": dt.date(2026, 1, 1)},
    )
    found = one(
        tmp_path,
        given,
        doc("fine", 1),
        doc("out", 2, robots="retro_optout"),
        doc("never", 3, robots="disallowed_at_fetch"),
        Doc("https://www.bad.org/y", some_text(4)),
        doc("notbad", 5),
        doc("trap", 6),
        doc("late", 7, day="2026-06-01"),
        doc("early", 8, day="2026-05-31"),
        doc("commit", 9, tier="code", day="2026-02-01"),
        doc("unknown", 10, robots="unknown"),
        Doc("https://trap.example.net/a", some_text(11)),
    )
    assert found == {
        "https://out.org/x": "robots",
        "https://never.org/x": "robots",
        "https://www.bad.org/y": "host_excluded",
        "https://trap.org/x": "trap",
        "https://trap.example.net/a": "trap",
        "https://late.org/x": "crawl_cutoff",
        "https://commit.org/x": "crawl_cutoff",
    }


def test_the_newest_robots_txt_of_any_crawl_counts(tmp_path):
    """A host that closes itself later is out of every later manifest, also of one made of earlier crawls alone."""
    docs = [
        Doc("https://later.org/private/1", some_text(1)),
        Doc("https://later.org/open/1", some_text(2)),
        doc("other", 3),
    ]
    world = World.make(tmp_path)
    world.robots("A", "later.org", "User-agent: *\nDisallow:\n")
    world.robots("B", "later.org", "User-agent: CCBot\nDisallow: /private/\n", day="2026-06-01")
    world.add("A", docs)
    world.run("A", ("catalogue_records",))
    assert excluded(world, Policy(), ["A"]) == {}
    world.add("B", [doc("new", 9)])
    assert excluded(world, Policy(), ["A"]) == {("A", docs[0].id): ("robots_retro", None)}
    assert excluded(world, Policy(robots_agents=("GPTBot",)), ["A"]) == {}
    assert excluded(world, Policy(robots_agents=()), ["A"]) == {}


def test_licences_by_scope_expiry_and_date(tmp_path):
    docs = [
        doc("free", 1),
        doc("ok", 2, license_id="ok"),
        doc("old", 3, license_id="old"),
        doc("last", 4, license_id="last"),
        doc("search", 5, license_id="search-only"),
        doc("deny", 6, license_id="no"),
        doc("new", 7, license_id="new"),
    ]
    world = make(tmp_path, ("A", docs))
    put_licence(world.store, Licence(license_id="ok", scope=("training", "search")))
    put_licence(world.store, Licence(license_id="old", expires=dt.date(2026, 5, 1)))
    put_licence(world.store, Licence(license_id="last", expires=dt.date(2026, 5, 2)))
    put_licence(world.store, Licence(license_id="search-only", scope=("search",)))
    put_licence(world.store, Licence(license_id="new", signed=dt.date(2026, 4, 1)))
    with pytest.raises(ManifestError, match="as_of"):
        excluded(world, Policy(), ["A"])
    given = Policy(as_of=dt.date(2026, 5, 1), licences={"deny": ("no",)}, knowledge_cutoff=dt.date(2026, 4, 1))
    found = {d.license_id: excluded(world, given, ["A"]).get(("A", d.id), (None,))[0] for d in docs}
    assert found == {
        None: None,
        "ok": None,
        "old": "licence_expired",
        "last": None,
        "search-only": "licence_scope",
        "no": "licence_denied",
        "new": "contract_cutoff",
    }
    strict = Policy(as_of=dt.date(2026, 1, 1), licences={"unknown": False})
    assert excluded(world, strict, ["A"])["A", docs[0].id][0] == "licence_unknown"


def test_synthetic_text_by_what_its_generator_may_know(tmp_path):
    given = Policy(
        knowledge_cutoff=dt.date(2026, 6, 1),
        generator_cutoffs={"old-lm": dt.date(2026, 5, 1), "new-lm": dt.date(2026, 7, 1)},
    )
    found = one(
        tmp_path, given, doc("a", 1, generator="old-lm"), doc("b", 2, generator="new-lm"), doc("c", 3, generator="who")
    )
    assert found == {"https://b.org/x": "generator_cutoff", "https://c.org/x": "generator_cutoff"}


def test_tombstones_of_all_kinds(tmp_path):
    docs = [doc("a", 1), doc("b", 2), doc("c", 3), doc("d", 4, license_id="acme"), doc("e", 5)]
    world = make(tmp_path, ("A", docs))
    tombstones.forget(world.store, "HTTPS://A.org:443/x#part")  # one spelling for one URL
    tombstones.forget(world.store, "b.org")
    tombstones.forget(world.store, docs[2].id.hex())
    tombstones.forget(world.store, "acme", kind="contract")
    found = excluded(world, Policy(), ["A"])
    assert {d.host: found.get(("A", d.id), (None,))[0] for d in docs} == {
        "a.org": "tombstone_url",
        "b.org": "tombstone_host",
        "c.org": "tombstone_doc",
        "d.org": "tombstone_contract",
        "e.org": None,
    }


def test_a_document_stays_while_one_of_its_records_is_eligible(tmp_path):
    text = some_text(1)
    docs = [
        Doc("https://first.org/x", text, robots="retro_optout", day="2026-01-01"),
        Doc("https://second.org/x", text, day="2026-01-02"),
        Doc("https://gone.org/x", some_text(2), robots="retro_optout"),
    ]
    found = excluded(make(tmp_path, ("A", docs)), Policy(), ["A"])
    assert set(found) == {("A", docs[2].id)}


def test_a_record_of_another_crawl_keeps_a_document_too(tmp_path):
    text = some_text(1)
    a = Doc("https://first.org/x", text, robots="retro_optout", day="2026-01-01")
    b = Doc("https://second.org/x", text, day="2026-02-01")
    world = make(tmp_path, ("A", [a]), ("B", [b]))
    assert excluded(world, Policy(), ["A"]) == {("A", a.id): ("robots", None)}
    assert excluded(world, Policy(), ["A", "B"]) == {}


def test_the_first_eligible_member_is_elected(tmp_path):
    top = Doc("https://top.org/x", some_text(1), robots="retro_optout", day="2026-01-01")
    second = Doc("https://second.org/x", some_text(2), robots="retro_optout", day="2026-01-02", of=top.url)
    third = Doc("https://third.org/x", some_text(3), day="2026-01-04", of=top.url)
    fourth = Doc("https://fourth.org/x", some_text(4), day="2026-01-03", of=top.url)
    found = excluded(make(tmp_path, ("A", [top, second, third, fourth])), Policy(), ["A"])
    assert found == {("A", top.id): ("robots", fourth.id), ("A", second.id): ("robots", fourth.id)}


def test_copies_of_a_held_out_page_go_with_it(tmp_path):
    text = some_text(1)
    held = Doc("https://held.org/x", text, holdout="web_sample", day="2026-01-05")
    copy = Doc("https://mirror.org/x", text, day="2026-01-01")  # same text, another URL, fetched earlier
    near = Doc("https://near.org/x", some_text(2), of=copy.url)
    other = Doc("https://other.org/x", some_text(3))
    world = make(tmp_path, ("A", [held, copy, near, other]))
    found = excluded(world, Policy(), ["A"])
    assert found == {("A", held.id): ("holdout", None), ("A", near.id): ("holdout_copy", None)}


def test_a_held_out_record_of_a_later_crawl_excludes_the_earlier_copy(tmp_path):
    text = some_text(1)
    world = make(
        tmp_path,
        ("A", [Doc("https://mirror.org/x", text)]),
        ("B", [Doc("https://held.org/x", text, holdout="time_forward", day="2026-04-01")]),
    )
    assert {rule for rule, _ in excluded(world, Policy(), ["A", "B"]).values()} == {"holdout"}
    assert ("A", Doc("", text).id) in excluded(world, Policy(), ["A", "B"])
    assert excluded(world, Policy(), ["A"]) == {}


def test_against_a_plain_reading_on_random_worlds(tmp_path):
    rng = random.Random(4)
    for round_ in range(3):
        docs = []
        for i in range(120):
            facts = {
                "robots": rng.choice(["allowed", "retro_optout"]),
                "holdout": "web_sample" if rng.random() < 0.03 else None,
                "day": f"2026-01-{rng.randint(1, 28):02d}",
            }
            docs.append(Doc(f"https://h{i % 9}.org/{i}", some_text(rng.randint(0, 60)), **facts))
        first = {}
        for d in sorted(docs, key=lambda d: (d.ts, d.record_id)):
            first.setdefault(d.id, d)
        tops = list(first.values())
        for d in tops[len(tops) // 2 :]:
            if rng.random() < 0.5:
                d.of = rng.choice(tops[: len(tops) // 2]).url
        world = make(tmp_path / str(round_), ("A", docs))
        found = excluded(world, Policy(), ["A"])

        cluster = {d.id: first_of(d, docs) for d in tops}
        held_docs = {d.id for d in docs if d.holdout}
        held_clusters = {cluster[i] for i in held_docs}
        fine = {d.id for d in docs if d.robots == "allowed"}
        want = {}
        for i in first:
            if i in held_docs:
                want["A", i] = "holdout"
            elif cluster[i] in held_clusters:
                want["A", i] = "holdout_copy"
            elif i not in fine:
                want["A", i] = "robots"
        assert {k: rule for k, (rule, _) in found.items()} == want
        for (_, i), (_, elected) in found.items():
            members = [
                d for d in docs if cluster[d.id] == cluster[i] and ("A", d.id) not in want and d.robots == "allowed"
            ]
            best = min(members, key=lambda d: (d.ts, d.record_id)).id if members else None
            assert elected == best
        assert found == excluded(world, Policy(), ["A"], workers=2)


def first_of(d: Doc, docs: list[Doc]) -> bytes:
    by_url = {x.url: x for x in docs}
    return by_url[d.of].id if d.of else d.id


def test_down_weighting_keeps_its_share_and_the_same_documents():
    import pyarrow as pa

    ids = pa.chunked_array([pa.array([Doc("u", str(i)).id for i in range(20_000)], pa.binary(16))])
    from decimal import Decimal

    dropped = policy.sampled_out(ids, Decimal("0.25"), 7, 0)
    assert abs(dropped.mean() - 0.75) < 0.015
    assert (policy.sampled_out(ids, Decimal("0.25"), 7, 0) == dropped).all()
    more = policy.sampled_out(ids, Decimal("0.5"), 7, 0)
    assert not (more & ~dropped).any(), "keeping more drops nobody new"
    assert not policy.sampled_out(ids, Decimal(1), 7, 0).any()
    assert len(many(3)) == 3
