"""The paraphrases that bench/decontamination.py measures recall on: they change what they say and nothing else."""

import pytest

from bench import paraphrases

TEXT = "When he buys 16 eggs, the farmer makes $5 a day. He sells ninety more. Is it 3.5 or 1,200?"


@pytest.mark.parametrize(("n", "words"), [
    (0, "zero"), (13, "thirteen"), (40, "forty"), (95, "ninety-five"), (100, "one hundred"),
    (215, "two hundred fifteen"), (1200, "one thousand two hundred"), (999_999, "nine hundred ninety-nine thousand "
     "nine hundred ninety-nine"),
])
def test_numbers_in_words(n, words):
    assert paraphrases.in_words(n) == words


def test_numbers_change_sides_and_decimals_stay():
    assert paraphrases.renumbered_in_words(TEXT) == (
        "When he buys sixteen eggs, the farmer makes five dollars a day. He sells 90 more. Is it 3.5 or 1,200?")


def test_synonyms_come_at_the_rate_asked_for():
    long = "The farmer buys a big house. " * 200
    had = sum(w.strip(".").lower() in paraphrases.SYNONYMS for w in long.split())
    for share in (0.0, 0.25, 1.0):
        after = paraphrases.renamed(long, share).split()
        kept = sum(w.strip(".") in ("The", "buys", "a", "big", "house") for w in after)
        assert (had - kept) / had == pytest.approx(share, abs=0.06)
    assert paraphrases.renamed(TEXT, 0) == TEXT


def test_turning_sentences_round_keeps_their_words():
    turned = paraphrases.reordered(TEXT, 1)
    assert "the farmer makes $5 a day, When he buys 16 eggs." in turned
    assert sorted(turned.replace(",", "").replace(".", "").split()) == sorted(
        TEXT.replace(",", "").replace(".", "").split())
    assert paraphrases.reordered(TEXT, 0) == TEXT
