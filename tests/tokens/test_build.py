import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gristmill.tokens.build import cuts


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
