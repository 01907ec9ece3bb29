"""On a small real crawl: what a change costs, the elected, the bill, the archive, and what is measured."""

import json
import math

import pyarrow.compute as pc
import pytest

from gristmill.errors import ArchivedPartitionError, DamagedPartitionError, MissingPartitionError, StoreError
from gristmill.funnel import BY_NAME, FUNNEL, Plan
from gristmill.observe.yields import committed
from gristmill.partition import make
from gristmill.plan import archive as cold
from gristmill.plan import assumptions
from gristmill.plan.bill import bill, record, recorded, render
from gristmill.plan.change import MANIFEST_ONLY, NOTHING, Change, changed_fields
from gristmill.plan.change import change as compare
from gristmill.plan.change import render as render_change
from gristmill.plan.measured import RATE_STAGES, measure
from gristmill.plan.reelect import Wanted, register
from gristmill.registry import Registry
from gristmill.runner import Task, partition_of
from gristmill.store import RUN, Key

VALUES = assumptions.values(assumptions.read())
pytestmark = pytest.mark.timeout(300)


def seconds(small, stage: str) -> float:
    return sum(small.store.run_info(small.key(stage, m.bucket))["cpu_s"]
               for m in committed(small.store, small.plan, stage, small.crawl))


def wipe(small, stage: str, bucket: int) -> None:
    """As if the partition had been made before seconds were recorded."""
    small.store.blobs.put(f"{small.key(stage, bucket).path}/{RUN}", b"{}")


# -- plan change -------------------------------------------------------------------------------------------------------


def test_no_change_costs_nothing(taken_once):
    found = compare(taken_once.store, taken_once.pipeline, taken_once.changed(), [taken_once.crawl])
    assert (found.fields, found.redo) == ({}, ())
    same = taken_once.pipeline.model_copy(update={"site": taken_once.site.model_copy(update={"recipe": None})})
    assert compare(taken_once.store, same, same, [taken_once.crawl]).called == NOTHING
    assert Change({}, (), manifest=True).called == MANIFEST_ONLY


@pytest.mark.parametrize(("fields", "first", "called"), [
    ({"quality": {"first_chars": 900}}, "quality", "re-score"),
    ({"extract": {"max_hidden_share": 0.07}}, "text", "re-extract"),
    ({"tokenize": {"seed": 5}}, "tokens", "tokenise again"),
    ({"lines": {"min_docs": 90}}, "line_candidates", "deduplicate again"),
])
def test_a_change_redoes_its_stage_and_those_below_at_what_they_cost(taken_once, fields, first, called):
    new = taken_once.changed(**fields)
    found = compare(taken_once.store, taken_once.pipeline, new, [taken_once.crawl])
    section, values = next(iter(fields.items()))
    assert {n: v[1] for n, v in found.fields.items()} == {f"{section}.{n}": v for n, v in values.items()}
    asked = {s.name for s in FUNNEL if section in s.params}
    below = asked.union(*(taken_once.plan.downstream(s) for s in asked))
    assert [r.stage for r in found.redo] == [s.name for s in FUNNEL if s.name in below]
    assert found.redo[0].stage == first
    assert found.called.startswith(called)
    for redo in found.redo:
        assert redo.estimated == 0
        assert math.isclose(redo.cost.core_s, seconds(taken_once, redo.stage), abs_tol=1e-9)
        docs = sum(m.counts.docs_in for m in committed(taken_once.store, taken_once.plan, redo.stage, taken_once.crawl))
        assert redo.cost.docs == docs
    assert math.isclose(found.money(VALUES), found.cost.core_s / 3600 * VALUES["prices.core_hour"])
    assert found.wall(1) >= found.wall(4) >= max(r.cost.longest_s for r in found.redo)


def test_what_is_estimated_is_what_then_is_made(small):
    new = small.changed(quality={"first_chars": 900})
    found = compare(small.store, small.pipeline, new, [small.crawl])
    said = {(r.stage, b if b >= 0 else None) for r in found.redo for b in r.buckets}
    assert small.take(new.params) == said
    assert compare(small.store, small.pipeline, new, [small.crawl]).redo == ()


