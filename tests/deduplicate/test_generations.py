import random

import pytest

from gristmill.deduplicate.compaction import compact, opened
from gristmill.deduplicate.generations import earlier
from gristmill.errors import BandIndexError, MissingPartitionError
from gristmill.registry import Registry
from gristmill.store import MANIFEST
from tests.deduplicate.texts import edited, prose
from tests.deduplicate.world import STAGES, World, world

NEAR = STAGES[: STAGES.index("band_index") + 1]


def three(place: World) -> tuple[list[str], list[str], list[str]]:
    """A, then B with half of A edited, then C with half of A and of B edited."""
    rng = random.Random(1)
    a = [prose(rng) for _ in range(16)]
    b = [edited(t, 1, rng) for t in a[:8]] + [prose(rng) for _ in range(8)]
    c = [edited(t, 1, rng) for t in a[4:12]] + [edited(t, 1, rng) for t in b[8:]] + [prose(rng) for _ in range(4)]
    for crawl, texts in zip("ABC", (a, b, c)):
        place.land(crawl, texts)
    return a, b, c


def verdicts(place: World, crawl: str) -> list[tuple[object, ...]]:
    return [(r["doc_id"], r["survives"], r["matched_crawl"], r["matched_doc_id"], r["matched_bands"])
            for r in place.table("near", crawl).to_pylist()]


def test_documents_of_earlier_crawls_are_named(tmp_path):
    place = world(tmp_path, grid={"host_buckets": 2})
    three(place)
    for crawl in "ABC":
        place.run(crawl, NEAR)
    of = [r["matched_crawl"] for r in place.table("near", "C").to_pylist()]
    assert (of.count("A"), of.count("B"), of.count(None)) == (8, 8, 4)
    known = {r["doc_id"] for r in place.table("near", "A").to_pylist()}
    for row in place.table("near", "C").to_pylist():
        if row["matched_crawl"] == "A":
            assert row["matched_doc_id"] in known
            assert row["matched_bands"] >= 4
        assert row["survives"] == (row["matched_crawl"] is None)


def test_reprocessing_an_old_crawl_after_newer_ones_gives_the_same(tmp_path):
    place = world(tmp_path, grid={"host_buckets": 2})
    three(place)
    for crawl in "ABC":
        place.run(crawl, NEAR)
    before = {c: place.digests(c, NEAR) for c in "ABC"}
    for crawl in "BAC":
        place.run(crawl, NEAR, force=True)
    assert {c: place.digests(c, NEAR) for c in "ABC"} == before


def test_a_crawl_sees_only_what_came_before_and_says_what(tmp_path):
    place = world(tmp_path, grid={"host_buckets": 2})
    three(place)
    place.run("B", NEAR)  # A is registered, but was never taken this far: no generation
    assert place.part("near", "B").manifest("near", 0).state["generations"] == []
    assert all(v[2] is None for v in verdicts(place, "B"))
    place.run("A", NEAR)
    # What B consumed is older than today's, so running it again makes it again, and now it finds A.
    assert place.run("B", NEAR) > 0
    assert [g["crawl"] for g in place.part("near", "B").manifest("near", 0).state["generations"]] == ["A"]
    assert sum(v[2] == "A" for v in verdicts(place, "B")) == 8
    assert place.run("B", NEAR) == 0
    assert place.run("A", NEAR) == 0


@pytest.mark.parametrize("asset", ["band_index", "exact"])
def test_a_generation_that_lacks_a_range_stops_the_run(tmp_path, asset: str):
    place = world(tmp_path, grid={"host_buckets": 2})
    three(place)
    place.run("A", NEAR)
    (tmp_path / "store" / place.part(asset, "A", 1).key().path / MANIFEST).unlink()
    with pytest.raises(BandIndexError, match=r"crawl A has only 1 of 2 ranges of .* \(missing 0001\): run"):
        place.run("B", NEAR)


def test_a_generation_that_cannot_be_read_stops_the_run(tmp_path):
    place = world(tmp_path, grid={"host_buckets": 2})
    three(place)
    place.run("A", NEAR)
    place.run("B", NEAR[: NEAR.index("band_matches")])
    path = tmp_path / "store" / place.part("band_index", "A", 1).key().path / MANIFEST
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(BandIndexError, match="generation of crawl A is damaged"):
        place.run("B", ("band_matches",))
    with pytest.raises(MissingPartitionError):
        place.run("B", ("near",))  # nothing goes on before every range has met what came before


def test_a_generation_made_by_other_parameters_stops_the_run(tmp_path):
    place = world(tmp_path, grid={"host_buckets": 2})
    three(place)
    place.run("A", NEAR)
    other = world(tmp_path, grid={"host_buckets": 2}, minhash={"seed": 2})
    for crawl in "AB":
        other.run(crawl, ("exact", "line_candidates", "line_counts", "lines"))
    other.run("B", ("signatures", "band_buckets", "clusters"))
    with pytest.raises(BandIndexError, match="made by other parameters"):
        other.run("B", ("band_matches",))


def test_a_compacted_generation_gives_the_same_matches(tmp_path):
    place = world(tmp_path, grid={"host_buckets": 2})
    a, _, _ = three(place)
    place.land("D", [edited(t, 1, random.Random(i)) for i, t in enumerate(a)] + [prose(random.Random(99))])
    for crawl in "ABC":
        place.run(crawl, NEAR)
    part = place.part("near", "D")
    generations = [earlier(part, "band_index", n) for n in range(2)]
    place.run("D", NEAR)
    want = verdicts(place, "D"), place.digests("D", ("band_matches",))
    keys = [compact(part, g) for g in generations]
    assert [[o.crawls for o in opened(part, g)] for g in generations] == [[("A", "B", "C")]] * 2
    assert place.run("D", NEAR) == 0  # what was consumed is the same
    place.run("D", ("band_matches", "near"), force=True)
    assert (verdicts(place, "D"), place.digests("D", ("band_matches",))) == want
    # Compacting again writes nothing new; the old generations are still there.
    bytes_before = [place.store.require(k).digest for k in keys]
    assert [place.store.require(compact(part, g)).digest for g in generations] == bytes_before
    assert [len(earlier(part, "band_index", n)) for n in range(2)] == [3, 3]
    assert Registry(place.store).crawls() == ["A", "B", "C", "D"]


def test_a_compaction_of_the_first_crawls_goes_before_the_rest(tmp_path):
    place = world(tmp_path, grid={"host_buckets": 2})
    three(place)
    for crawl in "AB":
        place.run(crawl, NEAR)
    part = place.part("near", "C")
    generations = earlier(part, "band_index", 0)
    compact(part, generations)  # of one range: the other goes on with single generations
    place.run("C", NEAR)
    merged = verdicts(place, "C")
    assert [o.crawls for o in opened(part, generations)] == [("A", "B")]
    # A generation of A made anew with other bytes is not what was merged: the compacted one is left aside.
    place.land("A", [prose(random.Random(5))])
    place.run("A", NEAR)
    assert [o.crawls for o in opened(part, earlier(part, "band_index", 0))] == [("A",), ("B",)]
    assert merged
