import json
import re
from dataclasses import fields
from decimal import Decimal

import numpy as np
import pyarrow.parquet as pq
import pytest

from gristmill.errors import ManifestError, MissingPartitionError, RecipeError
from gristmill.funnel import Plan
from gristmill.loader.manifest import open_manifest
from gristmill.mixture import recipe as recipes
from gristmill.release.examine import check, explain
from gristmill.release.manifest import build_manifest, manifest_is_current
from gristmill.release.policy import Policy, parse
from gristmill.release.standing import read_hash, read_manifest
from gristmill.release.tombstones import forget
from gristmill.store import Store
from tests.release.conftest import DEMO
from tests.release.world import Doc, World, many


def build(world: World, recipe, version="v1", crawls=None, policy=None, **more):
    return build_manifest(world.store, world.plan, world.site, recipe, version, crawls, policy, **more)


def selected(world: World, built) -> dict[str, set[str]]:
    """source -> URLs of the documents that a manifest selects, read from the files it names."""
    path = built.manifest["selection"]["path"]
    table = pq.read_table(world.store.blobs.open_input(path)).to_pylist()
    url = {d.id: d.url for docs in world.docs.values() for d in docs}
    out: dict[str, set[str]] = {}
    paths = {s["hash"]: s["path"] for source in built.manifest["sources"].values() for s in source["shards"]}
    for row in table:
        docs = pq.read_table(world.store.blobs.open_input(paths[row["shard"]] + ".docs")).to_pylist()
        ordinals = range(len(docs)) if row["ordinals"] is None else row["ordinals"]
        out.setdefault(row["source"], set()).update(url[docs[i]["doc_id"]] for i in ordinals)
    return out


def changed(**more):
    return recipes.parse({**DEMO, **more})


def test_the_selection_is_what_a_plain_reading_of_recipe_and_policy_gives(world, recipe):
    built = build(world, recipe, policy=parse({"knowledge_cutoff": "2026-06-01", "safety": ["toxicity > 0.5"]}))
    out = {
        "https://optout.org/1",
        "https://held.org/1",
        "https://leak.org/1",
        "https://toxic.org/1",
        "https://late.org/1",
        "https://pair.org/first",
        "https://pair.org/second",
    }
    seen, hi, lo = set(), set(), set()
    for docs in world.docs.values():
        for d in sorted(docs, key=lambda d: (d.ts, d.record_id)):
            if d.id not in seen and d.url not in out:
                (hi if d.percentile >= 0.5 else lo).add(d.url)
            seen.add(d.id)
    found = selected(world, built)
    # A text that is in both crawls is named by the crawl that has it first, so compare texts' numbers.
    number = lambda urls: {u.rsplit("/", 1)[1] for u in urls}
    assert number(found["hi"]) == number(hi)
    assert number(found["lo"]) == number(lo)
    exclusions = {rule: {s: c["docs"] for s, c in by.items()} for rule, by in built.manifest["exclusions"].items()}
    assert exclusions == {
        "robots": {"hi": 2},
        "holdout": {"hi": 1},
        "contamination": {"lo": 1},
        "safety": {"lo": 1},
        "crawl_cutoff": {"hi": 1},
    }


def test_every_source_counts_what_its_shards_hold(world, recipe):
    built = build(world, recipe)
    statistics = json.loads(world.store.blobs.get(built.manifest["statistics"]["path"]))
    for name, source in built.manifest["sources"].items():
        hashes = [s["hash"] for s in source["shards"]]
        assert hashes == sorted(hashes)
        assert sum(s["selected_docs"] for s in source["shards"]) == statistics["parts"][name]["docs"]
        assert sum(s["selected_tokens"] for s in source["shards"]) == statistics["parts"][name]["tokens"]
        for s, n in zip(source["shards"], source["layouts"]["concat:64"], strict=True):
            assert n == s["selected_tokens"] // 64


