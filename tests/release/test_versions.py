import json

import numpy as np
import pytest
import yaml

from gristmill.cli import main
from gristmill.errors import ManifestError
from gristmill.fingerprint import canonical_json
from gristmill.mixture import recipe as recipes
from gristmill.partition import is_current
from gristmill.release.manifest import build_manifest
from gristmill.release.purge import purge
from gristmill.release.ship import ship
from gristmill.release.standing import next_name, read_manifest, registered
from gristmill.release.tombstones import classify, entries, forget, host_covered, normal, read
from gristmill.release.versions import diff, retain, to_tokenise, verify
from gristmill.release.whereabouts import Finder
from gristmill.store import Store
from gristmill.tokens.stages import load_pinned
from tests.release.conftest import DEMO
from tests.release.test_manifest import selected
from tests.release.world import World, plain_manifest, shard_paths


def build(world: World, version="v1", **changes):
    return build_manifest(world.store, world.plan, world.site, recipes.parse({**DEMO, **changes}), version)


def finder(world: World) -> Finder:
    return Finder(world.store, world.plan.fingerprints, world.plan.buckets, list(world.docs))


# -- verify, diff --


def test_verify_names_every_kind_of_damage(world):
    built = build(world)
    assert verify(world.store, "v1", deep=True, expected_hash=built.hash) == []
    with pytest.raises(ManifestError, match="asked for is"):
        verify(world.store, "v1", expected_hash="0" * 64)
    paths = sorted(shard_paths(built.manifest).values())
    local = world.store.blobs.local
    local(paths[0] + ".bin").unlink()
    local(paths[1] + ".bin").write_bytes(local(paths[1] + ".bin").read_bytes()[:-4])
    data = bytearray(local(paths[2] + ".bin").read_bytes())
    data[5] ^= 1
    local(paths[2] + ".bin").write_bytes(data)
    shallow, deep = verify(world.store, "v1"), verify(world.store, "v1", deep=True)
    assert [p.split(" ")[1] for p in shallow] == [
        p.split("/")[2][:16] for p in sorted(paths[:2], key=lambda p: p.split("/")[2])
    ]
    assert any("damaged" in p for p in deep)
    assert len(deep) == 3
    local(built.manifest["selection"]["path"]).unlink()
    assert any("selection.parquet is missing" in p for p in verify(world.store, "v1"))


def test_a_version_of_an_earlier_release_is_verified_by_what_it_has(world):
    built = build(world)
    old = {**built.manifest, "reelected": {"documents": 0, "sha256": "0" * 64}}
    world.store.blobs.put(built.path, canonical_json(old))
    assert verify(world.store, "v1", deep=True) == []
    with pytest.raises(ManifestError, match="earlier release"):
        to_tokenise(world.store, "v1")


def test_a_manifest_that_is_not_one_is_refused(world):
    build(world)
    path = world.store.blobs.local("manifests/v1/manifest.json")
    for content in (b"{", b"{}", json.dumps({"kind": "gristmill-manifest", "format": 2}).encode()):
        path.write_bytes(content)
        with pytest.raises(ManifestError):
            read_manifest(world.store, "v1")


@pytest.mark.parametrize(("kind", "what"), [
    ("url", "http:///"), ("url", "http://:80/x"), ("url", "https://user@/x"), ("host", ""), ("host", "."),
    ("host", "a b.org"), ("host", "a..org"), ("host", "a.org/x"), ("contract", " "), ("doc", ""),
])
def test_a_tombstone_that_can_name_nothing_is_refused(world, kind, what):
    with pytest.raises(ManifestError):
        forget(world.store, what, kind=kind)


def test_forget_says_how_many_documents_it_names_today(world, tmp_path, capsys):
    file = tmp_path / "pipeline.yaml"
    file.write_text(yaml.safe_dump({"site": {"store": str(world.store.root)},
                                    "params": world.plan.params.model_dump(mode="json", exclude_unset=True)}))
    find = finder(world)
    rows = [r for crawl in world.docs for bucket in range(world.plan.buckets)
            for r in world.store.read(find.key("catalogue", crawl, bucket), ["url", "host", "doc_id"]).to_pylist()]
    one = rows[0]
    under = [r for r in rows if r["host"].endswith("." + one["host"].partition(".")[2])]
    assert 1 <= len([r for r in rows if r["host"] == one["host"]]) < len(under)
    for what, count in (
        (one["url"], sum(r["url"] == one["url"] for r in rows)),
        (one["doc_id"].hex(), sum(r["doc_id"] == one["doc_id"] for r in rows)),
        (one["host"], sum(r["host"] == one["host"] for r in rows)), (one["host"].partition(".")[2], len(under)),
        ("nosuchhost.example", 0), ("http://nosuchhost.example/x", 0),
    ):
        assert main(["forget", what, "--pipeline", str(file)]) == 0
        told = capsys.readouterr()
        assert f"{count:,} documents today" in told.out
        assert ("warning: no document" in told.err) == (count == 0)
    assert len(read(world.store)) == 6  # written also where it names nothing: it holds for what comes


