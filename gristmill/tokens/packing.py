"""How the selected documents of one shard become sequences of a fixed length.

Belongs here: the three packing modes, as a count (for the manifest) and as a plan (for the reader). Does not belong
here: reading tokens, or the order in which sequences are shown (``loader/``).

- ``concat``: documents end to end, cut every ``seq_len`` tokens; the shard's tail shorter than that is not read.
- ``related``: the same, over documents in the order the manifest's selection gives (``related_order``), so that one
  long sequence holds documents of one repository or topic.
- ``best_fit``: documents whole wherever they fit (best-fit decreasing, Ding et al. 2024, "Fewer Truncations Improve
  Language Modeling"); a document longer than ``seq_len`` gives full pieces and a remainder. Packed in windows of
  consecutive documents, so that one sequence reads a few neighbouring blocks of its shard and not all of it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gristmill.errors import RecipeError

MODES = ("concat", "best_fit", "related")
# A best-fit sequence's documents lie within a window of this many tokens (4 MiB of its shard), or of this many
# sequences where those are more. Measured padding on web-like lengths: 0.2 % at 2k tokens, 0.3 % at 32k, 0.5 % at 128k;
# 128 sequences would give 0.8 % there, 1,024 would spread a 32k sequence over a whole shard.
WINDOW_TOKENS = 1 << 20
WINDOW_SEQUENCES = 256

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Bins:
    """A best-fit plan: sequence ``j`` is pieces ``ptr[j]:ptr[j + 1]``.

    Attributes:
        ptr: int64 [sequences + 1].
        doc: int64 [pieces], index into the lengths that were packed.
        start: int64 [pieces], first token inside that document.
        length: int64 [pieces], tokens.
    """

    ptr: I64
    doc: I64
    start: I64
    length: I64


def layout(seq_len: int, mode: str) -> str:
    """The name of a layout, as it stands in manifests: ``concat:2048``."""
    if mode not in MODES:
        raise RecipeError(f"packing {mode!r} is not one of {', '.join(MODES)}")
    if seq_len < 1:
        raise RecipeError(f"seq_len must be at least 1, not {seq_len}")
    return f"{mode}:{seq_len}"


def parse_layout(name: str) -> tuple[str, int]:
    """(mode, seq_len) of a layout's name. Raises RecipeError."""
    mode, _, length = name.partition(":")
    if mode not in MODES or not length.isdigit() or int(length) < 1:
        raise RecipeError(f"{name!r} is not a layout such as concat:2048")
    return mode, int(length)


def count(lengths: npt.NDArray[Any], seq_len: int, mode: str) -> int:
    """Sequences that documents of these ``lengths`` (tokens [d], in reading order) give.

    Raises:
        RecipeError: for an unknown mode or a length under 1.
    """
    layout(seq_len, mode)
    values = np.asarray(lengths).astype(np.int64)
    if mode != "best_fit":
        return int(values.sum()) // seq_len
    return len(best_fit(values, seq_len).ptr) - 1


def pieces(lengths: npt.NDArray[Any], seq_len: int, mode: str, sequence: int) -> list[tuple[int, int, int]]:
    """What one sequence is made of: (index of the document, its first token there, tokens), in reading order.

    Padding at the end of a best-fit sequence is no piece. Raises IndexError where there is no such sequence.
    """
    values = np.asarray(lengths).astype(np.int64)
    if mode == "best_fit":
        bins = best_fit(values, seq_len)
        own = slice(int(bins.ptr[sequence]), int(bins.ptr[sequence + 1]))
        return list(zip(bins.doc[own].tolist(), bins.start[own].tolist(), bins.length[own].tolist(), strict=True))
    ends = np.concatenate([[0], np.cumsum(values)])
    at, stop = sequence * seq_len, (sequence + 1) * seq_len
    if stop > ends[-1]:
        raise IndexError(f"documents of {int(ends[-1])} tokens give no sequence {sequence} of {seq_len}")
    first, last = int(np.searchsorted(ends, at, side="right")) - 1, int(np.searchsorted(ends, stop, side="left"))
    begin, end = np.maximum(ends[first:last], at), np.minimum(ends[first + 1 : last + 1], stop)
    found = zip(range(first, last), (begin - ends[first:last]).tolist(), (end - begin).tolist(), strict=True)
    return [(d, start, n) for d, start, n in found if n > 0]


def best_fit(lengths: npt.NDArray[Any], seq_len: int) -> Bins:
    """Pack documents of these ``lengths`` (tokens [d], in reading order) whole wherever they fit.

    Every token is in exactly one piece; no sequence holds more than ``seq_len``.
    """
    from gristmill.tokens.best_fit import place_all  # loads Numba: only who packs so waits for it

    window = max(WINDOW_TOKENS, WINDOW_SEQUENCES * seq_len)
    values = np.ascontiguousarray(lengths, np.int64)
    bins, bin_of, doc, start, length = place_all(values, seq_len, window)
    order = np.argsort(bin_of, kind="stable")
    ptr = np.zeros(bins + 1, np.int64)
    np.cumsum(np.bincount(bin_of, minlength=bins), out=ptr[1:])
    return Bins(ptr, doc[order], start[order], length[order])


def best_fit_reference(lengths: list[int], seq_len: int) -> list[list[tuple[int, int, int]]]:
    """The plain definition of ``best_fit``: sequences as lists of (document, start, length)."""
    window = max(WINDOW_TOKENS, WINDOW_SEQUENCES * seq_len)
    sequences: list[list[tuple[int, int, int]]] = []
    first = 0
    while first < len(lengths):
        last, tokens = first, 0
        while last < len(lengths) and tokens < window:
            tokens += lengths[last]
            last += 1
        rest = []
        for d in range(first, last):
            full = lengths[d] // seq_len
            sequences += [[(d, k * seq_len, seq_len)] for k in range(full)]
            rest.append((lengths[d] - full * seq_len, d))
        opened: list[int] = []  # of this window, in the order they were last added to
        for need, d in sorted(rest, key=lambda pair: -pair[0]):
            if need == 0:
                break
            left = {b: seq_len - sum(p[2] for p in sequences[b]) for b in opened}
            fitting = [b for b in opened if left[b] >= need]
            if fitting:
                tightest = min(left[b] for b in fitting)
                target = [b for b in fitting if left[b] == tightest][-1]
                opened.remove(target)
            else:
                target = len(sequences)
                sequences.append([])
            sequences[target].append((d, lengths[d] - need, need))
            opened.append(target)
        first = last
    return sequences


def related_order(container: npt.NDArray[Any], sketch: npt.NDArray[Any] | None = None) -> I64:
    """The reading order of ``related``: containers (repositories, hosts, works) together, similar documents adjoining.

    Args:
        container: uint64 [d], what each document lives in.
        sketch: uint32 [d, k] MinHash values, where there are any. Inside a container documents go by them, first
            value first: two documents agree in a value with the probability of their Jaccard similarity, so sorting
            puts similar ones side by side (the idea of Shi et al. 2023, "In-Context Pretraining", without the graph).

    Returns:
        int64 [d], ordinals in reading order; documents that nothing tells apart keep their order.
    """
    keys: list[npt.NDArray[Any]] = [np.asarray(container)]
    if sketch is not None:
        keys += [sketch[:, i] for i in range(sketch.shape[1])]
    return np.lexsort(tuple(reversed(keys))).astype(np.int64)
