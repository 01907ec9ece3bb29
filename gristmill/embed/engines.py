"""What runs a transformer: onnxruntime on an ``.onnx`` file, or torch on a sentence-transformers folder.

Belongs here: finding the pinned files, choosing the device, token ids in and normalised sentence vectors (or a model's
own logits) out. Does not belong here: batches and their order (``embedding.py``). onnxruntime, torch and
sentence-transformers are imported when a model is opened, never before; the extra ``embed`` brings them.
"""

import importlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from gristmill.errors import ModelError, ParameterError
from gristmill.models import resolve
from gristmill.params import EmbedderParams, ModelRef

Device = Literal["cpu", "gpu", "auto"]
Run = Callable[[np.ndarray, np.ndarray], np.ndarray]
# On a CPU larger batches only leave the cache: one core ran 3,800 tokens/s at 512 and 2,200 at 8,192 (int8, MiniLM).
DEVICE_VARIABLE = "GRISTMILL_DEVICE"
BATCH_TOKENS = {"cpu": 512, "gpu": 32_768}
LEAST = 1e-12  # a norm below this is no direction


@dataclass(frozen=True)
class Engine:
    """An open model.

    Attributes:
        tokenizer: of the library ``tokenizers``; cuts at ``max_tokens`` and pads nothing.
        run: int64 ids and mask [rows, tokens] to float32 [rows, dim], each row of length 1; of ``open_logits`` the
            model's first output as it is.
        device: ``cpu`` or ``gpu``, as chosen.
        pad_id: what fills a row.
        batch_tokens: of a batch, padding included.
    """

    tokenizer: Any
    run: Run
    device: str
    pad_id: int
    batch_tokens: int


@lru_cache(maxsize=4)
def open_engine(params: EmbedderParams, cache_dir: str, device: Device = "cpu", threads: int = 1) -> Engine:
    """Open a model once a process.

    Args:
        params: the pinned model and tokenizer.
        cache_dir: the model cache of the site (``gristmill/models.py``).
        device: ``auto`` takes the GPU where the engine sees one.
        threads: of the model; more change the order of sums, and so the last bits.

    Raises:
        ModelError: a pinned file is missing, or the engine that it needs is not installed.
        ParameterError: ``gpu`` is asked for and there is none.
    """
    path = resolve(params.model, cache_dir)
    if path.is_dir():
        run, chosen = _sentence_transformers(path, device, threads)
    else:
        run, chosen = _onnx(path, params, device, threads)
    tokenizer, pad_id = _tokenizer(params, path, cache_dir)
    return Engine(tokenizer, run, chosen, pad_id, BATCH_TOKENS[chosen])


@lru_cache(maxsize=4)
def open_logits(model: ModelRef, cache_dir: str, max_tokens: int, overlap: int | None = None, device: Device = "cpu",
                threads: int = 1) -> tuple[Engine, Path]:
    """Open a folder of a transformers classifier once a process: ``model.onnx`` and ``tokenizer.json``.

    Args:
        model: the pinned folder.
        cache_dir: the model cache of the site.
        max_tokens: of one row, special tokens included.
        overlap: tokens that a window of a longer text shares with the one before; None: only the first window counts.
        device, threads: as for ``open_engine``.

    Returns:
        The engine, and the folder, whose ``config.json`` names the labels.

    Raises:
        ModelError: the folder lacks a file, or the engine is not installed.
        ParameterError: ``gpu`` is asked for and there is none.
    """
    folder = resolve(model, cache_dir)
    found = sorted(folder.glob("*.onnx")) or sorted(folder.glob("onnx/*.onnx"))
    if len(found) != 1 or not (folder / "tokenizer.json").is_file():
        raise ModelError(f"{folder} must hold one .onnx file (it holds {len(found)}) and a tokenizer.json")
    run, chosen = _session(found[0], model.name, device, threads)
    tokenizer, pad_id = _open_tokenizer(folder / "tokenizer.json", max_tokens, overlap or 0)
    return Engine(tokenizer, run, chosen, pad_id, BATCH_TOKENS[chosen]), folder


def labels(folder: Path) -> list[str]:
    """Names of a classifier's outputs, in order, as its ``config.json`` says; none without that file.

    Raises:
        ModelError: the file is not a transformers configuration.
    """
    file = folder / "config.json"
    if not file.is_file():
        return []
    try:
        named = {int(k): str(v) for k, v in json.loads(file.read_text(encoding="utf-8")).get("id2label", {}).items()}
    except (ValueError, AttributeError) as error:
        raise ModelError(f"{file} is not a transformers configuration: {error}") from error
    if sorted(named) != list(range(len(named))):
        raise ModelError(f"{file}: id2label must number the labels from 0")
    return [named[i] for i in range(len(named))]


def chosen_device() -> Device:
    """The device that the environment variable ``GRISTMILL_DEVICE`` names (cpu, gpu or auto); auto when it is not set.

    It is no parameter, since it means the same; but a GPU rounds otherwise than a CPU, so one crawl should stay on one.

    Raises:
        ParameterError: it names something else.
    """
    named = os.environ.get(DEVICE_VARIABLE, "auto")
    if named not in get_args(Device):
        raise ParameterError(f"{DEVICE_VARIABLE} is {named!r}: cpu, gpu or auto")
    found: Device = named  # type: ignore[assignment]
    return found