def test_diff_says_what_changed(world):
    build(world)
    assert diff(world.store, "v1", "v1")["same"]
    forget(world.store, "h1.example.org")
    build(world, "v2", seed=4)
    found = diff(world.store, "v1", "v2")
    assert found["recipe"] == {"seed": [3, 4]}
    assert list(found["registries"]) == ["tombstones"]
    assert found["policy"] == {}
    assert set(found["sources"]) == {"hi", "lo"}
    assert found["sources"]["hi"]["docs"][0] > found["sources"]["hi"]["docs"][1]
    assert set(found["exclusions"]) == {"tombstone_host"}
    assert found["shards"]["kept"] > 0
    assert found["summary"][:2] == ["recipe changed: seed", "registries changed: tombstones"]


def test_diff_says_so_where_only_what_made_them_differs(world):
    build(world)
    body = plain_manifest(world.store, "v1")
    body["version"], body["fingerprints"]["text"] = "v2", "0" * 16
    world.store.blobs.put("manifests/v2/manifest.json", json.dumps(body).encode())
    found = diff(world.store, "v1", "v2")
    assert not found["same"]
    assert list(found["fingerprints"]) == ["text"]
    assert found["summary"] == [
        "the same documents of the same shards are selected", "made by other parameters or releases of: text",
    ]
    del body["fingerprints"]["text"]
    body["fingerprints"] = plain_manifest(world.store, "v1")["fingerprints"]
    world.store.blobs.put("manifests/v3/manifest.json", json.dumps({**body, "version": "v3"}).encode())
    assert diff(world.store, "v1", "v3")["summary"][-1] == "they differ in name only"


def test_the_next_name_was_never_used():
    assert next_name([]) == "v1"
    assert next_name(["trial"]) == "v1"
    assert next_name(["v1", "trial", "v2"]) == "v3"
    assert next_name(["v3", "a"]) == "v4"
    assert next_name(["v10", "v9", "v2b", "version11"]) == "v11"


# -- ship --


def test_ship_copies_only_what_the_target_lacks(world, tmp_path):
    build(world)
    target = Store(tmp_path / "other")
    would = ship(world.store, "v1", target, dry_run=True)
    assert list(target.blobs.list("shards")) == []
    first = ship(world.store, "v1", target)
    assert first == would
    assert first.shards_copied == first.shards_named > 3
    assert first.bytes_copied == first.bytes_named
    assert verify(target, "v1", deep=True) == []
    again = ship(world.store, "v1", target)
    assert (again.shards_copied, again.bytes_copied) == (0, 0)
    sources = {"hi": {"where": "ensemble_percentile >= 0.6"}, "lo": {"where": "ensemble_percentile < 0.6"}}
    build(world, "v2", sources=sources)
    delta = ship(world.store, "v2", target)
    assert delta.shards_copied == 0, "a new threshold names the same shards"
    assert 0 < delta.bytes_copied < first.bytes_copied
    assert delta.cost(20.0) == pytest.approx(delta.bytes_copied * 20e-12)


def test_what_is_beside_a_manifest_is_shipped_with_it(world, tmp_path):
    build(world)
    target = Store(tmp_path / "other")
    ship(world.store, "v1", target)
    here, there = (dict(x.blobs.list("manifests/v1")) for x in (world.store, target))
    assert there == here
    assert sum("/excluded/" in path for path in there) == len(world.docs) * world.plan.buckets