def test_an_unmeasured_partition_costs_the_rate_of_its_stage_and_an_unmeasured_stage_is_unknown(small):
    new = small.changed(quality={"first_chars": 900})
    whole = compare(small.store, small.pipeline, new, [small.crawl]).redo[0]
    docs = {m.bucket: m.counts.docs_in for m in committed(small.store, small.plan, "quality", small.crawl)}
    wipe(small, "quality", 1)
    one = compare(small.store, small.pipeline, new, [small.crawl]).redo[0]
    own = {b: small.store.run_info(small.key("quality", b))["cpu_s"] for b in docs if b != 1}
    rate = sum(own.values()) / sum(n for b, n in docs.items() if b != 1)
    assert (one.estimated, one.cost.docs, one.cost.unknown) == (1, whole.cost.docs, 0)
    assert math.isclose(one.cost.core_s, sum(own.values()) + rate * docs[1], rel_tol=1e-6)
    for bucket in docs:
        wipe(small, "quality", bucket)
    none = compare(small.store, small.pipeline, new, [small.crawl])
    assert none.redo[0].cost.unknown == len(docs)
    assert none.redo[0].cost.core_s == 0
    assert "never measured" in render_change(none, VALUES, 2)


def test_one_lost_bucket_is_the_only_one_of_its_stage(small):
    small.store.blobs.delete(f"{small.key('heuristics', 2).path}/_manifest.json")
    found = compare(small.store, small.pipeline, small.pipeline, [small.crawl])
    redo = {r.stage: r.buckets for r in found.redo}
    assert redo["heuristics"] == (2,)
    assert redo["catalogue"] == (2,)
    assert "tokens" not in redo


def test_fields_are_named_by_their_path(taken_once):
    new = taken_once.changed(tokenize={"floor": 0.2}, grid={"host_buckets": 8})
    assert changed_fields(taken_once.pipeline.params, new.params) == {
        "grid.host_buckets": [4, 8], "tokenize.floor": [0.0, 0.2]}


# -- the elected -------------------------------------------------------------------------------------------------------


def duplicate(small) -> tuple[int, bytes]:
    """A document that is a near-duplicate of another."""
    for bucket in range(small.plan.buckets):
        near = small.store.read(small.key("near", bucket))
        lost = near.filter(pc.is_valid(near["dup_of"]))["doc_id"].to_pylist()
        if lost:
            return bucket, lost[0]
    raise AssertionError("the demo plants near-duplicates")


def shards_of(small, doc: bytes) -> list[str | None]:
    rows = [r for b in range(small.plan.buckets) for r in
            small.store.read(small.key("catalogue", b), ["doc_id", "shard", "survives"]).to_pylist()]
    return [r["shard"] for r in rows if r["doc_id"] == doc]


def test_an_elected_duplicate_is_scored_and_tokenised_and_nothing_else_changes(small):
    bucket, doc = duplicate(small)
    assert shards_of(small, doc) == [None]
    survivors = {b: small.store.require(small.key("near", b)).counts.docs_out for b in range(4)}
    others = {b: small.store.require(small.key("heuristics", b)).digest for b in range(4) if b != bucket}
    elected = Wanted("v1", {(small.crawl, bucket): [doc.hex()]})

    said = compare(small.store, small.pipeline, small.pipeline, [small.crawl], elected)
    assert said.called == "score and tokenise what was elected"
    assert doc.hex() in render_change(said, VALUES, 2)
    assert register(small.store, elected) == 1
    assert register(small.store, elected) == 0  # once
    made = small.take()
    planned = {(r.stage, b if b >= 0 else None) for r in said.redo for b in r.buckets}
    assert made <= planned  # what turns out to be the same bytes stops there
    assert ("near", bucket) in made
    assert {b for s, b in made if s == "heuristics"} == {bucket}

    assert shards_of(small, doc)[0] is not None
    assert {b: small.store.require(small.key("near", b)).counts.docs_out for b in range(4)} == survivors
    assert {b: small.store.require(small.key("heuristics", b)).digest for b in others} == others
    assert small.take() == set()


# -- the bill ----------------------------------------------------------------------------------------------------------


