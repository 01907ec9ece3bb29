import time
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.deduplicate import lsh

K = 112
SIGNED = lsh.Rules("signature")


def starts(*sizes: int) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def like(base: np.ndarray, equal: int, rng: np.random.Generator) -> np.ndarray:
    """A signature with ``equal`` values of ``base`` and the rest its own."""
    out = rng.integers(0, 2**32, len(base), np.uint32)
    keep = rng.permutation(len(base))[:equal]
    out[keep] = base[keep]
    return out


@given(st.lists(st.integers(0, 20), max_size=80))
def test_grouping_by_key_in_linear_time_finds_what_a_dictionary_finds(values: list[int]):
    keys = np.array(values, np.uint64) * np.uint64(0xD6E8FEB86659FD93)
    assert lsh.anchors(keys).tolist() == [values.index(v) for v in values]
    assert lsh.shared(keys).tolist() == [values.count(v) > 1 for v in values]


def test_keys_of_one_range_share_their_top_bits_and_are_grouped_all_the_same():
    rng = np.random.default_rng(1)
    keys = rng.integers(0, 2**58, 50_000, np.uint64)
    keys[::7] = keys[3]
    first = dict(reversed([(k, i) for i, k in enumerate(keys.tolist())]))
    assert lsh.anchors(keys).tolist() == [first[k] for k in keys.tolist()]


def test_an_unverified_bucket_is_a_star():
    stars = lsh.stars_unverified(starts(3, 2))
    assert stars.member.tolist() == [1, 2, 4]
    assert stars.anchor.tolist() == [0, 0, 3]
    assert np.isnan(stars.similarity).all()


def test_no_buckets():
    assert len(lsh.stars_unverified(np.zeros(1, np.int64)).member) == 0
    assert len(lsh.stars_verified(np.zeros(1, np.int64), np.zeros((0, K), np.uint32), SIGNED).member) == 0


def test_members_join_the_leader_that_they_match_and_no_other():
    rng = np.random.default_rng(2)
    a, b = rng.integers(0, 2**32, (2, K), np.uint32)
    rows = np.stack([a, b, like(a, 100, rng), like(b, 95, rng), like(a, 60, rng), a])
    stars = lsh.stars_verified(starts(6), rows, SIGNED)
    assert dict(zip(stars.member.tolist(), stars.anchor.tolist())) == {2: 0, 3: 1, 5: 0}
    assert stars.similarity.tolist() == pytest.approx([100 / K, 95 / K, 1.0])
    assert (stars.identical, stars.unmatched) == (1, 0)


def test_verified_pairs_are_not_merged_again_by_the_bucket_that_they_share():
    # Four documents in one bucket, where 1 and 3 are duplicates and 2 and 4 are: two pairs, not one cluster of four.
    rng = np.random.default_rng(3)
    one, two = rng.integers(0, 2**32, (2, K), np.uint32)
    rows = np.stack([one, two, like(one, 105, rng), like(two, 105, rng)])
    stars = lsh.stars_verified(starts(4), rows, SIGNED)
    assert sorted(zip(stars.anchor.tolist(), stars.member.tolist())) == [(0, 2), (1, 3)]


def test_what_matches_no_leader_stays_alone_and_is_counted():
    rng = np.random.default_rng(4)
    rows = rng.integers(0, 2**32, (10, K), np.uint32)
    rows[9] = like(rows[8], 110, rng)
    stars = lsh.stars_verified(starts(10), rows, lsh.Rules("signature", max_leaders=4))
    assert len(stars.member) == 0
    assert stars.unmatched == 6


def test_a_bucket_of_100_000_copies_is_linear():
    rng = np.random.default_rng(5)
    base = rng.integers(0, 2**32, K, np.uint32)
    rows = np.repeat(base[None], 100_000, axis=0)
    rows[50_000:] = like(base, 108, rng)
    lsh.stars_verified(starts(2), rows[:2], SIGNED)
    begun = time.process_time()
    stars = lsh.stars_verified(starts(len(rows)), rows, SIGNED)
    assert time.process_time() - begun < 2
    assert len(stars.member) == 99_999
    assert stars.identical == 99_998
    assert stars.compared == 1
    assert set(stars.anchor.tolist()) == {0, 50_000}


def template(count: int, pairs: int, rng: np.random.Generator) -> np.ndarray:
    """Signatures of pages of one template (Jaccard 0.6); each of the last ``pairs`` repeats the page ``pairs`` before
    it but for 5 %."""
    base = rng.integers(0, 2**32, K, np.uint32)
    rows = rng.integers(0, 2**32, (count, K), np.uint32)
    same = rng.random((count, K)) < 0.6
    rows = np.where(same, base, rows)
    copies = rows[count - 2 * pairs : count - pairs].copy()
    change = rng.random(copies.shape) < 0.05
    copies[change] = rng.integers(0, 2**32, int(change.sum()), np.uint32)
    rows[count - pairs :] = copies
    return rows


