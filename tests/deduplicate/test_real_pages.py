"""Deduplication of real pages: their gold texts, and edits of them at a known Jaccard."""

import gzip
import json
import random

import numpy as np
import pyarrow as pa
import pytest

from gristmill.deduplicate import lsh, minhash
from gristmill.deduplicate.components import Components
from gristmill.deduplicate.normalise import doc_id, doc_ids, normalise_fast
from gristmill.text_units import word_hash, word_hashes, words
from tests.deduplicate.texts import near

pytestmark = pytest.mark.shared


@pytest.fixture(scope="module")
def pages(shared) -> list[str]:
    texts: dict[str, None] = {}
    for name in ("wcxb_pub", "zyte_pub", "daniel_pub"):
        with gzip.open(shared / "02_extraction" / f"{name}.gold.jsonl.gz", "rt", encoding="utf-8") as file:
            for line in file:
                text = json.loads(line)["text"] or ""
                if len(words(text)) >= 100:
                    texts[text] = None
    return list(texts)


def test_ids_of_real_pages_agree_and_take_the_fast_path(pages):
    assert doc_ids(pa.array(pages, pa.large_string())).to_pylist() == [doc_id(p) for p in pages]
    assert sum(normalise_fast(p) is not None for p in pages) >= 0.9 * len(pages)


def test_words_and_shingles_of_real_pages_agree(pages):
    some = pages[:: max(len(pages) // 60, 1)]
    for kind, n in (("word", 5), ("char", 24)):
        hashes, edges = minhash.shingle_table(pa.array(some, pa.large_string()), kind, n)
        for i, text in enumerate(some):
            assert hashes[edges[i] : edges[i + 1]].tolist() == minhash.shingles(text, kind, n)
    from gristmill.text_units import packed

    for text in some:
        raw = np.frombuffer(text.encode(), np.uint8)
        out = np.zeros(len(raw), np.uint64), np.zeros(len(raw), np.int64), np.zeros(len(raw), np.int64)
        count = word_hashes(raw, 0, len(raw), packed(), *out)
        assert out[0][:count].tolist() == [word_hash(w) for w in words(text)]


def joined(texts: list[str]) -> tuple[np.ndarray, set[tuple[int, int]]]:
    values, _ = minhash.signatures(pa.array(texts, pa.large_string()))
    keys = minhash.band_keys(values, 14, 8)
    pairs: set[tuple[int, int]] = set()
    with Components(len(texts)) as found:
        for band in range(14):
            members = np.flatnonzero(lsh.shared(keys[:, band]))
            members = members[np.argsort(keys[members, band], kind="stable")]
            stars = lsh.stars_verified(lsh.bucket_starts(keys[members, band]), values[members], lsh.Rules("signature"))
            found.join(members[stars.anchor], members[stars.member])
            pairs |= set(zip(members[stars.anchor].tolist(), members[stars.member].tolist()))
        return found.labels().copy(), pairs


def test_edits_of_real_pages_by_jaccard(pages):
    rng = random.Random(4)
    # Pages with spaces between words, so that an edit of a word is an edit of a word.
    spaced = [" ".join(p.split()) for p in pages if len(p.split()) > 0.8 * len(words(p)) and len(p.split()) > 150]
    levels = (0.5, 0.7, 0.9, 0.95)
    texts, mates = [], []
    for level in levels:
        for page in spaced:
            mates.append((level, len(texts), len(texts) + 1))
            texts += [f"{level} {page}", near(f"{level} {page}", level, rng)]
    # One level at a time: the same page at four levels would be its own near-duplicate.
    for number, level in enumerate(levels):
        own = [m for m in mates if m[0] == level]
        base = own[0][1]
        labels, pairs = joined(texts[base : base + 2 * len(own)])
        exact = {}
        hashes, edges = minhash.shingle_table(pa.array(texts[base : base + 2 * len(own)], pa.large_string()), "word", 5)
        for i, j in {*pairs, *((a - base, b - base) for _, a, b in own)}:
            exact[(i, j)] = minhash.jaccard(hashes[edges[i] : edges[i + 1]], hashes[edges[j] : edges[j + 1]])
        close = [(a - base, b - base) for _, a, b in own if exact[(a - base, b - base)] >= 0.9]
        found = sum(labels[a] == labels[b] for a, b in close)
        assert found >= 0.99 * len(close), (level, found, len(close))
        if number >= 2:
            assert len(close) > 50
        true = sum(exact[p] >= 0.7 for p in pairs)
        assert true >= 0.99 * len(pairs), (level, true, len(pairs))
