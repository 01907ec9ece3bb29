"""Concentration of hosts, and floods."""

import numpy as np
import pyarrow as pa
import pytest

from gristmill.clumping import clump
from gristmill.observe.hosts import floods


def hosts(**records):
    names = [n.replace("_", ".") for n in records]
    return pa.table({"host": names, "host_id": pa.array(range(len(names)), pa.uint64()),
                     "n_records": pa.array(list(records.values()), pa.int64())})


def past(least=0, records=10_000, **top):
    return {"top": {n.replace("_", "."): v for n, v in top.items()}, "least": least, "records": records}


@pytest.mark.parametrize(("records", "expected"), [
    ([1] * 50, 1), ([100], 100), ([10, 10], 10), ([30, 10], 25), ([], 1)])
def test_clump_is_the_hosts_size_that_a_record_sees(records, expected):
    assert clump(np.array(records, np.int64)) == expected


def test_a_host_ten_times_its_share_is_a_flood():
    now = hosts(a_org=300, b_org=1000, c_org=700)
    (found,) = floods(now, 10_000, [past(a_org=300, b_org=90, c_org=500), past(a_org=200, b_org=80, c_org=600)], 200)
    assert (found.host, found.records, found.bucket_share) == ("b.org", 1000, 0.5)
    assert found.usual == pytest.approx(0.009)


def test_a_new_host_is_a_flood_only_when_it_fills_its_bucket():
    before = [past(a_org=1000)] * 3
    assert [f.host for f in floods(hosts(a_org=1000, new_org=2100), 10_000, before, 200)] == ["new.org"]
    assert floods(hosts(a_org=1000, new_org=2100), 10_000, before[:2], 200) == []  # it may just have been away
    assert floods(hosts(a_org=1000, new_org=1900), 10_000, before, 200) == []  # large hosts come and go
    assert floods(hosts(a_org=9000, new_org=900), 10_000, before, 200) == []  # under a tenth of its bucket
    assert floods(hosts(a_org=1000, new_org=150), 10_000, before, 200) == []  # too few to matter
    # Not listed before does not mean not there: it may have been just smaller than the last one listed.
    assert floods(hosts(a_org=1000, new_org=2100), 10_000, [past(a_org=1000, least=220)] * 3, 200) == []


def test_a_new_host_floods_a_small_crawl_that_one_host_filled_before():
    before = [past(a_org=5500)] * 3  # of 10,000: no share is twice that
    assert [f.host for f in floods(hosts(new_org=7800), 10_000, before, 200)] == ["new.org"]
    assert floods(hosts(new_org=7700), 10_000, before, 200) == []


def test_a_larger_crawl_is_no_flood_and_a_first_one_has_none():
    assert floods(hosts(a_org=30_000), 300_000, [past(a_org=1000)], 200) == []
    assert floods(hosts(a_org=30_000), 30_000, [], 200) == []
