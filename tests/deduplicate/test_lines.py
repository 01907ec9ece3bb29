import random
from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.deduplicate import lines
from gristmill.deduplicate.normalise import doc_id
from tests.deduplicate.world import world

TEXT = st.text(st.sampled_from("ab é語\n\n\t\r"), max_size=40)


@given(TEXT)
def test_lines_are_the_text_in_pieces(text: str):
    raw = text.encode()
    spans = lines.split_lines(raw)
    assert b"".join(raw[a:b] for a, b in spans) == raw
    assert all(raw[a:b].count(b"\n") <= 1 for a, b in spans)


@given(st.lists(TEXT, max_size=6))
def test_the_kernel_hashes_the_lines_of_the_definition(texts: list[str]):
    hashes, doc, start, end = lines.line_table(pa.array(texts, pa.large_string()))
    want = [(lines.line_hash(raw[a:b]), d) for d, raw in enumerate(t.encode() for t in texts)
            for a, b in lines.split_lines(raw) if raw[a:b].strip(b" \t\r\n\v\f")]
    assert list(zip(hashes.tolist(), doc.tolist())) == want
    joined = "".join(texts).encode()
    assert [lines.line_hash(joined[a:b]) for a, b in zip(start, end)] == [h for h, _ in want]


@given(st.lists(st.tuples(TEXT, st.sets(st.integers(0, 5))), max_size=5))
def test_cleaning_takes_out_whole_lines_and_nothing_else(cases: list[tuple[str, set[int]]]):
    texts, removed = [], []
    for text, which in cases:
        own = [ln for ln in text.split("\n") if ln.strip(" \t\r\v\f")]
        removed.append({lines.line_hash(own[i % len(own)].encode()) for i in which} if own else set())
        texts.append(text)
    want = [lines.clean(t, r) for t, r in zip(texts, removed)]
    for text, gone, got in zip(texts, removed, want):
        kept = [ln for ln in text.splitlines(keepends=False) if ln] if "\r" not in text else None
        if kept is not None:
            left = [ln for ln in kept if not ln.strip() or lines.line_hash(ln.encode()) not in gone]
            assert [ln for ln in got.splitlines() if ln] == left
        spans = lines.kept_spans(text.encode(), gone)
        assert "".join(text.encode()[a:b].decode() for a, b in spans) == got  # never a cut inside a character
        assert all(b < c for (_, b), (c, _) in pairwise(spans))
    assert lines.clean_column(pa.array(texts, pa.large_string()), [sorted(r) for r in removed]).to_pylist() == want


@given(st.lists(st.integers(0, 40), max_size=300), st.integers(1, 4))
def test_counts_are_exact(values: list[int], at_least: int):
    spread = np.array(values, np.uint64) * np.uint64(0x9E3779B97F4A7C15)  # the top bits vary, as hashes' do; 0 occurs
    keys, counts = lines.count(spread, at_least)
    want = {k: c for k, c in Counter(spread.tolist()).items() if c >= at_least}
    assert dict(zip(keys.tolist(), counts.tolist())) == want
    assert (np.diff(keys.astype(object)) > 0).all()


def test_counts_are_exact_with_one_very_frequent_line():
    rng = np.random.default_rng(1)
    values = rng.integers(0, 2**64, 60_000, np.uint64)
    values[rng.random(60_000) < 0.4] = values[0]
    keys, counts = lines.count(values)
    want = np.unique(values, return_counts=True)
    assert np.array_equal(keys, want[0])
    assert np.array_equal(counts, want[1])


@given(st.integers(1, 50), st.integers(1, 16), st.data())
def test_a_line_over_the_bound_is_a_candidate_somewhere(n: int, buckets: int, data: st.DataObject):
    counts = data.draw(st.lists(st.integers(0, 12), min_size=buckets, max_size=buckets))
    if sum(counts) > n:
        assert max(counts) >= lines.candidate_bound(n, buckets)


