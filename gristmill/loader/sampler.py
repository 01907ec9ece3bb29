"""The sampler: (step, position) -> (source, shard, sequence), as a pure function.

Belongs here: the definition in plain Python (``Sampler.locate``), the same for many samples at once by kernels
(``Sampler.locate_many``, which loads ``kernels.py``: who asks for one sample never waits for Numba), and its inverse.
Does not belong here: which segments there are (``mixture/schedule.py``), the skip set (``skips.py``), or reading tokens
(``reader.py``).

Integers only, no state but tables of O(shards). Changing anything here that moves a sample means a new VERSION, and
checkpoints of another version are refused.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import xxhash

from gristmill.errors import ManifestError
from gristmill.loader.corput import WORD
from gristmill.loader.permute import MASK, key, permute, permute_many, unpermute
from gristmill.mixture.schedule import Schedule

VERSION = 1
GROUP = 32  # shards of a source that are open at a time; a shard is a random sample of its stratum already

# What a key is for; part of every key, so that no two uses share one.
_SLOT, _SHARDS, _SEQUENCE = 1, 2, 3

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Located:
    """One sample."""

    step: int
    position: int
    segment: int
    source: int
    rank: int  # how many sequences of its source and layout come before it in the run
    epoch: int
    shard: int  # index into the source's shards
    sequence: int  # index into the shard's sequences


@dataclass(frozen=True)
class Samples:
    """Many samples: int64 arrays of equal length; fields as in ``Located``, ``shard`` counted over all sources."""

    segment: I64
    source: I64
    epoch: I64
    shard: I64
    sequence: I64


class Sampler:
    """Which sequence every sample of a run is.

    Args:
        schedule: segments of the run.
        counts: {layout: {source: sequences of each shard}}, shards in the manifest's order.

    Raises:
        ManifestError: when the counts do not add up to the schedule's epochs.
    """

    def __init__(self, schedule: Schedule, counts: Mapping[str, Mapping[str, Sequence[int] | I64]]) -> None:
        self.schedule = schedule
        self.layouts = sorted(schedule.sequences)
        self.seed = schedule.seed & MASK
        self._names = [xxhash.xxh3_64_intdigest(name.encode()) for name in schedule.sources]
        self._layout_names = [xxhash.xxh3_64_intdigest(name.encode()) for name in self.layouts]
        self._tables: dict[tuple[int, int], _Table] = {}
        first = 0
        self.first_shard: list[int] = []  # of each source, in a numbering over all sources
        for s, source in enumerate(schedule.sources):
            self.first_shard.append(first)
            shards = 0
            for number, layout in enumerate(self.layouts):
                given = counts[layout].get(source, ())
                sizes = np.ascontiguousarray(given, np.int64)
                if int(sizes.sum()) != schedule.sequences[layout][s]:
                    raise ManifestError(f"source {source}, layout {layout}: shards hold {int(sizes.sum())} sequences, "
                                        f"the schedule was cut for {schedule.sequences[layout][s]}")
                base = key(self.seed, _SHARDS, self._layout_names[number], self._names[s])
                draw = key(self.seed, _SEQUENCE, self._layout_names[number], self._names[s])
                self._tables[number, s] = _Table(sizes, base, draw)
                shards = len(sizes)
            first += shards
        self.shards = first
        self._compile()

    def _compile(self) -> None:
        segments = self.schedule.segments
        split = [[divmod(g.batch * cut, WORD) for cut in g.cuts] for g in segments]
        self._first_step = np.array([g.first_step for g in segments], np.int64)
        self._batch = np.array([g.batch for g in segments], np.int64)
        self._layout = np.array([self.layouts.index(g.layout) for g in segments], np.int64)
        self._whole = np.array([[q for q, _ in row] for row in split], np.uint64)
        self._part = np.array([[f for _, f in row] for row in split], np.uint64)
        self._base = np.array([g.base for g in segments], np.uint64)
        self._epoch_size = np.array([self.schedule.sequences[name] for name in self.layouts], np.uint64)
        self._slot_key = np.uint64(key(self.seed, _SLOT))

    # The definition, sample by sample.

    def locate(self, step: int, position: int) -> Located:
        """The sample at ``position`` of ``step``, by the definition; plain Python, for explaining and for tests.

        Raises:
            IndexError: when the run has no such step, or the step no such position.
        """
        number = self.schedule.segment_of(step)
        segment = self.schedule.segments[number]
        if not 0 <= position < segment.batch:
            raise IndexError(f"step {step} has {segment.batch} positions, not {position}")
        b = step - segment.first_step
        slot = permute(position, segment.batch, key(self.seed, _SLOT, step))
        under = [segment.under(cut, b) for cut in segment.cuts]
        source = max(s for s in range(len(self.schedule.sources)) if under[s] <= slot)
        rank = segment.base[source] + segment.taken(source, b) + slot - under[source]
        size = self.schedule.sequences[segment.layout][source]
        epoch, p = divmod(rank, size)
        shard, sequence = self._tables[self.layouts.index(segment.layout), source].locate(epoch, p)
        return Located(step, position, number, source, rank, epoch, shard, sequence)

    def batch(self, step: int) -> int:
        """Samples of a step."""
        return self.schedule.segments[self.schedule.segment_of(step)].batch

    # The same for many samples.

    def locate_many(self, steps: I64, positions: I64) -> Samples:
        """Samples at (``steps[i]``, ``positions[i]``), int64 arrays; positions must be under their step's batch."""
        from gristmill.loader.kernels import draw

        n = len(steps)
        segment, source = np.empty(n, np.int64), np.empty(n, np.int64)
        epoch, p = np.empty(n, np.int64), np.empty(n, np.int64)
        if n and (int(steps.min()) < 0 or int(steps.max()) >= self.schedule.steps):
            raise IndexError(f"steps {int(steps.min())} to {int(steps.max())}: the run has {self.schedule.steps}")
        bad = draw(steps, positions, self._first_step, self._batch, self._layout, self._whole, self._part, self._base,
                   self._epoch_size, self._slot_key, segment, source, epoch, p)
        if bad >= 0:
            raise IndexError(f"step {steps[bad]} has no position {positions[bad]}")
        shard, sequence = np.empty(n, np.int64), np.empty(n, np.int64)
        layout = self._layout[segment]
        group = layout * len(self.schedule.sources) + source
        order = np.argsort(group, kind="stable")
        edges = np.flatnonzero(np.diff(group[order], prepend=-1, append=-1))
        for start, end in itertools.pairwise(edges):
            rows = order[start:end]
            number, s = divmod(int(group[rows[0]]), len(self.schedule.sources))
            self._tables[number, s].locate_many(epoch, p, rows, self.first_shard[s], shard, sequence)
        return Samples(segment, source, epoch, shard, sequence)

    # The way back.

    def occurrences(
        self, source: int, shard: int, sequence: int, layout: str, until: int | None = None
    ) -> list[Located]:
        """Every sample that shows a sequence (before step ``until``), in order: the inverse of ``locate``."""
        number = self.layouts.index(layout)
        table = self._tables[number, source]
        size = self.schedule.sequences[layout][source]
        end = self.schedule.steps if until is None else min(until, self.schedule.steps)
        found: list[Located] = []
        for index, segment in enumerate(self.schedule.segments):
            if segment.layout != layout or segment.first_step >= end:
                continue
            base = segment.base[source]
            top = base + segment.taken(source, min(segment.steps, end - segment.first_step))
            for epoch in range(base // size, -(-top // size)):
                rank = epoch * size + table.position_of(epoch, shard, sequence)
                if base <= rank < top:
                    found.append(self._sample_of(index, source, rank, epoch, shard, sequence))
        return found

    def _sample_of(self, index: int, source: int, rank: int, epoch: int, shard: int, sequence: int) -> Located:
        """The sample of a segment in which ``source`` gives its sequence number ``rank``."""
        segment = self.schedule.segments[index]
        nth = rank - segment.base[source]
        low, high = 0, segment.steps - 1  # the last step before which at most ``nth`` were taken
        while low < high:
            middle = (low + high + 1) // 2
            if segment.taken(source, middle) <= nth:
                low = middle
            else:
                high = middle - 1
        slot = segment.under(segment.cuts[source], low) + nth - segment.taken(source, low)
        step = segment.first_step + low
        position = unpermute(slot, segment.batch, key(self.seed, _SLOT, step))
        return Located(step, position, index, source, rank, epoch, shard, sequence)

    def ring(self, source: int) -> I64:
        """A keyed order of a source's shards that no epoch changes: a skipped shard's successor is the next in it."""
        shards = len(self._tables[0, source].sizes)
        return permute_many(shards, key(self.seed, _SHARDS, self._names[source], MASK))

    def sizes(self, layout: str, source: int) -> I64:
        """Sequences of each shard of a source."""
        return self._tables[self.layouts.index(layout), source].sizes


class _Table:
    """One source in one layout: sequences of its shards, and prefix sums in the order of the epoch at hand.

    Up to GROUP shards are one group, so their order says nothing and the table serves every epoch.
    """

    def __init__(self, sizes: I64, shards_key: int, sequence_key: int) -> None:
        self.sizes = sizes
        self._shards_key, self._sequence_key = shards_key, sequence_key
        self._epoch = -1
        self._fixed = len(sizes) <= GROUP
        self._order = np.arange(len(sizes), dtype=np.int64)
        self._sums = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(sizes, out=self._sums[1:])

    def _of(self, epoch: int, *, once: bool = False) -> tuple[I64, I64]:
        """(shards in the epoch's order, prefix sums); ``once``: without loading a kernel for it."""
        if not self._fixed and epoch != self._epoch:
            k = key(self._shards_key, epoch)
            if once:
                order = permute_many(len(self.sizes), k)
            else:
                from gristmill.loader.kernels import permute_all

                order = permute_all(len(self.sizes), np.uint64(k))
            sums = np.zeros(len(order) + 1, np.int64)
            np.cumsum(self.sizes[order], out=sums[1:])
            self._order, self._sums, self._epoch = order, sums, epoch
        return self._order, self._sums

    def locate(self, epoch: int, p: int) -> tuple[int, int]:
        """(shard, sequence) of the epoch's ``p``-th sequence: the definition."""
        order, sums = self._of(epoch, once=True)
        place = int(np.searchsorted(sums, p, side="right")) - 1
        first = place // GROUP * GROUP
        start, end = int(sums[first]), int(sums[min(first + GROUP, len(order))])
        drawn = start + permute(p - start, end - start, key(self._sequence_key, epoch, first))
        place = int(np.searchsorted(sums, drawn, side="right")) - 1
        return int(order[place]), drawn - int(sums[place])

    def position_of(self, epoch: int, shard: int, sequence: int) -> int:
        """The ``p`` of ``locate``."""
        order, sums = self._of(epoch, once=True)
        place = int(np.flatnonzero(order == shard)[0])
        first = place // GROUP * GROUP
        start, end = int(sums[first]), int(sums[min(first + GROUP, len(order))])
        drawn = int(sums[place]) + sequence
        return start + unpermute(drawn - start, end - start, key(self._sequence_key, epoch, first))

    def locate_many(self, epoch: I64, p: I64, rows: I64, first_shard: int, shard: I64, sequence: I64) -> None:
        """Fill ``shard`` (plus ``first_shard``) and ``sequence`` at ``rows``."""
        # An epoch's table serves all its samples; a batch holds one epoch of a large source, or two at a border.
        from gristmill.loader.kernels import place

        draw = np.uint64(self._sequence_key)
        for at in [-1] if self._fixed else np.unique(epoch[rows]):
            order, sums = self._of(int(at))
            place(epoch, p, rows, at, draw, order, sums, first_shard, shard, sequence)
