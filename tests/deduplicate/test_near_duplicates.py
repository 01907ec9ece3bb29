"""The deduplication stages from texts to verdicts: planted truth, and the failures that other tools have had."""

import random
import time

import numpy as np
import pyarrow as pa
import pytest

from gristmill import schemas
from gristmill.deduplicate import lsh, minhash
from gristmill.deduplicate.documents import documents, texts_at, with_language
from gristmill.deduplicate.ids import pairs
from gristmill.deduplicate.normalise import doc_id
from gristmill.errors import ParameterError
from gristmill.params import ClusterParams
from tests.deduplicate.texts import WORDS, edited, near, prose
from tests.deduplicate.world import STAGES, World, record_id, world

NEAR = STAGES[: STAGES.index("near") + 1]
TWO = {"host_buckets": 2}


def groups(place: World, crawl: str, texts: list[str]) -> list[list[int]]:
    """Clusters of two or more, as positions in ``texts`` (which are distinct)."""
    at = {doc_id(t): i for i, t in enumerate(texts)}
    out: dict[bytes, list[int]] = {}
    for row in place.table("near", crawl).to_pylist():
        out.setdefault(row["dup_cluster_id"], []).append(at[row["doc_id"]])
    return sorted(sorted(g) for g in out.values() if len(g) > 1)


def planted(rng: random.Random) -> tuple[list[str], list[list[int]]]:
    """Texts, and which of them are copies but for a word or two."""
    texts = [prose(rng) for _ in range(20)]
    truth = [[0], [1], [2]]
    for _ in range(3):
        for group in truth:
            group.append(len(texts))
            texts.append(edited(texts[group[0]], 1, rng))
    return texts, truth


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    place = world(tmp_path_factory.mktemp("finished"), grid=TWO)
    texts, truth = planted(random.Random(3))
    # The copies were fetched first, so the original is not what represents its cluster.
    place.land("A", texts, days=[100 - i for i in range(len(texts))])
    place.run("A")
    return place, texts, truth


def test_planted_copies_are_clusters_and_one_of_each_survives(finished):
    place, texts, truth = finished
    assert groups(place, "A", texts) == truth
    survivors = {r["doc_id"] for r in place.table("near", "A").to_pylist() if r["survives"]}
    for group in truth:
        assert [i for i in group if doc_id(texts[i]) in survivors] == [group[-1]]  # the earliest fetched
    alone = set(range(len(texts))) - {i for g in truth for i in g}
    assert {doc_id(texts[i]) for i in alone} < survivors
    # Never every member of a cluster, and nothing that is not a document (a sentinel) among the members.
    assert len(survivors) == len(alone) + len(truth)


def test_members_stay_with_what_they_repeat(finished):
    place, texts, truth = finished
    rows = place.rows("near", "A")
    for group in truth:
        first = doc_id(texts[group[-1]])
        for i in group:
            row = rows[doc_id(texts[i])]
            assert row["dup_cluster_size"] == 4
            assert row["dup_cluster_id"] == min(doc_id(texts[j]) for j in group)
            assert row["dup_of"] == (None if i == group[-1] else first)
            assert row["similarity"] > 0.8
    lone = rows[doc_id(texts[10])]
    assert (lone["dup_cluster_id"], lone["dup_cluster_size"], lone["dup_of"]) == (doc_id(texts[10]), 1, None)


def test_yields_explain_every_document(finished):
    place, texts, truth = finished
    counts = sum((place.part("near", "A").manifest("near", b).counts for b in (1,)),
                 place.part("near", "A").manifest("near", 0).counts)
    assert counts.docs_in == len(texts)
    assert counts.reasons == {"near_duplicate": sum(len(g) - 1 for g in truth)}


def test_documents_are_what_later_stages_read(finished):
    place, texts, _ = finished
    for after, count in (("exact", len(texts)), ("near", len(texts) - 9)):
        tables = [documents(place.part("heuristics", "A", b), after) for b in range(2)]
        assert sum(t.num_rows for t in tables) == count
        for table in tables:
            held = table["doc_id"].to_pylist()
            assert held == sorted(held)
            assert [doc_id(t) for t in table["text"].to_pylist()] == held
    part = place.part("heuristics", "A", 0)
    assert set(with_language(part, documents(part, "near"))["lang"].to_pylist()) == {"eng"}


