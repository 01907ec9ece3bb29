import zipfile

import numpy as np
import pytest

from gristmill.errors import ModelError
from gristmill.quality import kneser_ney as kn
from gristmill.quality.perplexity import LanguageModel

CORPUS = ["the cat sat on the mat\nthe dog sat on the rug", "a cat and a dog\nthe cat saw the dog", "the mat was red"]


@pytest.fixture(scope="module")
def lm(tmp_path_factory) -> LanguageModel:
    return LanguageModel.read(kn.write_arpa(kn.train(CORPUS), tmp_path_factory.mktemp("m") / "m.arpa"))


@pytest.mark.parametrize("context", [(), ("the",), ("sat", "on"), ("on", "the"), ("never", "seen"), ("<s>", "the"),
    ("cat",)])
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_probabilities_of_all_words_sum_to_one_in_every_context(tmp_path, context, order):
    model = kn.train(CORPUS, order)
    lm = LanguageModel.read(kn.write_arpa(model, tmp_path / "m.arpa"))
    history = context[-(order - 1):] if order > 1 else ()
    total = sum(10 ** lm._probability(history, gram[0]) for gram in model.probability[0])
    assert total == pytest.approx(1, abs=1e-4)


def test_continuation_counts_beat_raw_counts():
    # Chen and Goodman's example: "francisco" is frequent but follows one word only, so alone it is unlikely
    texts = ["san francisco"] * 50 + [f"{w} glasses" for w in ["big", "small", "red", "blue", "old", "new", "my",
        "your", "his", "her"]]
    model = kn.train(texts, 2)
    assert model.probability[0][("glasses",)] > model.probability[0][("francisco",)]


def test_the_kernel_scores_as_the_plain_definition(lm):
    for text in (*CORPUS, "the unknown cat\n\nsat", "", "...", "a", "on the mat the cat sat\non"):
        total, events = lm.plain(text)
        score = lm.score([text])[0]
        assert np.isnan(score) if events == 0 else score == pytest.approx(total / events, abs=1e-6)


def test_word_order_is_what_perplexity_measures(lm):
    straight, shuffled = lm.perplexity(["the cat sat on the mat", "mat the on sat cat the"])
    assert straight < shuffled / 3


def test_a_bigram_worked_by_hand():
    # c(the cat) = 2 of 3 after "the"; so few counts fall back to discounts 0.5, 1, 1.5
    model = kn.train(["the cat", "the cat", "the dog"], 2)
    unigrams = {"the": 1, "cat": 1, "dog": 1, "</s>": 2}  # continuation counts
    held = 3 * 0.5 + 1.0
    p_cat = (1 - 0.5) / 5 + held / 5 / 5  # five words with <unk>
    assert sum(unigrams.values()) == 5
    assert 10 ** model.probability[0][("cat",)] == pytest.approx(p_cat)
    assert 10 ** model.probability[1][("the", "cat")] == pytest.approx((2 - 1.0) / 3 + (1.0 + 0.5) / 3 * p_cat)
    assert 10 ** model.backoff[0][("the",)] == pytest.approx((1.0 + 0.5) / 3)


@pytest.mark.shared
def test_held_out_speeches_are_likelier_than_their_shuffled_words(shared, tmp_path):
    with zipfile.ZipFile(shared / "07_texts" / "english" / "inaugural.zip") as archive:
        names = [n for n in archive.namelist() if n.endswith(".txt")]
        speeches = [archive.read(n).decode("latin-1") for n in names]
    lm = LanguageModel.read(kn.write_arpa(kn.train(speeches[:-5]), tmp_path / "m.arpa"))
    rng = np.random.default_rng(1)
    for speech in speeches[-5:]:
        tokens = speech.split()
        shuffled = " ".join(rng.permutation(tokens))
        assert lm.perplexity([" ".join(tokens)])[0] < 0.75 * lm.perplexity([shuffled])[0]


def test_equal_texts_are_equal_bytes(tmp_path):
    one = kn.write_arpa(kn.train(CORPUS), tmp_path / "1").read_bytes()
    assert kn.write_arpa(kn.train(CORPUS), tmp_path / "2").read_bytes() == one


def test_what_is_no_arpa_file_is_refused(tmp_path):
    with pytest.raises(ModelError, match="at least one word"):
        kn.train(["", "..."])
    for content in (b"", b"\\data\\\nngram 1=5\n\n\\1-grams:\n-1\t<unk>\n\\end\\\n", b"\xff\xfe"):
        (tmp_path / "x").write_bytes(content)
        with pytest.raises(ModelError):
            LanguageModel.read(tmp_path / "x")
