import numpy as np

from gristmill.tokens.strata import length_bucket, length_bucket_of, quality_band, shard_key, stratum


def test_length_buckets_are_half_open():
    edges = np.array([0, 1, 999, 1000, 3999, 4000, 15_999, 16_000, 63_999, 64_000, 10**9])
    assert length_bucket(edges).tolist() == [0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert [length_bucket_of(int(n)) for n in edges] == length_bucket(edges).tolist()


def test_quality_bands():
    assert quality_band(np.array([0.0, 0.24, 0.25, 0.5, 0.75, 0.9, 1.0, np.nan])).tolist() == [0, 0, 1, 2, 3, 4, 4, -1]


def test_a_stratum_is_a_safe_path_piece():
    assert stratum("cc", "eng", 2, 0) == "cc.eng.q2.len0"
    assert stratum("own crawl/../x", "zh|Hant", -1, 4) == "own-crawl-x.zh-Hant.qx.len4"
    assert "/" not in stratum("a/b", "..", 0, 0)


def test_the_keyed_order_is_a_bijection_that_depends_on_the_seed_and_spreads_evenly():
    ids = np.random.default_rng(1).integers(0, 2**63, 40_000).astype(np.uint64)
    a, b = shard_key(ids, 1), shard_key(ids, 2)
    assert len(np.unique(a)) == len(np.unique(ids))
    assert (a != b).all()
    # Even for ids from a narrow range: counts in 64 ranges within 5 sigma.
    counts = np.bincount((shard_key(np.arange(64_000, dtype=np.uint64), 3) >> np.uint64(58)).astype(int), minlength=64)
    assert abs(counts - 1000).max() < 5 * 1000**0.5
    assert abs(np.corrcoef(a.astype(float), ids.astype(float))[0, 1]) < 0.03