def test_texts_of_single_documents_by_locator(finished):
    place, texts, _ = finished
    rng = random.Random(9)
    chosen = rng.sample(range(len(texts)), 7)
    found = texts_at(
        place.part("clusters", "A"), np.array([i % 2 for i in chosen]),
        pairs(pa.array([doc_id(texts[i]) for i in chosen], schemas.ID)),
        pairs(pa.array([record_id("A", i) for i in chosen], schemas.ID)),
    )
    assert found.to_pylist() == [texts[i] for i in chosen]


def test_two_workers_give_the_same_bytes(finished, tmp_path):
    place, texts, _ = finished
    other = world(tmp_path, grid=TWO)
    other.land("A", texts, days=[100 - i for i in range(len(texts))])
    other.run("A", workers=2)
    assert other.digests("A", NEAR) == place.digests("A", NEAR)


@pytest.mark.slow
def test_any_number_of_workers_gives_the_same_bytes(tmp_path):
    texts, _ = planted(random.Random(3))
    place = world(tmp_path, grid={"host_buckets": 8})
    place.land("A", texts)
    place.run("A", NEAR)
    before = place.digests("A", NEAR)
    for workers in (2, 4, 8):
        place.run("A", NEAR, workers=workers, force=True)
        assert place.digests("A", NEAR) == before


def verdict(place: World, crawl: str) -> list[tuple[object, ...]]:
    return sorted((r["doc_id"], r["dup_cluster_id"], r["dup_of"] or b"", r["survives"])
                  for r in place.table("near", crawl).to_pylist())


@pytest.mark.parametrize("params", [
    {"clusters": {"bands_per_pass": 1}}, {"clusters": {"bands_per_pass": 14}}, {"grid": {"host_buckets": 1}},
    {"grid": {"host_buckets": 5}}, {"clusters": {"verify": "signature"}}, {"clusters": {"verify": "none"}},
], ids=str)
def test_verdicts_do_not_depend_on_passes_buckets_or_kind_of_verification_here(finished, tmp_path, params):
    place, texts, _ = finished
    other = world(tmp_path, **{"grid": TWO, **params})
    other.land("A", texts, days=[100 - i for i in range(len(texts))])
    other.run("A", NEAR)
    assert verdict(other, "A") == verdict(place, "A")


@pytest.mark.parametrize("name", sorted(minhash.PRESETS))
def test_every_preset_works_from_text_to_verdict(tmp_path, name: str):
    preset = minhash.PRESETS[name]
    place = world(
        tmp_path, grid={"host_buckets": 1}, band_index={"min_band_matches": preset.min_band_matches},
        minhash={"shingle": preset.shingle, "n": preset.n, "bands": preset.bands, "rows": preset.rows},
    )
    rng = random.Random(5)
    texts = [prose(rng, 400) for _ in range(6)]
    texts += [edited(texts[0], 1, rng), edited(texts[1], 1, rng)]
    place.land("A", texts)
    place.run("A")
    assert groups(place, "A", texts) == [[0, 6], [1, 7]]
    later = [edited(texts[2], 1, rng), prose(rng, 400)]
    place.land("B", later)
    place.run("B")
    rows = place.rows("near", "B")
    assert rows[doc_id(later[0])]["matched_doc_id"] == doc_id(texts[2])
    assert rows[doc_id(later[1])]["survives"]


def test_no_duplicates_at_all(tmp_path):
    place = world(tmp_path, grid=TWO)
    rng = random.Random(1)
    place.land("A", [prose(rng, 50) for _ in range(9)])
    place.run("A")
    assert place.table("band_buckets", "A").num_rows == 0
    assert place.table("clusters", "A").num_rows == 0
    assert all(r["survives"] for r in place.table("near", "A").to_pylist())


def test_no_documents_at_all(tmp_path):
    place = world(tmp_path, grid=TWO)
    place.land("A", [])
    place.run("A")
    place.land("B", ["one text of a few words"])
    place.run("B")
    assert place.table("near", "A").num_rows == 0
    assert [r["survives"] for r in place.table("near", "B").to_pylist()] == [True]


