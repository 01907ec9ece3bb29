"""Compaction of a site: every whole generation as one, what is being made left alone, one older merge kept."""

import random

from gristmill.deduplicate.compaction import compact_site, opened
from gristmill.deduplicate.generations import earlier
from tests.deduplicate.test_generations import NEAR, three, verdicts
from tests.deduplicate.texts import edited, prose
from tests.deduplicate.world import world


def merges(place):
    """Merges that range 0000 has."""
    return {p.split("/")[2] for p, _ in place.store.blobs.list("band_index_merged") if "host_bucket=0000" in p}


def used(place, crawl):
    part = place.part("near", crawl)
    return [o.crawls for o in opened(part, earlier(part, "band_index", 0))]


def test_a_new_crawl_opens_one_merged_generation_and_finds_what_it_would_have_found(tmp_path):
    place = world(tmp_path, grid={"host_buckets": 2})
    a, _, _ = three(place)
    place.land("D", [edited(t, 1, random.Random(i)) for i, t in enumerate(a)] + [prose(random.Random(99))])
    assert compact_site(place.store, place.plan, place.site).crawls == ()  # nothing has been made yet
    for crawl in "ABC":
        place.run(crawl, NEAR)
    place.run("D", NEAR)
    want = verdicts(place, "D")
    done = compact_site(place.store, place.plan, place.site)
    assert (done.crawls, done.new, done.stopped_at) == (("A", "B", "C", "D"), True, None)
    assert used(place, "D") == [("A",), ("B",), ("C",)]  # what it consumed is not what was merged: it is left aside
    again = compact_site(place.store, place.plan, place.site)
    assert (again.new, again.entries, again.dropped) == (False, done.entries, ())
    place.land("E", [edited(t, 1, random.Random(50 + i)) for i, t in enumerate(a)])
    assert used(place, "E") == [("A", "B", "C", "D")]
    assert place.run("D", NEAR) == 0  # and nothing became stale
    assert verdicts(place, "D") == want


def test_a_crawl_that_is_half_made_stops_the_merge_before_it(tmp_path):
    place = world(tmp_path, grid={"host_buckets": 2})
    three(place)
    for crawl in "ABC":
        place.run(crawl, NEAR)
    place.store.blobs.delete(f"{place.part('near', 'C').key('band_index', 1, 'C').path}/_manifest.json")
    done = compact_site(place.store, place.plan, place.site)
    assert (done.crawls, done.stopped_at) == (("A", "B"), "C")


def test_of_older_merges_the_last_stays_for_runs_that_have_it_open(tmp_path):
    place = world(tmp_path, grid={"host_buckets": 2})
    three(place)
    sizes = []
    for crawl in "AB":
        place.run(crawl, NEAR)
    for crawl in "CDE":
        if crawl != "C":
            place.land(crawl, [prose(random.Random(ord(crawl)))])
        sizes.append((len(merges(place)), compact_site(place.store, place.plan, place.site).dropped))
        place.run(crawl, NEAR)
    done = compact_site(place.store, place.plan, place.site)
    assert [len(d) for _, d in sizes] + [len(done.dropped)] == [0, 0, 1, 1]
    assert len(merges(place)) == 2
    assert used(place, "E") == [("A", "B", "C", "D")]
