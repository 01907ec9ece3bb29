"""Embeddings of texts: tokenised ahead of the model, in batches of like length, back in the order that was asked for.

Belongs here: windows, batches, and what was wasted on padding. Does not belong here: the model (``engines.py``), nor
what embeddings are used for.

A window of texts is tokenised in parallel by a thread while the model runs the window before. Inside a window texts
are ordered by length (then by their tokens, so that the order of the input decides nothing there) and cut into batches
of at most the engine's ``batch_tokens``, padding included. What shares a batch moves the last bits of a vector; so the
same texts in the same order give the same vectors, on one kind of machine.
"""

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gristmill.embed.engines import Device, Engine, open_engine
from gristmill.params import EmbedderParams

WINDOW = 4096  # texts that are tokenised ahead
BATCH_ROWS = 256


@dataclass
class EmbedStats:
    """What a call did."""

    texts: int = 0
    tokens: int = 0  # without padding
    padded: int = 0  # tokens that the model ran
    truncated: int = 0  # texts that were longer than ``max_tokens``
    batches: int = 0
    device: str = "cpu"
    tokenise_s: float = 0.0  # of the thread, while the model ran
    model_s: float = 0.0

    @property
    def padding_waste(self) -> float:
        """Share of what the model ran that was padding."""
        return 1 - self.tokens / self.padded if self.padded else 0.0

    def facts(self) -> dict[str, int | float | str]:
        """What a report may show: everything but times, which are not the same twice."""
        out = {k: v for k, v in asdict(self).items() if not k.endswith("_s")}
        return {**out, "padding_waste": round(self.padding_waste, 4)}


def embed(texts: Sequence[str] | pa.Array | pa.ChunkedArray, model: EmbedderParams, device: Device = "cpu", *,
          cache_dir: str | Path, threads: int = 1, window: int = WINDOW) -> tuple[np.ndarray, EmbedStats]:
    """Embed texts.

    Args:
        texts: strings; an Arrow array is read window by window.
        model: pinned model; opened once a process.
        device: ``cpu``, ``gpu``, or ``auto`` for the GPU where there is one.
        cache_dir: the site's model cache.
        threads: of the model on a CPU.
        window: texts tokenised together.

    Returns:
        float32 [texts, dim] in the order of the texts, each row of length 1; and the stats.

    Raises:
        ModelError: the model, or what runs it, is not on this machine.
        ParameterError: a GPU is asked for and there is none.
    """
    engine = open_engine(model, str(cache_dir), device, threads)
    return rows(texts, engine, model.prefix, window)


def rows(texts: Sequence[str] | pa.Array | pa.ChunkedArray, engine: Engine, prefix: str = "",
         window: int = WINDOW) -> tuple[np.ndarray, EmbedStats]:
    """One row a text of whatever the engine gives: a vector, or a classifier's logits.

    Args:
        texts: strings; an Arrow array is read window by window.
        engine: an open model with one row a text.
        prefix: before every text.
        window: texts tokenised together.

    Returns:
        float32 [texts, width] in the order of the texts, and the stats.
    """
    stats = EmbedStats(texts=len(texts), device=engine.device)
    out: np.ndarray | None = None
    for start, found in ahead(texts, engine, prefix, window, stats):
        ids = [f.ids for f in found]
        began = time.perf_counter()
        for batch in batches(ids, engine.batch_tokens):
            values = engine.run(*padded([ids[r] for r in batch], engine.pad_id))
            if out is None:
                out = np.empty((len(texts), values.shape[1]), np.float32)
            out[start + np.array(batch)] = values
            stats.batches += 1
            stats.padded += len(batch) * len(ids[batch[-1]])
        stats.tokens += sum(map(len, ids))
        stats.model_s += time.perf_counter() - began
    if out is None:  # no text: the model still says how wide a row is
        probe = engine.tokenizer.encode("a").ids
        out = np.zeros((0, engine.run(*padded([probe], engine.pad_id)).shape[1]), np.float32)
    return out, stats


def ahead(texts: Sequence[str] | pa.Array | pa.ChunkedArray, engine: Engine, prefix: str, window: int,
          stats: EmbedStats) -> Iterator[tuple[int, list[Any]]]:
    """Encodings (of the library ``tokenizers``) of each window, the next one being made while this one is used."""
    lock = threading.Lock()  # one window at a time: the library itself spreads a batch over the cores

    def tokenise(start: int) -> list[Any]:
        piece = texts[start : start + window]
        strings = piece.to_pylist() if isinstance(piece, pa.Array | pa.ChunkedArray) else list(piece)
        with lock:
            began = time.perf_counter()
            found: list[Any] = engine.tokenizer.encode_batch([prefix + (s or "") for s in strings])
            stats.truncated += sum(bool(f.overflowing) for f in found)
            stats.tokenise_s += time.perf_counter() - began
            return found

    starts = range(0, len(texts), window)
    with ThreadPoolExecutor(1) as thread:
        waiting = [thread.submit(tokenise, starts[0])] if starts else []
        for i, start in enumerate(starts):
            if i + 1 < len(starts):
                waiting.append(thread.submit(tokenise, starts[i + 1]))
            yield start, waiting.pop(0).result()


def batches(ids: Sequence[Sequence[int]], most: int) -> list[list[int]]:
    """Rows of each batch, shortest first; the last row of a batch is its longest.

    Args:
        ids: tokens of each row.
        most: tokens of a batch, padding included; a longer row is a batch by itself.
    """
    order = sorted(range(len(ids)), key=lambda r: (len(ids[r]), ids[r], r))
    edges = [0]
    for at, row in enumerate(order):
        n = at - edges[-1] + 1
        if n > 1 and (n > BATCH_ROWS or n * len(ids[row]) > most):
            edges.append(at)
    return [order[a:b] for a, b in pairwise([*edges, len(order)])] if order else []


def padded(tokens: Sequence[Sequence[int]], pad_id: int) -> tuple[np.ndarray, np.ndarray]:
    """int64 ids and mask [rows, longest]."""
    width = max(1, *map(len, tokens))
    ids = np.full((len(tokens), width), pad_id, np.int64)
    mask = np.zeros((len(tokens), width), np.int64)
    for r, row in enumerate(tokens):
        ids[r, : len(row)] = row
        mask[r, : len(row)] = 1
    return ids, mask
