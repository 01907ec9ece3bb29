"""The judgement of retention: ordinary crawls are never told of, faults always are."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.observe.bands import BASELINES, WIDTHS, Band, bands
from gristmill.observe.judge import Past, judge, student
from gristmill.observe.measure import Count
from gristmill.params import ObserveParams
from tests.observe.crawls import STAGES, Web

CRAWLS = 20


def run(web: Web, crawls: int = CRAWLS):
    """(crawl number, stage, its judgement) of crawls one after the other, each against the last five."""
    past: list[dict[str, dict[int, Count]]] = []
    for number in range(crawls):
        crawl = web.crawl()
        for stage in STAGES:
            before = [Past(str(n), c[stage]) for n, c in enumerate(past)][-5:]
            yield number, stage, judge(crawl[stage], before, WIDTHS[stage], 200)
        past.append(crawl)


@pytest.mark.parametrize("seed", [11, pytest.param(12, marks=pytest.mark.slow)])
def test_twenty_ordinary_crawls_give_no_alarm(seed):
    """From the first, which has no past. Hosts' sizes are a power law; they come, go, grow, and some are redesigned."""
    web = Web(buckets=64, hosts=20_000, pages=1_000_000, seed=seed)
    alarms = [(n, stage, b, v) for n, stage, found in run(web)
              for b, vs in [(None, found.crawl), *found.buckets.items()] for v in vs if not v.passed]
    assert alarms == []


def test_the_simulated_crawls_scatter_far_more_than_binomially():
    """Else the test above would prove nothing."""
    crawl = Web(buckets=64, hosts=20_000, pages=1_000_000, seed=11).crawl()["language"]
    share = sum((c for c in crawl.values()), Count()).ratio("docs")
    squares = [((c.ratio("docs") - share) ** 2) / (share * (1 - share) / c.docs_in) for c in crawl.values()]
    assert np.mean(squares) > 50


@pytest.mark.parametrize(("stage", "to"), [("language", 0.45), ("exact", 0.9), ("near", 0.75), ("heuristics", 0.65),
                                           ("quality", 0.5), ("safety", 0.9), ("contamination", 0.9)])
def test_a_crawl_that_moved_well_beyond_its_band_is_told(stage, to):
    web = Web(buckets=64, hosts=20_000, pages=1_000_000, seed=13)
    past = [Past(str(n), web.crawl()[stage]) for n in range(4)]
    now = web.crawl()[stage]
    factor = to / STAGES[stage][0]
    bad = {b: Count(c.docs_in, min(int(c.docs_kept * factor), c.docs_in), clump=c.clump) for b, c in now.items()}
    found = judge(bad, past, WIDTHS[stage], 200)
    assert found.worst is not None
    assert found.worst.direction == ("up" if factor > 1 else "down")
    assert judge(now, past, WIDTHS[stage], 200).worst is None


