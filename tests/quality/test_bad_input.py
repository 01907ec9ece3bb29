"""Every scorer on hostile texts: no crash, a value in range or none, and time that grows with the text alone."""

import time

import numpy as np
import pyarrow as pa
import pytest

from gristmill.quality import fasttext_classifier as ft
from gristmill.quality import heuristics, kneser_ney
from gristmill.quality.byte_model import ByteModel
from gristmill.quality.perplexity import LanguageModel
from gristmill.safety import hash_lists, pii, spam
from gristmill.text_units import text_buffers
from tests.quality.test_fasttext_classifier import BAD, GOOD, texts

HOSTILE = {
    "empty": "", "blank": " \n\t ", "one giant line": "word " * 40_000, "repeated characters": "x" * 200_000,
    "digits": "1" * 60_000, "at signs": "@" * 50_000, "right to left": "שלום עולם مرحبا " * 2_000,
    "unassigned": "\u0378\U000e0fff\U0003ffff " * 5_000, "controls": "\x00\x01\x7f\ufeff" * 5_000,
    "a surrogate, as JSON readers replace it": "a \ud800 b".encode("utf-8", "replace").decode(),
    "newlines": "\n" * 200_000, "combining": "a" + "\u0301" * 100_000,
}


@pytest.fixture(scope="module")
def scorers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("m")
    classifier = ft.Classifier(ft.train_demo(texts(GOOD, 40, 1), texts(BAD, 40, 2), folder / "m.bin"))
    arpa = kneser_ney.write_arpa(kneser_ney.train(texts(GOOD, 20, 3), 2), folder / "m.arpa")
    return {
        "fastText": (classifier.score, 0, 1), "n-gram": (LanguageModel.read(arpa).score, -99, 0),
        "bytes": (lambda t: np.array([ByteModel(texts(GOOD, 5, 1)).bits(t)]), 0, 64),
    }


@pytest.mark.parametrize("name", HOSTILE)
def test_scorers_give_a_value_in_range_or_none(scorers, name):
    for score, low, high in scorers.values():
        found = score([HOSTILE[name]])
        assert (np.isnan(found) | ((found >= low) & (found <= high))).all()


@pytest.mark.parametrize("name", HOSTILE)
def test_measures_take_time_that_grows_with_the_text_alone(name):
    def spent(times: int) -> float:
        column = pa.array([HOSTILE[name] * times], pa.large_string())
        began = time.thread_time()
        assert heuristics.measure(column, ["eng"]).num_rows == 1
        buf, offsets = text_buffers(column)
        assert len(pii.scan(buf, offsets)) == 1
        spam.measure(buf, offsets)
        hash_lists.simhashes(buf, offsets)
        return time.thread_time() - began

    spent(1)
    assert spent(4) < 12 * max(spent(1), 0.02)  # linear is 4, quadratic 16
