"""What runs a sentence-embedding model: onnxruntime on an ``.onnx`` file, or torch on a sentence-transformers folder.

Belongs here: finding the pinned files, choosing the device, token ids in and normalised sentence vectors out. Does not
belong here: batches and their order (``embedding.py``). onnxruntime, torch and sentence-transformers are imported when
a model is opened, never before; the extra ``embed`` brings them.
"""

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from gristmill.errors import ModelError, ParameterError
from gristmill.models import resolve
from gristmill.params import EmbedderParams

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
        run: int64 ids and mask [rows, tokens] to float32 [rows, dim], each row of length 1.
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
        raise ModelError(f"{why} needs {module}, which is not installed: pip install 'gristmill[embed]'") from error


def _tokenizer(params: EmbedderParams, path: Path, cache_dir: str) -> tuple[Any, int]:
    tokenizers = require("tokenizers", "a sentence-embedding model")
    if params.tokenizer is not None:
        file = resolve(params.tokenizer, cache_dir)
    elif (path / "tokenizer.json").is_file():
        file = path / "tokenizer.json"
    else:
        raise ModelError(f"{path} holds no tokenizer.json: pin one as `tokenizer`")
    tokenizer = tokenizers.Tokenizer.from_file(str(file))
    pad_id = (tokenizer.padding or {}).get("pad_id", 0)
    tokenizer.no_padding()
    tokenizer.enable_truncation(params.max_tokens)
    return tokenizer, int(pad_id)


def _onnx(path: Path, params: EmbedderParams, device: Device, threads: int) -> tuple[Run, str]:
    ort = require("onnxruntime", f"the model {params.model.name}")
    has_gpu = "CUDAExecutionProvider" in ort.get_available_providers()
    if device == "gpu" and not has_gpu:
        raise ParameterError("onnxruntime sees no GPU: install onnxruntime-gpu instead, or choose the device cpu")
    gpu = has_gpu and device != "cpu"
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = ort.InferenceSession(
        str(path), options, providers=["CUDAExecutionProvider", "CPUExecutionProvider"] if gpu else
        ["CPUExecutionProvider"],
    )
    names = {i.name for i in session.get_inputs()}
    output = session.get_outputs()[0].name

    def run(ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        out = session.run([output], {k: v for k, v in feeds.items() if k in names})[0]
        return normalised(pooled(out, mask, params.pooling) if out.ndim == 3 else out)

    return run, "gpu" if gpu else "cpu"


def _sentence_transformers(path: Path, device: Device, threads: int) -> tuple[Run, str]:
    library = require("sentence_transformers", f"the model folder {path.name}")
    torch = require("torch", f"the model folder {path.name}")
    where = torch_device(torch, device)
    gpu = where == "cuda"
    if not gpu:
        torch.set_num_threads(threads)
    importlib.import_module("transformers.utils.logging").disable_progress_bar()
    model = library.SentenceTransformer(str(path), device=where, local_files_only=True).eval()
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
