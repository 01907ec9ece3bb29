"""A manifest's text comes in pieces that are cut anywhere, and its shards become columns."""

import hashlib
import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.loader.shards import Shards, fold
from tests.loader.make import canonical


def entry(i: int, **changes) -> dict:
    name = hashlib.sha256(b"%d" % i).hexdigest()
    stratum = f"cc.eng.q{i % 3}.len0"
    return {"stratum": stratum, "hash": name, "path": f"shards/{stratum}/{name}/shard_00000", "n_docs": i,
            "n_tokens": 10 * i, "selected_docs": i // 2, "selected_tokens": 5 * i, **changes}


def manifest() -> dict:
    return {"format": 1, "brace": 'a { in "text"', "empty": {},
            "sources": {"a": {"layouts": {"concat:8": [3, 1, 4]}, "shards": [entry(i) for i in range(3)]},
                        "b": {"layouts": {}, "shards": []},
                        "c/rest": {"layouts": {"concat:8": [1], "related:16": [5]},
                                   "shards": [entry(9, path="elsewhere/x")]}}}


def unfolded(value):
    if isinstance(value, Shards):
        names = ("n_docs", "n_tokens", "selected_docs", "selected_tokens")
        return {"layouts": {k: v.tolist() for k, v in value.layouts.items()},
                "shards": [{"stratum": value.stratum_names[value.strata[i]], "hash": value.hash(i),
                            "path": value.path(i), **dict(zip(names, value.counts[i].tolist(), strict=True))}
                           for i in range(len(value))]}
    return {k: unfolded(v) for k, v in value.items()} if isinstance(value, dict) else value


@given(st.lists(st.integers(0, 3000), max_size=12))
def test_wherever_the_text_is_cut_it_says_the_same(cuts):
    whole = manifest()
    data = canonical(whole)
    edges = [0, *sorted(min(c, len(data)) for c in cuts), len(data)]
    body, found, broken = fold(data[a:b] for a, b in itertools.pairwise(edges))
    assert broken is None
    assert found == hashlib.sha256(data).hexdigest()
    assert unfolded(body) == whole


def test_one_byte_at_a_time():
    whole = manifest()
    data = canonical(whole)
    assert unfolded(fold(data[i : i + 1] for i in range(len(data)))[0]) == whole


def test_a_shard_is_found_by_its_hash():
    shards = fold([canonical({"sources": manifest()["sources"]})])[0]["sources"]["a"]
    assert [shards.rows(entry(i)["hash"]) for i in (2, 0, 7)] == [[2], [0], []]
    assert isinstance(shards.hashes, np.ndarray)


@pytest.mark.parametrize("text", ["", "{", '{"sources": {"a": [1, 2}', '[{"a": "selected_tokens":}]', "[" * 100_000])
def test_what_is_not_json_is_said_with_the_hash_of_all_of_it(text):
    data = text.encode() + b" " * 10
    body, found, broken = fold(data[i : i + 7] for i in range(0, len(data), 7))
    assert body is None
    assert broken is not None
    assert found == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("change", [
    {"hash": "xy"}, {"hash": "ab"}, {"hash": 5}, {"n_docs": "many"}, {"n_tokens": 1 << 70}, {"path": None}])
def test_a_damaged_entry_is_shown(change):
    damaged = {k: v for k, v in entry(4, **change).items() if v is not None}
    _, _, broken = fold([json.dumps({"sources": {"a": {"layouts": {}, "shards": [damaged]}}}).encode()])
    assert broken is not None
    assert "the entry of a shard is damaged" in str(broken)
