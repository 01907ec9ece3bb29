"""Reading sequences: (shard, sequence) rows to a batch of tokens, opening shards as they are needed.

Belongs here: which shards are open, their plans (how selected documents become sequences), the bounds on both,
prefetch. Does not belong here: which sequences come (``sampler.py``), blocks and checksums (``files.py``), substitution
of bad shards (``loader.py``).
"""

import os
import resource
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gristmill.errors import ManifestError, ShardError, StoreError
from gristmill.loader import gather
from gristmill.loader.files import ShardFile
from gristmill.loader.manifest import Manifest
from gristmill.tokens import packing
from gristmill.tokens.shard import BLOCK_LOG2, TOKEN_BYTES

I64 = npt.NDArray[np.int64]

PLAN_BYTES = 256 << 20  # plans of open shards, about 0.5 MB for a shard of 30,000 selected documents
OPEN_SHARDS = 4096  # or as many as the process may have files of: an open shard has two
CACHE_BYTES = 4 << 30
THREADS = 8
_LOG2_TOKENS = BLOCK_LOG2 - TOKEN_BYTES.bit_length() + 1


class DamagedShardError(ShardError):
    """A shard cannot be read; ``shard`` is its number over all sources."""

    def __init__(self, shard: int, message: str) -> None:
        super().__init__(message)
        self.shard = shard


@dataclass(frozen=True)
class Rows:
    """A batch as it was read.

    Attributes:
        tokens: [rows, seq_len] of the type asked for.
        row, document, start, length: int64 [pieces], in reading order: a piece is ``length`` tokens of one document,
            from token ``start`` of its shard; ``document`` is the index among the shard's selected documents, or
            ``gather.PADDING``.
    """

    tokens: npt.NDArray[Any]
    row: I64
    document: I64
    start: I64
    length: I64


@dataclass
class _Plan:
    """An open shard in one layout. Holds the arrays whose addresses stand in the reader's table."""

    file: ShardFile
    ordinals: I64 | None
    ends: I64
    starts: I64
    bins: packing.Bins | None
    slot: int

    @property
    def bytes(self) -> int:
        """What the plan takes beside the mapped index."""
        arrays = [] if self.ordinals is None else [self.ordinals, self.ends, self.starts]
        if self.bins is not None:
            arrays += [self.bins.ptr, self.bins.doc, self.bins.start, self.bins.length]
        return sum(a.nbytes for a in arrays)


