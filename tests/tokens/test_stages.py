import io
import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from gristmill.deduplicate.lines import line_hash
from gristmill.errors import ParameterError
from gristmill.funnel import Plan
from gristmill.params import PipelineParams
from gristmill.tokens import shard
from gristmill.tokens.stages import tokenizer_of
from gristmill.tokens.strata import length_bucket
from tests.release.world import Doc, World, many, some_text


def all_shards(world: World, crawl: str) -> list[dict]:
    return [row for b in range(world.plan.buckets) for row in world.part("shards", crawl, b).read("shards").to_pylist()]


def placed(world: World, crawl: str) -> dict[bytes, dict]:
    """doc_id -> where the shards stage put it, over all host buckets."""
    out = {}
    for b in range(world.plan.buckets):
        for row in world.part("catalogue", crawl, b).read_range("shards", "by_bucket").to_pylist():
            assert row["doc_id"] not in out
            out[row["doc_id"]] = row
    return out


def documents_of(world: World, entry: dict) -> list[list[int]]:
    data, idx = (world.store.blobs.get(f"{entry['path']}{s}") for s in (".bin", ".idx"))
    index = shard.verify(data, idx, entry["hash"])
    tokens = np.frombuffer(data, "<u4")
    return [tokens[int(a) : int(b)].tolist() for a, b in zip(index.offsets, index.offsets[1:])]


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> World:
    w = World.make(tmp_path_factory.mktemp("w"), floor=0.05, bos=True, bos_token="<|startoftext|>")
    mail = "write to someone@example.org today\n"
    extra = [
        Doc("https://pii.org/1", mail + some_text(5001), pii=[(9, 28, "email")]),
        Doc(
            "https://lines.org/1", "Home About Contact\n" + some_text(5002), removed=[line_hash(b"Home About Contact")]
        ),
        Doc("https://only.org/1", "Home About Contact\n", removed=[line_hash(b"Home About Contact")]),
        Doc("https://runs.org/1", some_text(5003) + "z " * 4000),
        Doc("https://long.org/1", some_text(5004, 4000)),
        Doc("https://fra.org/1", some_text(5005), lang="fra", percentile=None),
        Doc("https://copy.org/1", some_text(5006), of="https://pii.org/1"),
    ]
    w.add("A", many(60) + extra)
    w.run("A")
    return w


def test_every_document_is_in_exactly_one_shard_or_has_a_reason(world):
    where = placed(world, "A")
    survivors = [d for d in world.docs["A"] if d.of is None]
    assert set(where) == {d.id for d in survivors}
    reasons = {d.url: where[d.id]["reason"] for d in survivors if where[d.id]["reason"]}
    low = {d.url: "tokenize_floor" for d in survivors if d.percentile is not None and d.percentile < 0.05}
    assert low
    assert reasons == {**low, "https://only.org/1": "empty", "https://runs.org/1": "low_entropy"}
    seen = set()
    for entry in all_shards(world, "A"):
        docs = pq.read_table(io.BytesIO(world.store.blobs.get(entry["path"] + ".docs"))).to_pylist()
        for row in docs:
            assert row["doc_id"] not in seen
            seen.add(row["doc_id"])
            assert where[row["doc_id"]]["shard"] == entry["hash"]
            assert where[row["doc_id"]]["ordinal"] == row["ordinal"]
    assert seen == {i for i, r in where.items() if r["reason"] is None}


def test_shards_hold_the_released_text_between_bos_and_eos(world):
    tok = tokenizer_of(world.part("tokens", "A", 0))
    by_id = {d.id: d for d in world.docs["A"]}
    checked = 0
    for entry in all_shards(world, "A"):
        docs = pq.read_table(io.BytesIO(world.store.blobs.get(entry["path"] + ".docs"))).to_pylist()
        for row, ids in zip(docs, documents_of(world, entry), strict=True):
            doc = by_id[row["doc_id"]]
            text = doc.text
            if doc.pii:
                text = text.replace("someone@example.org", "[EMAIL]")
            if doc.removed:
                text = text.replace("Home About Contact\n", "")
            assert ids == [tok.bos_id, *tok.reference([text]).ids.tolist(), tok.eos_id], doc.url
            assert row["n_tokens"] == len(ids)
            checked += 1
    assert checked > 50


