import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill import schemas
from gristmill.deduplicate import exact, ids
from gristmill.deduplicate.normalise import doc_id
from tests.deduplicate.world import world

ROWS = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 3), st.integers(0, 99)), max_size=40, unique_by=lambda r: r[2]
)


def name(number: int) -> bytes:
    return number.to_bytes(16, "big")


def table(rows: list[tuple[int, int, int]]) -> pa.Table:
    """(document, time, record) rows."""
    return pa.table({
        "crawl": pa.array(["C"] * len(rows), pa.string()),
        "record_id": pa.array([name(r) for _, _, r in rows], schemas.ID),
        "doc_id": pa.array([name(d) for d, _, _ in rows], schemas.ID),
        "host_bucket": pa.array([0] * len(rows), pa.uint16()),
        "fetch_ts": pa.array([t for _, t, _ in rows], pa.int64()).cast(pa.timestamp("us")).cast(schemas.TS),
        "n_bytes": pa.array([100] * len(rows), pa.int64()),
    })


@given(ROWS, st.sets(st.integers(0, 5)), st.sets(st.integers(0, 5)))
def test_one_order_decides_and_all_members_stay(rows, old: set[int], older: set[int]):
    def seen(crawl: str, docs: set[int]) -> exact.Seen:
        held = [name(d) for d in sorted(docs)]
        return exact.Seen(crawl, ids.pairs(pa.array(held, schemas.ID)),
                          ids.pairs(pa.array([name(1000 + d) for d in sorted(docs)], schemas.ID)))

    random.Random(0).shuffle(rows)
    got = exact.group(table(rows), [seen("older", older), seen("old", old)]).to_pylist()
    assert len(got) == len(rows)
    for row in got:
        d = int.from_bytes(row["doc_id"], "big")
        members = sorted((t, r) for doc, t, r in rows if doc == d)
        first = name(members[0][1])
        assert row["first"] == (row["record_id"] == first)
        assert row["dup_of"] == (None if row["first"] else first)
        assert row["dup_count"] == len(members)
        assert row["seen_crawl"] == ("older" if d in older else "old" if d in old else None)
        assert row["seen_record_id"] == (name(1000 + d) if d in old | older else None)


def test_a_null_id_is_refused():
    rows = table([(1, 0, 1), (2, 0, 2)])
    rows = rows.set_column(2, "doc_id", pa.array([name(1), None], schemas.ID))
    with pytest.raises(ValueError, match="null"):
        exact.group(rows, [])


def test_documents_across_crawls_are_known_by_their_earliest(tmp_path):
    place = world(tmp_path)
    place.land("A", ["one", "two", "Two "])
    place.land("B", ["two", "three"])
    place.land("C", ["three", "one", "four", "", "four"])
    for crawl in "ABC":
        place.run(crawl, ("exact",))
    rows = place.table("exact", "C").to_pylist()
    held = {r["doc_id"]: r for r in rows if r["first"]}
    assert held[doc_id("one")]["seen_crawl"] == "A"
    assert held[doc_id("three")]["seen_crawl"] == "B"
    assert held[doc_id("four")]["dup_count"] == 2
    assert held[doc_id("four")]["seen_crawl"] is None
    assert held[doc_id("")]["seen_crawl"] is None
    counts = sum((place.part("exact", "C").manifest("exact", b).counts for b in range(1, 4)),
                 place.part("exact", "C").manifest("exact", 0).counts)
    assert counts.docs_in == 5
    assert counts.docs_out == 2
    assert counts.reasons == {"exact_duplicate": 1, "seen_in_earlier_crawl": 2}


def test_by_bucket_holds_every_record_in_order(tmp_path):
    place = world(tmp_path)
    records = place.land("A", [f"text {i % 5}" for i in range(30)])
    place.run("A", ("exact",))
    found = []
    for bucket in range(4):
        rows = place.part("exact", "A", bucket).read_range("exact", "by_bucket")
        by_range = rows["record_id"].to_pylist()
        assert set(rows["host_bucket"].to_pylist()) <= {bucket}
        found += by_range
    assert sorted(found) == sorted(records)


def test_exact_duplicates_do_not_depend_on_where_records_lie(tmp_path):
    texts = [f"text {i % 7}" for i in range(40)]
    seen = []
    for number, buckets in enumerate((lambda i: i % 4, lambda i: 3, lambda i: (i * 7) % 4)):
        place = world(tmp_path / str(number))
        place.land("A", texts, [buckets(i) for i in range(40)])
        place.run("A", ("exact",))
        seen.append(place.table("exact", "A").drop(["host_bucket"]))
    assert seen[0].equals(seen[1])
    assert seen[0].equals(seen[2])


def test_goes_on_is_first_and_new():
    rows = exact.group(table([(1, 0, 1), (1, 1, 2), (2, 0, 3)]), [])
    assert np.array_equal(exact.goes_on(rows), [True, False, True])
