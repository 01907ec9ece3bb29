"""Thin shards become new ones; everything that follows a document still finds it."""

import json

import numpy as np
import pytest

from gristmill.loader import TokenLoader
from gristmill.mixture import recipe as recipes
from gristmill.mixture.replay import replay
from gristmill.release.compaction import standing
from gristmill.release.examine import check, explain
from gristmill.release.lineage import Lineage
from gristmill.release.manifest import build_manifest, manifest_is_current
from gristmill.release.purge import purge
from gristmill.release.versions import retain, verify
from gristmill.release.whereabouts import Finder
from gristmill.tokens.stages import load_pinned
from tests.release.test_manifest import selected
from tests.release.world import World, many, shard_paths

SOURCES = {"few": {"where": "ensemble_percentile >= 0.65", "max_epochs": 99}}
PHASES = [
    {"name": n, "tokens": 3000, "seq_len": length, "packing": n, "samples_per_step": 4, "weights": {"few": "1"}}
    for n, length in (("concat", 64), ("best_fit", 128))
]


def recipe(below="0", sources=SOURCES, phases=PHASES):
    return recipes.parse({"seed": 3, "compact_below": below, "sources": sources, "phases": phases})


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> World:
    """One stratum of many small shards, about every other document of the upper half selected."""
    world = World.make(tmp_path_factory.mktemp("compaction"))
    docs = many(160)
    for i, d in enumerate(docs):
        d.percentile = 0.66 if i % 5 == 0 else 0.64  # one band, so one stratum; a fifth is selected
    world.ready("A", docs)
    return world


@pytest.fixture
def world(made, tmp_path) -> World:
    import shutil

    from gristmill.store import Store

    shutil.copytree(made.site.store, tmp_path / "store")
    site = made.site.model_copy(update={"store": str(tmp_path / "store")})
    return World(Store(site.store), made.plan, site, dict(made.docs))


def build(world, version, below="0", **more):
    return build_manifest(world.store, world.plan, world.site, recipe(below, **more), version)


def finder(world):
    return Finder(world.store, world.plan.fingerprints, world.plan.buckets, list(world.docs))


def texts_shown(world, version):
    """Every document whose tokens an epoch shows, decoded."""
    loader = TokenLoader(world.store.root, version, provenance=True)
    return {bytes(i).hex() for batch in loader for i in batch["doc_ids"][~batch["padded"]]}


def test_a_version_with_compaction_selects_the_same_and_reads_fewer_bytes(world):
    plain = build(world, "plain")
    before = {p: world.store.blobs.local(p).stat().st_mtime_ns for p, _ in world.store.blobs.list("shards")}
    told = explain(check(world.store, world.plan, world.site, recipe("0.5")))
    assert any("shards are thin" in line for line in told)
    assert {p for p, _ in world.store.blobs.list("shards")} == set(before), "a check writes nothing"
    dense = build(world, "dense", "0.5")
    assert selected(world, dense) == selected(world, plain)
    old, new = shard_paths(plain.manifest), shard_paths(dense.manifest)
    for source in dense.manifest["sources"].values():
        assert all(s["selected_docs"] >= s["n_docs"] / 2 for s in source["shards"])
    assert len(new) < len(old)
    size = lambda paths: sum(world.store.blobs.size(p + ".bin") for p in paths.values())
    assert size(new) < size(old) / 2
    for path, stamp in before.items():
        assert world.store.blobs.local(path).stat().st_mtime_ns == stamp, "the originals stay as they are"
    assert verify(world.store, "dense", deep=True) == []
    assert verify(world.store, "plain", deep=True) == []
    assert texts_shown(world, "dense") == {d.id.hex() for d in world.docs["A"] if d.percentile == 0.66}
    loader = TokenLoader(world.store.root, "dense")
    counted = replay(loader.schedule, loader.manifest.phases, loader.manifest.max_epochs, loader.sampler, 8)
    assert counted.holds


