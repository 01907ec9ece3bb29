"""Pages in other languages: identified as what they are, about facts that CLDR holds, and not copies of each other."""

import itertools

import pytest
from babel import Locale

from gristmill import models
from gristmill.demo.languages import ISO, LEGACY, SENTENCES, articles
from gristmill.demo.shingles import similar_pairs
from gristmill.params import LanguageParams


@pytest.fixture(scope="module")
def lid(tmp_path_factory: pytest.TempPathFactory):
    import fasttext

    params = LanguageParams()
    return fasttext.load_model(str(models.resolve(params.model, tmp_path_factory.mktemp("models"))))


@pytest.mark.parametrize("language", sorted(ISO))
def test_a_page_is_identified_as_its_language(language: str, lid):
    for article in itertools.islice(articles(language), 8):
        labels, scores = lid.predict(article.text[:1000].replace("\n", " "))
        assert labels[0] == f"__label__{language}"
        assert scores[0] >= 0.9


@pytest.mark.parametrize("language", sorted(ISO))
def test_pages_of_a_language_are_no_copies(language: str):
    texts = {str(i): a.text for i, a in enumerate(itertools.islice(articles(language), 10))}
    assert len(texts) == 10
    assert all(j < 0.5 for _, _, j in similar_pairs(texts, 0.3))


def test_sentences_have_the_same_slots_in_every_language():
    import string

    slots = {
        language: [{name for _, name, _, _ in string.Formatter().parse(s) if name} for s in sentences]
        for language, sentences in SENTENCES.items()
    }
    assert all(s == slots["de"] for s in slots.values())
    assert set(SENTENCES) == set(ISO) >= set(LEGACY)


def test_facts_are_those_of_the_locale_data():
    article = next(articles("de"))
    names = Locale("de").territories.values()
    headings = [b.text for b in article.blocks if b.kind == "h2"]
    assert headings
    assert all(h in names for h in headings)


def test_the_order_is_fixed():
    assert [a.title for a in articles("fr")] == [a.title for a in articles("fr")]