def test_strata_and_locators(world):
    by_id = {d.id: d for d in world.docs["A"]}
    provenance = [world.part("tokens", "A", b).read("provenance").to_pylist() for b in range(world.plan.buckets)]
    for entry in all_shards(world, "A"):
        tier, lang, band, length = entry["stratum"].split(".")
        for row in pq.read_table(io.BytesIO(world.store.blobs.get(entry["path"] + ".docs"))).to_pylist():
            doc = by_id[row["doc_id"]]
            assert (tier, lang) == (doc.tier, doc.lang)
            assert length == f"len{length_bucket(np.array([row['n_tokens']]))[0]}"
            assert (band == "qx") == (doc.percentile is None)
            assert provenance[row["host_bucket"]][row["row"]]["url"] == doc.url, "the locator is the provenance row"


def test_the_meta_file_agrees_with_the_bytes(world):
    for entry in all_shards(world, "A"):
        meta = json.loads(world.store.blobs.get(entry["path"] + ".meta"))
        assert meta["n_docs"] == entry["n_docs"] == len(documents_of(world, entry))
        assert meta["sha256_bin"] == entry["sha256_bin"]
        assert meta["licenses"] == ["unknown"]
        assert meta["build"]["bos"] is True


def test_shards_end_at_their_size_and_a_long_document_stands_alone(world):
    for entry in all_shards(world, "A"):
        assert entry["n_tokens"] <= 3000 or entry["n_docs"] == 1


def test_any_number_of_workers_gives_the_same_partitions(world, tmp_path):
    digests = {}
    for stage in ("tokens", "shards", "catalogue_records", "catalogue"):
        digests[stage] = [
            world.store.manifest(world.part(stage, "A", b).key()).digest for b in range(world.plan.buckets)
        ]
    other = World.make(tmp_path, floor=0.05, bos=True, bos_token="<|startoftext|>")
    other.add("A", world.docs["A"])
    other.run("A", workers=2)
    for stage, wanted in digests.items():
        assert [other.store.manifest(other.part(stage, "A", b).key()).digest for b in range(2)] == wanted, stage


def test_running_again_computes_nothing_and_a_new_threshold_rewrites_no_shard(world):
    assert not any(m.computed for m in world.run("A"))
    before = dict(world.store.blobs.list("shards"))
    tokenize = world.plan.params.tokenize.model_copy(update={"floor": 0.30})
    higher = World(
        world.store, Plan(PipelineParams(grid=world.plan.params.grid, tokenize=tokenize)), world.site, world.docs
    )
    higher.run("A", ("tokens", "shards"))
    for path, size in before.items():
        assert world.store.blobs.size(path) == size


def test_a_second_tokenizer_leaves_the_first_in_place(tmp_path):
    w = World.make(tmp_path)
    w.add("A", many(20))
    w.run("A", ("tokens", "shards"))
    first = {e["hash"]: documents_of(w, e) for e in all_shards(w, "A")}
    tokenize = w.plan.params.tokenize.model_copy(update={"eos": False})
    second = World(w.store, Plan(PipelineParams(grid=w.plan.params.grid, tokenize=tokenize)), w.site, w.docs)
    second.run("A", ("tokens", "shards"))
    assert {e["hash"] for e in all_shards(second, "A")}.isdisjoint(first)
    assert {e["hash"]: documents_of(w, e) for e in all_shards(w, "A")} == first


def test_empty_buckets_and_empty_crawls_commit_empty_partitions(tmp_path):
    w = World.make(tmp_path, buckets=4)
    w.add("A", [])
    for made in w.run("A"):
        assert made.manifest.counts.docs_in == 0
    assert all_shards(w, "A") == []


def test_without_a_tokenizer_or_a_control_token_nothing_starts(tmp_path):
    w = World.make(tmp_path, tokenizer=None)
    with pytest.raises(ParameterError, match="not set"):
        tokenizer_of(w.part("tokens", "A", 0))
    w = World.make(tmp_path / "b", bos=True)
    with pytest.raises(ParameterError, match="bos_token"):
        tokenizer_of(w.part("tokens", "A", 0))