@pytest.mark.parametrize("verify", ["signature", "jaccard"])
def test_a_bucket_of_100_000_pages_of_one_template_is_bounded_and_merges_nothing_else(verify):
    rng = np.random.default_rng(6)
    rows = template(100_000, 0, rng)
    rules = lsh.Rules(verify)
    begun = time.process_time()
    stars = lsh.stars_verified(starts(len(rows)), rows, rules)
    assert time.process_time() - begun < 20
    assert stars.compared <= rules.bucket_cap * rules.max_leaders
    assert stars.unmatched > 99_000
    # At J = 0.6 an estimate of 0.8 is 4.3 standard errors away, one of 0.75, a candidate, 3.2.
    assert len(stars.member) < (300 if verify == "signature" else 5_000)


def test_up_to_the_cap_a_bucket_is_searched_with_every_leader():
    rng = np.random.default_rng(7)
    rows = template(300, 100, rng)
    found = lsh.stars_verified(starts(300), rows, lsh.Rules("signature", max_leaders=256, bucket_cap=300))
    mates = set(zip((found.anchor + 100).tolist(), found.member.tolist()))
    assert sum((m, m) in mates for m in range(200, 300)) >= 99  # recall of the planted pairs in a full bucket
    small = lsh.stars_verified(starts(300), rows, lsh.Rules("signature", max_leaders=256, bucket_cap=30))
    assert small.compared <= 30 * 256
    assert small.unmatched > found.unmatched


def test_over_the_cap_recall_comes_from_the_other_bands():
    # 20,000 pages of a template, among them 500 planted pairs at 0.95. Each band puts a different fifth of the pages
    # into its hot bucket; pairs missed there meet in bands where they are apart from the crowd.
    from gristmill.deduplicate import minhash
    from gristmill.deduplicate.components import Components

    rng = np.random.default_rng(8)
    rows = template(20_000, 500, rng)
    keys = minhash.band_keys(rows, 14, 8)
    with Components(len(rows)) as components:
        for band in range(14):
            members = np.flatnonzero(lsh.shared(keys[:, band]))
            members = members[np.lexsort((members, keys[members, band]))]
            edges = lsh.bucket_starts(keys[members, band])
            stars = lsh.stars_verified(edges, rows[members], lsh.Rules("signature", max_leaders=16, bucket_cap=100))
            components.join(members[stars.anchor], members[stars.member])
        labels = components.labels()
        mates = np.arange(19_000, 19_500)
        assert (labels[mates] == labels[mates + 500]).mean() >= 0.99
        assert np.bincount(labels).max() < 50  # and the template did not become one cluster


def test_near_the_bound_the_most_alike_leaders_are_candidates_and_do_not_end_the_search():
    rng = np.random.default_rng(9)
    a, b = rng.integers(0, 2**32, (2, K), np.uint32)
    both = np.where(rng.random(K) < 0.5, a, b)
    mixed = [like(a, n, rng) for n in (86, 90, 95, 100, 102)]  # leaders in turn: estimates of 0.77 to 0.91 with a
    rows = np.stack([a, *mixed, like(a, 107, rng), a, both])
    stars = lsh.stars_verified(starts(len(rows)), rows, lsh.Rules())
    edges = [(int(m), int(n), round(float(s) * K)) for m, n, s in zip(stars.member, stars.anchor, stars.similarity)]
    assert (6, 0, 107) in edges, "sure: the first such leader, and no other"
    assert sum(m == 6 for m, _, _ in edges) == 1
    assert (7, 0, K) in edges
    assert not any(m == 8 for m, _, _ in edges), "0.5 is no candidate"
    for member in range(1, 6):
        mine = [(n, s) for m, n, s in edges if m == member]
        assert (0, (86, 90, 95, 100, 102)[member - 1]) in mine
        assert len(mine) <= lsh.FAN
        assert [s for _, s in mine] == sorted((s for _, s in mine), reverse=True)
        want = sorted(((int((rows[n] == rows[member]).sum()), -n) for n in range(member)), reverse=True)
        assert mine == [(-n, s) for s, n in want if s >= 84][: lsh.FAN], "the most alike, the earlier of equals first"


@given(st.lists(st.lists(st.integers(0, 9), max_size=12), min_size=1, max_size=5))
def test_sets_and_jaccard(groups: list[list[int]]):
    hashes = np.array([h for g in groups for h in g], np.uint64)
    values, edges = lsh.sorted_sets(hashes, starts(*(len(g) for g in groups)))
    sets = [values[a:b] for a, b in pairwise(edges.tolist())]
    assert [s.tolist() for s in sets] == [sorted(set(g)) for g in groups]
    x, y = set(groups[0]), set(groups[-1])
    assert lsh.jaccard_sorted(sets[0], sets[-1]) == (len(x & y) / len(x | y) if x | y else 0.0)
