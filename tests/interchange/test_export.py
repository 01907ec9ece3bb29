import numpy as np
import pytest

from gristmill.errors import LandingError
from gristmill.funnel import BY_NAME
from gristmill.interchange import jsonl, megatron
from gristmill.interchange.export import documents, export, export_megatron, tokens
from gristmill.interchange.importing import import_jsonl
from gristmill.mixture import recipe as recipes
from gristmill.registry import Registry
from gristmill.release.manifest import build_manifest
from gristmill.runner import run_funnel, run_stage
from gristmill.store import Key
from gristmill.tokens.stages import load_pinned
from tests.extract.crawl import Crawl
from tests.release.world import Doc, World, many, some_text


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> World:
    world = World.make(tmp_path_factory.mktemp("x"))
    mail = Doc("https://mail.org/1", "ask jo@x.org\n" + some_text(77), pii=[(4, 12, "email")], percentile=0.9)
    world.ready("A", [*many(60), mail])
    recipe = recipes.parse(
        {
            "sources": {
                "hi": {"where": "ensemble_percentile >= 0.5", "max_epochs": 9},
                "lo": {"where": "ensemble_percentile < 0.5"},
            },
            "phases": [
                {
                    "name": "p",
                    "tokens": 3000,
                    "seq_len": 64,
                    "samples_per_step": 2,
                    "weights": {"hi": "0.5", "lo": "0.5"},
                }
            ],
        }
    )
    build_manifest(world.store, world.plan, world.site, recipe, "v1")
    return world


@pytest.mark.parametrize("shape", jsonl.SHAPES)
def test_export_and_read_back(world, tmp_path, shape):
    files = export(world.store, world.plan, world.site, "A", tmp_path, shape=shape)
    back = {d.doc_id: d for d in jsonl.read(files)}
    assert set(back) == {d.id.hex() for d in world.docs["A"]}
    for doc in world.docs["A"]:
        found = back[doc.id.hex()]
        assert found.text == doc.text.replace("jo@x.org", "[EMAIL]"), "what leaves is the released text"
        assert (found.url, found.lang) == (doc.url, "eng")
        assert found.provenance_ref == f"A/{world.bucket_of(doc):04d}/{doc.record_id.hex()}"
    again = jsonl.write(jsonl.read(files), tmp_path / "again", "A", shape)
    assert [f.read_bytes() for f in files] == [f.read_bytes() for f in again]


def test_extracted_text_is_exported_only_when_asked(world):
    args = (world.store, world.plan, world.site, "A")
    found = next(d for d in documents(*args, released=False) if d.url == "https://mail.org/1")
    assert "jo@x.org" in found.text
    with pytest.raises(jsonl.InterchangeError, match="released"):
        list(documents(*args, after="exact"))
    assert len(list(documents(*args, after="exact", released=False))) == 61


def test_megatron_files_hold_every_selected_document_once(world, tmp_path):
    prefixes = export_megatron(world.store, "v1", tmp_path)
    tok = load_pinned(world.plan.params.tokenize, world.site.models)
    found = sorted(tuple(ids.tolist()) for p in prefixes for ids in megatron.read(p))
    texts = [d.text.replace("jo@x.org", "[EMAIL]") for d in world.docs["A"]]
    assert found == sorted((*tok.reference([t]).ids.tolist(), tok.eos_id) for t in texts)
    assert [p.name for p in prefixes] == ["hi", "lo"]
    assert sum(len(t) for t in tokens(world.store, "v1", "hi")) == int(
        megatron.read_index((tmp_path / "hi.idx").read_bytes()).lengths.sum()
    )


def test_import_lands_a_crawl_that_intake_reads(tmp_path):
    world = World.make(tmp_path)
    docs = [
        jsonl.Document(
            f"id {i}",
            some_text(i),
            url=f"https://n{i % 3}.org/{i}" if i % 2 else None,
            fetch_ts="2026-01-02T03:04:05+00:00" if i % 3 else None,
        )
        for i in range(20)
    ]
    files = jsonl.write(docs, tmp_path / "o", "x", "dolma")
    site = world.site
    done = import_jsonl(files, "IMP", site.landing)
    assert (done.documents, done.bad) == (20, [])
    assert import_jsonl(files, "IMP", site.landing).files == done.files
    Registry(world.store).register("IMP")
    made = [
        list(run_stage(world.store, world.plan, site, BY_NAME[s], "IMP"))
        for s in ("landing", "crawl_slices", "raw_warc", "unique_records")
    ]
    assert sum(m.manifest.counts.docs_out for m in made[-1]) == 20
    urls = set()
    for b in range(world.plan.buckets):
        urls |= set(world.part("raw_warc", "IMP", b).read("raw_warc", ["url"]).column("url").to_pylist())
    assert "https://n1.org/1" in urls
    assert "urn:gristmill:id%200" in urls
    assert len(np.unique([d.text for d in docs])) == 20


def test_the_suppliers_id_and_what_synthetic_text_was_made_from_go_through_the_funnel(tmp_path):
    place = Crawl(tmp_path, {"https://a.example/": b"<p>one page</p>"})
    said = {"derived_from": "ab" * 16, "generator_model_id": "writer 2 \u00e9", "prompt_template_id": "t/7"}
    docs = [jsonl.Document(f"id {i} \u2603", some_text(i), other=said if i % 2 else {}) for i in range(12)]
    files = jsonl.write(docs, tmp_path / "o", "x", "datatrove")
    import_jsonl(files, "IMP", place.site.landing, tier="synthetic", license_id="CC0-1.0")
    Registry(place.store).register("IMP")
    wanted = ["landing", "crawl_slices", "raw_warc", "unique_records", "text", "language", "exact", "line_candidates",
              "line_counts", "lines", "signatures", "band_buckets", "clusters", "band_matches", "near", "provenance"]
    list(run_funnel(place.store, place.plan, place.site, "IMP", stages=wanted))
    keys = [Key("provenance", place.plan.fingerprints["provenance"], "IMP", b) for b in range(place.plan.buckets)]
    rows = [row for key in keys for row in place.store.read(key).to_pylist()]
    assert {(r["source_tier"], r["license_id"]) for r in rows} == {("synthetic", "CC0-1.0")}
    assert {r["source_id"] for r in rows} == {d.doc_id for d in docs}
    parents = sorted((r["derived_from"] or b"").hex() for r in rows)
    assert parents == [""] * 6 + ["ab" * 16] * 6
    assert {r["generator_model_id"] for r in rows} == {None, "writer 2 \u00e9"}
    out = {d.text: d for d in documents(place.store, place.plan, place.site, "IMP", released=False)}
    for doc in docs:
        found = out[doc.text.strip()]
        assert found.other == {"source_id": doc.doc_id, **doc.other}
        assert found.doc_id != doc.doc_id, "our ids are ours"
    with pytest.raises(LandingError, match="landed already as"):
        import_jsonl(files, "IMP", place.site.landing, tier="code")
    with pytest.raises(LandingError, match="none of own_crawl"):
        import_jsonl(files, "IMP", place.site.landing, tier="books")
    with pytest.raises(jsonl.InterchangeError, match="not a doc_id"):
        import_jsonl(jsonl.write([jsonl.Document("1", "x", other={"derived_from": "my page"})], tmp_path / "p", "y"),
                     "BAD", place.site.landing)
