"""A transformers sequence classifier in ONNX as a scorer, against plain arithmetic on the same weights."""

import dataclasses
import importlib.util
import math
import random

import numpy as np
import pytest

from gristmill import models
from gristmill.errors import ModelError, ParameterError
from gristmill.params import ScorerParams
from gristmill.quality import transformer
from tests.deduplicate.world import world
from tests.quality import tiny_onnx
from tests.quality.test_fasttext_classifier import BAD, GOOD, texts
from tests.quality.test_stages import DEDUP

MISSING = [m for m in ("onnxruntime", "tokenizers") if not importlib.util.find_spec(m)]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
WORDS = ["river", "engine", "garden", "cheap", "buy", "now", "the", "a"]
LABELS = ["spam", "plain", "lesson"]
MAX = 16


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """The pinned folder, its cache, and the plain form of the same model."""
    folder = tmp_path_factory.mktemp("tiny")
    rng = np.random.default_rng(1)
    vectors, layer, bias = rng.normal(size=(len(WORDS) + 2, 4)), 3 * rng.normal(size=(4, 3)), rng.normal(size=3)
    vectors, layer, bias = (v.astype(np.float32) for v in (vectors, layer, bias))
    ref = models.put(tiny_onnx.write(folder / "m", WORDS, vectors, layer, bias, LABELS), folder / "cache")

    def plain(text: str) -> list[float]:
        ids = [WORDS.index(w) + 2 if w in WORDS else 1 for w in text.lower().split()][:MAX]
        mean = [sum(float(vectors[i, d]) for i in ids) / len(ids) for d in range(4)]
        return [sum(mean[d] * float(layer[d, c]) for d in range(4)) + float(bias[c]) for c in range(3)]

    return ref, folder / "cache", plain


def test_each_head_is_its_formula_whatever_shares_the_batch(tiny):
    ref, cache, plain = tiny
    rng = random.Random(1)
    asked = [" ".join(rng.choices([*WORDS, "unknown"], k=rng.randint(1, 40))) for _ in range(700)]
    found, names, stats = transformer.logits(asked, ref, MAX, cache)
    truth = [plain(t) for t in asked]
    assert names == LABELS
    assert np.allclose(found, truth, atol=1e-4)
    assert stats.truncated == sum(len(t.split()) > MAX for t in asked)
    assert stats.batches > 3
    assert stats.padding_waste < 0.1, "rows of like length share a batch"
    wanted = {
        "softmax": [math.exp(t[2]) / sum(map(math.exp, t)) for t in truth],
        "sigmoid": [1 / (1 + math.exp(-t[2])) for t in truth], "regression": [t[2] for t in truth],
    }
    for head, values in wanted.items():
        assert np.allclose(transformer.score(found, names, head, "lesson"), values, atol=2e-4)


def test_no_text_has_no_score_and_hostile_texts_have_one(tiny):
    ref, cache, _ = tiny
    hostile = ["", " \n", "x" * 200_000, "a " * 100_000, "שלום \U000e0fff\u0378"]
    found, names, _ = transformer.logits(hostile, ref, MAX, cache)
    values = transformer.score(found, names, "softmax", "spam")
    assert np.isnan(values[:2]).all()
    assert ((values[2:] >= 0) & (values[2:] <= 1)).all()
    assert transformer.score(np.array([[-1e4], [1e4]]), ["one"], "sigmoid", "any").tolist() == [0.0, 1.0]


def test_what_a_folder_cannot_give_is_refused(tiny, tmp_path):
    ref, cache, _ = tiny
    found, names, _ = transformer.logits(["a river"], ref, MAX, cache)
    with pytest.raises(ModelError, match="spam, plain, lesson, not hq"):
        transformer.score(found, names, "softmax", "hq")
    with pytest.raises(ModelError, match="always 1"):
        transformer.score(found[:, :1], ["quality"], "softmax", "quality")
    zeros = np.zeros((len(WORDS) + 2, 4)), np.zeros((4, 3)), np.zeros(3)
    bare = models.put(tiny_onnx.write(tmp_path / "bare", WORDS, *zeros, None), cache)
    assert transformer.logits(["a"], bare, MAX, cache)[1] == ["0", "1", "2"]
    other = models.put(tiny_onnx.write(tmp_path / "other", WORDS, *zeros, ["x", "y"]), cache)
    with pytest.raises(ModelError, match="names 2 labels"):
        transformer.logits(["a"], other, MAX, cache)
    (tmp_path / "bare" / "tokenizer.json").unlink()
    with pytest.raises(ModelError, match=r"tokenizer\.json"):
        transformer.logits(["a"], models.put(tmp_path / "bare", cache), MAX, cache)
    (tmp_path / "other" / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelError, match="is no tokenizer"):
        transformer.logits(["a"], models.put(tmp_path / "other", cache), MAX, cache)
    (tmp_path / "other" / "model.onnx").write_bytes(b"no protobuf")
    with pytest.raises(ModelError, match="no model that onnxruntime opens"):
        transformer.logits(["a"], models.put(tmp_path / "other", cache), MAX, cache)
    with pytest.raises((ParameterError, ValueError), match="head"):
        ScorerParams(name="t", kind="transformer", model=ref, head="hinge")


def test_the_stage_runs_the_model_once_for_all_its_labels(tiny, tmp_path):
    ref, cache, _ = tiny
    model = ref.model_dump()
    common = {"kind": "transformer", "model": model, "max_tokens": MAX}
    w = world(tmp_path, quality={"scorers": [
        {"name": "lesson", "label": "lesson", "head": "regression", **common},
        {"name": "spam", "label": "spam", "languages": ["deu"], **common},
    ]})
    w = dataclasses.replace(w, site=w.site.model_copy(update={"models": str(cache)}))
    docs = [*texts(GOOD, 4, 7), *texts(BAD, 4, 8)]
    w.land("A", docs)
    w.run("A", (*DEDUP, "quality"))
    by_record = {r["record_id"]: r["text"] for r in w.table("text", "A").to_pylist()}
    rows = {by_record[r["record_id"]]: r for r in w.rows("quality", "A").values()}
    assert len(rows) == 8
    assert all(r["score_spam"] is None for r in rows.values())  # they are English
    assert all(np.isfinite(r["score_lesson"]) for r in rows.values())
    passes = [p for b in range(4) for p in w.part("quality", "A").manifest("quality", b).info.get("encoder", [])]
    assert all(p["heads"] == ["lesson", "spam"] for p in passes)
    assert sum(p["texts"] for p in passes) == 8