class Reader:
    """Opens shards of a manifest and reads sequences of them.

    Args:
        manifest: whose shards.
        cache_dir: where blocks of remote shards are kept; None keeps them in memory.
        cache_bytes: how much of them, about; whole shards are dropped, least recently used first.
        threads: that fetch ahead.
    """

    def __init__(
        self,
        manifest: Manifest,
        *,
        cache_dir: str | None = None,
        cache_bytes: int = CACHE_BYTES,
        threads: int = THREADS,
    ) -> None:
        self.manifest = manifest
        self._cache_dir, self._cache_bytes, self._threads = cache_dir, cache_bytes, threads
        self._room = _room_for_files() // 4
        self.remote = manifest.place.local("") is None
        self._start()

    def _start(self) -> None:
        """Nothing open; also what a forked child begins with, since threads and clients do not survive a fork."""
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._files: dict[int, ShardFile] = {}
        self._plans: dict[tuple[str, int], _Plan] = {}
        self._slots: dict[str, I64] = {}
        self._table = np.zeros((10, 64), np.int64)  # by slot; rows as in ``_COLUMNS``
        self._used = np.zeros(64, np.int64)
        self._keys: list[tuple[str, int] | None] = [None] * 64
        self._free = list(range(63, -1, -1))
        self._tick = 0
        self._plan_bytes = 0
        self._pieces: I64 = np.empty((4, 4096), np.int64)  # scratch: row, document, start, length
        self._pool: ThreadPoolExecutor | None = None

    def close(self) -> None:
        """Stop fetching and drop what is open."""
        if self._pool is not None and self._pid == os.getpid():
            self._pool.shutdown(wait=False, cancel_futures=True)
        self._start()

    def shard_of(self, flat: int) -> tuple[str, int]:
        """(source, row among its shards) of a shard's number over all sources."""
        return self.manifest.shard_of(flat)

    def name_of(self, flat: int) -> str:
        """Content hash (hex) of a shard."""
        source, row = self.shard_of(flat)
        return self.manifest.sources[source].hash(row)

    def read(self, layout: str, shards: I64, sequences: I64, dtype: Any = np.int64, padding: int = 0) -> Rows:
        """One batch.

        Args:
            layout: of all rows.
            shards: int64 [rows], numbers over all sources.
            sequences: int64 [rows], each less than its shard's sequences in that layout.
            dtype: of the tokens: int64, int32 or uint32.
            padding: token that fills sequences which are not full (``best_fit`` only).

        Raises:
            DamagedShardError: for the first shard that is missing, or whose bytes are not what the manifest names.
        """
        if self._pid != os.getpid():
            self._start()
        mode, seq_len = packing.parse_layout(layout)
        slots = self._open_all(layout, shards)
        n = self._cut(mode, seq_len, slots, sequences)
        row, document, start, length = self._pieces[:, :n].copy()
        self._ensure(shards, slots, row, document, start, length)
        tokens = np.empty((len(shards), seq_len), dtype)
        gather.copy_pieces(slots, self._table[0], self._table[1], row, document, start, length,
                           tokens.dtype.type(padding), tokens.reshape(-1))
        return Rows(tokens, row, document, start, length)

    def prefetch(self, layout: str, shards: I64, sequences: I64) -> None:
        """Begin fetching what these rows need; does nothing for local shards. Errors show when the rows are read."""
        if not self.remote:
            return
        if self._pid != os.getpid():
            self._start()
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="gristmill-prefetch")
        for flat, sequence in zip(shards.tolist(), sequences.tolist(), strict=True):
            self._pool.submit(self._fetch_one, self._pid, layout, flat, sequence)

    def ordinals(self, layout: str, flat: int, documents: I64) -> I64:
        """Ordinals (rows of ``.docs``) of selected documents of an open shard."""
        chosen = self._plan(layout, flat).ordinals
        return documents if chosen is None else chosen[documents]

    def documents(self, flat: int, columns: Sequence[str]) -> Any:
        """Columns of a shard's ``.docs``, as an Arrow table."""
        try:
            return self.manifest.documents(flat, columns)
        except FileNotFoundError as error:
            source, row = self.shard_of(flat)
            path = f"{self.manifest.sources[source].path(row)}.docs"
            raise DamagedShardError(flat, f"{self.manifest.place.root}/{path} is missing") from error

    @property
    def fetched_bytes(self) -> int:
        """Bytes of remote shards that are kept at the moment."""
        return sum(f.kept for f in list(self._files.values()))

    # Opening and dropping.

    def _open_all(self, layout: str, shards: I64) -> I64:
        self._tick += 1
        slot_of = self._slots.get(layout)
        if slot_of is None:
            slot_of = self._slots[layout] = np.full(self.manifest.sampler.shards, -1, np.int64)
        slots = slot_of[shards]
        if int(slots.min(initial=0)) < 0:
            self._used[slots[slots >= 0]] = self._tick
            self._drop()
            for flat in np.unique(shards[slots < 0]).tolist():
                self._plan(layout, flat)
            slots = slot_of[shards]
        self._used[slots] = self._tick
        return slots

    def _file(self, flat: int) -> ShardFile:
        """The shard's file; opened outside the lock, so two threads may both open it and one of them is kept."""
        with self._lock:
            found = self._files.get(flat)
        if found is not None:
            return found
        source, row = self.shard_of(flat)
        shards = self.manifest.sources[source]
        n_docs, n_tokens = int(shards.counts[row, 0]), int(shards.counts[row, 1])
        try:
            opened = ShardFile(self.manifest.place, shards.path(row), n_docs, n_tokens, self._cache_dir)
        except ShardError as error:
            raise DamagedShardError(flat, str(error)) from error
        with self._lock:
            return self._files.setdefault(flat, opened)

    def _chosen(self, flat: int, file: ShardFile, mode: str) -> tuple[I64 | None, I64, I64]:
        """(ordinals or None for all, running tokens, first tokens) of a shard's selected documents."""
        source, row = self.shard_of(flat)
        shards = self.manifest.sources[source]
        offsets = file.index.offsets.view(np.int64)
        n_docs, _, selected_docs, selected_tokens = (int(x) for x in shards.counts[row])
        ordinals = None
        if selected_docs != n_docs or mode == "related":  # the order of a related selection is its point
            ordinals = self.manifest.selection.ordinals(source, shards.hash(row))
        if ordinals is None:
            if selected_docs != n_docs:
                raise ManifestError(f"{shards.path(row)}: {selected_docs} of {n_docs} documents are selected, and the "
                                    "selection does not say which")
            return None, offsets, offsets[:-1]
        if mode != "related":
            ordinals = np.sort(ordinals)
        if len(ordinals) and (int(ordinals.min()) < 0 or int(ordinals.max()) >= n_docs):
            raise ManifestError(f"{shards.path(row)}: the selection names a document that the shard does not have")
        starts = np.ascontiguousarray(offsets[ordinals])
        ends = np.zeros(len(ordinals) + 1, np.int64)
        np.cumsum(offsets[ordinals + 1] - starts, out=ends[1:])
        if len(ordinals) != selected_docs or int(ends[-1]) != selected_tokens:
            raise ManifestError(
                f"{shards.path(row)}: the selection holds {len(ordinals)} documents of {int(ends[-1])} tokens, the "
                f"manifest says {selected_docs} and {selected_tokens}")
        return ordinals, ends, starts

    def _plan(self, layout: str, flat: int) -> _Plan:
        plan = self._plans.get((layout, flat))
        if plan is not None:
            return plan
        if not self._free:
            self._grow()
        plan = self._make_plan(layout, flat, self._free[-1])
        self._free.pop()
        self._fill(plan)
        self._used[plan.slot] = self._tick
        self._keys[plan.slot] = (layout, flat)
        self._plans[layout, flat] = plan
        self._slots.setdefault(layout, np.full(self.manifest.sampler.shards, -1, np.int64))[flat] = plan.slot
        self._plan_bytes += plan.bytes
        return plan

    def _make_plan(self, layout: str, flat: int, slot: int) -> _Plan:
        mode, seq_len = packing.parse_layout(layout)
        file = self._file(flat)
        ordinals, ends, starts = self._chosen(flat, file, mode)
        bins = packing.best_fit(np.diff(ends), seq_len) if mode == "best_fit" else None
        source, row = self.shard_of(flat)
        shards = self.manifest.sources[source]
        wanted = int(shards.layouts[layout][row])
        found = int(ends[-1]) // seq_len if bins is None else len(bins.ptr) - 1
        if found != wanted:
            raise ManifestError(f"{shards.path(row)} gives {found} sequences of {layout}, the manifest counts {wanted}")
        if bins is not None:  # pieces are read by their place in the shard
            bins = packing.Bins(bins.ptr, bins.doc, starts[bins.doc] + bins.start, bins.length)
        return _Plan(file, ordinals, ends, starts, bins, slot)

    def _fill(self, plan: _Plan) -> None:
        """Write a plan's addresses and sizes into the table that the kernels read."""
        file = plan.file
        values = [_address(file.tokens), len(file.tokens), _address(file.ok), len(file.ok)]
        if plan.bins is None:
            values += [_address(plan.ends), _address(plan.starts), len(plan.starts)]
        else:
            bins = plan.bins
            values += [_address(bins.ptr), len(bins.ptr) - 1, _address(bins.doc), _address(bins.start),
                       _address(bins.length), len(bins.doc)]
        self._table[: len(values), plan.slot] = values

    def _grow(self) -> None:
        old = len(self._used)
        self._table = np.concatenate([self._table, np.zeros_like(self._table)], axis=1)
        self._used = np.concatenate([self._used, np.zeros_like(self._used)])
        self._keys += [None] * old
        self._free = list(range(2 * old - 1, old - 1, -1))

    def _drop(self) -> None:
        """Close least recently used shards while a bound is passed; those of the batch at hand stay."""
        most = min(OPEN_SHARDS, self._room)
        over_plans = self._plan_bytes > PLAN_BYTES or len(self._plans) > most
        kept = self.fetched_bytes
        if not over_plans and kept <= self._cache_bytes:
            return
        open_slots = [plan.slot for plan in self._plans.values()]
        for slot in sorted(open_slots, key=lambda s: int(self._used[s])):
            done = self._plan_bytes <= PLAN_BYTES and len(self._plans) <= most and kept <= self._cache_bytes
            if done or self._used[slot] == self._tick:
                return
            key = self._keys[slot]
            if key is None:
                continue
            kept -= self._close(key)

    def _close(self, key: tuple[str, int]) -> int:
        """Drop a plan, and its file when no other layout uses it; bytes of cache that frees."""
        plan = self._plans.pop(key)
        self._plan_bytes -= plan.bytes
        self._slots[key[0]][key[1]] = -1
        self._keys[plan.slot] = None
        self._free.append(plan.slot)
        if any(flat == key[1] for _, flat in self._plans):
            return 0
        with self._lock:
            self._files.pop(key[1], None)
        return plan.file.kept

    # Reading.

    def _cut(self, mode: str, seq_len: int, slots: I64, sequences: I64) -> int:
        """Fill the pieces of these rows; their number."""
        t = self._table
        while True:
            if mode == "best_fit":
                n = gather.bin_pieces(slots, sequences, seq_len, t[4], t[6], t[7], t[8], t[5], t[9], *self._pieces)
            else:
                n = gather.concat_pieces(slots, sequences, seq_len, t[4], t[5], t[6], *self._pieces)
            if n <= self._pieces.shape[1]:
                return int(n)
            self._pieces = np.empty((4, 2 * n), np.int64)

    def _ensure(self, shards: I64, slots: I64, row: I64, document: I64, start: I64, length: I64) -> None:
        t = self._table
        out = np.empty((2, 256), np.int64)
        while True:
            n = gather.missing_blocks(slots, t[2], t[3], _LOG2_TOKENS, row, document, start, length, out[0], out[1])
            if n <= out.shape[1]:
                break
            out = np.empty((2, n), np.int64)
        if not n:
            return
        wanted = np.unique(np.stack([shards[out[0, :n]], out[1, :n]]), axis=1).T.tolist()
        if self._pool is not None and len(wanted) > 1:
            for flat, block in wanted:
                self._pool.submit(self._quietly, self._pid, flat, block)
        for flat, block in wanted:
            try:
                self._file(flat).ensure(block)
            except ShardError as error:
                raise DamagedShardError(flat, str(error)) from error

    def _quietly(self, pid: int, flat: int, block: int) -> None:
        """Fetch a block on a thread; what fails is met again, and reported, by the reading thread."""
        if pid != os.getpid():
            return
        try:
            self._file(flat).ensure(block)
        except (ShardError, StoreError):
            return

    def _fetch_one(self, pid: int, layout: str, flat: int, sequence: int) -> None:
        """Fetch what one row needs, on a thread, without touching the table of open shards."""
        if pid != os.getpid():
            return
        try:
            plan = self._plans.get((layout, flat)) or self._make_plan(layout, flat, -1)
            for start, stop in _ranges(plan, packing.parse_layout(layout)[1], sequence):
                for block in range(start >> _LOG2_TOKENS, ((stop - 1) >> _LOG2_TOKENS) + 1):
                    plan.file.ensure(block)
        except (ShardError, ManifestError, StoreError):
            return


