import random
from dataclasses import replace

from gristmill.deduplicate import audit
from tests.deduplicate.texts import edited, prose
from tests.deduplicate.world import world


def pair(number: int, similarity: float | None, source: str = "this crawl") -> audit.Pair:
    return audit.Pair(source, "cc", audit.band_of(similarity), number.to_bytes(16, "big"), bytes(16), similarity, 0)


def test_bands_of_similarity():
    assert audit.band_of(None) == "not verified"
    assert audit.band_of(0.81) == "0.80 to 0.85"
    assert audit.band_of(0.98) == "0.98 to 1.00"
    assert audit.band_of(1.0) == "1.00"
    assert audit.band_of(0.93, audit.COSINES) == "0.925 to 0.950"
    assert audit.band_of(0.3, audit.COSINES) == "under 0.500"


def test_samples_are_by_band_and_source_and_repeatable():
    pairs = [pair(i, 0.81 if i % 10 else 0.96) for i in range(500)] + [pair(1000, 0.5, "A")]
    some, totals = audit.sample(pairs, 7, 1)
    assert totals == {
        ("A", "cc", "0.50 to 0.80"): 1, ("this crawl", "cc", "0.80 to 0.85"): 450,
        ("this crawl", "cc", "0.95 to 0.98"): 50,
    }
    tiers = [replace(p, tier="licensed") for p in pairs[:20]]
    assert audit.sample(pairs + tiers, 7, 1)[1]["this crawl", "licensed", "0.80 to 0.85"] == 18
    assert [sum(p.band == b for p in some) for b in ("0.50 to 0.80", "0.80 to 0.85", "0.95 to 0.98")] == [1, 7, 7]
    assert audit.sample(reversed(pairs), 7, 1)[0] == some
    assert audit.sample(pairs, 7, 2)[0] != some


def test_differences_are_marked_and_everything_is_escaped():
    left, right = audit.differences("the <b>old</b> text & more", "the <i>new</i> text & more")
    assert "<del>&lt;b&gt;old&lt;/b&gt;</del>" in left
    assert "<ins>&lt;i&gt;new&lt;/i&gt;</ins>" in right
    assert "&amp; more" in left
    long = " ".join(f"w{i}" for i in range(5000))
    left, _ = audit.differences(long, long + " x")
    assert "words alike" in left
    assert f"cut after {audit.WORDS} words" in left


def test_the_page_shows_both_texts_of_pairs_within_and_across_crawls(tmp_path):
    rng = random.Random(2)
    hostile = "<script>alert('x')</script> <img src=x onerror=y> "
    one, two = hostile + prose(rng), prose(rng)
    place = world(tmp_path, grid={"host_buckets": 2})
    place.land("A", [two])
    place.land("B", [one, edited(one, 1, rng), edited(two, 1, rng), prose(rng)], tier="licensed")
    place.run("A")
    place.run("B")
    made = place.part("duplicate_pairs", "B", None).manifest("duplicate_pairs", None)
    page = (tmp_path / "store" / made.info["page"]).read_text("utf-8")
    assert page == audit.audit_pairs(place.store, place.plan, place.site, "B")
    assert "<script" not in page
    assert "<img" not in page
    assert page.count("<article>") == 2
    assert "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;" in page
    assert "<h2>A, licensed: " in page
    assert "<h2>this crawl, licensed: " in page
    assert page.count("changed") >= 2
    empty = place.part("duplicate_pairs", "A", None).manifest("duplicate_pairs", None)
    assert "No pair was decided" in (tmp_path / "store" / empty.info["page"]).read_text("utf-8")
