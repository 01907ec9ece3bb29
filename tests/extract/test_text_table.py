"""Rows in the index's order and row groups cut by the texts alone, in whatever order outcomes come."""

import random
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from gristmill.deduplicate.normalise import doc_id
from gristmill.extract import text_table
from gristmill.extract.document import Outcome, aside
from gristmill.extract.slices import Extracted
from gristmill.extract.text_table import TextTable
from gristmill.extract.watch import GivenUp

WHEN = datetime(2026, 5, 11, tzinfo=UTC)


def rows(n: int) -> list[dict]:
    return [{"crawl": "C", "record_id": bytes([i]) * 16, "url": f"https://a.example/{i}", "fetch_ts": WHEN,
             "host_id": i % 3, "warc_path": "w", "offset": i, "length": 1} for i in range(n)]


def outcome(i: int) -> Extracted | GivenUp:
    if i % 7 == 3:
        return GivenUp("slow", "over 5 s")
    if i % 7 == 5:
        return Extracted(aside("empty", "nothing", 10), None, None)
    return Extracted(Outcome(None, f"t{i}", "e-1", "{}", None, "", 100), f"Příliš {i} ".encode() * (i + 1),
                     {"source_id": f"s{i}"})


def taken(order: list[int], n: int) -> tuple[list, dict, list]:
    groups: list = []
    said: dict = {}
    aside: list = []
    table = TextTable(rows(n), groups.append)
    for number in order:
        table.put(number, outcome(number))
    table.finish(SimpleNamespace(write=lambda t, s, role: aside.append((role, t)), report=lambda **k: said.update(k)))
    return groups, said, aside


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_arrival_changes_nothing(monkeypatch, seed):
    monkeypatch.setattr(text_table, "GROUP_BYTES", 400)
    n = 40
    order = list(range(n))
    expected = taken(order, n)
    random.Random(seed).shuffle(order)
    groups, said, aside = taken(order, n)
    assert groups == expected[0]
    assert said == expected[1]
    assert aside == expected[2]
    good = [i for i in range(n) if i % 7 not in (3, 5)]
    assert [r["record_id"] for g in groups for r in g.to_pylist()] == [bytes([i]) * 16 for i in good]
    assert all(r["doc_id"] == doc_id(r["text"]) and r["n_bytes"] == len(r["text"].encode())
               and r["n_chars"] == len(r["text"]) for g in groups for r in g.to_pylist())
    sizes = [sum(g["n_bytes"].to_pylist()) for g in groups]
    assert all(400 <= s < 400 + max(g["n_bytes"].to_pylist()) for s, g in zip(sizes[:-1], groups[:-1], strict=True))
    assert said["docs_in"] == n == said["docs_out"] + sum(said["reasons"].values())
    assert said["reasons"] == {"slow": 6, "empty": 5}
    assert said["bytes_out"] == sum(sizes)
    assert [role for role, _ in aside] == ["quarantine"]


def test_a_row_without_an_outcome_is_no_table():
    table = TextTable(rows(3), lambda t: None)
    table.put(0, outcome(0))
    table.put(2, outcome(2))
    with pytest.raises(AssertionError, match=(bytes([1]) * 16).hex()):
        table.finish(SimpleNamespace())
