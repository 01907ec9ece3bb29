"""Exact Jaccard over word 5-grams, and texts made at a wanted one."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill import text_units
from gristmill.demo.shingles import edited, jaccard, shingles, similar_pairs, words
from gristmill.demo.texts import Supply


def test_known_values():
    a = "one two three four five six seven eight nine ten"  # 6 shingles
    assert jaccard(a, a) == 1
    assert jaccard(a, "eleven twelve thirteen fourteen fifteen") == 0
    assert jaccard(a, a + " eleven") == pytest.approx(6 / 7)
    assert jaccard(a, "One, two; THREE. four-five\n(six) seven eight nine ten!") == 1
    assert len(shingles("one two")) == 1
    assert jaccard("", "") == 1


@given(st.text(alphabet="aB cd é1.,-’\n", max_size=80))
def test_words_are_those_of_the_pipeline(text: str):
    assert words(text) == text_units.words(text)


@pytest.mark.parametrize("target", [0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95])
def test_edits_reach_the_wanted_similarity(target: float):
    supply = Supply()
    article = supply.article(420)
    fill = [w for w in words(supply.paragraph(30)) if len(w) > 3]
    copy, found = edited(article, target, fill, random.Random(1))
    assert found == jaccard(article.text, copy.text)
    assert abs(found - target) < 0.02  # one word of 420 moves it by about as much
    assert [b.kind for b in copy.blocks] == [b.kind for b in article.blocks]
    assert copy.title == article.title


@given(st.lists(st.text(alphabet="abc ", min_size=8, max_size=40), max_size=8))
def test_similar_pairs_are_all_pairs_over_the_bound(texts: list[str]):
    named = {str(i): t for i, t in enumerate(texts) if words(t)}
    brute = sorted(
        (a, b, jaccard(named[a], named[b]))
        for a in named
        for b in named
        if a < b and jaccard(named[a], named[b]) >= 0.3
    )
    assert similar_pairs(named, 0.3) == brute