def test_a_bill_is_what_partitions_recorded_at_the_prices_of_the_file(small):
    prices = VALUES | {"prices.core_hour": 3600.0, "prices.hot_tb_month": 1e12}  # a dollar a core-second, and a byte
    found = bill(small.store, small.plan, small.crawl, prices)
    by_stage = {line.stage: line for line in found.lines}
    assert set(by_stage) == {s.name for s in FUNNEL if s.by != "site"}
    for name, line in by_stage.items():
        assert math.isclose(line.compute_money, seconds(small, name), rel_tol=1e-9, abs_tol=1e-9)
    text = committed(small.store, small.plan, "text", small.crawl)
    assert by_stage["text"].storage_money == sum(f.bytes for m in text for f in m.files)
    shard_bytes = sum(size for path, size in small.store.blobs.list("shards") if path.endswith(".bin"))
    assert by_stage["shards"].stored_bytes >= shard_bytes
    assert found.documents == sum(m.counts.docs_in for m in committed(small.store, small.plan, "crawl_slices",
                                                                      small.crawl))
    record(small.store, found)
    kept = recorded(small.store, small.crawl)
    assert kept is not None
    assert kept["lines"][0]["stage"] == found.lines[0].stage
    assert recorded(small.store, "no-such") is None
    assert small.crawl in render(found)


def test_what_other_parameters_made_is_billed_as_storage(small):
    small.take(small.changed(quality={"first_chars": 900}).params)
    found = bill(small.store, small.plan, small.crawl, VALUES)
    new = Plan(small.changed(quality={"first_chars": 900}).params)
    assert found.other_bytes >= sum(f.bytes for m in committed(small.store, new, "quality", small.crawl)
                                    for f in m.files)


# -- the archive -------------------------------------------------------------------------------------------------------


def files_of(small) -> dict[str, bytes]:
    return {p: small.store.blobs.get(p) for p, _ in small.store.blobs.list("") if not p.startswith(("registry", "."))}


def test_an_archived_crawl_is_current_says_how_to_restore_it_and_comes_back_the_same(small, elsewhere):
    before = files_of(small)
    moved = cold.archive(small.store, small.crawl, str(elsewhere))
    gone = before.keys() - files_of(small).keys()
    assert len(gone) == moved.files > 0
    assert {p.split("/")[0] for p in gone} <= set(cold.COLD)
    assert moved.bytes == sum(len(before[p]) for p in gone)
    assert small.take() == set()  # as current as before

    with pytest.raises(ArchivedPartitionError, match=f"gristmill restore {small.crawl} --asset text"):
        small.store.read(small.key("text", 0))
    with pytest.raises(ArchivedPartitionError, match="gristmill restore"):
        small.store.read_range(small.key("tokens", 1), "by_range", 0)
    with pytest.raises(ArchivedPartitionError, match="gristmill restore"):
        small.take(small.changed(language={"threshold": 0.7}).params)

    assert cold.archive(small.store, small.crawl, str(elsewhere)).files == 0
    back = cold.restore(small.store, small.crawl)
    assert (back.files, back.bytes) == (moved.files, moved.bytes)
    after = files_of(small)
    assert {p: after[p] for p in before} == before
    assert small.store.archived(small.key("text", 0)) is None
    assert cold.restore(small.store, small.crawl).partitions == 0


def test_a_plan_names_what_must_be_restored_first(small, elsewhere):
    cold.archive(small.store, small.crawl, str(elsewhere), assets=["text"])
    found = compare(small.store, small.pipeline, small.changed(language={"threshold": 0.7}), [small.crawl])
    size = sum(f.bytes for m in committed(small.store, small.plan, "text", small.crawl) for f in m.files)
    assert found.restore == {(small.crawl, "text"): size}
    assert f"gristmill restore {small.crawl} --asset text" in render_change(found, VALUES, 2)
    assert compare(small.store, small.pipeline, small.changed(extract={"max_hidden_share": 0.07}),
                   [small.crawl]).restore == {}  # text itself is made again


