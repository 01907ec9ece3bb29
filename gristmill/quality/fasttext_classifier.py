"""fastText quality classifiers in DCLM's form: one label for text to keep, one for the rest, word bigrams.

Belongs here: training, held-out evaluation, packing and scoring. Does not belong here: which texts are good
(the caller's labels, or ``annotate.py``) and thresholds (the recipe). One thread and a seed: the same texts give the
same file.

The classifier that ``make demo`` trains (``train_demo``) shows that the machinery works. It has seen a few hundred
documentation pages, and says nothing about the quality of anything else.
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gristmill.errors import ModelError
from gristmill.fingerprint import digest

GOOD, BAD = "__label__hq", "__label__cc"


@dataclass(frozen=True)
class Training:
    """fastText's hyper-parameters. DCLM (Li et al. 2024, section 4.4) uses word bigrams, dim 100, 2 M hash buckets."""

    dim: int = 100
    buckets: int = 2_000_000
    word_ngrams: int = 2
    epochs: int = 5
    rate: float = 0.1
    min_count: int = 1
    first_chars: int = 2000
    seed: int = 1
    pack: bool = False  # product quantisation of what it has learnt: a tenth of the bytes and less, for some accuracy


BUCKETS_A_TEXT = 200  # distinct bigrams of a text's first 2,000 characters are about 300, and most repeat elsewhere


def buckets_for(texts: int) -> int:
    """Hash buckets for a number of texts: DCLM's 2 M from 10,000 on; 600 texts need no 800 MB of untouched rows."""
    return min(Training.buckets, max(50_000, BUCKETS_A_TEXT * texts))


DEMO = Training(dim=16, buckets=50_000, epochs=25, rate=0.5)


@dataclass(frozen=True)
class Evaluation:
    """Against held-out labels. ``auc`` is the chance that a good text scores above a bad one."""

    good: int
    bad: int
    accuracy: float
    precision: float
    recall: float
    auc: float


def line_of(text: str, first_chars: int) -> str:
    """What fastText sees: the first characters, lower case, white space as single spaces."""
    return " ".join(text[:first_chars].lower().split())


def train(good: Iterable[str], bad: Iterable[str], out: Path, training: Training = Training()) -> Path:
    """Train on labelled texts and write a model file.

    Args:
        good, bad: texts; duplicates are the caller's to remove.
        out: where to write (``.bin``).
        training: hyper-parameters.

    Raises:
        ModelError: one side has no text.
    """
    lines = [f"{GOOD} {line_of(t, training.first_chars)}" for t in good]
    n_good = len(lines)
    lines += [f"{BAD} {line_of(t, training.first_chars)}" for t in bad]
    if not n_good or n_good == len(lines):
        raise ModelError(f"a classifier needs texts on both sides: {n_good} good, {len(lines) - n_good} bad")
    # Stochastic descent must not see one label after the other: an order keyed by the text, the same in every run.
    lines.sort(key=digest)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "train.txt"
        source.write_text("\n".join(lines) + "\n", "utf-8")
        whole = _fit(source, Path(folder) / "model.bin", training)
        if platform.libc_ver()[0] != "glibc" and _fit(source, Path(folder) / "again.bin", training) != whole:
            raise ModelError("fastText trained two different models from the same texts on this system: train on Linux")
        out.write_bytes(whole)
    return out


def _fit(source: Path, model: Path, training: Training) -> bytes:
    """Train in a process of its own whose allocator fills memory with zeros, and return the model's bytes.

    With one thread fastText fills a tenth of its input matrix with random numbers and leaves the rest as the allocator
    gave it (``DenseMatrix::uniform`` of 0.9.3): without this, results differ from run to run, and some are NaN.
    """
    environment = {**os.environ, "MALLOC_PERTURB_": "255", "GLIBC_TUNABLES": "glibc.malloc.perturb=255"}
    arguments = [str(source), str(model), json.dumps(asdict(training))]
    command = [sys.executable, "-m", "gristmill.quality.fasttext_classifier", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ModelError(f"fastText did not train: {done.stderr.strip()[-300:]}")
    return model.read_bytes()


def train_demo(good: Iterable[str], bad: Iterable[str], out: Path) -> Path:
    """The demonstration classifier, in seconds; its quantiles are written beside it by ``quantiles.freeze``."""
    return train(good, bad, out, DEMO)


class Classifier:
    """A loaded model that scores texts."""

    def __init__(self, path: Path, positive: str = GOOD, first_chars: int = 2000) -> None:
        """Load a model file.

        Raises:
            ModelError: fastText cannot read it, or it has no such label.
        """
        import fasttext

        fasttext.FastText.eprint = lambda *args, **kwargs: None
        try:
            self._model: Any = fasttext.load_model(str(path))
        except (ValueError, MemoryError) as error:
            raise ModelError(f"{path} is no fastText model: {error}") from error
        labels = self._model.get_labels()
        if positive not in labels:
            raise ModelError(f"{path} has the labels {labels}, not {positive}")
        self._positive, self._first_chars, self._k = positive, first_chars, len(labels)

    def score(self, texts: Sequence[str]) -> np.ndarray:
        """Probability of the positive label, float64 in [0, 1], rounded to 6 digits; NaN for a text without words."""
        lines = [line_of(t, self._first_chars) for t in texts]
        out = np.full(len(texts), np.nan)
        rows = [i for i, line in enumerate(lines) if line]
        if not rows:
            return out
        labels, probabilities = self._model.predict([lines[i] for i in rows], k=self._k)
        for i, names, values in zip(rows, labels, probabilities):
            # fastText's softmax may pass 1 by a rounding error
            out[i] = min(1.0, round(float(values[list(names).index(self._positive)]), 6))
        return out


def evaluation(high: np.ndarray, low: np.ndarray, threshold: float = 0.5) -> Evaluation:
    """From the scores of held-out good and bad texts.

    Raises:
        ModelError: one side has none.
    """
    if not len(high) or not len(low):
        raise ModelError("evaluation needs held-out texts on both sides")
    kept, leaked = int((high >= threshold).sum()), int((low >= threshold).sum())
    ordered = np.sort(low)
    below = np.searchsorted(ordered, high, side="left") + np.searchsorted(ordered, high, side="right")
    return Evaluation(
        good=len(high), bad=len(low), accuracy=(kept + len(low) - leaked) / (len(high) + len(low)),
        precision=kept / (kept + leaked) if kept + leaked else 0.0, recall=kept / len(high),
        auc=float(below.sum() / (2 * len(high) * len(low))),
    )


def evaluate(classifier: Classifier, good: Sequence[str], bad: Sequence[str], threshold: float = 0.5) -> Evaluation:
    """Score held-out texts. Texts without words count as bad."""
    high, low = (np.nan_to_num(classifier.score(list(t)), nan=0.0) for t in (good, bad))
    return evaluation(high, low, threshold)


def _main(source: str, model: str, parameters: str) -> None:
    import fasttext

    training = Training(**json.loads(parameters))
    model_ = fasttext.train_supervised(
        input=source, dim=training.dim, bucket=training.buckets, wordNgrams=training.word_ngrams, epoch=training.epochs,
        lr=training.rate, minCount=training.min_count, seed=training.seed, thread=1, verbose=0,
    )
    if training.pack:
        model_.quantize(thread=1)
    model_.save_model(model)


if __name__ == "__main__":
    _main(*sys.argv[1:])