def test_the_bound_is_the_larger_of_its_two_forms():
    assert lines.bound(100, 10_000 / 9e10, 1_000) == 100
    assert lines.bound(100, 10_000 / 9e10, 90_000_000_000) == 10_000


def crawl(rng: random.Random) -> list[str]:
    menu = ["Home | About", "Accept all cookies ✓", "© 2026 Example"]
    texts = []
    for i in range(60):
        body = [f"Paragraph {rng.randrange(30)} of something", f"only here {i}"]
        texts.append("\n".join(rng.sample(menu, rng.randint(0, 3)) + body))
    return texts


@pytest.mark.parametrize("buckets", [1, 3, 8])
def test_two_passes_find_what_counting_everything_finds(tmp_path, buckets: int):
    texts = crawl(random.Random(7))
    texts += texts[:20]  # copies do not count twice
    place = world(tmp_path, grid={"host_buckets": buckets}, lines={"min_docs": 4})
    rng = random.Random(3)
    place.land("A", texts, [rng.randrange(buckets) for _ in texts])
    place.run("A", ("exact", "line_candidates", "line_counts", "lines"))
    held = Counter(lines.line_hash(ln.encode()) for t in set(texts) for ln in set(t.split("\n")))
    over = {h for h, c in held.items() if c > 4}
    assert over, "the crawl has boilerplate"
    by_text = {t: {lines.line_hash(ln.encode()) for ln in t.split("\n")} & over for t in texts}
    removed = sorted(tuple(sorted(r["removed"])) for r in place.table("lines", "A").to_pylist())
    assert removed == sorted(tuple(sorted(r)) for r in by_text.values())
    shown = {r["line"]: r for r in place.table("lines", "A", "removed").to_pylist()}
    assert set(shown) == over
    assert all(r["docs"] == held[h] and r["bound"] == 4 for h, r in shown.items())
    assert all(lines.line_hash(r["sample"].encode()) == h for h, r in shown.items())


def test_a_page_copied_often_does_not_erase_itself_and_a_refrain_stays(tmp_path):
    poem = "\n".join(["verse one", "O refrain", "verse two", "O refrain"] * 10)
    code = "\n".join(f"def f{i}():\n    return None\n}}" for i in range(30))
    place = world(tmp_path, lines={"min_docs": 3})
    place.land("A", ["a page\nwith two lines"] * 50 + [poem, code] + [f"menu\ntext {i}" for i in range(9)] + ["menu"])
    place.run("A", ("exact", "line_candidates", "line_counts", "lines"))
    rows = place.table("lines", "A").to_pylist()
    assert sorted(r["n_removed"] for r in rows) == [0] * 3 + [1] * 10
    # The document that was only the menu is tagged, not dropped.
    assert [(r["n_lines"], r["bytes_after"]) for r in rows if r["empty_after"]] == [(1, 0)]


def test_what_was_taken_out_of_a_document_is_explained(tmp_path):
    from gristmill.explain import Found, _lines
    from gristmill.release.whereabouts import Finder

    place = world(tmp_path, grid={"host_buckets": 2}, lines={"min_docs": 3})
    texts = [f"Home | About | Contact\nstory number {i}\n\x1b[31mShare this page" for i in range(8)]
    place.land("A", [*texts, "a story\nof its own", "Home | About | Contact"])
    place.run("A", ("exact", "line_candidates", "line_counts", "lines"))
    finder = Finder(place.store, place.plan.fingerprints, 2, ["A"])

    def told(text: str, bucket: int) -> list[tuple[str, str]]:
        found = Found("A", bucket, None, "")
        _lines(finder, found, "A", bucket, doc_id(text))
        return found.steps

    ((stage, said),) = told(texts[1], 1)
    assert stage == "lines"
    assert said.startswith("2 of 3 lines taken out: ")
    assert "'Home | About | Contact' in 9 documents, over 3" in said
    assert "\x1b" not in said, "a line of a page is quoted, not sent to the terminal"
    assert told("a story\nof its own", 0) == []
    assert told("Home | About | Contact", 1)[0][1].endswith("; nothing is left")