def test_nothing_hot_goes_before_its_copy_is_verified(small, elsewhere, monkeypatch):
    key = small.key("text", 0)
    name = small.store.require(key).files[0].name
    good = small.store.blobs.get(f"{key.path}/{name}")
    small.store.blobs.put(f"{key.path}/{name}", good[:-1] + b"?")
    with pytest.raises(DamagedPartitionError, match="was not archived"):
        cold.archive(small.store, small.crawl, str(elsewhere), assets=["text"])
    assert small.store.blobs.get(f"{key.path}/{name}")[-1:] == b"?"
    small.store.blobs.put(f"{key.path}/{name}", good)

    monkeypatch.setattr(cold, "_copy", lambda *a: True)  # an archive that loses what it is given
    with pytest.raises(StoreError, match="nothing was removed"):
        cold.archive(small.store, small.crawl, str(elsewhere), assets=["text"])
    assert small.store.blobs.get(f"{key.path}/{name}") == good


def test_a_stopped_archive_goes_on_and_a_damaged_one_is_not_restored(small, elsewhere, monkeypatch):
    seen = []

    def stop(key):
        seen.append(key)
        if len(seen) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cold.archive(small.store, small.crawl, str(elsewhere), assets=["text"], progress=stop)
    assert small.take() == set()
    cold.archive(small.store, small.crawl, str(elsewhere), assets=["text"])
    key = small.key("text", 0)
    path = elsewhere / key.path / small.store.require(key).files[0].name
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(DamagedPartitionError, match="not what was committed"):
        cold.restore(small.store, small.crawl)
    assert small.store.archived(key) is not None


def test_crawls_past_a_bound(small):
    registry = Registry(small.store)
    for name in ("later", "latest"):
        registry.register(name)
    assert cold.older(small.store, keep=1) == [small.crawl, "later"]
    assert cold.older(small.store, keep=5) == []
    last = cold._last_commit(small.store, small.crawl)
    assert cold.older(small.store, days=30, now=last + 31 * cold.DAY) == [small.crawl]  # the others have no partition
    assert cold.older(small.store, days=30, now=last + 29 * cold.DAY) == []


def test_the_archive_is_another_place_and_its_rule_is_s3s(small):
    with pytest.raises(StoreError, match="the store itself"):
        cold.archive(small.store, small.crawl, small.store.root + "/")
    rule = json.loads(json.dumps(cold.lifecycle()))["Rules"][0]
    assert rule["Transitions"] == [{"Days": 0, "StorageClass": "DEEP_ARCHIVE"}]


# -- what is measured --------------------------------------------------------------------------------------------------


def test_yields_and_rates_are_those_of_the_partitions(taken_once):
    found = measure(taken_once.store, taken_once.plan, [taken_once.crawl])
    kept = {s: [m.counts for m in committed(taken_once.store, taken_once.plan, s, taken_once.crawl)]
            for s in ("near", "text", "quality")}
    for name, stage in (("yields.near", "near"), ("yields.extraction", "text")):
        counts = kept[stage]
        assert found[name].value == sum(c.docs_out for c in counts) / sum(c.docs_in for c in counts)
    docs = sum(c.docs_in for c in kept["quality"])
    assert math.isclose(found["rates.quality"].value, docs / seconds(taken_once, "quality"), rel_tol=1e-6)
    assert found["yields.near"].support == sum(c.docs_in for c in kept["near"])
    assert found["dedup.bloom_bits"].value >= 12  # blocks are whole
    assert {f"rates.{r}" for r in RATE_STAGES} <= found.keys()
    assert found.keys() <= VALUES.keys()
    assert not [n for n in found if n.startswith(("prices.", "run.", "crawler."))]


def test_every_stage_of_the_funnel_is_in_a_rate_or_is_overhead():
    named = {s for stages in RATE_STAGES.values() for s in stages}
    assert named <= BY_NAME.keys()


def test_seconds_are_in_no_digest(small):
    """Making a partition again takes other seconds and gives the same digest."""
    task = Task(small.store, small.pipeline.params, small.site, "heuristics", small.crawl, 0)
    before = small.store.require(small.key("heuristics", 0))
    run = small.store.run_info(small.key("heuristics", 0))
    again = make(partition_of(task), force=True)
    assert again.computed
    assert again.manifest.digest == before.digest
    assert small.store.run_info(small.key("heuristics", 0))["ended"] > run["ended"]
    with pytest.raises(MissingPartitionError):
        small.store.require(Key("heuristics", "0" * 16, "no-such", 0))