def test_the_hash_does_not_depend_on_workers_or_order_or_time_or_the_store(world, recipe, tmp_path):
    first = build(world, recipe, crawls=["A", "B"])
    assert len(first.hash) == 64
    again = build(world, recipe, crawls=["B", "A"], workers=2)
    assert (again.hash, again.new) == (first.hash, False)
    other = World.make(tmp_path / "elsewhere")
    for crawl, docs in world.docs.items():
        other.add(crawl, docs)
        other.run(crawl, workers=2)
        other.report(crawl)
    assert build(other, recipe).hash == first.hash


def test_a_new_threshold_is_a_new_manifest_and_rewrites_no_shard(world, recipe):
    build(world, recipe)
    before = dict(world.store.blobs.list("shards"))
    stamp = {p: (world.store.blobs.local(p).stat().st_mtime_ns) for p in before}
    sources = {"hi": {"where": "ensemble_percentile >= 0.7"}, "lo": {"where": "ensemble_percentile < 0.7"}}
    second = build(world, changed(sources=sources), "v2")
    assert second.hash != read_hash(world.store, "v1")
    assert dict(world.store.blobs.list("shards")) == before
    assert {p: world.store.blobs.local(p).stat().st_mtime_ns for p in before} == stamp


def test_a_version_never_changes(world, recipe):
    built = build(world, recipe)
    forget(world.store, "h1.example.org")
    with pytest.raises(ManifestError, match="v1 stands with hash"):
        build(world, recipe)
    assert read_hash(world.store, "v1") == built.hash
    second = build(world, recipe, "v2")
    gone = selected(world, built)["hi"] - selected(world, second)["hi"]
    assert gone
    assert all("//h1.example.org/" in u for u in gone)
    assert build(world, recipe, replace=True).new


def test_current_means_that_a_build_would_write_nothing(world, recipe, tmp_path):
    args = (world.store, world.plan, world.site)
    assert not manifest_is_current(*args, recipe, "v1")
    build(world, recipe)
    assert manifest_is_current(*args, recipe, "v1")
    assert manifest_is_current(*args, recipe, "v1", ["B", "A"])
    assert not manifest_is_current(*args, recipe, "v1", ["A"])
    assert not manifest_is_current(*args, changed(seed=4), "v1")
    assert not manifest_is_current(*args, recipe, "v1", policy=Policy(robots=()))
    forget(world.store, "nobody.example.org")
    assert not manifest_is_current(*args, recipe, "v1")


def test_no_manifest_without_a_contamination_report_or_with_an_old_one(tmp_path, recipe):
    world = World.make(tmp_path)
    world.add("A", many(100))
    world.run("A")
    with pytest.raises(ManifestError, match="no contamination report"):
        build(world, recipe)
    world.report("A")
    build(world, recipe)
    part = world.part("contamination", "A", 0)  # found again, with something in it
    rows = [{"crawl": "A", "doc_id": b"0" * 16, "record_id": b"1" * 16, "benchmark": "x"}]
    from gristmill import schemas

    part.write(schemas.from_rows(rows, schemas.CONTAMINATION))
    world.commit(part)
    with pytest.raises(ManifestError, match="has changed since"):
        build(world, recipe, "v2")


def test_overlapping_sources_of_a_phase_are_refused_with_the_number(shared_world, recipe):
    sources = {"hi": {"where": "ensemble_percentile >= 0.4"}, "lo": {"where": "ensemble_percentile < 0.5"}}
    with pytest.raises(RecipeError, match=r"phase main sources hi and lo share \d+ documents"):
        build(shared_world, changed(sources=sources), "bad")


def test_sources_of_different_phases_may_overlap(world):
    phases = [
        {"name": "a", "tokens": 6000, "seq_len": 64, "samples_per_step": 8, "weights": {"all": "1"}},
        {"name": "b", "tokens": 3000, "seq_len": 64, "samples_per_step": 8, "weights": {"hi": "1"}},
    ]
    built = build(world, changed(sources={"all": {}, "hi": {"where": "ensemble_percentile >= 0.5"}}, phases=phases))
    found = selected(world, built)
    assert found["hi"] < found["all"]


