"""Matching across crawls: asked where the index's keys are, decided where the documents are."""

import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill import schemas, shuffle
from gristmill.deduplicate import band_index, ids, matching
from gristmill.errors import BandIndexError
from gristmill.partition import Partition
from gristmill.store import Store
from tests.deduplicate.test_band_index import commit, docs
from tests.deduplicate.test_generations import NEAR, three, verdicts
from tests.deduplicate.texts import edited, prose
from tests.deduplicate.world import world

GRID = {"host_buckets": 4}


def opened_blooms(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int | None]]:
    """Crawl and range of every filter that is read from here on."""
    read: list[tuple[str, int | None]] = []
    original = Store.read_file

    def noted(self, key, ref):
        if ref.role == "bloom":
            read.append((key.crawl, key.bucket))
        return original(self, key, ref)

    monkeypatch.setattr(Store, "read_file", noted)
    return read


def test_a_range_opens_its_own_filters_and_a_host_bucket_none(tmp_path, monkeypatch):
    # 10^11 keys have 150 GB of filters. What every bucket read whole would be read a thousand times.
    place = world(tmp_path, grid=GRID)
    three(place)
    place.run("A", NEAR)
    place.run("B", NEAR)
    place.run("C", NEAR[: NEAR.index("band_matches")])
    read = opened_blooms(monkeypatch)
    for number in range(4):
        place.run("C", ("band_matches",), buckets=[number])
        assert read == [("A", number), ("B", number)]
        read.clear()
    for path, _ in list(place.store.blobs.list("band_index")):
        if not path.endswith("_manifest.json"):
            place.store.blobs.delete(path)
    place.run("C", ("near",))  # needs no file of the index any more
    assert not read
    of = Counter(v[2] for v in verdicts(place, "C"))
    assert of == {"A": 8, "B": 8, None: 4}


def test_only_what_earlier_crawls_hold_goes_to_the_buckets(tmp_path):
    place = world(tmp_path, grid=GRID)
    rng = random.Random(3)
    old = [prose(rng) for _ in range(6)]
    texts = [edited(old[0], 1, rng)] + [prose(rng) for _ in range(40)]
    place.land("A", old)
    place.land("B", texts)
    place.run("A", NEAR)
    place.run("B", NEAR)
    rows = place.table("band_matches", "B").to_pylist()
    assert 4 <= len(rows) <= 14  # of one document's 14 keys; not a row of the other 40 documents
    assert {r["host_bucket"] for r in rows} == {0}
    assert {r["matched_crawl"] for r in rows} == {"A"}
    assert len({r["matched_doc_id"] for r in rows}) == 1
    info = [place.part("band_matches", "B").manifest("band_matches", n).info for n in range(4)]
    assert sum(i["asked"] for i in info) == 41 * 14
    assert sum(i["matched_keys"] for i in info) == len(rows)


def test_a_key_that_many_documents_share_goes_to_a_bucket_once(tmp_path):
    # A template of a thousand pages in one host: its keys' postings travel once, not a thousand times.
    rng = np.random.default_rng(1)
    keys = rng.integers(0, 2**64, 14, np.uint64)
    place = world(tmp_path)
    old = band_index.entries(np.repeat(np.arange(14, dtype=np.uint8), 5), np.repeat(keys, 5),
                             docs(np.tile(np.arange(5), 14)), 64)
    run = commit(place, "A", 0, old)
    host = np.repeat(np.array([0, 3], np.uint16), 1000)
    found = [matching.held(b, np.full(2000, keys[b]), host, [(("A",), run)]) for b in range(14)]
    assert [len(f.key) for f in found] == [10] * 14  # five postings, two buckets
    assert found[0].host_bucket.tolist() == [0] * 5 + [3] * 5
    assert found[0].doc_id[:, 0].tolist() == [0, 1, 2, 3, 4] * 2


@given(st.data())
def test_votes_name_the_copy_that_the_definition_names(data: st.DataObject):
    """Against counting in plain Python: the earliest crawl with enough bands, most votes, smallest id."""
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    bands, least = 5, data.draw(st.integers(1, 5))
    keys = rng.integers(0, 4, (data.draw(st.integers(0, 12)), bands)).astype(np.uint64)
    crawls = ("C1", "C0", "C2")  # in order of time, not of name
    n = data.draw(st.integers(0, 60))
    held = {(int(rng.integers(0, bands)), int(rng.integers(0, 4)), int(rng.integers(0, 3)), int(rng.integers(0, 6)))
            for _ in range(n)}
    rows = sorted(held)
    rng.shuffle(rows)
    table = pa.table({
        "band": pa.array([r[0] for r in rows], pa.uint8()), "key": pa.array([r[1] for r in rows], pa.uint64()),
        "host_bucket": pa.array([0] * len(rows), pa.uint16()),
        "matched_crawl": pa.array([crawls[r[2]] for r in rows], pa.string()),
        "matched_doc_id": ids.to_array(docs(np.array([r[3] for r in rows], np.int64))),
    }, schema=schemas.BAND_MATCHES)
    found = matching.votes(keys, table, crawls, least)
    for i, row in enumerate(keys.tolist()):
        count = Counter((c, d) for b, k, c, d in held if row[b] == k)
        enough = [(c, -v, d) for (c, d), v in count.items() if v >= least]
        want = min(enough, default=None)
        got = (int(found.crawl[i]), -int(found.votes[i]), int(found.doc_id[i, 0])) if found.votes[i] else None
        assert got == want