def test_retain_where_versions_were_shipped_keeps_what_they_name(world, tmp_path):
    target = Store(tmp_path / "other")
    for version, seed in (("v1", 5), ("v2", 6), ("v3", 7)):
        build(world, version, seed=seed)
        ship(world.store, version, target)
        ship(world.store, version, target)
    assert registered(target) == ["v1", "v2", "v3"]
    done = retain(target, 2)
    assert (done.kept, done.dropped, done.shards_deleted) == (("v2", "v3"), ("v1",), 0)
    assert verify(target, "v3", deep=True) == []
    for path, _ in list(target.blobs.list("registry/versions")):  # as a copy made by hand is: in no order
        target.blobs.delete(path)
    assert retain(target, 1).shards_deleted == 0
    assert verify(target, "v2", deep=True) == verify(target, "v3", deep=True) == []


def test_ship_stops_before_anything_is_visible_when_a_shard_is_missing(world, tmp_path):
    built = build(world)
    world.store.blobs.delete(sorted(shard_paths(built.manifest).values())[-1] + ".bin")
    target = Store(tmp_path / "other")
    with pytest.raises(ManifestError, match="missing"):
        ship(world.store, "v1", target)
    with pytest.raises(ManifestError, match="no version"):
        read_manifest(target, "v1")


@pytest.mark.service
def test_ship_to_s3_and_read_there(world, s3_server, monkeypatch):
    build(world)
    target = Store("s3://mill/copy", s3_server.options())
    assert ship(world.store, "v1", target).shards_copied > 0
    assert ship(world.store, "v1", target).bytes_copied == 0
    assert verify(target, "v1", deep=True) == []


# -- retain --


def test_retain_keeps_the_last_versions_and_the_shards_they_name(world):
    tokenize = world.plan.params.tokenize.model_copy(update={"eos": False})
    other = World(
        world.store,
        type(world.plan)(world.plan.params.model_copy(update={"tokenize": tokenize})),
        world.site,
        world.docs,
    )
    one = shard_paths(build(world).manifest)
    for crawl in world.docs:
        other.run(crawl)
        other.report(crawl)
    two = build(other, "v2")
    three = build(other, "v3", seed=5)
    assert registered(world.store) == ["v1", "v2", "v3"]
    plan = retain(world.store, 2, dry_run=True)
    assert verify(world.store, "v1") == []
    done = retain(world.store, 2)
    assert done == plan
    assert (done.kept, done.dropped) == (("v2", "v3"), ("v1",))
    assert done.shards_deleted >= len(one)
    for built in (two, three):
        assert verify(world.store, built.version, deep=True, expected_hash=built.hash) == []
    with pytest.raises(ManifestError, match="no version"):
        read_manifest(world.store, "v1")
    assert retain(world.store, 2).shards_deleted == 0
    with pytest.raises(ManifestError, match="at least one"):
        retain(world.store, 0)


def test_retain_keeps_shards_that_the_next_version_will_name(world):
    sources = {"hi": {"where": "ensemble_percentile >= 0.9", "max_epochs": 99}}
    phases = [{**DEMO["phases"][0], "tokens": 5000, "weights": {"hi": "1"}}]
    build(world, sources=sources, phases=phases)
    assert retain(world.store, 1, plan=world.plan).shards_deleted == 0
    assert retain(world.store, 1).shards_deleted > 0
    assert verify(world.store, "v1", deep=True) == []


# -- tombstones and purges --


def test_what_a_bare_argument_means():
    assert classify("https://a.org/x") == "url"
    assert classify("a.org") == "host"
    assert classify("0" * 32) == "doc"
    for mistyped in ("ACME 2024/7", "", "not a thing", "acme"):
        with pytest.raises(ManifestError, match="--kind contract"):
            classify(mistyped)
    assert normal("url", "HTTP://A.org:80/x#y") == "http://a.org/x"
    for kind, bad in (("url", "a.org/x"), ("doc", "xyz"), ("doc", "00")):
        with pytest.raises(ManifestError):
            normal(kind, bad)


def test_hosts_cover_what_is_under_them_only():
    stones = frozenset({"b.org"})
    assert host_covered("b.org", stones)
    assert host_covered("x.y.b.org", stones)
    assert not host_covered("ab.org", stones)
    assert not host_covered("b.org.evil.com", stones)


def test_a_tombstone_is_written_once_and_stays(world):
    first = forget(world.store, "https://a.org/x", reason="asked for")
    assert forget(world.store, "https://A.org:443/x#z", reason="again") == first
    assert [e["reason"] for e in entries(world.store)] == ["asked for"]
    assert len(read(world.store)) == 1
    before = read(world.store).digest
    forget(world.store, "b.org")
    assert read(world.store).digest != before


