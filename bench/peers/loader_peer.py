"""Read sequences with another loader; run in the environment ``loader`` by ``bench/loader.py``.

    loader_peer.py litdata|megatron|mosaic FOLDER SEQ_LEN

FOLDER holds ``tokens.u32`` and ``offsets.i64`` (documents end to end). The tool's own format is written first, and not
timed; then its reader is opened (``first_s``: to the first sample, its index included) and read sample by sample in
shuffled order, once to warm up and then in windows of which the best counts. Time is the process's CPU time, its
own threads included: other work on the machine does not count.
"""

import itertools
import json
import os
import shutil
import sys
import time
from pathlib import Path

import numpy as np

WINDOW = 4096


def corpus(folder: Path):
    tokens = np.fromfile(folder / "tokens.u32", "<u4")
    offsets = np.fromfile(folder / "offsets.i64", "<i8")
    return tokens, offsets


def rate(open_stream, epochs: int = 3) -> dict:
    """``open_stream()`` gives an iterator over one epoch of samples."""
    start = time.perf_counter()
    stream = open_stream()
    next(stream)
    first = time.perf_counter() - start
    seen = 1 + sum(1 for _ in stream)  # warm: pages, caches
    best = wall = 0.0
    for _ in range(epochs):
        stream = open_stream()
        next(stream)
        left = seen - 1
        while left >= WINDOW:
            began, start = time.perf_counter(), time.process_time()
            for _ in range(WINDOW):
                next(stream)
            best = max(best, WINDOW / (time.process_time() - start))
            wall = max(wall, WINDOW / (time.perf_counter() - began))
            left -= WINDOW
        for _ in stream:
            pass
    return {"samples_per_s": best, "wall_per_s": wall, "samples": seen, "first_s": first}


def _documents(folder_and_range):
    import torch

    folder, first, last = folder_and_range
    tokens, offsets = corpus(Path(folder))
    for d in range(first, last):
        yield torch.from_numpy(tokens[offsets[d] : offsets[d + 1]].astype(np.int64))


def litdata(folder: Path, seq_len: int) -> dict:
    from litdata import StreamingDataset, TokensLoader, optimize

    out = folder / "litdata"
    shutil.rmtree(out, ignore_errors=True)
    n = len(corpus(folder)[1]) - 1
    optimize(fn=_documents, inputs=[(str(folder), 0, n)], output_dir=str(out), num_workers=1, chunk_bytes="64MB",
             item_loader=TokensLoader(block_size=seq_len))
    data = StreamingDataset(str(out), item_loader=TokensLoader(block_size=seq_len), shuffle=True, drop_last=False)
    return rate(lambda: iter(data))


class _Tokenizer:
    """What GPTDataset asks of a tokenizer."""

    eod = 0
    pad = 0
    vocab_size = 1 << 20
    unique_identifiers = {"name": "bench"}  # noqa: RUF012


def megatron(folder: Path, seq_len: int) -> dict:
    import torch
    from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
    from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
    from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder

    out = folder / "megatron"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    tokens, offsets = corpus(folder)
    builder = IndexedDatasetBuilder(f"{out}/data.bin", dtype=np.int32)
    for a, b in itertools.pairwise(offsets):
        builder.add_document(torch.from_numpy(tokens[a:b].astype(np.int32)), [int(b - a)])
    builder.finalize(f"{out}/data.idx")
    config = GPTDatasetConfig(
        random_seed=1, sequence_length=seq_len, blend=([f"{out}/data"], None), split="1,0,0", tokenizer=_Tokenizer(),
        reset_position_ids=False, reset_attention_mask=False, eod_mask_loss=False, create_attention_mask=False,
        path_to_cache=f"{out}/cache")
    samples = len(tokens) // seq_len

    def stream():
        data = BlendedMegatronDatasetBuilder(GPTDataset, [samples, 0, 0], lambda: True, config).build()[0]
        return (data[i] for i in range(min(samples, len(data))))

    return rate(stream)


def mosaic(folder: Path, seq_len: int) -> dict:
    sys.path.insert(0, str(Path(__file__).parent))
    import no_torchvision  # noqa: F401
    from streaming import MDSWriter, StreamingDataset
    from streaming.base.util import clean_stale_shared_memory

    clean_stale_shared_memory()
    out = folder / "mosaic"
    shutil.rmtree(out, ignore_errors=True)
    tokens, _ = corpus(folder)
    samples = len(tokens) // seq_len
    with MDSWriter(out=str(out), columns={"tokens": f"ndarray:int32:{seq_len}"}, size_limit="64mb") as writer:
        for row in tokens[: samples * seq_len].astype(np.int32).reshape(samples, seq_len):
            writer.write({"tokens": row})
    data = StreamingDataset(local=str(out), shuffle=True, batch_size=64)
    return rate(lambda: iter(data))


if __name__ == "__main__":
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    tool = {"litdata": litdata, "megatron": megatron, "mosaic": mosaic}[sys.argv[1]]
    print(json.dumps(tool(Path(sys.argv[2]), int(sys.argv[3]))), flush=True)
    os._exit(0)  # some of them leave threads that wait
