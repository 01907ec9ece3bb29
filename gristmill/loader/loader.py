"""The loader: a plain iterator of batches, whose whole state is one integer, its pins and the skip set.

Belongs here: putting sampler, reader, skips and audit together for one rank; checkpoints; the tokenizer check. Does not
belong here: torch (``torch.py``), which sample is which (``sampler.py``).
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from operator import index
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gristmill.errors import CheckpointError, ManifestError, ShardError
from gristmill.loader.audit import Audit
from gristmill.loader.manifest import Manifest, open_manifest
from gristmill.loader.reader import CACHE_BYTES, DamagedShardError, Reader
from gristmill.loader.skips import Agreement, Alone, Callback, Hole, Skip, SkipSet, Substitutes
from gristmill.mixture.schedule import exact

I64 = npt.NDArray[np.int64]

FORMAT = 1
FIRST_ROWS = 64  # samples drawn ahead at a start, doubled from there on, so that the first batch comes at once
ROWS_AHEAD = 8192


class TokenLoader:
    """Batches of tokens for one rank, step after step.

    Iterating hands out step ``step``, then the next, to the end of the run; breaking off and iterating again goes on
    where it stopped. A batch is a dict:

    - ``step``: int; ``positions``: int64 [n], this rank's places in the step; ``sources``: int64 [n], indices into
      ``source_names``; ``epochs``: int64 [n]; ``replaced``: bool [n], samples that stand in for a skipped shard;
    - ``tokens``: [n, seq_len] of ``dtype``;
    - ``cu_seqlens``: int32 [pieces + 1], where documents (and padding) begin in the flattened tokens; a sequence always
      begins a piece, so it serves variable-length attention as it is; ``max_seqlen``: int;
    - ``padded``: bool [pieces], pieces that only fill a best-fit sequence;
    - with ``provenance``: ``shards`` (list of n content hashes), ``ordinals`` int64 [pieces] (row in the shard's
      ``.docs``, -1 for padding) and ``doc_ids`` uint8 [pieces, 16].

    A step of B samples over W ranks gives rank k the positions k, k + W, ...; where W does not divide B the first ranks
    have one more.

    Args:
        root: the store, a folder or ``s3://bucket/prefix``.
        manifest: a version, or the path of a ``manifest.json``.
        rank, world: this reader and how many there are. Neither is part of the state.
        step: where to begin.
        dtype: of tokens: int64, int32 or uint32.
        provenance: say where every piece comes from (reads ``.docs``).
        padding: token that fills best-fit sequences; the tokenizer's EOS, or 0, when not given.
        cache_dir: folder for blocks of remote shards; they are kept in memory when not given.
        cache_bytes: how much of them.
        prefetch: steps of remote blocks that are fetched ahead.
        agree: how ranks agree on skips: a ``SkipFolder``, or a function (shard, reason, step) -> from_step. Without it
            a bad shard stops a world of several ranks.
        max_skipped: share of what is drawn that may be replaced before the loader stops.
        tokenizer: the trainer's tokenizer as a function from text to ids without BOS and EOS; its behaviour is compared
            with the manifest's.
        expected_hash: of the manifest.
        options: for S3, see ``places.open_place``.

    Raises:
        ManifestError: when the manifest is missing or wrong, or the tokenizer behaves differently.
        RecipeError: when its phases cannot be scheduled.
    """

    def __init__(
        self,
        root: str | Path,
        manifest: str | Path | Manifest,
        *,
        rank: int = 0,
        world: int = 1,
        step: int = 0,
        dtype: Any = np.int64,
        provenance: bool = False,
        padding: int | None = None,
        cache_dir: str | None = None,
        cache_bytes: int = CACHE_BYTES,
        prefetch: int = 4,
        agree: Agreement | Callable[[str, str, int], int] | None = None,
        max_skipped: str = "0.001",
        tokenizer: Callable[[str], Sequence[int]] | None = None,
        expected_hash: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        if not 0 <= rank < world:
            raise ValueError(f"rank {rank} is not one of {world}")
        self._arguments = {
            "root": str(root), "manifest": manifest if not isinstance(manifest, Manifest) else manifest.path,
            "rank": rank, "world": world, "dtype": dtype, "provenance": provenance, "padding": padding,
            "cache_dir": cache_dir, "cache_bytes": cache_bytes, "prefetch": prefetch, "agree": agree,
            "max_skipped": max_skipped, "expected_hash": expected_hash, "options": options,
        }
        self.manifest = manifest if isinstance(manifest, Manifest) else open_manifest(
            root, manifest, expected_hash=expected_hash, options=options)
        if tokenizer is not None:
            check_tokenizer(tokenizer, self.manifest.tokenizer)
        self.rank, self.world = rank, world
        self.schedule = self.manifest.schedule
        self.sampler = self.manifest.sampler
        self.source_names = list(self.schedule.sources)
        self._dtype = np.dtype(dtype)
        if self._dtype not in (np.dtype(np.int64), np.dtype(np.int32), np.dtype(np.uint32)):
            raise ValueError(f"tokens come as int64, int32 or uint32, not {self._dtype}")
        self._provenance = provenance
        eos = self.manifest.tokenizer.get("eos_id")
        self._padding = int(padding if padding is not None else eos if eos is not None else 0)
        self._prefetch = prefetch
        self._agree: Agreement | None = _agreement(agree, world)
        self._reader = Reader(self.manifest, cache_dir=cache_dir, cache_bytes=cache_bytes)
        self._numbers: dict[str, list[int]] | None = None
        self._substitutes = Substitutes(self.sampler, self._reader.name_of, self._shards_named,
                                        exact(max_skipped, "max_skipped"))
        self._doc_ids: dict[int, npt.NDArray[np.uint8]] = {}
        self._begin(step, SkipSet())

    def _begin(self, step: int, skips: SkipSet) -> None:
        if not 0 <= step <= self.schedule.steps:
            raise CheckpointError(f"step {step} is outside the run's {self.schedule.steps} steps")
        self._substitutes.use(skips)
        self.step = step
        self.skips = skips
        self.audit = Audit(self.schedule, step)
        self._ahead: _Ahead | None = None
        self._rows = FIRST_ROWS
        self._requested = step

    # Iterating.

    @property
    def steps(self) -> int:
        """Steps of the whole run."""
        return self.schedule.steps

    def __len__(self) -> int:
        return self.schedule.steps

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self

    def __next__(self) -> dict[str, Any]:
        if self.step >= self.schedule.steps:
            raise StopIteration
        self.learn()
        step = self.step
        self._fetch_ahead(step)
        batch = self._read(step, mend=True)
        # Only now: whatever interrupts the reading leaves the loader where it was.
        self.audit.add(batch)
        self.step = step + 1
        return batch

    def batch(self, step: int) -> dict[str, Any]:
        """The batch of any step, as this rank would be (or was) shown it; leaves the loader where it is.

        Raises:
            ShardError: for a damaged shard; only iterating agrees on skipping one.
        """
        return self._read(step, mend=False)

    def _read(self, step: int, mend: bool) -> dict[str, Any]:
        positions, sources, epochs, drawn, sequences = self._drawn(step)
        layout = self.schedule.segments[self.schedule.segment_of(step)].layout
        while True:
            shards, chosen, replaced = self._substitutes.apply(self.skips, layout, step, positions, drawn, sequences)
            try:
                rows = self._reader.read(layout, shards, chosen, self._dtype, self._padding)
                break
            except DamagedShardError as error:
                if not mend:
                    raise DamagedShardError(error.shard, f"{error}: {self._how_to_mend()}") from error
                self._met(error, step, positions[shards == error.shard])
        ends = np.zeros(len(rows.length) + 1, np.int32)
        np.cumsum(rows.length, out=ends[1:])
        batch: dict[str, Any] = {
            "step": step, "positions": positions, "sources": sources, "epochs": epochs, "replaced": replaced,
            "tokens": rows.tokens,
            "cu_seqlens": ends, "max_seqlen": int(rows.length.max(initial=0)), "padded": rows.document < 0,
        }
        if self._provenance:
            batch.update(self._origins(layout, shards, rows.row, rows.document))
        return batch

    def _drawn(self, step: int) -> tuple[I64, I64, I64, I64, I64]:
        """(positions, sources, epochs, shards, sequences) of this rank in a step, before skips."""
        if self._ahead is None or not self._ahead.first <= step < self._ahead.stop:
            if self._ahead is not None and step == self._ahead.stop:
                self._rows = min(2 * self._rows, max(ROWS_AHEAD, 256 * len(self.source_names)))
            self._ahead = _Ahead(self, step, self._rows)
        return self._ahead.at(step)

    def _fetch_ahead(self, step: int) -> None:
        if not self._reader.remote:
            return
        self._drawn(step)
        last = min(step + self._prefetch, self.schedule.steps - 1)
        for later in range(max(self._requested, step), last + 1):
            if self._ahead is None or not self._ahead.first <= later < self._ahead.stop:
                return
            positions, _, _, drawn, sequences = self._ahead.at(later)
            layout = self.schedule.segments[self.schedule.segment_of(later)].layout
            try:
                shards, chosen, _ = self._substitutes.apply(self.skips, layout, later, positions, drawn, sequences)
            except ShardError:
                return  # met again, and raised, when that step comes
            self._reader.prefetch(layout, shards, chosen)
            self._requested = later + 1

    def _origins(self, layout: str, shards: I64, row: I64, document: I64) -> dict[str, Any]:
        ordinals = np.full(len(row), -1, np.int64)
        doc_ids = np.zeros((len(row), 16), np.uint8)
        for i, flat in enumerate(shards.tolist()):
            mine = np.flatnonzero((row == i) & (document >= 0))
            ordinals[mine] = self._reader.ordinals(layout, flat, document[mine])
            doc_ids[mine] = self._ids_of(flat)[ordinals[mine]]
        return {"shards": [self._reader.name_of(f) for f in shards.tolist()], "ordinals": ordinals, "doc_ids": doc_ids}

    def _ids_of(self, flat: int) -> npt.NDArray[np.uint8]:
        if flat not in self._doc_ids:
            column = self._reader.documents(flat, ["doc_id"]).column(0).combine_chunks()
            values = np.frombuffer(column.buffers()[1], np.uint8)
            if len(self._doc_ids) >= 256:
                self._doc_ids.pop(next(iter(self._doc_ids)))
            self._doc_ids[flat] = values[column.offset * 16 : (column.offset + len(column)) * 16].reshape(-1, 16)
        return self._doc_ids[flat]

    # Bad shards.

    def skip(self, shard: str, from_step: int, reason: str) -> None:
        """Skip a shard from a step that has not been shown yet; every rank must be told the same.

        Raises:
            ShardError: when the step has been shown, the shard is not in the manifest, or too much would be skipped.
        """
        self._take([Skip(shard, from_step, reason)], [])

    def learn(self) -> None:
        """Take in what ranks have agreed on since; done before every step."""
        if self._agree is not None:
            skips, holes = self._agree.known()
            if skips or holes:
                self._take(skips, holes)

    def _take(self, skips: Collection[Skip], holes: Collection[Hole]) -> None:
        fresh = [skip for skip in skips if self.skips.lacks(skip)]
        for skip in fresh:
            if skip.from_step < self.step:
                raise ShardError(
                    f"shard {skip.shard} is skipped from step {skip.from_step}, and this rank has shown step "
                    f"{self.step - 1} without knowing: agree further ahead (a larger margin), and go back to a "
                    "checkpoint before that step")
        for hole in holes:
            self.skips.add_hole(hole)
        if fresh:
            wider = SkipSet([*self.skips.skips, *fresh], self.skips.holes)
            try:
                self._substitutes.use(wider)
            except ShardError:
                self._substitutes.use(self.skips)
                raise
            self.skips = wider

    def agree_with_others(self) -> None:
        """Be one of several readers of a run: from here on only a ``SkipFolder`` can agree to skip a bad shard.

        For worker processes, which cannot tell each other what one of them found.
        """
        if isinstance(self._agree, Alone | Callback):
            self._agree = None

    def _how_to_mend(self) -> str:
        return f"`gristmill manifest verify {self.manifest.version} --deep` says what brings it back"

    def _met(self, error: DamagedShardError, step: int, positions: I64) -> None:
        """Agree to skip a shard that could not be read, and replace it in the samples that met it."""
        if self._agree is None:
            raise ShardError(f"{error} (rank {self.rank}, step {step}): {self._how_to_mend()}. Or give the loader a "
                             "way for its ranks to agree on skipping it (agree=)") from error
        shard = self._reader.name_of(error.shard)
        self._agree.propose(shard, str(error), step)
        for position in positions.tolist():
            hole = Hole(step, position, shard)
            self.skips.add_hole(hole)
            self._agree.hole(hole)
        self.learn()

    def _shards_named(self, name: str) -> list[int]:
        if self._numbers is None:
            self._numbers = {}
            for flat in range(self.sampler.shards):
                self._numbers.setdefault(self._reader.name_of(flat), []).append(flat)
        return self._numbers.get(name, [])

    # Checkpoints.

    def state_dict(self, step: int | None = None) -> dict[str, Any]:
        """The state, as plain JSON; the same on every rank that holds the same skip set.

        Args:
            step: steps that training has finished, when batches are read ahead of it; what was handed out otherwise.

        Raises:
            CheckpointError: a step outside the run, which could never be loaded.
        """
        finished = self.step if step is None else index(step)
        if not 0 <= finished <= self.schedule.steps:
            raise CheckpointError(f"step {finished} is outside the run's {self.schedule.steps} steps")
        return {
            "format": FORMAT, "global_step": finished, "pins": self.manifest.pins(),
            "skips": self.skips.state(),
        }

    def load_state_dict(self, state: Mapping[str, Any], allow: Collection[str] = ()) -> None:
        """Go on from a checkpoint, at any world size.

        Args:
            state: of ``state_dict``.
            allow: pins that may differ (``manifest, recipe, tokenizer, seed, sampler``): then the step is taken over
                and the stream goes on by this loader's manifest. With another manifest, skips of shards that it does
                not have are dropped.

        Raises:
            CheckpointError: when a pin differs that is not allowed to, or the state is not one.
        """
        try:
            if state["format"] != FORMAT:
                raise CheckpointError(f"the checkpoint has format {state['format']!r}; this release reads {FORMAT}")
            step, pins, skips = index(state["global_step"]), dict(state["pins"]), SkipSet.from_state(state["skips"])
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"this is not a loader's state: {error!r}") from error
        mine = self.manifest.pins()
        unknown = set(allow) - set(mine)
        if unknown:
            raise CheckpointError(f"allow names {sorted(unknown)}; the pins are {sorted(mine)}")
        different = [name for name in mine if pins.get(name) != mine[name] and name not in allow]
        if different:
            raise CheckpointError(
                "the checkpoint is of another run: " + "; ".join(
                    f"{name} was {pins.get(name)!r} and is {mine[name]!r}" for name in different)
                + f". Open what it was saved with, or pass allow={different} to change it from step {step} on")
        if "manifest" in allow:
            skips = SkipSet([s for s in skips.skips if self._shards_named(s.shard)])
        self._reader.close()
        self._agree = _agreement(self._arguments["agree"], self.world)
        self._begin(step, skips)

    def close(self) -> None:
        """Close files and stop fetching; the loader can go on, and opens what it needs again."""
        self._reader.close()

    def __getstate__(self) -> dict[str, Any]:
        return {"arguments": self._arguments, "step": self.step, "skips": self.skips.state()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        arguments = dict(state["arguments"])
        self.__init__(arguments.pop("root"), arguments.pop("manifest"), **arguments)  # type: ignore[misc]
        self._begin(state["step"], SkipSet.from_state(state["skips"]))


class _Ahead:
    """Samples of one rank in consecutive steps, drawn together."""

    def __init__(self, loader: TokenLoader, first: int, rows: int) -> None:
        schedule = loader.schedule
        steps, positions, offsets = [], [], [0]
        step = first
        while step < schedule.steps and (step == first or offsets[-1] < rows):
            mine = np.arange(loader.rank, loader.sampler.batch(step), loader.world, dtype=np.int64)
            steps.append(np.full(len(mine), step, np.int64))
            positions.append(mine)
            offsets.append(offsets[-1] + len(mine))
            step += 1
            if step - first >= rows:  # a rank beyond the batch has nothing to draw
                break
        self.first, self.stop = first, step
        self._offsets = offsets
        self._positions = np.concatenate(positions)
        self._samples = loader.sampler.locate_many(np.concatenate(steps), self._positions)

    def at(self, step: int) -> tuple[I64, I64, I64, I64, I64]:
        """(positions, sources, epochs, shards, sequences) of a step."""
        rows = slice(self._offsets[step - self.first], self._offsets[step - self.first + 1])
        s = self._samples
        return self._positions[rows], s.source[rows], s.epoch[rows], s.shard[rows], s.sequence[rows]


def _agreement(agree: Agreement | Callable[[str, str, int], int] | None, world: int) -> Agreement | None:
    if agree is None:
        return Alone() if world == 1 else None
    return Callback(agree) if callable(agree) else agree


def check_tokenizer(encode: Callable[[str], Sequence[int]], pinned: Mapping[str, Any]) -> None:
    """Compare a tokenizer's behaviour with the manifest's: the same file has been seen to load with another.

    Args:
        encode: text to ids, without BOS and EOS.
        pinned: the manifest's ``tokenizer``.

    Raises:
        ManifestError: naming the first probe that comes out differently.
    """
    for text, ids in pinned["behaviour"]["probes"]:
        got = [int(i) for i in encode(text)]
        if got != [int(i) for i in ids]:
            raise ManifestError(
                f"the tokenizer turns {text!r} into {got[:20]}, and tokenizer {pinned['name']} of this manifest gave "
                f"{list(ids)[:20]}: another library version may load the same file differently; use the one that "
                "tokenised")