def _room_for_files() -> int:
    """Files that this process may have open. The soft limit, often 1,024, is raised as far as it may be first."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4 * OPEN_SHARDS if hard == resource.RLIM_INFINITY else min(4 * OPEN_SHARDS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):  # a system with a limit below what it says
            return soft
        return wanted
    return wanted


def _ranges(plan: _Plan, seq_len: int, sequence: int) -> list[tuple[int, int]]:
    """Token ranges of a shard that one of its sequences reads."""
    if plan.bins is not None:
        pieces = slice(int(plan.bins.ptr[sequence]), int(plan.bins.ptr[sequence + 1]))
        starts, lengths = plan.bins.start[pieces], plan.bins.length[pieces]
        return list(zip(starts.tolist(), (starts + lengths).tolist(), strict=True))
    at, stop = sequence * seq_len, (sequence + 1) * seq_len
    first = int(np.searchsorted(plan.ends, at, side="right")) - 1
    last = int(np.searchsorted(plan.ends, stop, side="left"))
    ends = plan.ends[first : last + 1]
    begins = np.maximum(ends[:-1], at)
    starts = plan.starts[first:last] + begins - ends[:-1]
    lengths = np.minimum(ends[1:], stop) - begins
    return [(a, a + n) for a, n in zip(starts.tolist(), lengths.tolist(), strict=True) if n > 0]


def _address(array: npt.NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])
