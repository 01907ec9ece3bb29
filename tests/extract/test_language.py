"""Languages by ISO 639-3, scripts, and the gates behind them."""

import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill import text_units
from gristmill.extract import gates, scripts
from gristmill.extract.language import Guess, Identifier, by_iso, languages, open_model, salient, threshold
from gristmill.params import LanguageParams

PARAMS = LanguageParams()
WORDS = "The lighthouse on the northern cape was built in 1871 and is still lit every evening by a volunteer keeper. "


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Identifier:
    return open_model(PARAMS.model, str(tmp_path_factory.mktemp("models")))


def test_the_table_has_every_label_of_the_model_once(model: Identifier) -> None:
    labels = {label.removeprefix("__label__") for label in model._model.get_labels()}
    assert set(languages()) == labels
    assert len(by_iso()) == len(labels) == 176
    assert all(len(v.iso) == 3 and v.scripts for v in languages().values())
    assert all(s in scripts.INDEX for v in languages().values() for s in v.scripts)


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        (WORDS, "eng"),
        ("Der Leuchtturm wurde im Jahr 1871 gebaut und brennt noch jeden Abend.", "deu"),
        ("Маяк на северном мысе построили в 1871 году, и он до сих пор горит.", "rus"),
        ("灯台は一八七一年に建てられ、今も毎晩ともされている。", "jpn"),
        ("这座灯塔建于一八七一年，至今每晚仍然点亮。", "zho"),
        ("등대는 1871년에 지어졌으며 지금도 매일 저녁 불을 밝힌다.", "kor"),
        ("בנו את המגדלור בשנת 1871 והוא עדיין דולק בכל ערב", "heb"),
    ],
)
def test_large_languages(model: Identifier, text: str, iso: str) -> None:
    guess = model.guess(text)
    assert guess.lang == iso
    assert 0.5 < guess.conf <= 1.0


def test_confidence_is_clipped_and_empty_text_is_undetermined(model: Identifier) -> None:
    assert model.guess(WORDS * 10).conf <= 1.0
    assert model.guess("") == Guess("und", 0.0, None, None)
    assert model.guess(" \n\t ").lang == "und"


def test_what_says_nothing_of_the_language_is_passed_over() -> None:
    text = "https://example.org/der/die/das\n12:30\n---\nA TITLE IN CAPITALS\nWrite to me@example.org today"
    assert salient(text, 1000) == "A title in capitals Write to today"
    assert len(salient(WORDS * 50, 100)) == 100
    assert salient("12:30", 1000) == "12:30"


@pytest.mark.shared
def test_sentences_of_seventy_languages(shared: Path, model: Identifier) -> None:
    """At least as good as lid.176 alone, and what passes as a small language is one."""
    rows = []
    with gzip.open(shared / "03_langid" / "lingua_sentences.jsonl.gz", "rt", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            known = languages().get("no" if row["lang"] == "nb" else row["lang"])
            if known:
                rows.append((known, row["text"]))
    guesses = [model.guess(t) for _, t in rows]
    right = sum(g.lang == k.iso for (k, _), g in zip(rows, guesses, strict=True))
    alone = 0
    for known, text in rows:
        label = model._model.f.predict(text.replace("\n", " ") + "\n", 1, 0.0, "strict")[0][1]
        alone += languages()[label.removeprefix("__label__")].iso == known.iso
    assert len(rows) > 10_000
    assert right >= alone
    shares = gates.script_shares(gates.measure(pa.array([t for _, t in rows])), [g.lang for g in guesses])
    small = [
        g.lang == k.iso
        for (k, _), g, s in zip(rows, guesses, shares, strict=True)
        if not by_iso()[g.lang].large and g.conf >= threshold(g.lang, PARAMS) and s >= PARAMS.small_script_share
    ]
    assert len(small) > 300
    assert np.mean(small) > 0.98


def measured(text: str) -> gates.Measures:
    return gates.measure(pa.array([text], pa.large_string()))


@given(st.lists(st.text(max_size=200), min_size=1, max_size=5))
def test_measures_are_what_plain_python_counts(texts: list[str]) -> None:
    texts = [t.encode("utf-8", "ignore").decode() for t in texts]
    found = gates.measure(pa.array(texts, pa.large_string()))
    for i, text in enumerate(texts):
        letters = [c for c in text if scripts.script_of(c) is not None and ord(c) < scripts.LIMIT]
        solid = [c for c in text if not c.isspace()]
        assert found.chars[i] == len(text)
        assert found.words[i] == len(text_units.words(text))
        assert found.letter_share[i] == pytest.approx(len(letters) / max(len(solid), 1))
        lines = text.split("\n")
        assert found.longest_line_share[i] == pytest.approx(max(map(len, lines)) / max(len(text), 1))
        for number, name in enumerate(scripts.NAMES):
            assert found.by_script[i, number] == sum(scripts.script_of(c) == name for c in letters)


def test_main_scripts() -> None:
    texts = ["Latin text", "кириллица", "漢字とかな交じり文", "汉字", "한국어 漢字", "हिन्दी", "123 !?"]
    assert gates.main_scripts(gates.measure(pa.array(texts))) == [
        "Latn",
        "Cyrl",
        "Jpan",
        "Hani",
        "Kore",
        "Deva",
        "Zyyy",
    ]


def verdict(text: str, guess: Guess) -> str | None:
    m = measured(text)
    return gates.gate(guess, float(gates.script_shares(m, [guess.lang])[0]), m, 0, PARAMS)


def test_the_gates_in_their_order() -> None:
    good = "\n".join([WORDS * 2] * 3)
    assert verdict(good, Guess("eng", 0.9, None, None)) is None
    assert verdict(good, Guess("eng", 0.64, None, None)) == "no_language"
    assert verdict(good, Guess("sco", 0.89, None, None)) == "no_language"
    assert verdict(good, Guess("sco", 0.91, None, None)) is None
    assert verdict(good, Guess("xmf", 0.95, None, None)) == "script_mismatch"  # Mingrelian is not written in Latin
    assert verdict("short", Guess("eng", 0.9, None, None)) == "degenerate_short"
    assert verdict(WORDS * 5, Guess("eng", 0.9, None, None)) == "degenerate_line"
    m = measured(WORDS * 5)  # the same as plain text: a paragraph on a line of its own
    assert gates.gate(Guess("eng", 0.9, None, None), 1.0, m, 0, PARAMS, plain=True) is None
    assert gates.gate(Guess("eng", 0.9, None, None), 1.0, measured("one"), 0, PARAMS, plain=True) == "degenerate_short"
    numbers = "\n".join("12 34 56 78 90 12 34 56 78 90" for _ in range(30))
    assert verdict(numbers, Guess("eng", 0.9, None, None)) == "degenerate_letters"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("def f(x):\n    return x + 1;\nclass A { int b; }\nfor (;;) {}\n", "code"),
        ("12.5 | 13 | 14\n1 | 2 | 3\n7 | 8 | 9", "table"),
        (r"\frac{a}{b} = \sum_{i} x_{i}" + "\n" + r"\int_{0}^{1} f = \pi^{2}", "maths"),
        ("one line\nand another", "other"),
    ],
)
def test_what_no_language_claims_is_kept_for_something(text: str, kind: str) -> None:
    assert gates.kind(text) == kind