def test_what_several_phases_show_counts_against_each_documents_cap(world):
    """2 epochs by the broad source and 2.5 by the narrow one are 4.5 of a document that is in both."""
    tokens = 25_000

    def phases(n):
        return [
            {"name": "a", "tokens": n, "seq_len": 64, "samples_per_step": 8, "weights": {"all": "1"}},
            {"name": "b", "tokens": n, "seq_len": 64, "samples_per_step": 8, "weights": {"hi": "1"}},
        ]

    def found(n, cap):
        sources = {"all": {"max_epochs": cap}, "hi": {"where": "ensemble_percentile >= 0.5", "max_epochs": cap}}
        return check(world.store, world.plan, world.site, changed(sources=sources, phases=phases(n)))

    fine = found(tokens, 4)
    assert fine.problems == []
    told = next(line for line in explain(fine) if "documents are in all and hi" in line)
    shared = sum(n for n in fine.counts["shared"].values())
    assert shared == fine.counts["parts"]["hi"]["docs"]
    total = sum(fine.schedule.epochs(fine.schedule.steps))
    assert f"{float(total):.2f} epochs together (cap 4)" in told
    alone = max(fine.schedule.epochs(fine.schedule.steps))
    tight = float(alone + (total - alone) / 2)  # each source by itself is under it, both together are not
    refused = found(tokens, f"{tight:.3f}")
    assert len(refused.problems) == 1
    assert re.search(rf"{shared} documents are in all and hi, which show them {float(total):.2f} epochs together",
                     refused.problems[0])


def test_a_cap_that_is_passed_is_refused_and_redistributed_when_asked(world):
    phases = [{**DEMO["phases"][0], "tokens": 30_000, "weights": {"few": "0.5", "rest": "0.5"}}]
    sources = {
        "few": {"where": "ensemble_percentile >= 0.95", "max_epochs": 2},
        "rest": {"where": "ensemble_percentile < 0.95"},
    }
    with pytest.raises(RecipeError, match=r"source few: 15k tokens asked .* over its cap of 2"):
        build(world, changed(sources=sources, phases=phases))
    built = build(world, changed(sources=sources, phases=phases, on_cap="redistribute"))
    assert [r.source for r in built.examined.schedule.redistributions] == ["few"]
    manifest = open_manifest(world.store.root, "v1", expected_hash=built.hash)
    assert manifest.schedule.epochs(manifest.schedule.steps)[0] <= 2
    told = "\n".join(explain(built.examined))
    assert "few meets its cap of 2" in told


def test_recipe_check_says_what_is_wrong_without_raising_and_writes_nothing(shared_world):
    before = list(shared_world.store.blobs.list(""))
    phases = [{**DEMO["phases"][0], "tokens": "25T"}]
    found = check(shared_world.store, shared_world.plan, shared_world.site, changed(phases=phases))
    assert found.problems
    told = "\n".join(explain(found))
    for part in ("source hi", "unique tokens", "epochs (cap 4)", "refused: source hi: 17.5T", "excluded by holdout"):
        assert part in told
    assert [p for p in shared_world.store.blobs.list("") if not p[0].startswith(".")] == [
        p for p in before if not p[0].startswith(".")
    ]


def test_what_is_missing_is_named(shared_world, recipe, tmp_path):
    with pytest.raises(ManifestError, match="no such crawl"):
        build(shared_world, recipe, "x", ["A", "C"])
    with pytest.raises(ManifestError, match="no version 'v9'"):
        read_manifest(shared_world.store, "v9")
    with pytest.raises(ManifestError, match="cannot name a version"):
        build(shared_world, recipe, "a/b")
    world = World.make(tmp_path)
    with pytest.raises(ManifestError, match="no crawl has been taken to the catalogue"):
        build(world, recipe)
    world.add("A", many(5))
    with pytest.raises((ManifestError, MissingPartitionError)):
        build(world, recipe, crawls=["A"])


