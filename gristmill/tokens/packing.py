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
from numba import njit

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


def best_fit(lengths: npt.NDArray[Any], seq_len: int) -> Bins:
    """Pack documents of these ``lengths`` (tokens [d], in reading order) whole wherever they fit.

    Every token is in exactly one piece; no sequence holds more than ``seq_len``.
    """
    window = max(WINDOW_TOKENS, WINDOW_SEQUENCES * seq_len)
    values = np.ascontiguousarray(lengths, np.int64)
    bins, bin_of, doc, start, length = _best_fit(values, seq_len, window)
    order = np.argsort(bin_of, kind="stable")
    ptr = np.zeros(bins + 1, np.int64)
    np.cumsum(np.bincount(bin_of, minlength=bins), out=ptr[1:])
    return Bins(ptr, doc[order], start[order], length[order])


@njit(cache=True, nogil=True)
def _best_fit(lengths, seq_len, window):  # type: ignore[no-untyped-def]
    """(bins, bin of each piece, and the piece's document, start, length), pieces in placing order."""
    n_pieces = 0
    for n in lengths:
        n_pieces += (n + seq_len - 1) // seq_len
    bin_of = np.empty(n_pieces, np.int64)
    doc = np.empty(n_pieces, np.int64)
    start = np.empty(n_pieces, np.int64)
    length = np.empty(n_pieces, np.int64)
    size = 1
    while size < seq_len + 1:
        size *= 2
    tree = np.zeros(2 * size, np.int32)  # tree[size + c]: open bins with c tokens left; inner nodes: their sums
    head = np.full(seq_len + 1, -1, np.int64)  # last opened bin with c tokens left; the others follow by ``below``
    below = np.empty(n_pieces, np.int64)
    bins = 0
    placed = 0
    first = 0
    while first < len(lengths):
        last = first
        tokens = 0
        while last < len(lengths) and tokens < window:
            tokens += lengths[last]
            last += 1
        rest = np.zeros(last - first, np.int64)
        for d in range(first, last):
            full = lengths[d] // seq_len
            for k in range(full):
                bin_of[placed] = bins
                doc[placed] = d
                start[placed] = k * seq_len
                length[placed] = seq_len
                placed += 1
                bins += 1
            rest[d - first] = lengths[d] - full * seq_len
        opened = bins
        for i in np.argsort(-rest, kind="mergesort"):
            need = rest[i]
            if need == 0:
                break
            left = _smallest_at_least(tree, size, need)
            if left < 0:
                target = bins
                bins += 1
                left = seq_len
            else:
                target = head[left]
                head[left] = below[target]
                _add(tree, size, left, -1)
            bin_of[placed] = target
            doc[placed] = first + i
            start[placed] = lengths[first + i] - need
            length[placed] = need
            placed += 1
            left -= need
            below[target] = head[left]
            head[left] = target
            _add(tree, size, left, 1)
        if bins > opened:
            tree[:] = 0
            head[:] = -1
        first = last
    return bins, bin_of, doc, start, length


@njit(cache=True, nogil=True)
def _add(tree, size, leaf, by):  # type: ignore[no-untyped-def]
    node = size + leaf
    while node >= 1:
        tree[node] += by
        node //= 2


@njit(cache=True, nogil=True)
def _smallest_at_least(tree, size, need):  # type: ignore[no-untyped-def]
    """The smallest capacity >= ``need`` some open bin has left, or -1."""
    node = size + need
    if tree[node] > 0:
        return need
    while node > 1:
        if node % 2 == 0 and tree[node + 1] > 0:
            node += 1
            while node < size:
                node = 2 * node if tree[2 * node] > 0 else 2 * node + 1
            return node - size
        node //= 2
    return -1


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
