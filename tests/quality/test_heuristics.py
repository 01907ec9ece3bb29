import math
import time

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill import schemas
from gristmill.quality import heuristics, kernels, marks, plain, stopwords
from gristmill.text_units import words
from tests.quality.pages import gold_texts


def measured(*texts: str, lang: str | None = "eng") -> list[dict]:
    return heuristics.measure(pa.array(texts, pa.large_string()), [lang] * len(texts)).to_pylist()


def agree(texts: list[str], lang: str | None) -> None:
    """Every column of the kernels follows from the plain counts."""
    rows = measured(*texts, lang=lang)
    for text, row in zip(texts, rows, strict=True):
        counts = plain.counts(text, lang)
        counts["chars_without_newlines"] = counts["chars"] - counts["newlines"]
        for name, source in heuristics.COUNTS.items():
            assert row[name] == counts[source], (name, text)
        for name, (top, bottom) in heuristics.SHARES.items():
            assert row[name] == pytest.approx(counts[top] / max(counts[bottom], 1), rel=1e-6), (name, text)
        assert row["word_entropy"] == pytest.approx(plain.entropy(text), abs=1e-4)
        if lang in stopwords.STOP_WORDS:
            assert row["stop_words"] == counts["stop_words"]
        else:
            assert row["stop_words"] is None


LINES = st.lists(st.sampled_from([
    "The cat sat on the mat, and that was that.", "- a point", "• another…", "3 likes", "1,204 views", "READ MORE",
    "Home",
    "Read more", "", "  ", "\t", "lorem ipsum dolor sit amet.", "We use cookies on this site.", "if (x) { return; }.",
    "Enable JavaScript to go on.", "As cited.[12]", "As cited. [12]", "As said.[citation needed][edit]", "and so on...",
    "他说：“你好。”然后走了！", "これは文です。次の文です。", "Привет, мир! Как дела?",
    "x" * 40, "#tag #tag ...", "a b", "12 34", "ΣΑΣ ǅ ﬁ İ",
    "สวัสดีครับ", "cafe\u0301 café", "‽ ! ?", "\u00a0", "end\r",
]), max_size=30).map("\n".join)


@settings(max_examples=150, deadline=None)
@given(LINES)
def test_kernels_count_what_the_plain_definition_counts(text):
    agree([text], "eng")


@settings(max_examples=150, deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=200), max_size=4))
def test_kernels_agree_with_the_definition_on_any_unicode(texts):
    agree(texts, None)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["a", "b", "c", "the", "of", "to"]), max_size=300).map(" ".join))
def test_repeated_n_grams_are_counted_as_published(text):
    agree([text], "eng")


@pytest.mark.shared
def test_kernels_agree_with_the_definition_on_500_real_pages(shared):
    texts = gold_texts(shared, "wcxb", "zyte", "daniel")[:500]
    assert len(texts) == 500
    agree(texts, "eng")


def test_table_has_the_columns_of_its_schema():
    assert tuple(schemas.HEURISTICS.names[3:]) == heuristics.MEASURES
    assert heuristics.measure(pa.array([], pa.large_string()), []).num_rows == 0


def test_blank_lines_are_neither_lines_nor_duplicates():
    # datatrove#273: blank lines counted as duplicates of each other
    one, = measured("First line.\n\n\n \n\t\nSecond line.\n\n\n\nThird line.")
    assert (one["n_lines"], one["n_paragraphs"], one["dup_line_frac"], one["dup_para_frac"]) == (3, 3, 0, 0)


def test_measures_of_a_text_worked_by_hand():
    one, = measured("The cat.\nThe cat.\n- item #1…\n\nThe cat.")
    assert (one["n_words"], one["n_lines"], one["n_paragraphs"]) == (8, 4, 2)
    assert one["dup_line_frac"] == pytest.approx(2 / 4)
    assert one["dup_line_char_frac"] == pytest.approx(16 / 38)
    assert one["bullet_line_ratio"] == one["ellipsis_line_ratio"] == pytest.approx(1 / 4)
    assert one["hash_word_ratio"] == one["ellipsis_word_ratio"] == pytest.approx(1 / 8)
    assert one["alpha_word_ratio"] == pytest.approx(7 / 8)
    assert one["mean_word_length"] == pytest.approx((6 * 3 + 4 + 1) / 8)
    assert one["top_2gram_char_frac"] == pytest.approx(3 * 7 / 38)
    assert one["new_line_ratio"] == pytest.approx(4 / 8)
    assert one["stop_words"] == 1
    assert one["type_token_ratio"] == pytest.approx(4 / 8)
    assert one["word_entropy"] == pytest.approx(2 * 3 / 8 * math.log2(8 / 3) + 2 / 8 * 3)


