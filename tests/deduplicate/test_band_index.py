import time

import numpy as np
import pytest

from gristmill import schemas
from gristmill.deduplicate import band_index, bloom
from gristmill.errors import BandIndexError
from gristmill.funnel import BY_NAME
from tests.deduplicate.world import World, world


def commit(place: World, crawl: str, number: int, entries: band_index.Entries) -> band_index.Run:
    """A generation's range as the stage writes it."""
    part = place.upstream("band_index", crawl, number)
    part.write_bytes(entries.to_bytes(), role="data", suffix=".parquet", rows=len(entries.key))
    part.write(entries.starts(), band_index.STARTS, role="starts")
    part.write_bytes(bloom.to_bytes(bloom.build(entries.key, 12)), role="bloom", suffix=".bloom")
    part.commit(time.time())
    return open_run(place, crawl, number)


def open_run(place: World, crawl: str, number: int, **options: int) -> band_index.Run:
    key = place.part("band_index", crawl, number).key()
    return band_index.Run(place.store, key, place.store.require(key), **options)


def docs(numbers: np.ndarray) -> np.ndarray:
    return np.stack([numbers.astype(np.uint64), np.zeros(len(numbers), np.uint64)], axis=1)


def many(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bands, keys with posting lists of every length (some over row groups), documents."""
    band = rng.integers(0, 3, n).astype(np.uint8)
    key = rng.integers(0, 2**64, n, np.uint64)
    hot = rng.random(n) < 0.3
    key[hot] = rng.choice(key[:50], int(hot.sum()))
    return band, key, docs(rng.permutation(n))


def test_probing_finds_what_a_dictionary_finds(tmp_path):
    rng = np.random.default_rng(1)
    band, key, doc = many(200_000, rng)
    entries = band_index.entries(band, key, doc, 10**9)
    table: dict[tuple[int, int], list[int]] = {}
    for b, k, d in zip(band.tolist(), key.tolist(), doc[:, 0].tolist()):
        table.setdefault((b, k), []).append(d)
    assert max(map(len, table.values())) > 300
    run = commit(world(tmp_path), "A", 0, entries)
    ask = rng.integers(0, len(key), 3_000)
    ask_band = np.concatenate([band[ask], rng.integers(0, 4, 3_000).astype(np.uint8)])
    ask_key = np.concatenate([key[ask], rng.integers(0, 2**64, 3_000, np.uint64)])
    rows, found, _ = run.probe(ask_band, ask_key)
    got: dict[int, list[int]] = {}
    for row, d in zip(rows.tolist(), found[:, 0].tolist()):
        got.setdefault(row, []).append(d)
    for row, (b, k) in enumerate(zip(ask_band.tolist(), ask_key.tolist())):
        assert sorted(got.get(row, [])) == sorted(table.get((b, k), [])), row


def test_a_posting_list_that_begins_and_ends_at_row_groups_is_whole(tmp_path):
    size = band_index.GROUP
    key = np.concatenate([np.full(size, 5), np.full(2 * size, 7), np.full(1, 9)]).astype(np.uint64)
    entries = band_index.entries(np.zeros(len(key), np.uint8), key, docs(np.arange(len(key))), 10**9)
    run = commit(world(tmp_path), "A", 0, entries)
    for wanted, count in ((5, size), (7, 2 * size), (9, 1), (8, 0)):
        rows, _, _ = run.probe(np.zeros(1, np.uint8), np.array([wanted], np.uint64))
        assert len(rows) == count


def test_little_memory_gives_the_same_answers(tmp_path):
    rng = np.random.default_rng(2)
    band, key, doc = many(200_000, rng)
    place = world(tmp_path)
    plenty = commit(place, "A", 0, band_index.entries(band, key, doc, 64))
    scarce = open_run(place, "A", 0, keep=1)
    for a, b in zip(plenty.probe(band[:5000], key[:5000]), scarce.probe(band[:5000], key[:5000])):
        assert np.array_equal(a, b)


def test_postings_over_the_cap_are_counted():
    key = np.array([4] * 10 + [6], np.uint64)
    entries = band_index.entries(np.zeros(11, np.uint8), key, docs(np.arange(11)[::-1]), 3)
    assert entries.key.tolist() == [4, 4, 4, 6]
    assert entries.doc_id[:, 0].tolist() == [1, 2, 3, 0]
    assert entries.overflow == 7


def test_an_entry_takes_at_most_24_bytes(tmp_path):
    rng = np.random.default_rng(3)
    n = 100_000
    entries = band_index.entries(rng.integers(0, 14, n).astype(np.uint8), rng.integers(0, 2**64, n, np.uint64),
                                 rng.integers(0, 2**64, (n, 2), np.uint64), 64)
    place = world(tmp_path)
    commit(place, "A", 0, entries)
    files = {f.role: f.bytes for f in place.part("band_index", "A").manifest("band_index").files}
    assert files["data"] / n <= 24
    assert files["bloom"] / n <= 1.51


def test_an_empty_generation_matches_nothing(tmp_path):
    run = commit(world(tmp_path), "A", 0, band_index.entries(
        np.zeros(0, np.uint8), np.zeros(0, np.uint64), np.zeros((0, 2), np.uint64), 64))
    rows, found, tags = run.probe(np.zeros(4, np.uint8), np.arange(4, dtype=np.uint64))
    assert len(rows) == len(found) == len(tags) == 0


@pytest.mark.parametrize("role", ["data", "bloom", "starts"])
def test_a_damaged_or_missing_file_stops_the_run(tmp_path, role: str):
    rng = np.random.default_rng(5)
    place = world(tmp_path)
    band, key, doc = many(2000, rng)
    commit(place, "A", 0, band_index.entries(band, key, doc, 64))
    part = place.part("band_index", "A")
    ref = part.manifest("band_index").role(role)[0]
    path = tmp_path / "store" / part.key().path / ref.name
    good = path.read_bytes()
    for damage in (good[: len(good) // 2], good[: len(good) // 3] + b"\x55" * 8 + good[len(good) // 3 + 8 :]):
        path.write_bytes(damage)
        with pytest.raises(BandIndexError, match="cannot be trusted"):
            open_run(place, "A", 0).probe(band, key)
    path.unlink()
    with pytest.raises(BandIndexError, match="cannot be trusted"):
        open_run(place, "A", 0).probe(band, key)


def test_the_schema_is_that_of_the_stage():
    entries = band_index.entries(np.zeros(1, np.uint8), np.ones(1, np.uint64), docs(np.arange(1)), 64)
    assert schemas.check(entries.table(), schemas.BAND_INDEX, "t").num_rows == 1
    assert BY_NAME["band_index"].by == "range"