def test_empty_texts_and_one_word_documents_resemble_only_themselves(tmp_path):
    texts = ["", "...", "word", "other", "WORD!", "word word", "menu", "menu\nmenu", "menu menu"]
    place = world(tmp_path, grid=TWO, lines={"min_docs": 1})
    place.land("A", texts)
    place.run("A")
    rows = place.rows("near", "A")
    assert len(rows) == len({doc_id(t) for t in texts}) == 7  # "" is "...", and a menu in two lines one in one
    assert [r["dup_of"] for r in rows.values() if not r["survives"]] == [doc_id("word")]  # of "WORD!"
    # Two documents that have no text left once boilerplate is out are not duplicates of each other either.
    emptied = [r["doc_id"] for r in place.table("lines", "A").to_pylist() if r["empty_after"]]
    assert doc_id("") in emptied


def test_a_row_group_or_bucket_border_between_a_duplicate_and_its_first_does_not_matter(tmp_path, monkeypatch):
    texts, truth = planted(random.Random(3))
    import gristmill.store as store_module

    whole = store_module.parquet_bytes

    def small_groups(table, row_groups=None):
        threes = [(i, min(3, table.num_rows - i)) for i in range(0, table.num_rows, 3)]
        return whole(table, row_groups or threes or None)

    monkeypatch.setattr("gristmill.partition.parquet_bytes", small_groups)
    for number, of in enumerate((lambda i: 0, lambda i: i % 2, lambda i: int(i < 20))):
        place = world(tmp_path / str(number), grid=TWO, clusters={"verify": "jaccard"})
        place.land("A", texts, [of(i) for i in range(len(texts))])
        place.run("A", NEAR)
        assert groups(place, "A", texts) == truth


def test_unrelated_texts_that_share_common_phrases_do_not_chain_together(tmp_path):
    # Books full of one author's stock phrases: character 5-grams and transitive closure make them one cluster.
    rng = random.Random(8)
    stock = WORDS[:60]
    texts = [" ".join(rng.choice(stock) for _ in range(400)) for _ in range(40)]
    loose = minhash.PRESETS["aggressive"]
    place = world(tmp_path, grid=TWO, minhash={"bands": loose.bands, "rows": loose.rows, "shingle": "char", "n": 5},
                  band_index={"min_band_matches": loose.min_band_matches}, clusters={"verify": "none"})
    place.land("A", texts)
    place.run("A", NEAR)
    assert len(groups(place, "A", texts)) >= 1  # so it would be
    ours = world(tmp_path / "ours", grid=TWO)
    ours.land("A", texts)
    ours.run("A", NEAR)
    assert groups(ours, "A", texts) == []
    verified = world(tmp_path / "verified", grid=TWO, clusters={"verify": "jaccard"}, minhash={
        "bands": loose.bands, "rows": loose.rows}, band_index={"min_band_matches": loose.min_band_matches})
    verified.land("A", texts)
    verified.run("A", NEAR)
    assert groups(verified, "A", texts) == []


def test_pages_of_one_template_with_other_facts_are_not_merged(tmp_path):
    # Planted at J = 0.7 and under of unfolded 5-grams.
    rng = random.Random(12)
    frame = prose(rng, 170).split()
    texts = [" ".join(frame + [rng.choice(WORDS) for _ in range(36)]) for _ in range(60)]
    sets = [set(minhash.shingles(t, fold=False)) for t in texts[:2]]
    assert 0.6 < len(sets[0] & sets[1]) / len(sets[0] | sets[1]) <= 0.7
    merged = {}
    for verify in ("none", "signature", "jaccard"):
        place = world(tmp_path / verify, grid={"host_buckets": 1}, clusters={"verify": verify})
        place.land("A", texts)
        place.run("A", NEAR)
        merged[verify] = sum(len(g) - 1 for g in groups(place, "A", texts))
    assert merged["none"] > 30  # known to merge templated text
    assert merged["jaccard"] == 0
    assert ClusterParams().verify == "jaccard"
    assert merged["signature"] <= 2  # 1,770 pairs, each with a chance of about 1 % to look like 0.8, not all compared


