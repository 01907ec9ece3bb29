"""Scores of a transformers sequence classifier in ONNX: a folder of one ``.onnx``, tokenizer.json and config.json.

Belongs here: logits for texts and the head that makes a score of them. Does not belong here: tokenising ahead and
batches by length (``gristmill/embed``), heads trained on a sentence encoder's vectors (``encoder.py``), thresholds.

Which of the heads a model was trained with is not written in its files, so the parameter says it: ``softmax`` for one
label of several that exclude each other, ``sigmoid`` for one of several that do not, ``regression`` for a number as the
model gives it (FineWeb-Edu's 0 to 5).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa

from gristmill.embed.embedding import EmbedStats, rows
from gristmill.embed.engines import Device, labels, open_logits
from gristmill.errors import ModelError
from gristmill.params import ModelRef

Head = Literal["softmax", "sigmoid", "regression"]
CHARS_A_TOKEN = 16  # never tokenise a whole book for its first page
DIGITS = 4  # what shares a batch moves the digits after these


def logits(texts: Sequence[str] | pa.Array | pa.ChunkedArray, model: ModelRef, max_tokens: int, cache: str | Path,
           device: Device = "cpu") -> tuple[np.ndarray, list[str], EmbedStats]:
    """What the model gives for the first ``max_tokens`` of each text.

    Returns:
        float32 (n, labels), NaN for a text without words; the names of the labels ("0", "1" where the folder has no
        config.json); what the pass did.

    Raises:
        ModelError: the folder lacks a file, or its model is no sequence classifier.
    """
    engine, folder = open_logits(model, str(cache), max_tokens, None, device)
    strings = texts.to_pylist() if isinstance(texts, pa.Array | pa.ChunkedArray) else list(texts)
    named = labels(folder)
    shape = engine.run(np.full((1, 2), engine.pad_id, np.int64), np.ones((1, 2), np.int64)).shape
    if len(shape) != 2 or (named and len(named) != shape[1]):
        raise ModelError(f"{model.name} gives {list(shape)} for a text and names {len(named)} labels: it is no "
                         "sequence classifier, which gives one row of a number a label")
    found, stats = rows([(s or "")[: CHARS_A_TOKEN * max_tokens] for s in strings], engine)
    found[[not (s and s.strip()) for s in strings]] = np.nan
    return found, named or [str(i) for i in range(shape[1])], stats


def score(found: np.ndarray, names: Sequence[str], head: Head, label: str) -> np.ndarray:
    """One number a text, float64 (n), rounded to 4 digits: a probability, or the number of a regression.

    Args:
        found, names: of ``logits``.
        head: how the model was trained.
        label: which output; a model with one output needs none.

    Raises:
        ModelError: there is no such label, or a softmax over one output, which is always 1.
    """
    if label not in names and len(names) > 1:
        raise ModelError(f"the model has the labels {', '.join(names)}, not {label}: name one of them as `label`")
    column = names.index(label) if label in names else 0
    values = found.astype(np.float64)
    if head == "softmax":
        if len(names) == 1:
            raise ModelError("a softmax over one output is always 1: name the head sigmoid or regression")
        raised = np.exp(values - values.max(axis=1, keepdims=True))
        out: np.ndarray = raised[:, column] / raised.sum(axis=1)
    elif head == "sigmoid":
        out = 0.5 * (1 + np.tanh(values[:, column] / 2))  # no overflow on either side
    else:
        out = values[:, column]
    return np.round(out, DIGITS)
