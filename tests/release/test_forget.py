"""Deleting a document's bytes wherever they are: other parameters' results, older versions' shards, archives."""

from dataclasses import replace

import pytest

from gristmill import schemas
from gristmill.errors import ArchivedPartitionError
from gristmill.funnel import Plan
from gristmill.identity import url_hash
from gristmill.plan import archive as cold
from gristmill.release.purge import purge
from gristmill.release.tombstones import entries
from gristmill.release.versions import retain, verify
from gristmill.store import Key
from tests.release.test_versions import build, finder, holding
from tests.release.world import World, plain_manifest, shard_paths

URL = "https://h1.example.org/1"


def victim_of(world: World):
    return next(d for d in world.docs["A"] if d.url == URL)


def other_parameters(world: World) -> World:
    """The same store, tokenised by other parameters: other tokens, and other shards (a shard holds no BOS then)."""
    tokenize = world.plan.params.tokenize.model_copy(update={"eos": False})
    other = World(world.store, Plan(world.plan.params.model_copy(update={"tokenize": tokenize})), world.site,
                  dict(world.docs))
    for crawl in world.docs:
        other.run(crawl)
        other.report(crawl)
    return other


def test_tables_and_shards_of_other_parameters_lose_the_bytes_too(world):
    build(world)
    other = other_parameters(world)
    build(other, "v2")
    assert not set(shard_paths(plain_manifest(world.store, "v1"))) & set(shard_paths(
        plain_manifest(world.store, "v2")))
    # A text of the same record by an engine that nobody uses any more: another fingerprint, named by no version.
    key = world.part("text", "A", world.bucket_of(victim_of(world))).key()
    old = replace(key, fingerprint="0123456789abcdef")
    for path, _ in list(world.store.blobs.list(key.path)):
        world.store.blobs.put(path.replace(key.path, old.path), world.store.blobs.get(path))
    assert len(holding(world, victim_of(world))) >= 5
    done = purge(world.store, finder(other), URL)
    assert holding(world, victim_of(world)) == []
    assert len(done.shards) == 2
    assert f"{old.path}" in done.scrubbed
    assert {p.split("/")[0] for p in done.scrubbed} == {"text", "tokens"}
    for version in ("v1", "v2"):
        assert [p for p in verify(world.store, version) if "deleted because of" not in p] == []
        assert len(verify(world.store, version)) == 1
    assert world.store.read(old, ["doc_id"]).num_rows == world.store.read(key, ["doc_id"]).num_rows


def test_a_shard_that_nothing_names_is_named_with_what_deletes_it(world):
    other = other_parameters(world)  # no version was built of the first parameters
    build(other)
    done = purge(world.store, finder(other), URL)
    held = holding(world, victim_of(world))
    assert len(held) == 1
    line = next(said for said in done.left if held[0].removesuffix(".bin") in said)
    assert "`gristmill manifest retain 1`" in line
    assert retain(world.store, 1, plan=other.plan).dropped == ()
    assert holding(world, victim_of(world)) == []


def test_an_archive_is_named_at_once_and_before_anything_goes(world, tmp_path):
    build(world)
    before = {p: s for p, s in world.store.blobs.list("") if p.startswith("shards/")}
    place = str(tmp_path / "cold")
    cold.archive(world.store, "A", place, assets=["text", "tokens"])
    with pytest.raises(ArchivedPartitionError, match="`gristmill restore A --asset text --asset tokens`") as error:
        purge(world.store, finder(world), URL)
    assert "nothing was deleted" in str(error.value)
    assert {p: s for p, s in world.store.blobs.list("") if p.startswith("shards/")} == before
    assert entries(world.store) == []
    cold.restore(world.store, "A")
    done = purge(world.store, finder(world), URL)
    assert holding(world, victim_of(world)) == []
    bucket = world.bucket_of(victim_of(world))
    for asset in ("text", "tokens"):
        key = Key(asset, world.plan.fingerprints[asset], "A", bucket)
        assert any(said.startswith(f"{place}/{key.path}: a copy in an archive") for said in done.left)


def test_an_archive_of_an_earlier_release_is_known_once_it_was_restored(world, tmp_path):
    cold.archive(world.store, "A", str(tmp_path / "cold"), assets=["text"])
    for path, _ in list(world.store.blobs.list("registry/archives")):
        world.store.blobs.delete(path)
    cold.restore(world.store, "A")
    assert any("a copy in an archive" in said for said in purge(world.store, finder(world), URL).left)


def test_a_fetch_that_came_to_no_catalogue_loses_its_text(world):
    victim = victim_of(world)
    for asset in ("catalogue", "exact"):
        for path, _ in list(world.store.blobs.list(asset)):
            world.store.blobs.delete(path)
    row = {"crawl": "A", "record_id": victim.record_id, "url": URL, "url_hash": url_hash(URL), "fetch_ts": victim.ts}
    world._put("raw_warc", "A", world.bucket_of(victim), schemas.RAW_INDEX, [row])
    done = purge(world.store, finder(world), URL)
    assert {p.split("/")[0] for p in done.scrubbed} == {"text", "tokens"}
    assert [p for p in holding(world, victim) if p.endswith(".parquet")] == []
    assert any("crawl_slices of A" in said for said in done.left)
