"""Encoder classifiers: one pass of a sentence encoder over the first 512 tokens, several heads on its vectors.

Belongs here: vectors for texts, training heads on labels, scoring. Does not belong here: tokenising ahead and batches
by length (``gristmill/embed``), the heads' arithmetic (``heads.py``), thresholds (the recipe).

The encoder is int8 ONNX on a CPU; on a GPU it is a folder of sentence-transformers, run in bfloat16. Its activations
are quantised a batch at a time, so a score is decided by the texts and their order, not by a text alone: the last two
digits move with the neighbours. Scores are rounded to 4 digits.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from gristmill.embed.embedding import EmbedStats, embed
from gristmill.embed.engines import Device
from gristmill.errors import ModelError
from gristmill.params import EmbedderParams
from gristmill.quality.fasttext_classifier import GOOD, Evaluation, evaluation
from gristmill.quality.heads import Fit, Heads, fit, read

FIRST_TOKENS = 512
ENCODER = EmbedderParams(max_tokens=FIRST_TOKENS)
FIRST_CHARS = 16 * FIRST_TOKENS  # never tokenise a whole book for its first page
DIGITS = 4
LINEAR = Fit()


def vectors(texts: Sequence[str] | pa.Array | pa.ChunkedArray, embedder: EmbedderParams, cache: str | Path,
            device: Device = "cpu") -> tuple[np.ndarray, np.ndarray, EmbedStats]:
    """Vectors float32 (n, dim), which rows have text (bool), and what the pass did (``padding_waste`` among it)."""
    strings = texts.to_pylist() if isinstance(texts, pa.Array | pa.ChunkedArray) else list(texts)
    found, stats = embed([(s or "")[:FIRST_CHARS] for s in strings], embedder, device, cache_dir=str(cache))
    return found, np.array([bool(s and s.strip()) for s in strings], bool), stats


def scores(file: Path, names: Sequence[str], found: np.ndarray, has_text: np.ndarray,
           embedder: EmbedderParams) -> dict[str, np.ndarray]:
    """Probability of each named head, float64 (n) in [0, 1]; NaN for a text without words.

    Args:
        file: of ``heads.write``.
        names: which heads.
        found, has_text: of ``vectors``.
        embedder: what made them.

    Raises:
        ModelError: the heads were trained on another embedder, or there is no such head.
    """
    heads = read(file)
    if heads.embedder != embedder:
        raise ModelError(
            f"{file} was trained on {heads.embedder.model.name} ({heads.embedder.max_tokens} tokens, "
            f"{heads.embedder.pooling}) and is asked to judge vectors of {embedder.model.name} "
            f"({embedder.max_tokens} tokens, {embedder.pooling}): name that embedder, or train the heads again")
    out = {}
    for name in names:
        if name not in heads.heads:
            raise ModelError(f"{file} has the heads {', '.join(sorted(heads.heads))}, not {name}")
        width = heads.heads[name].layers[0][0].shape[0]
        if width != found.shape[1]:
            raise ModelError(f"{file}: head {name} reads {width} numbers, and vectors of {embedder.model.name} have "
                             f"{found.shape[1]}: train it again")
        out[name] = np.where(has_text, np.round(heads.heads[name].apply(found), DIGITS), np.nan)
    return out


def train(labels: Mapping[str, tuple[Sequence[str], Sequence[float]]], cache: str | Path, *,
          embedder: EmbedderParams = ENCODER, how: Fit = LINEAR, device: Device = "cpu") -> Heads:
    """One head a label set, on one embedder.

    Args:
        labels: head -> (texts, targets in [0, 1]).
        cache: of models.
        embedder, how, device: what they are trained on and how.

    Raises:
        ModelError: a set has one side only.
    """
    out = {}
    for name, (texts, targets) in sorted(labels.items()):
        order = sorted(range(len(texts)), key=lambda i: (texts[i], targets[i]))  # the caller's order decides nothing
        found, has_text, _ = vectors([texts[i] for i in order], embedder, cache, device)
        out[name] = fit(found[has_text], np.array([targets[i] for i in order], float)[has_text], how)
    return Heads(embedder, out)


def evaluate(file: Path, good: Sequence[str], bad: Sequence[str], cache: str | Path, *, name: str = GOOD,
             device: Device = "cpu", threshold: float = 0.5) -> Evaluation:
    """Score held-out texts. Texts without words count as bad."""
    embedder = read(file).embedder
    found, has_text, _ = vectors([*good, *bad], embedder, cache, device)
    values = np.nan_to_num(scores(file, [name], found, has_text, embedder)[name], nan=0.0)
    return evaluation(values[: len(good)], values[len(good) :], threshold)