def test_what_is_joined_has_the_similarity_that_is_asked_for(tmp_path):
    # Pairs around the bound, in pages of one template too: every joined document has a mate of exact J >= 0.8, and
    # every pair of 0.9 and over is found. Texts of which nothing is near are not read, and each other one is read once.
    rng = random.Random(21)
    frame = prose(rng, 200).split()
    texts = []
    for level in (0.7, 0.75, 0.78, 0.8, 0.82, 0.85, 0.9, 0.95) * 8:
        texts.append(prose(rng, 250))
        texts.append(near(texts[-1], level, rng))
    mates = len(texts)
    texts += [" ".join(frame + [rng.choice(WORDS) for _ in range(n)]) for n in (24, 28, 32, 36) * 15]
    alone = [prose(rng, 250) for _ in range(40)]
    texts += alone
    place = world(tmp_path, grid=TWO)
    place.land("A", texts)
    place.run("A", NEAR)
    sets = [set(minhash.shingles(t, fold=False)) for t in texts]

    def exact(i: int, j: int) -> float:
        return len(sets[i] & sets[j]) / len(sets[i] | sets[j])

    found = groups(place, "A", texts)
    for group in found:
        for i in group:
            assert max(exact(i, j) for j in group if j != i) >= 0.8
    joined = {(i, j) for g in found for i in g for j in g}
    for i in range(0, mates, 2):
        assert (i, i + 1) in joined or exact(i, i + 1) < 0.9
    info = place.part("clusters", "A").manifest("clusters", 0).info
    assert info["pairs_refused"] > 20
    assert 100 < info["texts_read"] <= len(texts) - len(alone)


def test_folded_digits_do_not_merge_what_differs_in_numbers(tmp_path):
    rng = random.Random(22)
    frame = prose(rng, 60).split()
    texts = []
    for _ in range(12):  # a price every fifth word: the same signature once digits are folded
        texts.append(" ".join(w if i % 5 else f"{rng.randrange(10**6)}" for i, w in enumerate(frame)))
    place = world(tmp_path, grid=TWO, minhash={"fold_digits": True})
    place.land("A", texts)
    place.run("A", NEAR)
    assert groups(place, "A", texts) == []


def test_a_cluster_over_its_cap_is_looked_at_again(tmp_path):
    rng = random.Random(12)
    frame = prose(rng, 170).split()
    texts = [" ".join(frame + [rng.choice(WORDS) for _ in range(36)]) for _ in range(40)]
    texts += [edited(t, 1, rng) for t in texts[:5]]
    place = world(tmp_path, grid=TWO, clusters={"verify": "none", "cluster_cap": 10})
    place.land("A", texts)
    place.run("A", NEAR)
    info = place.part("clusters", "A").manifest("clusters", 0).info
    assert info["reexamined"] == 1
    assert info["edges_cut"] > 10
    found = groups(place, "A", texts)
    assert [[i, 40 + i] for i in range(5)] == found  # the true pairs, and nothing else


def test_a_host_that_repeats_itself_keeps_the_member_that_policy_may_elect(finished):
    # Exact and near alike order by (fetch time, record id); all members have a row to elect from.
    place, texts, truth = finished
    rows = place.rows("near", "A")
    assert {doc_id(t) for t in texts} == set(rows)
    exact = place.rows("exact", "A")
    for group in truth:
        when = {doc_id(texts[i]): exact[doc_id(texts[i])]["fetch_ts"] for i in group}
        first = min(when, key=lambda d: (when[d], exact[d]["record_id"]))
        assert {rows[d]["dup_of"] for d in when if d != first} == {first}


def test_a_cluster_whose_first_has_a_copy_in_an_earlier_crawl_brings_nothing_new(tmp_path):
    rng = random.Random(4)
    old = prose(rng)
    texts = [edited(old, 1, rng), edited(old, 1, rng), prose(rng)]
    place = world(tmp_path, grid=TWO)
    place.land("A", [old])
    place.land("B", texts)
    place.run("A")
    place.run("B")
    rows = place.rows("near", "B")
    first, second, new = (rows[doc_id(t)] for t in texts)
    assert first["matched_doc_id"] == doc_id(old)
    assert (first["survives"], second["survives"], new["survives"]) == (False, False, True)
    assert second["dup_of"] == doc_id(texts[0])
    assert second["matched_crawl"] is None