def test_a_purge_takes_the_bytes_and_leaves_the_rest_readable(world):
    old = build(world)
    victim = next(d for d in world.docs["A"] if d.url == "https://h1.example.org/1")
    done = purge(world.store, finder(world), victim.url, reason="court order")
    assert done.documents == [victim.id.hex()]
    assert len(done.shards) == 1
    assert {p.split("/")[0] for p in done.scrubbed} == {"text", "tokens"}
    assert not holding(world, victim), "no file below the store holds its text or its tokens"
    others = [d for d in world.docs["A"] if d is not victim]
    assert all(holding(world, d) for d in others[:20])
    for stage in ("tokens", "shards", "catalogue"):
        for bucket in range(world.plan.buckets):
            assert is_current(world.part(stage, "A", bucket)), "nothing need run again"
    problems = verify(world.store, "v1")
    assert len(problems) == 1
    assert "deleted because of registry/tombstones/url-" in problems[0]
    # The next version reads everything else, and nothing was tokenised again.
    before = selected_texts(world, old, skip=set(done.shards))
    new = build(world, "v2")
    assert verify(world.store, "v2", deep=True) == []
    after = {u for urls in selected(world, new).values() for u in urls}
    assert victim.url not in after
    assert before <= after
    assert sum(len(v) for v in selected(world, new).values()) >= 130
    # Purging again finds nothing more to take.
    assert purge(world.store, finder(world), victim.url).shards == {}


def holding(world: World, doc) -> list[str]:
    """Files of the store that hold a document's text or its token ids."""
    import pyarrow.parquet as pq

    ids = load_pinned(world.plan.params.tokenize, world.site.models).reference([doc.text]).ids.astype("<u4").tobytes()
    out = []
    for path, _ in world.store.blobs.list(""):
        if path.endswith(".bin") and ids in world.store.blobs.get(path):
            out.append(path)
        if path.endswith(".parquet"):
            table = pq.read_table(world.store.blobs.open_input(path))
            for name in {"text", "ids"} & set(table.column_names):
                for value in table.column(name).to_pylist():
                    held = np.array(value, "<u4").tobytes() if name == "ids" else value.encode()
                    if (ids if name == "ids" else doc.text.encode()) in held:
                        out.append(path)
    return out


def selected_texts(world: World, built, skip: set[str]) -> set[str]:
    manifest = json.loads(json.dumps(built.manifest))
    out = set()
    import pyarrow.parquet as pq

    url = {d.id: d.url for docs in world.docs.values() for d in docs}
    for source in manifest["sources"].values():
        for s in source["shards"]:
            if s["path"] not in skip and s["selected_docs"] == s["n_docs"]:
                docs = pq.read_table(world.store.blobs.open_input(s["path"] + ".docs")).to_pylist()
                out |= {url[d["doc_id"]] for d in docs}
    return out


def test_a_purged_host_and_then_another_document_of_a_replaced_shard(world):
    purge(world.store, finder(world), "h2.example.org")
    survivors = [d for d in world.docs["A"] if d.host == "h3.example.org"]
    for d in survivors[:3]:
        purge(world.store, finder(world), d.id.hex())
    new = build(world, "v2")
    assert verify(world.store, "v2", deep=True) == []
    after = {u for urls in selected(world, new).values() for u in urls}
    assert not any("//h2." in u for u in after)
    assert not {d.url for d in survivors[:3]} & after
    assert {d.url for d in survivors[3:] if d.percentile is not None} <= after


def test_a_contract_is_purged_through_its_containers(world):
    with pytest.raises(ManifestError, match="containers"):
        purge(world.store, finder(world), "acme-2024", kind="contract")


def test_the_command_deletes_and_says_what_still_holds_the_bytes(world, monkeypatch, capsys, tmp_path):
    from types import SimpleNamespace

    from gristmill.cli import main
    from gristmill.commands import dataset

    build(world)
    ship(world.store, "v1", Store(tmp_path / "copy"))
    place = SimpleNamespace(store=world.store, plan=world.plan, site=world.site)
    monkeypatch.setattr(dataset, "pipeline_of", lambda args: place)
    assert main(["forget", "https://h1.example.org/1", "--delete-bytes"]) == 0
    said = capsys.readouterr().out
    assert "1 documents: 1 shards rewritten, 2 tables scrubbed" in said
    assert f"{tmp_path / 'copy'}: a copy of version v1" in said
    assert "contamination_report --force" in said
    assert [e["value"] for e in entries(world.store)] == ["https://h1.example.org/1"]
