import random
import time
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.decontaminate.index import SHORT, TEMPLATE, Index, build
from gristmill.decontaminate.ngrams import FUZZY, NGRAM, SHORT_SPAN, Match, probe
from gristmill.params import DecontaminateParams
from gristmill.text_units import words
from tests.decontaminate.items import FORMS, IDENTITIES, clean_documents, embedded, index_of, prose, public_items


def matches(index: Index, *texts: str) -> list[Match]:
    return probe(index, pa.array(texts, pa.large_string()))


def item(text: str, number: int = 0, benchmark: str = "b") -> tuple[str, str, dict[str, str]]:
    return benchmark, str(number), {"question": text}


def first_words(text: str, n: int) -> str:
    return " ".join(text.split()[:n])


@pytest.fixture(scope="module")
def public(shared) -> Index:
    return build(public_items(shared), DecontaminateParams())


@pytest.mark.shared
@pytest.mark.parametrize("form", FORMS)
def test_every_public_item_of_eight_words_is_found_in_every_form(public, form):
    spans = [s for s in range(public.size) if len(words(public.text[s])) >= 8]
    found = {(m.doc, m.span) for m in matches(public, *(FORMS[form](public.text[s]) for s in spans))}
    excused = {(b, i, n) for b, i, n, _ in public.not_checkable}
    missed = [s for d, s in enumerate(spans) if (d, s) not in found]
    assert {(public.benchmark[s], public.item[s], public.span[s]) for s in missed} <= excused
    # what is excused: lists of options (numbers, True/False), one question and one ending that are templates ("Which of
    # the following is a true statement?"), one answer that is numbers only
    assert sum(public.span[s] != "options" for s in missed) <= 3
    assert len(missed) < 0.025 * len(spans)


@pytest.mark.shared
@pytest.mark.slow
def test_at_most_one_false_flag_in_10000_clean_documents(public, shared):
    clean = clean_documents(shared)
    assert len(clean) >= 30_000
    flagged = {m.doc for m in matches(public, *clean)}
    assert len(flagged) / len(clean) <= 1e-4


def test_spans_tell_where_the_item_stands_in_utf8_bytes():
    text = prose(1, 3)
    index = index_of(item(text))
    page = f"Před tím — 前文。\n{text}\nнакон"
    (m,) = matches(index, page)
    assert page.encode()[m.start : m.end].decode() == text.rstrip(".")
    assert (m.method, m.whole, m.run) == (NGRAM, True, len(words(text)))


@pytest.mark.parametrize(("n", "found"), [(22, True), (23, True), (60, True), (21, False), (13, False)])
def test_a_run_of_22_words_of_a_long_item_is_contamination_and_21_are_not(n, found):
    text = prose(2, 6)
    for begin in (0, 7, len(text.split()) - n):
        part = " ".join(text.split()[begin : begin + n])
        # containment is about most of an item, so a short part of a long one is judged by its run alone
        got = [m for m in matches(index_of(item(text)), f"xylophone {part} xylophone") if m.method == NGRAM]
        assert [m.run >= n for m in got] == ([True] if found else [])


@pytest.mark.parametrize("n", range(8, 22))
def test_a_span_of_8_to_21_words_must_occur_whole(n):
    text = first_words(prose(3, 4), n)
    index = index_of(item(text))
    (m,) = matches(index, embedded(text))
    assert (m.method, m.whole, m.run) == (SHORT_SPAN, True, n)
    for cut in (" ".join(text.split()[1:]), " ".join(text.split()[:-1])):
        assert all(m.method == FUZZY for m in matches(index, f"xylophone {cut} xylophone"))


def test_shorter_spans_are_reported_as_not_checkable():
    index = index_of(item("only seven words stand in this one"), item(prose(1, 2), 1))
    assert index.not_checkable == (("b", "0", "question", SHORT),)
    assert matches(index, "only seven words stand in this one") == []


def test_a_template_of_a_benchmark_is_no_evidence():
    # marin#6852: the last false flags were templates and LaTeX identities
    instruction = "Read the passage below with care and then choose the one answer that follows from what it says."
    items = [item(f"{instruction} {prose(10 + i, 2)}", i) for i in range(8)]
    index = index_of(*items, item(instruction, 99))
    assert ("b", "99", "question", TEMPLATE) in index.not_checkable
    assert matches(index, embedded(instruction)) == []
    got = {index.item[m.span] for m in matches(index, embedded(items[3][2]["question"]))}
    assert got == {"3"}


def test_a_suppressed_stretch_continues_a_run():
    instruction = "and now read the passage below with care before you choose the one answer that follows"
    items = [item(f"{first_words(prose(20 + i, 2), 14)} {instruction} {first_words(prose(40 + i, 2), 14)}",
        i) for i in range(6)]
    index = index_of(*items)
    (m,) = [m for m in matches(index, embedded(items[2][2]["question"])) if m.method == NGRAM]
    assert (index.item[m.span], m.whole) == ("2", True)


@pytest.mark.parametrize("identity", IDENTITIES)
def test_identities_and_tables_are_not_flagged(identity):
    index = index_of(item(f"Show that {identity}"), item(identity, 1))
    assert matches(index, f"A table of formulae. {identity} More follows.") == []


def test_unspaced_scripts_count_characters():
    text = "春天来了山上的花都开了孩子们在河边放风筝老人坐在树下讲从前的故事大家都很高兴晚上月亮升起来照着村子"
    index = index_of(item(text))
    filler = "今日は天気がよいので散歩に出かけました公園では犬が走っていました"
    (m,) = [m for m in matches(index, filler + text[5:33] + filler) if m.method == NGRAM]
    assert m.run == 28
    assert [m for m in matches(index, filler + text[5:32] + filler) if m.method == NGRAM] == []
    short = index_of(item(text[:13]), item(text[20:32], 1))
    assert [m.method for m in matches(short, filler + text[:13] + filler)] == [SHORT_SPAN]
    assert short.not_checkable == (("b", "1", "question", SHORT),)