def test_votes_that_no_document_can_have_are_refused(tmp_path):
    place = world(tmp_path, grid=TWO, band_index={"min_band_matches": 15})
    place.land("A", ["some text"])
    with pytest.raises(ParameterError, match="min_band_matches is 15, but there are 14 bands"):
        place.run("A")


def test_signatures_are_fetched_by_range_where_there_is_no_memory_map(finished, monkeypatch):
    from gristmill.deduplicate import signature_files

    place, _, _ = finished
    part = place.part("band_buckets", "A")
    whole = [signature_files.read_matrix(part, b, 112) for b in range(2)]
    rng = np.random.default_rng(1)
    host = rng.integers(0, 2, 30)
    row = np.array([rng.integers(0, len(whole[h])) for h in host])
    want = np.stack([whole[h][r] for h, r in zip(host, row)])
    assert np.array_equal(signature_files.gather(part, host, row, 112), want)
    monkeypatch.setattr(signature_files, "GAP", 2)
    original = part.store.open_file

    def plain(*a):
        with original(*a) as source:
            return pa.PythonFile(_Plain(source.read()), mode="r")

    monkeypatch.setattr(part.store, "open_file", plain)
    assert np.array_equal(signature_files.gather(part, host, row, 112), want)


class _Plain:
    """A file object without a memory map, as an object store's."""

    closed = False

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def read(self, n: int) -> bytes:
        self._at += n
        return self._data[self._at - n : self._at]

    def seek(self, at: int, whence: int = 0) -> int:
        self._at = at
        return at

    def tell(self) -> int:
        return self._at

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True


def test_recall_by_planted_jaccard(tmp_path):
    """At 0.9 and over at least 99 % found; at 0.5 nothing joined (verified); the rest follows the curve."""
    from gristmill.deduplicate import scurve

    rng = random.Random(6)
    levels = (0.5, 0.7, 0.8, 0.9, 0.95)
    found = dict.fromkeys(levels, 0)
    expected = dict.fromkeys(levels, 0.0)
    texts, mates = [], []
    for level in levels:
        for _ in range(120):
            text = prose(rng, 300)
            copy = near(text, level, rng)
            mates.append((level, len(texts), len(texts) + 1))
            texts += [text, copy]
    values, _ = minhash.signatures(pa.array(texts, pa.large_string()))
    keys = minhash.band_keys(values, 14, 8)
    begun = time.process_time()
    for level, i, j in mates:
        joined = bool((keys[i] == keys[j]).any()) and minhash.estimate(values[i], values[j]) >= 0.8
        found[level] += joined
        exact = minhash.jaccard(*(np.array(minhash.shingles(t), np.uint64) for t in (texts[i], texts[j])))
        assert abs(exact - level) < 0.02
        expected[level] += scurve.edge(round(exact, 3), 14, 8, 0.8)
    assert found[0.5] == 0
    assert found[0.95] == 120
    assert found[0.9] >= 117
    for level in levels:
        assert abs(found[level] - expected[level]) < 4 * np.sqrt(120 / 4) * 0.5 + 2
    assert time.process_time() - begun < 60


def test_rules_come_from_parameters():
    params = ClusterParams()
    assert lsh.Rules() == lsh.Rules(params.verify, params.verify_at, params.sure_at, params.max_leaders,
                                    params.bucket_cap)


@pytest.mark.service
def test_on_an_object_store_the_same_bytes(s3_server, finished, tmp_path):
    from gristmill.params import SiteConfig
    from gristmill.store import Store

    place, texts, _ = finished
    local = world(tmp_path, grid=TWO)
    remote = World(Store("s3://mill/deduplication", s3_server.options()), local.plan, SiteConfig())
    remote.land("A", texts, days=[100 - i for i in range(len(texts))])
    remote.run("A")
    assert remote.digests("A", NEAR) == place.digests("A", NEAR)
    remote.land("B", [edited(texts[5], 1, random.Random(1)), texts[6]])
    remote.run("B")
    assert [r["matched_crawl"] for r in remote.table("near", "B").to_pylist()] == ["A"]
