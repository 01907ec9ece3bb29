import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.blobs import LocalBlobs
from gristmill.errors import StoreError
from gristmill.schemas import ID
from gristmill.tokens.build import cuts, write_shards


@given(st.lists(st.integers(1, 500), max_size=60), st.integers(1, 1000))
def test_cuts_cover_all_documents_in_order_within_the_bound(lengths, bound):
    found = cuts(np.array(lengths, np.int64), bound)
    assert [i for a, b in found for i in range(a, b)] == list(range(len(lengths)))
    for a, b in found:
        assert sum(lengths[a:b]) <= bound or b - a == 1


def test_shards_of_a_stratum_come_out_even():
    found = cuts(np.full(310, 100, np.int64), 30_000)
    sizes = [b - a for a, b in found]
    assert len(sizes) == 2
    assert max(sizes) - min(sizes) <= 1


def rows(langs, stratum="cc.eng.q1.len0", token=None):
    rng = np.random.default_rng(1)
    ids = [rng.integers(0, 500, 300) if token is None else np.full(300, token) for _ in langs]
    n = len(langs)
    return pa.table({
        "crawl": ["A"] * n, "doc_id": pa.array([bytes([i] * 16) for i in range(n)], ID),
        "record_id": pa.array([bytes([i] * 16) for i in range(n)], ID), "host_bucket": pa.array([0] * n, pa.uint16()),
        "row": pa.array(range(n), pa.uint32()), "source_tier": ["cc"] * n, "license_id": [None] * n, "lang": langs,
        "stratum": [stratum] * n, "n_tokens": pa.array([300] * n, pa.int64()), "n_bytes": [900] * n,
        "reason": pa.array([None] * n, pa.string()), "value": pa.array([None] * n, pa.float64()),
        "bound": pa.array([None] * n, pa.float64()), "window": pa.array([None] * n, pa.int64()),
        "ids": pa.array([x.tolist() for x in ids], pa.large_list(pa.uint32())),
    })


def test_a_shard_whose_documents_are_of_another_language_is_refused_and_not_written(tmp_path):
    blobs = LocalBlobs(tmp_path)
    with pytest.raises(StoreError, match=r"96\.7% of its tokens are of eng, at least 98% must be \(others: deu\)"):
        write_shards(blobs, rows(["eng"] * 58 + ["deu"] * 2), 10**6, {})
    assert list(blobs.list("shards")) == []
    written, _ = write_shards(blobs, rows(["eng"] * 99 + ["deu"]), 10**6, {})
    assert written[0]["n_docs"] == 100
    write_shards(blobs, rows(["zh-Hant"] * 3, "cc.zh-Hant.q1.len0"), 10**6, {})


def test_a_shard_of_one_token_is_refused(tmp_path):
    with pytest.raises(StoreError, match="bits of entropy"):
        write_shards(LocalBlobs(tmp_path), rows(["eng"] * 20, token=7), 10**6, {})
