import pyarrow as pa

from gristmill import schemas
from tests.release.world import Doc, World, some_text


def make(tmp_path, docs) -> World:
    world = World.make(tmp_path)
    world.add("A", docs)
    world.run("A")
    return world


def rows(world: World, asset: str) -> dict[str, dict]:
    out = {}
    for b in range(world.plan.buckets):
        table = world.part(asset, "A", b).read(asset)
        assert (
            table.column("record_id").to_pylist() == sorted(table.column("record_id").to_pylist())
            or asset == "catalogue"
        )
        out.update({r["url"]: r for r in table.to_pylist()})
    return out


def test_one_row_a_document_with_everything_that_is_known(tmp_path):
    text = some_text(1, 300)
    docs = [
        Doc(
            "https://a.org/1",
            text,
            license_id="cc-by",
            source_id="batch-7/1",
            toxicity=0.25,
            percentile=0.8,
            pii=[(0, 3, "email"), (9, 12, "phone")],
        ),
        Doc("https://b.org/copy", text, day="2026-04-01"),
        Doc("https://c.org/near", some_text(2), of="https://a.org/1"),
        Doc("https://d.org/leak", some_text(3), benchmark="gsm8k"),
        Doc("https://e.org/bad", "word " * 900),
    ]
    world = make(tmp_path, docs)
    found = rows(world, "catalogue")
    assert set(found) == {d.url for d in docs} - {"https://b.org/copy"}
    a = found["https://a.org/1"]
    assert (a["source_id"], found["https://d.org/leak"]["source_id"]) == ("batch-7/1", None)
    assert (a["license_id"], a["n_pii"], a["dup_count"], a["dup_cluster_size"]) == ("cc-by", 2, 2, 2)
    assert (a["survives"], a["contaminated"], a["benchmarks"]) == (True, False, [])
    assert a["word_count"] == len(text.split())
    assert abs(a["ensemble_percentile"] - 0.8) < 1e-6
    assert a["n_tokens"] > 100
    assert a["shard"] is not None
    assert a["length_bucket"] == 0
    c = found["https://c.org/near"]
    assert (c["survives"], c["dup_of"], c["shard"], c["n_tokens"], c["word_count"]) == (
        False,
        docs[0].id,
        None,
        None,
        None,
    )
    d = found["https://d.org/leak"]
    assert (d["contaminated"], d["benchmarks"], d["longest_run"]) == (True, ["gsm8k"], 30)
    e = found["https://e.org/bad"]
    assert (e["not_tokenised"], e["shard"], e["length_bucket"]) == ("low_entropy", None, 1)
    assert e["not_tokenised_value"] < e["not_tokenised_bound"] == 2.0


def test_a_semantic_duplicate_is_listed_and_is_neither_tokenised_nor_a_survivor(tmp_path):
    docs = [
        Doc("https://a.org/1", some_text(1), tier="synthetic"),
        Doc("https://b.org/2", some_text(2), tier="synthetic", means="https://a.org/1"),
    ]
    world = make(tmp_path, docs)
    found = rows(world, "catalogue")
    kept, gone = (found[d.url] for d in docs)
    assert (kept["survives"], kept["semantic_of"]) == (True, None)
    assert kept["shard"] is not None
    assert (gone["survives"], gone["semantic_of"], gone["semantic_cosine"], gone["shard"], gone["n_tokens"]) == (
        False, docs[0].id, 0.96875, None, None,
    )
    told = [d for b in range(world.plan.buckets) for d in world.part("tokens", "A", b).read("tokens").to_pylist()]
    assert [d["doc_id"] for d in told] == [docs[0].id]


def test_one_row_a_record_with_what_policy_reads(tmp_path):
    text = some_text(1)
    docs = [
        Doc("https://a.org/1", text, robots="retro_optout"),
        Doc("https://b.org/copy", text, day="2026-04-01", holdout="web_sample"),
        Doc("https://c.org/near", some_text(2), of="https://a.org/1"),
        Doc("https://trap.example.net/1", some_text(4)),
    ]
    found = rows(make(tmp_path, docs), "catalogue_records")
    assert set(found) == {d.url for d in docs}
    a, b, c, t = (found[d.url] for d in docs)
    assert (a["first"], a["robots_state"], a["holdout"]) == (True, "retro_optout", None)
    assert (b["first"], b["holdout"]) == (False, "web_sample")
    assert a["dup_cluster_id"] == b["dup_cluster_id"] == c["dup_cluster_id"], "a copy in another bucket too"
    assert t["dup_cluster_id"] is None
    assert [r["trap"] for r in (a, b, c, t)] == [False, False, False, True]


def test_every_column_has_a_description():
    for schema in (schemas.CATALOGUE, schemas.CATALOGUE_RECORDS, schemas.TOKENS, schemas.SHARDS, schemas.SHARDED_DOCS):
        assert isinstance(schema, pa.Schema)
        assert all(f.metadata and f.metadata[b"description"] for f in schema)