def test_a_document_of_an_earlier_crawl_is_found_across_ranges(tmp_path):
    rng = np.random.default_rng(4)
    place = world(tmp_path)
    keys = rng.integers(0, 2**64, (6, 14), np.uint64)
    held = np.stack([keys[0], keys[1], keys[2], keys[2]])  # documents 10, 11, 12, 13
    held[0, 4:] += np.uint64(1)  # 10 shares four bands with query 0
    held[1, 3:] += np.uint64(1)  # 11 shares three with query 1
    held[3, :2] += np.uint64(1)  # 13 shares twelve with query 2, 12 shares all
    flat = held.ravel()
    band = np.tile(np.arange(14, dtype=np.uint8), 4)
    doc = docs(np.repeat(np.arange(10, 14), 14))
    number = shuffle.range_of(flat, 4)
    asked = shuffle.range_of(keys, 4)
    rows = []
    for r in range(4):
        run = commit(place, "A", r, band_index.entries(band[number == r], flat[number == r], doc[number == r], 64))
        for b in range(14):
            mine = keys[asked[:, b] == r, b]
            rows.append(matching.held(b, mine, np.zeros(len(mine), np.uint16), [(("A",), run)]).table(("A",)))
    table = pa.concat_tables(rows)
    found = matching.votes(keys, table, ("A",), 4)
    assert found.votes.tolist() == [4, 0, 14, 0, 0, 0]
    assert found.doc_id[:, 0].tolist() == [10, 0, 12, 0, 0, 0]
    assert matching.votes(keys, table, ("A",), 3).votes.tolist()[1] == 3
    assert len(matching.votes(keys[:0], table, ("A",), 4).votes) == 0


def test_ranges_that_were_compared_with_different_crawls_are_not_mixed(tmp_path):
    place = world(tmp_path, grid={"host_buckets": 2})
    three(place)
    place.run("B", NEAR)
    place.run("A", NEAR)
    place.run("B", ("band_matches",), buckets=[0])  # the other range has not met A yet
    with pytest.raises(BandIndexError, match="band_matches of B was compared with A, range 0001 with no crawl"):
        place.run("B", ("near",))
    place.run("B", ("band_matches", "near"))
    assert sum(v[2] == "A" for v in verdicts(place, "B")) == 8


def test_a_generation_without_a_match_is_recorded_all_the_same(tmp_path):
    # Nothing that near reads changes but for what was consulted; a check looks at that.
    place = world(tmp_path, grid={"host_buckets": 2})
    place.land("A", [prose(random.Random(1)) for _ in range(4)])
    place.land("B", [prose(random.Random(2)) for _ in range(4)])
    place.run("B", NEAR)
    place.run("A", NEAR)
    place.run("B", NEAR)
    assert place.part("near", "B").manifest("near", 0).state["generations"] == [{"crawl": "A"}]
    assert place.run("B", NEAR) == 0


def test_going_back_to_other_parameters_finds_their_matches_again(tmp_path):
    place = world(tmp_path, grid={"host_buckets": 2})
    three(place)
    other = world(tmp_path, grid={"host_buckets": 2}, clusters={"verify": "signature"})
    for crawl in "AB":
        place.run(crawl, NEAR)
    for crawl in "AB":
        other.run(crawl, NEAR)
    assert [place.run(crawl, NEAR) for crawl in "AB"] == [0, 0]


def test_no_more_bands_are_in_memory_than_a_pass_has(tmp_path, monkeypatch):
    asked: dict[str, list[int]] = {}
    original = Partition.read_range

    def noted(self, asset, role, number=None, columns=None, crawl=None):
        if role == "bands":
            asked.setdefault(self.stage.name, []).append(len(number))
        return original(self, asset, role, number, columns, crawl)

    monkeypatch.setattr(Partition, "read_range", noted)
    place = world(tmp_path, grid={"host_buckets": 1}, clusters={"bands_per_pass": 4})
    rng = random.Random(9)
    for crawl in "AB":
        place.land(crawl, [prose(rng) for _ in range(3)])
        place.run(crawl, NEAR)
    assert asked == {"band_buckets": [4, 4, 4, 2] * 2, "band_matches": [4, 4, 4, 2]}  # A has nothing before it