def test_building_again_rewrites_nothing_and_gives_the_same_version(world):
    first = build(world, "v1", "0.5")
    assert manifest_is_current(world.store, world.plan, world.site, recipe("0.5"), "v1")
    before = dict(world.store.blobs.list("shards"))
    again = build(world, "v1", "0.5")
    assert (again.hash, again.new) == (first.hash, False)
    # An opt-out of one page: its compacted shard serves on, without it.
    victim = next(d for d in world.docs["A"] if d.percentile == 0.66)
    from gristmill.release.tombstones import forget

    forget(world.store, victim.url)
    second = build(world, "v2", "0.5")
    assert dict(world.store.blobs.list("shards")) == before
    assert set(shard_paths(second.manifest)) == set(shard_paths(first.manifest))
    assert selected(world, first)["few"] - selected(world, second)["few"] == {victim.url}


def test_a_compacted_shard_that_has_become_thin_is_compacted_itself(world):
    build(world, "v1", "0.5")
    some = {"few": {"where": "ensemble_percentile >= 0.65 AND host = 'h0.example.org'", "max_epochs": 999}}
    tiny = [{**PHASES[0], "tokens": 512}]
    second = build(world, "v2", "0.5", sources=some, phases=tiny)
    want = {d.url for d in world.docs["A"] if d.percentile == 0.66 and d.host == "h0.example.org"}
    assert selected(world, second)["few"] == want
    for s in second.manifest["sources"]["few"]["shards"]:
        assert s["selected_docs"] == s["n_docs"]
    assert verify(world.store, "v2", deep=True) == []


def test_lineage_and_whereis_follow_a_document_into_a_compacted_shard(world):
    build(world, "v1", "0.5")
    tok = load_pinned(world.plan.params.tokenize, world.site.models)
    texts = {d.url: d for d in world.docs["A"]}
    line = Lineage(world.store, "v1")
    loader = TokenLoader(world.store.root, "v1")
    shown: dict[str, set[tuple[int, int]]] = {}
    for batch in loader:
        for i in range(len(batch["tokens"])):
            for piece in line.at(batch["step"], i):
                doc = texts[piece.provenance["url"]]
                own = [*tok.reference([doc.text]).ids.tolist(), tok.eos_id]
                part = batch["tokens"][i, piece.start : piece.start + piece.length].tolist()
                assert ",".join(map(str, part)) in ",".join(map(str, own))
                shown.setdefault(piece.doc_id, set()).add((batch["step"], i))
    for doc in world.docs["A"][::7]:
        found = {(r["step"], r["position"]) for r in line.whereis(doc.id.hex())}
        assert found == shown.get(doc.id.hex(), set())


def test_a_purge_reaches_every_copy(world):
    build(world, "v1", "0.5")
    victim, other = [d for d in world.docs["A"] if d.percentile == 0.66][:2]
    tok = load_pinned(world.plan.params.tokenize, world.site.models)
    ids = np.array(tok.reference([victim.text]).ids, "<u4").tobytes()

    def holders():
        bins = [p for p, _ in world.store.blobs.list("shards") if p.endswith(".bin")]
        return [p for p in bins if ids in world.store.blobs.get(p)]

    assert len(holders()) == 2, "the original and the compacted one"
    done = purge(world.store, finder(world), victim.url)
    assert len(done.shards) == 2
    assert holders() == []
    assert any("deleted because of" in p for p in verify(world.store, "v1"))
    second = build(world, "v2", "0.5")
    assert verify(world.store, "v2", deep=True) == []
    assert victim.url not in selected(world, second)["few"]
    assert len(standing(world.store)) >= 1
    line = Lineage(world.store, "v2")
    assert line.whereis(other.url), "others of the rewritten shard are still found"
    assert line.whereis(victim.id.hex()) == []


def test_retain_collects_compacted_shards_that_no_version_names(world):
    build(world, "v1", "0.5")
    build(world, "v2")
    n = len(standing(world.store))
    done = retain(world.store, 1, plan=world.plan)
    assert done.dropped == ("v1",)
    assert done.shards_deleted == n > 0
    assert standing(world.store) == {}
    assert list(world.store.blobs.list("registry/compacted")) == []
    assert verify(world.store, "v2", deep=True) == []
    assert json.loads(world.store.blobs.get("manifests/v2/manifest.json"))["version"] == "v2"