def test_upsampling_inside_a_source_and_weights_by_length(world):
    sources = {
        "hi": {
            "where": "ensemble_percentile >= 0.5",
            "upsample": [{"where": "n_tokens >= 250", "factor": 3, "name": "long"}],
        },
        "lo": {"where": "ensemble_percentile < 0.5"},
    }
    built = build(world, changed(sources=sources))
    weights = {n: Decimal(w) for n, w in built.manifest["phases"][0]["weights"].items()}
    assert set(weights) == {"hi/long", "hi/rest", "lo"}
    assert weights["hi/long"] + weights["hi/rest"] == Decimal("0.7")
    n = {name: sum(s["layouts"]["concat:64"]) for name, s in built.manifest["sources"].items()}
    assert float(weights["hi/long"] / n["hi/long"] / (weights["hi/rest"] / n["hi/rest"])) == pytest.approx(3)
    assert open_manifest(world.store.root, "v1").schedule.steps > 0


def test_down_weighting_by_keyed_sampling(world, recipe):
    policy = parse({"downweight": [{"where": "ensemble_percentile < 0.5", "keep": "0.5"}]})
    one, two = build(world, recipe, "a", policy=policy), build(world, recipe, "b", policy=policy)
    whole = build(world, recipe, "c")
    assert selected(world, one) == selected(world, two)
    assert selected(world, one)["lo"] < selected(world, whole)["lo"]
    assert selected(world, one)["hi"] == selected(world, whole)["hi"]
    assert one.manifest["exclusions"]["downweight"]["lo"]["docs"] > 10


def test_elected_members_are_listed_for_tokenising(world, recipe):
    from gristmill.release.versions import to_tokenise

    built = build(world, recipe, policy=Policy())
    listed = to_tokenise(world.store, "v1")
    first, second = (next(d for d in world.docs["A"] if d.url == f"https://pair.org/{n}") for n in ("first", "second"))
    assert [(e["instead_of"], e["doc_id"], e["rule"]) for e in listed] == [(first.id.hex(), second.id.hex(), "robots")]
    assert listed[0]["host_bucket"] == world.bucket_of(second)
    assert built.manifest["reelected"]["documents"] == 1
    assert built.manifest["reelected"]["path"] == "manifests/v1/to_tokenise.json"


def test_one_member_of_a_cluster_is_shown_whether_or_not_it_was_tokenised_when_it_was_elected(tmp_path):
    from gristmill.release.versions import to_tokenise

    recipe = changed(sources={"all": {}}, phases=[{**DEMO["phases"][0], "tokens": 6000, "weights": {"all": "1"}}])

    world = World.make(tmp_path)
    docs = many(80)
    world.add("A", docs)
    world.run("A", ("tokens", "shards"))  # both have tokens ...
    docs[2].of = docs[1].url  # ... and are of one cluster, whose first is docs[1]
    docs[1].day, docs[2].day = "2026-01-01", "2026-01-02"
    fresh = World(world.store, world.plan, world.site)
    fresh.add("A", [Doc(**{f.name: getattr(d, f.name) for f in fields(Doc)}) for d in docs])
    fresh.run("A", ("catalogue_records", "catalogue"))
    fresh.report("A")
    both = {docs[1].url, docs[2].url}
    assert selected(fresh, build(fresh, recipe))["all"] & both == {docs[1].url}
    forget(fresh.store, docs[1].url)
    assert selected(fresh, build(fresh, recipe, "v2"))["all"] & both == {docs[2].url}
    assert to_tokenise(fresh.store, "v2") == [], "it has its tokens"


