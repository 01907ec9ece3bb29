import unicodedata
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill import text_units as units

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=60)
MIXED = "Héllo, wörld! Don't 12 한국어 日本語 ไทย हिन्दी का naïve"


def kernel(text: str, fold: bool = True, fold_digits: bool = False) -> tuple[list[int], list[str]]:
    raw = np.frombuffer(text.encode(), np.uint8)
    hashes = np.zeros(len(raw) + 1, np.uint64)
    starts, ends = np.zeros(len(raw) + 1, np.int64), np.zeros(len(raw) + 1, np.int64)
    n = units.word_hashes(raw, 0, len(raw), units.packed(fold, fold_digits), hashes, starts, ends)
    return hashes[:n].tolist(), [raw[a:b].tobytes().decode() for a, b in zip(starts[:n], ends[:n])]


@given(TEXT, st.booleans(), st.booleans())
def test_the_kernel_finds_the_words_of_the_definition(text: str, fold: bool, fold_digits: bool):
    want = units.words(text, fold=fold, fold_digits=fold_digits)
    hashes, surface = kernel(text, fold, fold_digits)
    assert hashes == [units.word_hash(w) for w in want]
    # A word's byte range holds that word and nothing else.
    assert [units.words(s, fold=fold, fold_digits=fold_digits) for s in surface] == [[w] for w in want]


def test_words_are_case_folded_without_diacritics():
    assert units.words("Crème BRÛLÉE") == ["creme", "brulee"]
    assert units.words("Crème", fold=False) == ["Crème"]


@given(TEXT)
def test_composed_and_decomposed_latin_greek_cyrillic_read_the_same(text: str):
    text = "".join(c for c in text if ord(c) < 0x500 and unicodedata.category(c) != "Mn")
    assert units.words(unicodedata.normalize("NFC", text)) == units.words(unicodedata.normalize("NFD", text))


def test_digits_stay_digits_unless_asked():
    assert units.words("born 1984") == ["born", "1984"]
    assert units.words("born 1984", fold_digits=True) == ["born", "0000"]


def test_scripts_without_spaces_give_a_word_a_character():
    assert units.words("日本語") == ["日", "本", "語"]
    assert len(units.words("ภาษาไทย")) == 7


def test_korean_and_hindi_words_stay_apart():
    # Folding a syllable to its first letter, or dropping vowel signs, would make these pairs equal.
    assert units.words("한국") != units.words("학교")
    assert units.words("का") != units.words("की")
    assert units.words("हिन्दी का") == ["हिन्दी", "का"]


def test_joiners_and_soft_hyphens_do_not_split_words():
    assert units.words("می\u200cخواهم") == units.words("میخواهم")
    assert units.words("hy\u00adphen") == ["hyphen"]


def test_spans_point_into_the_text():
    _, surface = kernel(MIXED)
    assert surface[:5] == ["Héllo", "wörld", "Don", "t", "12"]
    assert surface[-1] == "naïve"


def test_buffers_of_a_slice_are_those_of_its_rows():
    column = pa.array(["ab", "cd", "é"], pa.large_string()).slice(1)
    buf, off = units.text_buffers(column)
    assert [bytes(buf[a:b]).decode() for a, b in pairwise(off.tolist())] == ["cd", "é"]


def test_a_null_text_is_an_error():
    with pytest.raises(ValueError, match="1 of 2 texts are null"):
        units.text_buffers(pa.array(["a", None], pa.large_string()))
