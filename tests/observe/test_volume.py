"""Numbers of documents: lost and flooded buckets, half crawls."""

import numpy as np

from gristmill.observe.volume import bucket_volumes, crawl_volume
from tests.observe.crawls import Web


def numbers(web):
    return {b: c.docs_in for b, c in web.crawl()["text"].items()}


def test_ordinary_crawls_give_no_alarm():
    web, past = Web(buckets=64, hosts=20_000, pages=1_000_000, seed=21), []
    for _ in range(20):
        now = numbers(web)
        assert crawl_volume(sum(now.values()), [sum(p.values()) for p in past[-5:]], 2.0, 200).passed
        assert [b for b, v in bucket_volumes(now, past[-5:], 2.0, 200).items() if not v.passed] == []
        past.append(now)


def test_a_lost_bucket_is_told_with_a_past_and_without():
    web = Web(buckets=64, hosts=20_000, pages=1_000_000, seed=22)
    past = [numbers(web) for _ in range(3)]
    now = numbers(web) | {40: 0}
    for before in (past, []):
        found = bucket_volumes(now, before, 2.0, 200)
        assert [b for b, v in found.items() if not v.passed] == [40]
        assert found[40].direction == "fewer"


def test_a_flooded_bucket_is_told():
    past = [dict.fromkeys(range(8), n) for n in (1000, 1010, 990)]
    found = bucket_volumes(dict.fromkeys(range(8), 1000) | {2: 30_000}, past, 2.0, 200)
    assert {b: v.direction for b, v in found.items() if not v.passed} == {2: "more"}


def test_half_a_crawl_is_told_and_a_site_chooses_the_factor():
    assert crawl_volume(490, [1000, 1000, 1100], 2.0, 200).direction == "fewer"
    assert crawl_volume(2100, [1000, 1000, 1100], 2.0, 200).direction == "more"
    assert crawl_volume(490, [1000, 1000, 1100], 3.0, 200).passed


def test_buckets_not_made_yet_do_not_move_the_others():
    past = [{0: 1000, 1: 3000, 2: 6000}] * 3
    rng = np.random.default_rng(1)
    some = {b: int(rng.poisson(past[0][b])) for b in (0, 1)}
    assert all(v.passed for v in bucket_volumes(some, past, 2.0, 200).values())