def test_a_recipe_file_with_its_policy_builds_what_the_objects_build(world, recipe, tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text(json.dumps({**DEMO, "policy": {"robots": []}}))
    built = build(world, path)
    assert built.hash == build(world, recipe, policy=Policy(robots=()), replace=False).hash
    assert "robots" not in built.manifest["exclusions"]


def test_related_and_best_fit_layouts_agree_with_the_loader(world):
    phases = [
        {**DEMO["phases"][0], "name": p, "packing": p, "seq_len": n, "tokens": 5000}
        for p, n in (("concat", 64), ("best_fit", 128), ("related", 256))
    ]
    build(world, changed(phases=phases, sources={n: {**s, "max_epochs": 9} for n, s in DEMO["sources"].items()}))
    from gristmill.loader import TokenLoader

    shown = [b["tokens"].shape for b in TokenLoader(world.store.root, "v1")]
    assert {s[1] for s in shown} == {64, 128, 256}


def test_killed_between_selection_and_manifest_leaves_nothing_a_reader_sees(world, recipe, monkeypatch):
    put_file = type(world.store.blobs).put_file

    def failing(self, path, source):
        if path.endswith("/manifest.json"):
            raise KeyboardInterrupt
        put_file(self, path, source)

    monkeypatch.setattr(type(world.store.blobs), "put_file", failing)
    with pytest.raises(KeyboardInterrupt):
        build(world, recipe)
    with pytest.raises(ManifestError, match="no version"):
        read_manifest(world.store, "v1")
    monkeypatch.undo()
    built = build(world, recipe)
    assert built.new
    assert built.hash == build(world, recipe).hash


def test_a_second_plan_has_its_own_manifest(world, recipe):
    tokenize = world.plan.params.tokenize.model_copy(update={"eos": False})
    plan = Plan(world.plan.params.model_copy(update={"tokenize": tokenize}))
    other = World(Store(world.site.store), plan, world.site, world.docs)
    with pytest.raises(ManifestError):
        build(other, recipe)
    one = build(world, recipe)
    for crawl in world.docs:
        other.run(crawl)
        other.report(crawl)
    two = build(other, recipe, "v2")
    assert two.manifest["fingerprints"]["tokens"] != one.manifest["fingerprints"]["tokens"]
    assert np.isclose(len(two.manifest["sources"]), len(one.manifest["sources"]))


def test_a_second_tokenizer_is_written_beside_the_first_and_both_versions_read(world, recipe, tmp_path):
    from gristmill import models
    from gristmill.loader import TokenLoader
    from gristmill.release.versions import verify
    from gristmill.tokens.stages import load_pinned
    from gristmill.tokens.train import train_bpe

    one = build(world, recipe)
    stream = [b["tokens"].tobytes() for b in TokenLoader(world.store.root, "v1")]
    before = {p: world.store.blobs.get(p) for p, _ in world.store.blobs.list("shards") if not p.endswith(".json")}
    file = tmp_path / "second.json"
    train_bpe([d.text for d in world.docs["A"]], 450, file)
    ref = models.put(file, world.site.models)
    tokenize = world.plan.params.tokenize.model_copy(update={"tokenizer": ref})
    plan = Plan(world.plan.params.model_copy(update={"tokenize": tokenize}))
    other = World(Store(world.site.store), plan, world.site, world.docs)
    for crawl in world.docs:
        other.run(crawl)
        other.report(crawl)
    two = build(other, recipe, "v2")
    assert two.manifest["tokenizer"]["sha256"] != one.manifest["tokenizer"]["sha256"]
    assert all(world.store.blobs.get(p) == data for p, data in before.items()), "nothing of the first was touched"
    for built in (one, two):
        assert verify(world.store, built.version, deep=True, expected_hash=built.hash) == []
    assert [b["tokens"].tobytes() for b in TokenLoader(world.store.root, "v1")] == stream
    first = load_pinned(world.plan.params.tokenize, world.site.models)
    encode = lambda text: first.reference([text]).ids.tolist()
    TokenLoader(world.store.root, "v1", tokenizer=encode)
    with pytest.raises(ManifestError, match="tokenizer"):
        TokenLoader(world.store.root, "v2", tokenizer=encode)
