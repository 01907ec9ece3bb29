"""Packing: every token once, documents whole where they fit, and little padding on lengths as they are."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.errors import RecipeError
from gristmill.tokens import packing

LENGTHS = st.lists(st.integers(0, 60), max_size=60)


def sequences_of(bins):
    return [[(int(bins.doc[k]), int(bins.start[k]), int(bins.length[k])) for k in range(a, b)]
            for a, b in zip(bins.ptr[:-1], bins.ptr[1:], strict=True)]


@given(LENGTHS, st.integers(1, 40))
@settings(deadline=None, max_examples=200)
def test_best_fit_is_the_plain_definition(lengths, seq_len):
    bins = packing.best_fit(np.array(lengths, np.uint32), seq_len)
    assert sequences_of(bins) == packing.best_fit_reference(lengths, seq_len)


@given(LENGTHS, st.integers(1, 40))
@settings(deadline=None)
def test_every_token_is_packed_once_and_documents_stay_whole(lengths, seq_len):
    packed = sequences_of(packing.best_fit(np.array(lengths), seq_len))
    tokens = sorted((d, start + i) for sequence in packed for d, start, n in sequence for i in range(n))
    assert tokens == [(d, i) for d, n in enumerate(lengths) for i in range(n)]
    for sequence in packed:
        assert 0 < sum(n for _, _, n in sequence) <= seq_len
    pieces = [d for sequence in packed for d, _, _ in sequence]
    for d, n in enumerate(lengths):
        assert pieces.count(d) == -(-n // seq_len)  # cut only where a document is longer than a sequence


@pytest.mark.parametrize("seq_len", [2048, 8192, 32768, 131072])
def test_at_most_one_percent_is_padding_on_web_lengths(seq_len):
    # Tokens of web pages are about lognormal (median 750, mean 1,400), with long ones up to 200k; a shard of 40M.
    rng = np.random.default_rng(seq_len)
    lengths = np.minimum(rng.lognormal(6.6, 1.1, 30_000).astype(np.int64) + 1, 200_000)
    n = packing.count(lengths, seq_len, "best_fit")
    assert 1 - lengths.sum() / (n * seq_len) < 0.01


@pytest.mark.shared
def test_at_most_one_percent_is_padding_on_real_texts(shared):
    files = sorted(p for p in (shared / "07_texts").rglob("*") if p.is_file())
    sizes = [p.stat().st_size // 4 for p in files]  # about four bytes a token
    lengths = np.array([s for s in sizes if s] * (1 + 3_000_000 // max(1, sum(sizes))))
    n = packing.count(lengths, 2048, "best_fit")
    assert 1 - lengths.sum() / (n * 2048) < 0.01


def test_a_sequence_reads_neighbouring_documents_only():
    lengths = np.full(20_000, 700)
    bins = packing.best_fit(lengths, 2048)
    spread = [bins.doc[a:b].max() - bins.doc[a:b].min() for a, b in zip(bins.ptr[:-1], bins.ptr[1:], strict=True)]
    assert max(spread) * 700 <= max(packing.WINDOW_TOKENS, packing.WINDOW_SEQUENCES * 2048) + 2048


@given(LENGTHS, st.integers(1, 40), st.sampled_from(["concat", "related"]))
def test_concatenation_counts_whole_windows(lengths, seq_len, mode):
    assert packing.count(np.array(lengths, np.uint32), seq_len, mode) == sum(lengths) // seq_len


def test_counts_past_32_bits():
    assert packing.count(np.array([2**31 + 5, 2**31 + 5], np.uint32), 2, "concat") == 2**31 + 5


def test_layout_names_go_both_ways_and_nonsense_is_refused():
    assert packing.parse_layout(packing.layout(256, "best_fit")) == ("best_fit", 256)
    for name in ("concat", "concat:0", "concat:-5", "padded:3", "concat:x"):
        with pytest.raises(RecipeError):
            packing.parse_layout(name)
    with pytest.raises(RecipeError, match="related"):
        packing.count(np.array([1]), 4, "similar")
    with pytest.raises(RecipeError):
        packing.count(np.array([1]), 0, "concat")


def test_related_documents_adjoin():
    container = np.array([7, 3, 7, 3, 9, 7], np.uint64)
    assert packing.related_order(container).tolist() == [1, 3, 0, 2, 5, 4]
    sketch = np.array([[5, 1], [4, 4], [2, 2], [4, 3], [0, 0], [5, 0]], np.uint32)
    assert packing.related_order(container, sketch).tolist() == [3, 1, 2, 5, 0, 4]


@given(st.lists(st.integers(1, 30), min_size=1, max_size=40), st.integers(1, 17), st.sampled_from(packing.MODES))
def test_the_pieces_of_a_sequence_are_what_the_packing_says(lengths, seq_len, mode):
    n = packing.count(np.array(lengths), seq_len, mode)
    found = [packing.pieces(np.array(lengths), seq_len, mode, i) for i in range(n)]
    if mode == "best_fit":
        assert found == packing.best_fit_reference(lengths, seq_len)
    else:
        flat = [(d, t) for d, length in enumerate(lengths) for t in range(length)]
        assert [[(d, s + j) for d, s, m in own for j in range(m)] for own in found] == [
            flat[i * seq_len : (i + 1) * seq_len] for i in range(n)
        ]
        with pytest.raises(IndexError):
            packing.pieces(np.array(lengths), seq_len, mode, n)
