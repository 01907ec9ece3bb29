import gzip
import json
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.errors import ModelError
from gristmill.quality import fasttext_classifier as ft
from gristmill.safety import hash_lists, spam, toxicity
from gristmill.safety.phrases import compile_phrases
from gristmill.text_units import text_buffers, words


def buffers(*texts: str):
    return text_buffers(pa.array(texts, pa.large_string()))


@given(st.lists(st.sampled_from(["red", "green", "blue", "big", "house"]), max_size=40),
       st.lists(st.sampled_from(["red", "big house", "green blue red", "house"]), max_size=4))
def test_phrases_are_counted_by_whole_words_longest_first(tokens, phrases):
    table = {tuple(words(p)) for p in phrases}
    expected, i = 0, 0
    while i < len(tokens):
        fit = max((len(p) for p in table if tuple(tokens[i : i + len(p)]) == p), default=0)
        expected += fit > 0
        i += fit or 1
    hits, total = compile_phrases(phrases).count(*buffers(" ".join(tokens)))
    assert (hits[0], total[0]) == (expected, len(tokens))


def test_phrases_match_across_case_accents_and_punctuation_but_not_inside_words():
    phrases = compile_phrases(["ass", "café noir", "脏话"])
    texts = ("Ass.", "a class of assassins", "CAFE-NOIR!", "cafe\u0301\nnoir", "这是脏话。", "脏的话")
    assert phrases.count(*buffers(*texts))[0].tolist() == [1, 0, 1, 1, 1, 0]


def test_a_phrase_that_is_too_long_is_refused():
    with pytest.raises(ModelError, match="13 words"):
        compile_phrases(["a " * 13])
    assert compile_phrases(["", "...", "#"]).size == 0


def test_spam_is_measured_beside_plain_text():
    plain = "The river rises in the hills and runs through three counties before it meets the sea at the harbour."
    bait = ("Buy now! Click here https://x.example www.y.example cheap watches watches watches watches free shipping "
            "watches")
    rows = {k: v.to_pylist() for k, v in spam.measure(*buffers(plain, bait, "")).items()}
    assert rows["link_word_ratio"][0] == rows["spam_phrase_ratio"][0] == 0
    n = len(words(bait))
    assert rows["link_word_ratio"][1] == pytest.approx(2 / n)
    assert rows["spam_phrase_ratio"][1] == pytest.approx(3 / n)
    assert rows["top_word_share"][1] == pytest.approx(5 / n)
    assert [v[2] for v in rows.values()] == [0, 0, 0]


def test_word_rates_are_unknown_where_no_list_covers_the_language():
    lists = [("bad", "eng", compile_phrases(["darn"])), ("bad", "deu", compile_phrases(["mist"])), ("any", None,
        compile_phrases(["x"]))]
    texts = ("darn it", "so ein Mist", "darn, mince alors")
    rates = toxicity.word_rates(lists, *buffers(*texts), np.array(["eng", "deu", "fra"], object))
    assert rates["bad"][:2] == pytest.approx([1 / 2, 1 / 3])
    assert np.isnan(rates["bad"][2])
    assert rates["any"].tolist() == [0, 0, 0]


def test_two_lists_of_a_category_add_up():
    lists = [("bad", None, compile_phrases(["darn"])), ("bad", "eng", compile_phrases(["heck"]))]
    rates = toxicity.word_rates(lists, *buffers("darn heck it now"), np.array(["eng"], object))
    assert rates["bad"][0] == pytest.approx(2 / 4)


@pytest.mark.shared
def test_a_word_list_is_a_weak_signal_on_hatecheck(shared):
    # what C4's list does on HateCheck: it misses most hate, and what it finds is mostly slurs
    folder = shared / "09_pii_toxicity"
    with gzip.open(folder / "hatecheck.jsonl.gz", "rt", encoding="utf-8") as file:
        cases = [json.loads(line) for line in file]
    phrases = compile_phrases((folder / "ldnoobw" / "en").read_text("utf-8").splitlines())
    hits = phrases.count(*buffers(*(c["text"] for c in cases)))[0] > 0
    hateful = np.array([c["label"] == "hateful" for c in cases])
    assert hits[hateful].mean() < 0.6
    assert hits[~hateful].mean() > 0.02


def test_a_classifier_gives_one_score_a_category(tmp_path):
    rng = random.Random(2)
    good, bad = ([" ".join(rng.choice(v.split()) for _ in range(30)) for _ in range(80)] for v in ("calm kind fair",
        "vile hate cruel"))
    path = ft.train_demo(good, bad, tmp_path / "m.bin")
    classifier = toxicity.ToxicityClassifier(path)
    assert classifier.categories == ("cc", "hq")
    scores = classifier.score(["vile hate", "calm kind", ""])
    assert scores["cc"][0] > 0.9 > 0.1 > scores["cc"][1]
    assert np.isnan(scores["cc"][2])
    assert scores["cc"][:2] + scores["hq"][:2] == pytest.approx([1, 1], abs=1e-3)


def test_exact_lists_name_documents_by_their_hash():
    ids = [bytes([i]) * 16 for i in range(4)]
    held = hash_lists.HashList("x", "exact", ["# comment", ids[2].hex(), ""]).holds(ids, np.zeros(4, np.uint64))
    assert held.tolist() == [False, False, True, False]


@given(st.integers(1, 2**64 - 1), st.sets(st.integers(0, 63), max_size=8))
def test_near_lists_hold_what_differs_in_at_most_three_bits(value, flips):
    other = value
    for bit in flips:
        other ^= 1 << bit
    held = hash_lists.HashList("x", "near", [f"{value:016x}"]).holds([b""], np.array([other], np.uint64))
    assert held.tolist() == [len(flips) <= 3 and other != 0]


def test_simhash_is_near_for_an_edited_copy_and_far_for_another_text():
    rng = random.Random(5)
    words_ = [f"word{rng.randrange(5000)}" for _ in range(400)]
    edited = [*words_]
    edited[200] = "changed"
    other = [f"word{rng.randrange(5000)}" for _ in range(400)]
    a, b, c, empty = hash_lists.simhashes(*buffers(" ".join(words_), ", ".join(edited), " ".join(other), "a b"))
    assert np.bitwise_count(a ^ b) <= 8
    assert np.bitwise_count(a ^ c) > 15
    assert empty == 0


@pytest.mark.parametrize(("kind", "line"), [("exact", "abc"), ("near", "0" * 32), ("exact", "g" * 32)])
def test_a_malformed_list_is_refused(kind, line):
    with pytest.raises(ModelError, match="hex digits"):
        hash_lists.HashList("x", kind, [line])
