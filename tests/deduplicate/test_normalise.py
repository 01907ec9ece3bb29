import random
import unicodedata

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gristmill.deduplicate.normalise import doc_id, doc_ids, normalise, normalise_fast

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)
# What normalisation may carry over the edge of a code point, close together.
HARD = st.text(st.sampled_from(
    [chr(c) for c in range(0x110000)
     if not 0xD800 <= c < 0xE000 and (unicodedata.combining(chr(c)) or unicodedata.decomposition(chr(c))
                                      or chr(c).isspace() or chr(c).casefold() != chr(c) or 0x1100 <= c < 0x1200)]
    + list("abc \n-1") * 50), max_size=12)


def agrees(text: str) -> bool:
    """The fast path gives the bytes of the definition, or says that it cannot. Whether it could."""
    fast = normalise_fast(text)
    if fast is not None:
        assert fast == normalise(text).encode()
    return fast is not None


@given(TEXT)
@example("Straße")
@example("ﬁne ﬂow ﬃ")
@example("e\u0301tude")
@example("a\u0323\u0302")
@example("\u1112\u1161\u11ab")
@example("각\u11a8")
@example("\u0344")
@example("line\n---\n***\nline")
@example("¨ ﷺ Å")
def test_the_fast_path_yields_the_definition_on_any_text(text: str):
    agrees(text)


@given(HARD)
@settings(max_examples=600)
def test_the_fast_path_yields_the_definition_where_normalisation_reaches_over(text: str):
    agrees(text)


def everywhere(code_points) -> None:
    around = (("", ""), ("a", "b"), ("e\u0301", "\u0301"), (" ", " "), ("\u1100", "\u1161"), ("각", "\u11a8"))
    for cp in code_points:
        if not 0xD800 <= cp < 0xE000:
            for before, after in around:
                agrees(before + chr(cp) + after)


def test_code_points_agree_in_every_neighbourhood():
    everywhere(range(0x3400))  # everything but ideographs, which are alike
    everywhere(range(0xA000, 0x11000, 7))
    everywhere(range(0xF900, 0x10000))


@pytest.mark.slow
def test_every_code_point_agrees_in_every_neighbourhood():
    everywhere(range(0x110000))


@pytest.mark.parametrize("text", [
    "Plain English, with “quotes” — and dashes… ½ ﬁ", "Größe, naïve café, Ångström", "Привет, мир", "日本語のテキスト",
    "한국어 문장입니다", "ไทยที่ไม่มีช่องว่าง", "हिन्दी में लिखा हुआ वाक्य", "বাংলা ভাষা", "العربية ١٢٣", "Ελληνικά Άρθρο",
])
def test_texts_as_they_are_written_take_the_fast_path(text: str):
    assert agrees(unicodedata.normalize("NFC", text))


@pytest.mark.parametrize("text", ["e\u0301", "\u1112\u1161\u11ab", "ο\u0345"])
def test_decomposed_text_takes_the_definition(text: str):
    assert normalise_fast(text) is None


def test_equal_texts_have_equal_ids():
    same = ["Straße  und\tWeg", "STRASSE UND WEG", "strasse\n\n* * *\nund weg ", "ＳＴＲＡＳＳＥ und weg"]
    assert len({doc_id(t) for t in same}) == 1
    assert doc_id("e\u0301") == doc_id("é")
    assert doc_id("\u1112\u1161\u11ab") == doc_id("한")
    assert doc_id("strasse und wege") != doc_id(same[0])


def test_lines_without_a_letter_or_digit_do_not_count():
    assert normalise("Title\n-----\n•\nText 1\n½\n") == "title text 1 1⁄2"


def test_a_column_has_the_ids_of_its_texts():
    rng = random.Random(5)
    pieces = ["Straße", "e\u0301", "한", "\u1112\u1161", "plain", "\n", "--\n", "日本", " ", "İ"]
    texts = ["".join(rng.choices(pieces, k=rng.randint(0, 9))) for _ in range(500)]
    column = pa.chunked_array([pa.array(texts[:200], pa.large_string()), pa.array(texts[200:], pa.large_string())])
    assert doc_ids(column).to_pylist() == [doc_id(t) for t in texts]


def test_code_is_hashed_as_it_is():
    assert doc_id("a\r\n  B\n", code=True) == doc_id("a\n  B\n", code=True)
    assert doc_id("a\n  B\n", code=True) != doc_id("a\n B\n", code=True)
    texts = ["A\r\n", "a\n"]
    assert doc_ids(pa.array(texts), code=True).to_pylist() == [doc_id(t.replace("\r", ""), code=True) for t in texts]


def test_empty_and_null():
    assert doc_ids(pa.array(["", " \n "], pa.large_string())).to_pylist() == [doc_id("")] * 2
    assert len(doc_ids(pa.array([], pa.large_string()))) == 0
    with pytest.raises(ValueError, match="null"):
        doc_ids(pa.array(["a", None], pa.large_string()))