def test_words_are_those_of_shingles():
    text = "L'été, café-bar № 5: 东京 — नमस्ते"
    assert measured(text)[0]["n_words"] == len(words(text))


def test_c4_judges_lines_in_its_own_order():
    rows = {line: plain.c4_line(line) for line in (
        "This ends well.", "No end here", "Too few.", "It trails off...", "Enable JavaScript now please.",
        "We use cookies on this site.", "Lorem ipsum dolor sit.", "if (a) { b } is code.",
        "w" * 1001 + " is long here.",
        "A claim.[3]", "It stands as claimed.[3][edit]", "It stands as claimed. [3]", 'She said "yes"')}
    assert list(rows.values()) == [
        "c4_lines", "c4_no_terminal", "c4_few_words", "c4_no_terminal", "c4_javascript", "c4_policy", "c4_lorem",
        "c4_curly",
        "c4_long_word", "c4_few_words", "c4_lines", "c4_no_terminal", "c4_lines"]
    one, = measured("\n".join(rows))
    assert sum(one[k] for k in heuristics.COUNTS if k.startswith("c4_") and k != "c4_sentences") == len(rows)


def test_sentences_end_at_a_stop_followed_by_space_and_at_wide_stops():
    for text, n in (("One. Two! Three?", 3), ("Version 1.2.3 is out.", 1), ("他来了。她走了！", 2), ("No end", 1),
        ('He said "Go." Then left.', 2),
                    ("?!?!", 0), ("Wait... what?", 2)):
        assert plain.sentences(text) == n, text


def test_counters_and_capitals_are_refinedweb_lines():
    text = ("3 likes\n1,204 views\nSUBSCRIBE TODAY\n12 / 34\nHome\nRead more...\n"
            "A long sentence that no rule of lines takes out at all.")
    one, = measured(text)
    assert [one[f"rw_{k}_lines"] for k in ("counter", "upper", "numeric", "one_word", "snippet")] == [2, 1, 1, 1, 1]
    assert one["rw_removed_word_ratio"] == pytest.approx((2 + 3 + 2 + 2 + 1 + 2) / one["n_words"])


def test_stop_words_are_of_the_language_and_null_without_a_list():
    german = "Der Hund und die Katze sind nicht in dem Haus."
    assert measured(german, lang="deu")[0]["stop_words"] >= 5
    assert measured(german, lang="tlh")[0]["stop_words"] is None
    assert measured("我的书在这里，你的不在。", lang="zho")[0]["stop_words"] >= 3
    assert all(len(set(words(text))) <= 64 for text in stopwords.STOP_WORDS.values())


@pytest.mark.parametrize("text", [
    "", " ", "\n" * 200_000, "x" * 200_000, "x " * 100_000, ". " * 100_000, "x\n" * 100_000, "ab" * 100_000 + "\n",
    "😀" * 50_000,
    "ا" * 100_000, "\u202e" * 100_000, "\u0378\uffff\U000e0001" * 20_000, "]" * 200_000, "[1]" * 60_000,
    "a b " * 50_000,
], ids=lambda t: repr(t[:4]))
def test_bad_input_takes_linear_time(text):
    measured("warm up")
    start = time.process_time()
    measured(text)
    assert time.process_time() - start < 2.0


def test_a_huge_document_does_not_change_its_neighbours():
    small = "The quick brown fox jumps over the lazy dog. It was a fine day."
    alone, = measured(small)
    assert measured("z y x " * 50_000, small, "", small)[1] == alone
    assert measured("z y x " * 50_000, small, "", small)[3] == alone


def test_automaton_finds_every_phrase_in_any_case():
    step, seen = marks.automaton()
    for phrase, bit in marks.PHRASES.items():
        state = 0
        found = 0
        for byte in f"xx{phrase.upper()}yy".encode():
            state = step[state, byte]
            found |= seen[state]
        assert found & bit


def test_kernel_fields_are_named_once():
    assert len(set(kernels.FIELDS)) == len(kernels.FIELDS)