def test_one_broken_bucket_is_told_alone():
    web = Web(buckets=64, hosts=20_000, pages=1_000_000, seed=14)
    past = [Past(str(n), web.crawl()["text"]) for n in range(4)]
    now = web.crawl()["text"]
    now[17] = Count(now[17].docs_in, now[17].docs_in // 3, clump=now[17].clump)
    found = judge(now, past, WIDTHS["text"], 200)
    assert [b for b, vs in found.buckets.items() if not all(v.passed for v in vs)] == [17]


def test_a_fault_in_some_buckets_does_not_widen_the_crawls_own_band():
    past = [Past(str(n), {b: Count(1000, 600 + n) for b in range(4)}) for n in range(5)]
    now = {b: Count(1000, 600) for b in range(3)} | {3: Count(1000, 0)}
    assert judge(now, past, Band(width=0.04), 200).worst is not None


def test_a_movement_of_the_whole_crawl_is_no_fault_of_its_buckets():
    past = [Past(str(n), {b: Count(1000, 500 + 40 * b) for b in range(8)}) for n in range(5)]
    now = {b: Count(1000, 400 + 40 * b) for b in range(8)}
    found = judge(now, past, Band(width=0.04), 200)
    assert found.worst is not None
    assert all(v.passed for vs in found.buckets.values() for v in vs)


def test_without_a_past_a_bucket_is_held_against_the_others():
    now = {b: Count(1000, 900) for b in range(3)} | {3: Count(1000, 500)}
    found = judge(now, [], Band(width=0.06), 200)
    assert found.worst is None
    assert [b for b, vs in found.buckets.items() if not vs[0].passed] == [3]


def test_the_reference_is_the_first_baseline_of_the_web_and_of_nothing_else():
    crawl = {b: Count(100_000, 72_000) for b in range(64)}  # of language: 58 to 63 % and 4 points more
    web, own = bands(ObserveParams(baseline="web")), bands(ObserveParams())
    assert judge(crawl, [], web["language"], 200).worst is not None
    assert judge(crawl, [], own["language"], 200).worst is None
    # With crawls to look back on the median takes its place: this site keeps 72 % and always did.
    past = [Past(str(n), crawl) for n in range(3)]
    assert judge(crawl, past, web["language"], 200).worst is None


@pytest.mark.parametrize(("stage", "edges"), [
    ("exact", (0.64, 0.86)), ("near", (0.39, 0.61)), ("language", (0.54, 0.67)), ("heuristics", (0.75, 0.85)),
    ("quality", (0.30, 0.40)), ("text", (0.98, None)), ("safety", (0.98, None)), ("contamination", (0.98, None))])
def test_the_references_alerts(stage, edges):
    """The issue's numbers: 70 to 80 %, alert outside 6 points, and so on; what is nearly all is told when it falls."""
    big = 10**9  # no sampling error to speak of
    for edge, inwards in zip(edges, (1, -1), strict=True):
        if edge is None:
            continue
        for step, told in ((0.001 * inwards, False), (-0.001 * inwards, True)):
            now = {b: Count(big, round(big * (edge + step))) for b in range(4)}
            assert (judge(now, [], BASELINES["web"][stage], 200).worst is not None) == told, (edge, step)


def test_end_to_end_is_judged_by_bytes():
    band = BASELINES["web"]["end_to_end"]
    for share, passes in ((0.06, True), (0.09, False), (0.03, False)):
        now = {b: Count(10**6, 10**5, 10**9, int(share * 10**9)) for b in range(4)}
        assert (judge(now, [], band, 200).worst is None) == passes


@given(st.integers(0, 199), st.integers(0, 199))
def test_small_partitions_are_never_judged(came, kept):
    past = [Past("1", {0: Count(10_000, 9_000)})]
    found = judge({0: Count(max(came, kept), min(came, kept))}, past, Band(width=0.01), 200)
    assert found.worst is None
    assert all(v.passed for v in found.buckets[0])


def test_a_site_changes_single_numbers_of_a_band():
    table = bands(ObserveParams.model_validate({"baseline": "web", "bands": {"near": {"width": 0.2}}}))
    assert (table["near"].low, table["near"].high, table["near"].width) == (0.45, 0.55, 0.2)
    assert table["exact"] == BASELINES["web"]["exact"]


def test_students_quantile_is_the_normal_one_for_many():
    assert math.isclose(student(10**7, 1e-3), 3.2905, abs_tol=1e-3)  # two-sided
    assert student(3, 1e-6) == student(8, 1e-6) > 1.5 * student(10**7, 1e-6)  # fewer than eight say no more than eight


def test_the_level_is_shared_out_among_all_that_is_looked_at():
    """Where there is nothing but sampling noise a crawl is told of once in 1,000 at most, with all its buckets."""
    rng = np.random.default_rng(8)
    alarms, crawls = 0, 400
    past = [Past(str(n), {b: Count(4000, int(rng.binomial(4000, 0.6))) for b in range(16)}) for n in range(5)]
    for _ in range(crawls):  # a site without widths: margins are all there is
        found = judge({b: Count(4000, int(rng.binomial(4000, 0.6))) for b in range(16)}, past, Band(width=0.0), 200)
        alarms += found.worst is not None or any(not v.passed for vs in found.buckets.values() for v in vs)
    assert alarms <= 1


def test_by_bytes_a_host_weighs_what_its_pages_do():
    """A bucket one host of which has few and long pages: what that host may do is allowed by bytes."""
    def bucket(kept: float, clump_bytes: float) -> Count:
        return Count(1000, 600, 10**6, int(kept * 10**6), clump=20.0, clump_bytes=clump_bytes)

    past = [Past(str(n), {b: bucket(0.6, 20.0) for b in range(32)}) for n in range(5)]
    now = {b: bucket(0.6, 20.0) for b in range(32)}
    assert not judge(now | {3: bucket(0.95, 20.0)}, past, Band(width=0.01), 200).buckets[3][1].passed
    assert judge(now | {3: bucket(0.95, 200.0)}, past, Band(width=0.01), 200).buckets[3][1].passed
    heavy = [Past(p.crawl, {**p.buckets, 3: bucket(0.6, 200.0)}) for p in past]  # and so when that host has gone
    assert judge(now | {3: bucket(0.95, 20.0)}, heavy, Band(width=0.01), 200).buckets[3][1].passed


def test_a_bucket_that_keeps_nothing_is_told_however_wide_its_margin():
    past = [Past(str(n), {b: Count(1000, 400 + 30 * (b == 2) * n, clump=60.0) for b in range(8)}) for n in range(5)]
    now = {b: Count(1000, 400, clump=60.0) for b in range(8)}
    assert judge(now | {3: Count(1000, 20, clump=60.0)}, past, Band(width=0.1), 200).buckets[3][0].passed
    assert not judge(now | {3: Count(1000, 0, clump=60.0)}, past, Band(width=0.1), 200).buckets[3][0].passed


def test_a_bucket_taken_alone_is_held_against_its_own_past():
    past = [Past(str(n), {b: Count(1000, 600 + 40 * b) for b in range(8)}) for n in range(5)]
    bad = judge({6: Count(1000, 500)}, past, Band(width=0.04), 200)
    assert [v.passed for v in bad.buckets[6]] == [False]
    good = judge({6: Count(1000, 840)}, past, Band(width=0.04), 200)  # not the others' 600 to 800
    assert good.worst is None
    assert [v.passed for v in good.buckets[6]] == [True]


def test_plain_text_that_grows_by_its_charset_is_no_fault():
    """KOI8-R to UTF-8 doubles: kept bytes over bytes that came in may be more than 1, now and before."""
    grown = {b: Count(1000, 990, 10**6, 19 * 10**5, clump=9.0, clump_bytes=9.0) for b in range(8)}
    past = [Past(str(n), grown) for n in range(5)]
    for before in ([], past, [Past("1", {b: Count(1000, 990, 10**6, 10**6 - 9) for b in range(8)})] * 4):
        found = judge(grown, before, WIDTHS["text"], 200)
        assert found.worst is None
        assert all(v.passed for vs in found.buckets.values() for v in vs)
    shrunk = {b: Count(1000, 990, 10**6, 10**6, clump=9.0, clump_bytes=9.0) for b in range(8)}
    assert judge(shrunk, past, WIDTHS["text"], 200).worst is not None
