"""A sequence classifier small enough to write byte by byte: mean of word vectors, one linear layer, as an ONNX file.

The bytes are those of the ONNX protobuf (github.com/onnx/onnx, onnx.proto): no package that writes them is needed.
"""

from pathlib import Path

import numpy as np


def _varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def _field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    raw = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(raw)) + raw


def _tensor(name: str, value: np.ndarray) -> bytes:
    kind = {"float32": 1, "int64": 7}[value.dtype.name]
    return b"".join(_field(1, n) for n in value.shape) + _field(2, kind) + _field(8, name) + _field(9, value.tobytes())


def _port(name: str, kind: int, *dims: str | int) -> bytes:
    shape = b"".join(_field(1, _field(2, d) if isinstance(d, str) else _field(1, d)) for d in dims)
    return _field(1, name) + _field(2, _field(1, _field(1, kind) + _field(2, shape)))


def _node(op: str, inputs: list[str], output: str, **attributes: int) -> bytes:
    held = b"".join(_field(5, _field(1, k) + _field(3, v) + _field(20, 2)) for k, v in attributes.items())
    return b"".join(_field(1, i) for i in inputs) + _field(2, output) + _field(4, op) + held


def write(folder: Path, words: list[str], vectors: np.ndarray, layer: np.ndarray, bias: np.ndarray,
          labels: list[str] | None) -> Path:
    """``model.onnx``, ``tokenizer.json`` (whole words; 0 pads, 1 is unknown) and ``config.json`` of a new folder."""
    import json

    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    folder.mkdir(parents=True)
    nodes = [
        _node("Gather", ["vectors", "input_ids"], "each"),
        _node("Cast", ["attention_mask"], "flat", to=1), _node("Unsqueeze", ["flat", "last"], "mask"),
        _node("Mul", ["each", "mask"], "seen"), _node("ReduceSum", ["seen", "tokens"], "sum", keepdims=0),
        _node("ReduceSum", ["mask", "tokens"], "count", keepdims=0), _node("Div", ["sum", "count"], "mean"),
        _node("MatMul", ["mean", "layer"], "product"), _node("Add", ["product", "bias"], "logits"),
    ]
    graph = b"".join(_field(1, n) for n in nodes) + _field(2, "tiny") + b"".join(_field(5, _tensor(n, v)) for n, v in {
        "vectors": vectors.astype(np.float32), "layer": layer.astype(np.float32), "bias": bias.astype(np.float32),
        "last": np.array([2]), "tokens": np.array([1])}.items())
    graph += b"".join(_field(11, _port(n, 7, "rows", "tokens")) for n in ("input_ids", "attention_mask"))
    graph += _field(12, _port("logits", 1, "rows", len(bias)))
    model = _field(1, 8) + _field(7, graph) + _field(8, _field(1, "") + _field(2, 13))
    (folder / "model.onnx").write_bytes(model)
    tokenizer = Tokenizer(models.WordLevel({w: i for i, w in enumerate(["[PAD]", "[UNK]", *words])}, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    if labels is not None:
        (folder / "config.json").write_text(json.dumps({"id2label": dict(enumerate(labels))}))
    return folder
