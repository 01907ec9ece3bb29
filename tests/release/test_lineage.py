import subprocess
import sys

import numpy as np
import pytest

from gristmill.errors import ManifestError
from gristmill.loader import TokenLoader
from gristmill.mixture import recipe as recipes
from gristmill.release.lineage import Lineage, lineage, spike, token_measures, whereis
from gristmill.release.manifest import build_manifest
from gristmill.tokens.stages import load_pinned
from tests.release.conftest import DEMO
from tests.release.world import Doc, World, many

PHASES = [
    {**DEMO["phases"][0], "name": n, "packing": p, "seq_len": length, "tokens": 6000}
    for n, p, length in (("main", "concat", 64), ("fit", "best_fit", 128), ("long", "related", 256))
]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    world = World.make(tmp_path_factory.mktemp("lineage"))
    rambling = Doc("https://spam.org/1", "buy now " * 60 + "grain mill river " * 40, percentile=0.9,
                   source_id="batch-7/1")
    world.ready("A", [*many(80), rambling])
    world.ready("B", many(60, start=70))
    sources = {n: {**s, "max_epochs": 9} for n, s in DEMO["sources"].items()}
    build_manifest(
        world.store, world.plan, world.site, recipes.parse({**DEMO, "sources": sources, "phases": PHASES}), "v1"
    )
    return world


def test_a_position_leads_to_the_text_that_stood_there(built):
    """Every piece of some batches of every phase: its tokens are those of the page it names."""
    world = built
    texts = {d.url: d for docs in world.docs.values() for d in docs}
    tok = load_pinned(world.plan.params.tokenize, world.site.models)
    line = Lineage(world.store, "v1")
    loader = TokenLoader(world.store.root, "v1", rank=1, world=2)
    seen = set()
    for batch in loader:
        if batch["step"] % 3 and batch["step"] < loader.steps - 3:
            continue
        for i in range(len(batch["tokens"])):
            pieces = line.at(batch["step"], i, rank=1, world=2)
            seen.add(pieces[0].phase)
            for piece in pieces:
                doc = texts[piece.provenance["url"]]
                assert piece.doc_id == doc.id.hex()
                assert piece.record_id == doc.record_id.hex()
                own = [*tok.reference([doc.text]).ids.tolist(), tok.eos_id]
                part = batch["tokens"][i, piece.start : piece.start + piece.length].tolist()
                joined = ",".join(map(str, own))
                assert ",".join(map(str, part)) in joined
    assert seen == {"main", "fit", "long"}


def test_a_question_reads_two_objects_a_document(built, monkeypatch):
    line = Lineage(built.store, "v1")
    line.manifest.selection.ordinals("hi", line.manifest.sources["hi"].hash(0))  # the sidecar is opened once
    reads = []
    place, store = type(line.manifest.place), type(built.store)
    opened, looked = place.open, store.open_file
    monkeypatch.setattr(place, "open", lambda self, path: reads.append(path) or opened(self, path))
    monkeypatch.setattr(store, "open_file", lambda self, key, ref: reads.append(key.asset) or looked(self, key, ref))
    pieces = line.at(3, 0)
    assert [r.rpartition(".")[2] for r in reads] == ["docs"] + ["provenance"] * len(pieces)


def test_a_person_gets_an_answer_in_under_a_second_of_work(built):
    """As typed, in a process of its own: neither Numba nor Polars is loaded for it."""
    code = (
        "import sys, resource; from gristmill.release.lineage import lineage; from gristmill.store import Store;"
        "print(lineage(Store(sys.argv[1]), 'v1', 3, 0)[0].provenance['url']);"
        "own = resource.getrusage(resource.RUSAGE_SELF); print(own.ru_utime + own.ru_stime);"
        "print(sorted({'numba', 'polars', 'dagster'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code, built.store.root], capture_output=True, text=True, check=True)
    url, seconds, loaded = done.stdout.splitlines()
    assert url.startswith("https://")
    assert float(seconds) < 1
    assert loaded == "[]"


def test_the_way_back_finds_exactly_the_samples_that_show_a_document(built):
    line = Lineage(built.store, "v1")
    shown: dict[str, set[tuple[int, int]]] = {}
    for step in range(line.schedule.steps):
        for position in range(line.sampler.batch(step)):
            for piece in line.at(step, position):
                shown.setdefault(piece.doc_id, set()).add((step, position))
    for docs in built.docs.values():
        for doc in docs[::17]:
            found = line.whereis(doc.id.hex())
            assert {(r["step"], r["position"]) for r in found} == shown.get(doc.id.hex(), set()), doc.url
    doc = built.docs["A"][0]
    rows = whereis(built.store, "v1", doc.url, world=4, until=20)
    assert all(r["step"] < 20 and r["rank"] == r["position"] % 4 for r in rows)
    assert {r["doc_id"] for r in rows} <= {doc.id.hex()}


def test_what_is_not_there_is_said(built):
    with pytest.raises(ManifestError, match="no crawl of this version"):
        whereis(built.store, "v1", "https://never.example.org/x")
    with pytest.raises(ManifestError, match="neither a URL nor"):
        whereis(built.store, "v1", "hello")
    assert whereis(built.store, "v1", "00" * 16) == []
    with pytest.raises(IndexError):
        lineage(built.store, "v1", 10**9, 0)
    for rank, world in ((2, 2), (-1, 2), (0, 0)):
        with pytest.raises(IndexError, match="world"):
            lineage(built.store, "v1", 0, 0, rank, world)
        with pytest.raises(IndexError, match="world"):
            spike(built.store, "v1", 0, 0, [rank], world)
    with pytest.raises(IndexError, match="world"):
        whereis(built.store, "v1", "00" * 16, world=0)
    with pytest.raises(IndexError, match="begin at 0"):
        lineage(built.store, "v1", 0, -1, 0, 2)


def test_a_spike_puts_the_repetitive_page_first(built):
    spam = next(d for d in built.docs["A"] if d.url == "https://spam.org/1")
    rows = whereis(built.store, "v1", spam.url)
    assert rows, "the page passed admission and is in the mixture"
    step = rows[0]["step"]
    assert {r["source_id"] for r in rows} == {"batch-7/1"}
    pieces = lineage(built.store, "v1", step, rows[0]["position"])
    assert [p.provenance["source_id"] for p in pieces if p.doc_id == spam.id.hex()] == ["batch-7/1"]
    suspects = spike(built.store, "v1", max(step - 1, 0), step + 1)
    assert suspects[0]["url"] == spam.url
    assert suspects[0]["suspicion"] > 1
    assert suspects[0]["shard"] == rows[0]["shard"]
    assert [step, rows[0]["position"]] in suspects[0]["shown"]
    rank = rows[0]["position"] % 2
    others = spike(built.store, "v1", step, step, ranks=[1 - rank], world=2)
    assert all(p % 2 == 1 - rank for s in others for _, p in s["shown"])


def test_token_measures():
    assert token_measures(np.array([1, 1, 1, 2])) == (pytest.approx(0.8113, abs=1e-4), 0.75, 3)
    assert token_measures(np.arange(8)) == (3.0, 0.125, 1)
    assert token_measures(np.zeros(0)) == (0.0, 0.0, 0)


def test_the_chain_of_parents(built, monkeypatch):
    line = Lineage(built.store, "v1")
    parent, child = built.docs["A"][1], {"derived_from": built.docs["A"][1].id}
    chain = line.finder.chain(child)
    assert [c["url"] for c in chain] == [parent.url]
    assert line.finder.chain({"derived_from": b"\x00" * 16}) == [{"doc_id": b"\x00" * 16, "missing": True}]