def test_spans_of_an_item_are_matched_separately():
    q, a = prose(4, 2), prose(5, 2)
    index = index_of(("b", "0", {"question": q, "answer": a, "empty": " "}))
    assert {index.span[m.span] for m in matches(index, a)} == {"answer"}
    assert {index.span[m.span] for m in matches(index, f"{q} other {a}")} == {"question", "answer"}


def test_containment_finds_an_edited_item_in_a_long_page():
    # Jaccard of the item with this page is under 0.1
    text = prose(6, 4)
    tokens = text.split()
    for place in range(5, len(tokens), 20):
        tokens[place] = "zeppelin"
    index = index_of(item(text))
    page = embedded(embedded(" ".join(tokens), 300), 500)
    (m,) = matches(index, page)
    assert m.method == FUZZY
    assert 0.6 <= m.containment < 1
    assert "zeppelin" in page.encode()[m.start : m.end].decode()


def test_scattered_pieces_of_an_item_are_not_contained():
    text = prose(7, 4)
    tokens = text.split()
    pieces = [" ".join(tokens[i : i + 6]) for i in range(0, len(tokens), 6)]
    index = index_of(item(text))
    page = " ".join(f"{piece} {prose(100 + i, 12)}" for i, piece in enumerate(pieces))
    assert matches(index, page) == []


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(0, 3), st.integers(0, 3))
def test_an_item_is_found_wherever_it_stands_and_in_whatever_batch(seed, sentences, before, after):
    text = prose(seed, sentences)
    index = index_of(item(text), item(prose(seed + 1, 3), 1))
    page = f"{prose(seed + 2, before)} {text} {prose(seed + 3, after)}"
    alone = matches(index, page)
    assert any(m.whole and index.item[m.span] == "0" for m in alone)
    batch = matches(index, "", page, prose(1, 1), page)
    assert [Match(0, m.span, *list(m.__dict__.values())[2:]) for m in batch if m.doc == 1] == alone
    assert [Match(0, m.span, *list(m.__dict__.values())[2:]) for m in batch if m.doc == 3] == alone


def plain_runs(index: Index, page: str) -> set[tuple[int, int]]:
    """(span, longest run of equal words of at least n with a grain of evidence): by brute force."""
    tokens, out = words(page), set()
    for s in range(index.size):
        mine = words(index.text[s])
        best = 0
        for i in range(len(tokens)):
            for j in range(len(mine)):
                if i and j and tokens[i - 1] == mine[j - 1]:
                    continue
                k = 0
                while i + k < len(tokens) and j + k < len(mine) and tokens[i + k] == mine[j + k]:
                    k += 1
                best = max(best, k)
        if best >= 22 or (best == len(mine) >= 8):
            out.add((s, best))
    return out


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000))
def test_runs_are_those_of_brute_force(seed):
    rng = random.Random(seed)
    texts = [prose(seed + i, rng.randrange(1, 4)) for i in range(3)]
    index = index_of(*(item(t, i) for i, t in enumerate(texts)), max_items=99)
    tokens = " ".join(rng.sample(texts, 3)).split()
    for _ in range(rng.randrange(4)):
        tokens[rng.randrange(len(tokens))] = "other"
    page = " ".join(tokens)
    assert {(m.span, m.run) for m in matches(index, page) if m.method != FUZZY} == plain_runs(index, page)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(sorted(FORMS)), st.sampled_from([{}, {"short_n": 4}, {"fuzzy_n": 9}]))
def test_the_filter_in_front_hides_nothing(seed, form, sizes):
    rng = random.Random(seed)
    index = index_of(*(item(prose(seed + i, rng.randrange(1, 5)), i) for i in range(8)), **sizes)
    texts = pa.array([embedded(FORMS[form](t)) for t in index.text] + [prose(seed + i, 3) for i in range(4, 12)],
                     pa.large_string())
    found = probe(index, texts)
    assert found
    assert found == probe(replace(index, gate=np.full(1, 2**64 - 1, np.uint64)), texts)


@pytest.mark.parametrize("text", ["", " ", "x " * 100_000, "the cat " * 60_000, "x" * 200_000, "\n" * 200_000,
    "中" * 100_000, "\u202e\u0378" * 50_000,
                                  "1 2 3 4 5 6 7 8 9 " * 12_000], ids=lambda t: repr(t[:9]))
def test_bad_input_takes_linear_time(text):
    items = [item(prose(i, 5), i) for i in range(50)]
    items += [item("the cat " * 50, 90), item("x " * 80, 91), item("中" * 60, 92), item("1 2 3 4 5 6 7 8 9 " * 8, 93)]
    index = index_of(*items)
    matches(index, "warm up")
    start = time.process_time()
    matches(index, text)
    assert time.process_time() - start < 2.0


def test_a_page_full_of_one_item_takes_linear_time():
    text = prose(9, 20)
    index = index_of(*(item(text, i) for i in range(3)))
    start = time.process_time()
    got = matches(index, " ".join([text] * 150))
    assert time.process_time() - start < 3.0
    assert len(got) == 3


def test_nothing_to_look_for_and_nothing_to_look_in():
    assert matches(index_of(), "text") == []
    assert probe(index_of(item(prose(1, 2))), pa.array([], pa.large_string())) == []
    assert matches(index_of(item("too short")), prose(1, 2)) == []