def torch_device(torch: Any, device: Device) -> str:
    """What torch calls a device: ``cuda`` or ``cpu``.

    Raises:
        ParameterError: ``gpu`` is asked for and torch sees none.
    """
    if device == "gpu" and not torch.cuda.is_available():
        raise ParameterError("torch sees no GPU: install its CUDA build, or choose the device cpu")
    return "cuda" if device != "cpu" and torch.cuda.is_available() else "cpu"


def require(module: str, why: str) -> Any:
    """Import an optional module, or say what to install for what.

    Raises:
        ModelError: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ModelError(f"{why} needs {module}, which is not installed: pip install '.[embed]' in the repository's "
                         "folder") from error


def _tokenizer(params: EmbedderParams, path: Path, cache_dir: str) -> tuple[Any, int]:
    if params.tokenizer is not None:
        file = resolve(params.tokenizer, cache_dir)
    elif (path / "tokenizer.json").is_file():
        file = path / "tokenizer.json"
    else:
        raise ModelError(f"{path} holds no tokenizer.json: pin one as `tokenizer`")
    return _open_tokenizer(file, params.max_tokens)


def _open_tokenizer(file: Path, max_tokens: int, overlap: int = 0) -> tuple[Any, int]:
    """The tokenizer, cutting at ``max_tokens`` and padding nothing; and what its rows are to be padded with."""
    tokenizers = require("tokenizers", "a transformer")
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises no other class
        raise ModelError(f"{file} is no tokenizer of the library tokenizers: {error}") from error
    pad_id = (tokenizer.padding or {}).get("pad_id", 0)
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens, stride=overlap)
    return tokenizer, int(pad_id)


def _onnx(path: Path, params: EmbedderParams, device: Device, threads: int) -> tuple[Run, str]:
    raw, chosen = _session(path, params.model.name, device, threads)

    def run(ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        out = raw(ids, mask)
        if out.ndim not in (2, 3):
            raise ModelError(f"{params.model.name} gives {list(out.shape)}: an encoder gives vectors of rows or tokens")
        return normalised(pooled(out, mask, params.pooling) if out.ndim == 3 else out)

    return run, chosen


def _session(path: Path, name: str, device: Device, threads: int) -> tuple[Run, str]:
    """The first output of an ``.onnx`` file for ids and mask, and the device it runs on."""
    ort = require("onnxruntime", f"the model {name}")
    has_gpu = "CUDAExecutionProvider" in ort.get_available_providers()
    if device == "gpu" and not has_gpu:
        raise ParameterError("onnxruntime sees no GPU: install onnxruntime-gpu instead, or choose the device cpu")
    gpu = has_gpu and device != "cpu"
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    providers = ["CUDAExecutionProvider", "CPUExecutionProvider"] if gpu else ["CPUExecutionProvider"]
    try:
        session = ort.InferenceSession(str(path), options, providers=providers)
    except Exception as error:  # onnxruntime's errors share no base of their own
        raise ModelError(f"{path} is no model that onnxruntime opens: {error}") from error
    names = {i.name for i in session.get_inputs()}
    output = session.get_outputs()[0].name

    def run(ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        try:
            found: np.ndarray = session.run([output], {k: v for k, v in feeds.items() if k in names})[0]
        except Exception as error:
            raise ModelError(f"the model {name} takes {', '.join(sorted(names))} and does not run on token ids and "
                             f"their mask: {error}") from error
        return found

    return run, "gpu" if gpu else "cpu"


def _sentence_transformers(path: Path, device: Device, threads: int) -> tuple[Run, str]:
    library = require("sentence_transformers", f"the model folder {path.name}")
    torch = require("torch", f"the model folder {path.name}")
    where = torch_device(torch, device)
    gpu = where == "cuda"
    if not gpu:
        torch.set_num_threads(threads)
    importlib.import_module("transformers.utils.logging").disable_progress_bar()
    try:
        model = library.SentenceTransformer(str(path), device=where, local_files_only=True).eval()
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise ModelError(f"{path} is no folder of sentence-transformers: {error}") from error
    if gpu:  # half the memory traffic; sums are kept in float32 by the hardware
        model = model.bfloat16()

    def run(ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            out = model({
                "input_ids": torch.from_numpy(ids).to(where), "attention_mask": torch.from_numpy(mask).to(where)
            })["sentence_embedding"]
        return normalised(out.float().cpu().numpy())

    return run, "gpu" if gpu else "cpu"


def pooled(out: np.ndarray, mask: np.ndarray, pooling: str) -> np.ndarray:
    """One vector a row: the first token's, or the mean over the tokens of the mask. float32 [rows, dim]."""
    if pooling == "cls":
        return np.ascontiguousarray(out[:, 0])
    weights = mask.astype(np.float32)
    found: np.ndarray = np.einsum("btd,bt->bd", out, weights) / np.maximum(weights.sum(axis=1, keepdims=True), 1)
    return found


def normalised(vectors: np.ndarray) -> np.ndarray:
    """Rows of length 1, as float32; a row without a direction stays zero."""
    vectors = vectors.astype(np.float32)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    found: np.ndarray = np.where(norms > LEAST, vectors / np.maximum(norms, LEAST), np.float32(0))
    return found
