"""Classifier heads on sentence vectors: a linear layer, or one hidden layer, with a logistic output.

Belongs here: training, the file (canonical JSON, so a registered model like any other), applying. Does not belong here:
where vectors come from (``encoder.py``). A head is worth nothing on another model's vectors, so its file names the
embedder that it was trained on, and loading it for another one is an error.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from gristmill.errors import ModelError
from gristmill.fingerprint import canonical_json
from gristmill.params import EmbedderParams

MARGIN = 30.0  # logits beyond it are 0 or 1 in float64 anyway


@dataclass(frozen=True)
class Fit:
    """How a head is trained: full-batch descent from a seed, so the same vectors give the same head."""

    hidden: int = 0  # 0: linear
    ridge: float = 1e-4  # on weights, not on biases
    steps: int = 400
    rate: float = 0.05
    seed: int = 1


@dataclass(frozen=True)
class Head:
    """Layers of float32 (in, out) weights and (out) biases; all but the last are followed by max(0, x)."""

    layers: tuple[tuple[np.ndarray, np.ndarray], ...]

    def apply(self, vectors: np.ndarray) -> np.ndarray:
        """Probability of each row's label: float64 (n)."""
        x = vectors.astype(np.float64)
        for i, (weights, bias) in enumerate(self.layers):
            x = x @ weights.astype(np.float64) + bias
            if i + 1 < len(self.layers):
                x = np.maximum(x, 0)
        return _logistic(x[:, 0])


@dataclass(frozen=True)
class Heads:
    """Named heads and the embedder that their vectors must come from."""

    embedder: EmbedderParams
    heads: Mapping[str, Head]


def _logistic(x: np.ndarray) -> np.ndarray:
    found: np.ndarray = 1 / (1 + np.exp(-np.clip(x, -MARGIN, MARGIN)))
    return found


def fit(vectors: np.ndarray, target: np.ndarray, how: Fit = Fit()) -> Head:
    """Train a head by cross-entropy, with each side of 0.5 given equal weight (Adam of Kingma and Ba 2015, full batch).

    Args:
        vectors: float32 (n, dim).
        target: float (n) in [0, 1]: a label, or a rubric's score over its maximum.
        how: size and descent.

    Raises:
        ModelError: all targets lie on one side of 0.5.
    """
    x, y = vectors.astype(np.float64), np.asarray(target, np.float64)
    high = y >= 0.5
    if not high.any() or high.all():
        raise ModelError(f"a head needs texts on both sides: {int(high.sum())} good, {int((~high).sum())} bad")
    weight = np.where(high, 0.5 / high.sum(), 0.5 / (~high).sum())
    rng = np.random.default_rng(how.seed)
    sizes = [x.shape[1], how.hidden, 1] if how.hidden else [x.shape[1], 1]
    layers = [[rng.normal(0, np.sqrt(2 / a), (a, b)), np.zeros(b)] for a, b in pairwise(sizes)]
    if not how.hidden:
        layers[0][0][:] = 0  # convex: no start is better than another
    moments = [[[np.zeros_like(p), np.zeros_like(p)] for p in layer] for layer in layers]
    for step in range(1, how.steps + 1):
        outputs = [x]
        for i, (w, b) in enumerate(layers):
            z = outputs[-1] @ w + b
            outputs.append(np.maximum(z, 0) if i + 1 < len(layers) else z)
        grad = (weight * (_logistic(outputs[-1][:, 0]) - y))[:, None]
        for i in reversed(range(len(layers))):
            w = layers[i][0]
            grads = [outputs[i].T @ grad + how.ridge * w, grad.sum(axis=0)]
            if i:
                grad = (grad @ w.T) * (outputs[i] > 0)
            for k, g in enumerate(grads):
                m, v = moments[i][k]
                m += 0.1 * (g - m)
                v += 0.001 * (g * g - v)
                layers[i][k] -= how.rate * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
    return Head(tuple((w.astype(np.float32), b.astype(np.float32)) for w, b in layers))


def joined(held: Heads, more: Heads) -> Heads:
    """Heads of two files as one; of two with one name the later stays.

    Raises:
        ModelError: they are on different embedders.
    """
    if held.embedder != more.embedder:
        raise ModelError(f"heads on {held.embedder.model.name} and on {more.embedder.model.name} do not go in one file")
    return Heads(more.embedder, {**held.heads, **more.heads})


def write(heads: Heads, path: Path) -> Path:
    """Write the file; equal heads are equal bytes."""
    body = {
        "format": 1, "kind": "gristmill-heads", "embedder": heads.embedder.model_dump(mode="json"),
        "heads": {name: [[_packed(a) for a in layer] for layer in head.layers] for name, head in heads.heads.items()},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(canonical_json(body))
    return path


def read(path: Path) -> Heads:
    """Read a file of heads.

    Raises:
        ModelError: it is not one.
    """
    try:
        data = json.loads(path.read_bytes())
        if data["kind"] != "gristmill-heads" or data["format"] != 1:
            raise ValueError("another format")
        heads = {
            name: Head(tuple((_unpacked(w), _unpacked(b)) for w, b in layers)) for name, layers in data["heads"].items()
        }
        for name, head in heads.items():
            widths = [size for w, b in head.layers for size in (w.shape[0], w.shape[1], *b.shape)]
            if not widths or widths[1::3] != widths[2::3] or widths[1:-3:3] != widths[3::3] or widths[-1] != 1:
                raise ValueError(f"the layers of {name} do not fit together")
        return Heads(EmbedderParams.model_validate(data["embedder"]), heads)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise ModelError(f"{path} is no file of classifier heads ({error}): train it again") from error


def _packed(array: np.ndarray) -> dict[str, object]:
    return {"shape": list(array.shape), "f4": base64.b64encode(array.astype("<f4").tobytes()).decode("ascii")}


def _unpacked(data: dict[str, object]) -> np.ndarray:
    return np.frombuffer(base64.b64decode(str(data["f4"])), "<f4").reshape(data["shape"])  # type: ignore[call-overload]
