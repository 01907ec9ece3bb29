"""Ordinals: given once, in order, whoever asks and however often."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from gristmill.errors import LandingError
from gristmill.registry import Registry
from gristmill.store import Store


def test_ordinals_are_given_once(tmp_path):
    registry = Registry(Store(tmp_path))
    assert [registry.register(c) for c in ("CC-B", "CC-A", "CC-B")] == [0, 1, 0]
    assert registry.crawls() == ["CC-B", "CC-A"]
    assert registry.earlier("CC-A") == ["CC-B"]


def test_racing_writers_never_share_an_ordinal(tmp_path):
    Store(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda i: Registry(Store(tmp_path)).register(f"C{i}"), range(24)))
    assert sorted(got) == list(range(24))


@pytest.mark.parametrize("name", ["a|b", "a,b", "a[b]", "", "../x", ".x", "a/b", "x" * 101, "a b"])
def test_names_that_cannot_be_keys_are_refused(tmp_path, name):
    with pytest.raises(LandingError):
        Registry(Store(tmp_path)).register(name)


def test_an_unknown_crawl_says_what_there_is(tmp_path):
    registry = Registry(Store(tmp_path))
    registry.register("CC-A")
    with pytest.raises(LandingError, match="CC-A"):
        registry.ordinal("CC-X")
