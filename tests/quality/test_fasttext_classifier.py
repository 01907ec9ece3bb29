import random

import numpy as np
import pytest

from gristmill.errors import ModelError
from gristmill.quality import fasttext_classifier as ft


def texts(vocabulary: str, n: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    words = vocabulary.split()
    return [" ".join(rng.choice(words) for _ in range(60)) for _ in range(n)]


GOOD = "theorem proof lemma therefore because measure result shows that the of in we and is"
BAD = "buy cheap click here now deal free order the of in we and is discount casino"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return ft.train_demo(texts(GOOD, 200, 1), texts(BAD, 200, 2), tmp_path_factory.mktemp("m") / "demo.bin")


def test_planted_truth_is_learnt_and_holds_on_texts_never_seen(model):
    result = ft.evaluate(ft.Classifier(model), texts(GOOD, 100, 3), texts(BAD, 100, 4))
    assert result.auc > 0.99
    assert result.accuracy > 0.97


def test_labels_without_a_difference_are_not_learnt(tmp_path):
    path = ft.train_demo(texts(GOOD, 150, 5), texts(GOOD, 150, 6), tmp_path / "same.bin")
    result = ft.evaluate(ft.Classifier(path), texts(GOOD, 100, 7), texts(GOOD, 100, 8))
    assert 0.35 < result.auc < 0.65


def test_the_same_texts_give_the_same_file_in_any_order(model, tmp_path):
    # fastText leaves nine tenths of its matrix to the allocator when it has one thread: see _fit
    shuffled = texts(GOOD, 200, 1)
    random.Random(9).shuffle(shuffled)
    for i in range(3):
        assert ft.train_demo(shuffled, texts(BAD, 200, 2), tmp_path / f"{i}.bin").read_bytes() == model.read_bytes()


def test_scores_are_probabilities_and_unknown_without_words(model):
    scores = ft.Classifier(model).score(["", " \n ", *texts(GOOD, 5, 1), "\x00", "line\nline"])
    assert np.isnan(scores[:2]).all()
    assert ((scores[2:] >= 0) & (scores[2:] <= 1)).all()


def test_a_score_does_not_depend_on_the_batch(model):
    classifier = ft.Classifier(model)
    many = texts(GOOD, 7, 10) + texts(BAD, 7, 11)
    assert classifier.score(many).tolist() == [classifier.score([t])[0] for t in many]


def test_only_the_first_characters_count(model):
    classifier = ft.Classifier(model, first_chars=200)
    good, bad = texts(GOOD, 1, 12)[0], texts(BAD, 1, 13)[0]
    assert classifier.score([good[:200] + bad])[0] == classifier.score([good[:200]])[0]


def test_errors_say_what_is_wrong(tmp_path):
    with pytest.raises(ModelError, match="2 good, 0 bad"):
        ft.train(["a", "b"], [], tmp_path / "x")
    (tmp_path / "junk").write_bytes(b"junk")
    with pytest.raises(ModelError, match="no fastText model"):
        ft.Classifier(tmp_path / "junk")


def test_a_missing_label_is_an_error(model):
    with pytest.raises(ModelError, match="__label__other"):
        ft.Classifier(model, "__label__other")


def test_packing_is_as_deterministic_as_training(tmp_path):
    how = ft.Training(dim=8, buckets=1000, epochs=5, rate=0.5, pack=True)
    for name in "ab":
        ft.train(texts(GOOD, 60, 1), texts(BAD, 60, 2), tmp_path / name, how)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert ft.evaluate(ft.Classifier(tmp_path / "a"), texts(GOOD, 40, 3), texts(BAD, 40, 4)).auc > 0.95
