"""Bad shards: what is skipped from which step on, what stands in for it, and how ranks agree.

Belongs here: the skip set and its place in a checkpoint, the deterministic substitute, the bound on how much may be
skipped, agreement through a shared folder. Does not belong here: finding out that a shard is bad (``files.py``).

A skip holds for every rank from one step on. The samples that met the bad bytes before that step are *holes*: each is
replaced by itself. Skips and holes together make the stream a pure function again, so it can be read once more, bit for
bit, from a checkpoint that carries them.
"""

import json
import os
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from gristmill.errors import CheckpointError, ShardError
from gristmill.loader.sampler import Sampler

I64 = npt.NDArray[np.int64]
NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, order=True)
class Skip:
    """A shard (content hash) that nobody reads from ``from_step`` on."""

    shard: str
    from_step: int
    reason: str


@dataclass(frozen=True, order=True)
class Hole:
    """One sample that met a bad shard before its skip held."""

    step: int
    position: int
    shard: str


class SkipSet:
    """Skips and holes; a shard is skipped once, by the first entry that names it."""

    def __init__(self, skips: Iterable[Skip] = (), holes: Iterable[Hole] = ()) -> None:
        self._skips: dict[str, Skip] = {}
        self._holes: dict[tuple[int, int], set[str]] = {}
        for skip in skips:
            self.add(skip)
        for hole in holes:
            self.add_hole(hole)

    def __bool__(self) -> bool:
        return bool(self._skips or self._holes)

    def add(self, skip: Skip) -> None:
        """Take an entry in. Raises ShardError when it contradicts the one that is known."""
        if self.lacks(skip):
            self._skips[skip.shard] = skip

    def lacks(self, skip: Skip) -> bool:
        """Whether an entry is new. Raises ShardError when it contradicts the one that is known."""
        known = self._skips.get(skip.shard)
        if known is None:
            return True
        if known.from_step != skip.from_step:
            raise ShardError(f"shard {skip.shard} is skipped from step {known.from_step} here and from "
                             f"{skip.from_step} elsewhere: ranks must hold one skip set")
        return False

    def add_hole(self, hole: Hole) -> None:
        """Take a hole in."""
        self._holes.setdefault((hole.step, hole.position), set()).add(hole.shard)

    @property
    def skips(self) -> list[Skip]:
        """Entries, sorted."""
        return sorted(self._skips.values())

    @property
    def holes(self) -> list[Hole]:
        """Holes, sorted."""
        return sorted(Hole(s, p, shard) for (s, p), shards in self._holes.items() for shard in shards)

    def holes_at(self, step: int, position: int) -> set[str]:
        """Shards that this one sample cannot be read from."""
        return self._holes.get((step, position), set())

    @property
    def has_holes(self) -> bool:
        """Whether there is any hole."""
        return bool(self._holes)

    def state(self) -> list[dict[str, Any]]:
        """For a checkpoint: plain JSON."""
        return [asdict(skip) for skip in self.skips] + [asdict(hole) for hole in self.holes]

    @classmethod
    def from_state(cls, state: Any) -> "SkipSet":
        """The reverse of ``state``. Raises CheckpointError."""
        result = cls()
        try:
            for entry in state:
                if "from_step" in entry:
                    result.add(Skip(str(entry["shard"]), int(entry["from_step"]), str(entry["reason"])))
                else:
                    result.add_hole(Hole(int(entry["step"]), int(entry["position"]), str(entry["shard"])))
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"the checkpoint's skip set is damaged: {error!r}") from error
        return result


class Substitutes:
    """What a skip set means for one manifest.

    Args:
        sampler: of the run.
        hashes: content hash of every shard, by its number over all sources.
        most: the greatest share of what is drawn that may be replaced.
    """

    def __init__(self, sampler: Sampler, hashes: Callable[[int], str], numbers: Callable[[str], list[int]],
                 most: Fraction) -> None:
        self._sampler, self._hash, self._numbers, self._most = sampler, hashes, numbers, most
        self._from = np.full(sampler.shards, NEVER, np.int64)
        self._rings: dict[int, tuple[I64, I64]] = {}
        self._first = np.array([*sampler.first_shard, sampler.shards], np.int64)

    def use(self, skips: SkipSet) -> None:
        """Hold by ``skips`` from now on.

        Raises:
            ShardError: when an entry's shard is not the manifest's, or too much is skipped.
        """
        self._from[:] = NEVER
        for skip in skips.skips:
            numbers = self._numbers(skip.shard)
            if not numbers:
                raise ShardError(f"the skip set names shard {skip.shard}, which this manifest does not have")
            self._from[numbers] = skip.from_step
        self._check_share(skips)

    def _check_share(self, skips: SkipSet) -> None:
        gone = np.flatnonzero(self._from != NEVER)
        if not len(gone):
            return
        sources = np.searchsorted(self._first, gone, side="right") - 1
        schedule = self._sampler.schedule
        for segment in schedule.segments:
            if segment.first_step + segment.steps <= int(self._from[gone].min()):
                continue
            share = Fraction(0)
            for s in np.unique(sources).tolist():
                size = schedule.sequences[segment.layout][s]
                if segment.weights[s] and size:
                    rows = gone[sources == s] - self._first[s]
                    skipped = int(self._sampler.sizes(segment.layout, s)[rows].sum())
                    share += segment.weights[s] * Fraction(skipped, size)
            if share > self._most:
                first = skips.skips[0]
                raise ShardError(
                    f"{len(gone)} skipped shards hold {float(share):.3%} of what phase {segment.name} draws, more than "
                    f"{float(self._most):.3%}: mend the shards (`gristmill manifest verify VERSION --deep` says what "
                    "brings them back), re-fetch them, or build a manifest without them. One of them: "
                    f"{first.shard} from step {first.from_step}, {first.reason}")

    def apply(self, skips: SkipSet, layout: str, step: int, positions: I64, shards: I64, sequences: I64
              ) -> tuple[I64, I64, npt.NDArray[np.bool_]]:
        """Replace what must not be read: (shards, sequences, which rows were replaced)."""
        if not skips:
            return shards, sequences, np.zeros(len(shards), np.bool_)
        replaced = self._from[shards] <= step
        if skips.has_holes:
            for i, position in enumerate(positions.tolist()):
                if skips.holes_at(step, position):
                    replaced[i] = True
        if not replaced.any():
            return shards, sequences, replaced
        shards, sequences = shards.copy(), sequences.copy()
        for i in np.flatnonzero(replaced).tolist():
            bad = skips.holes_at(step, int(positions[i]))
            if self._from[shards[i]] <= step or self._hash(int(shards[i])) in bad:
                shards[i], sequences[i] = self._successor(layout, step, int(shards[i]), int(sequences[i]), bad)
            else:
                replaced[i] = False
        return shards, sequences, replaced

    def _successor(self, layout: str, step: int, shard: int, sequence: int, bad: set[str]) -> tuple[int, int]:
        """The next good shard in the source's keyed ring, and the sequence of it that stands in."""
        source = int(np.searchsorted(self._first, shard, side="right")) - 1
        if source not in self._rings:
            ring = self._sampler.ring(source)
            place = np.empty_like(ring)
            place[ring] = np.arange(len(ring))
            self._rings[source] = ring, place
        ring, place = self._rings[source]
        sizes = self._sampler.sizes(layout, source)
        first = int(self._first[source])
        at = int(place[shard - first])
        for ahead in range(1, len(ring)):
            row = int(ring[(at + ahead) % len(ring)])
            if sizes[row] and self._from[first + row] > step and self._hash(first + row) not in bad:
                return first + row, sequence % int(sizes[row])
        raise ShardError(f"source {self._sampler.schedule.sources[source]} has no readable shard left at step {step}")


class Agreement(Protocol):
    """How ranks come to hold one skip set."""

    def propose(self, shard: str, reason: str, step: int) -> None:
        """A rank that is about to show ``step`` found a shard bad."""

    def hole(self, hole: Hole) -> None:
        """... and this sample of that step met it."""

    def known(self) -> tuple[list[Skip], list[Hole]]:
        """What has been agreed so far; asked before every step."""


class SkipFolder:
    """Agreement through a folder that all ranks see (a shared file system).

    The first rank to propose a shard creates its file, which nobody can create a second time and nobody changes: it
    says from which step the skip holds, ``margin`` steps ahead, so that every rank has read the folder before that step
    comes. Ranks that train in lockstep are at most one step (and what they read ahead) apart.
    """

    def __init__(self, folder: str | Path, margin: int = 16) -> None:
        self._folder = Path(folder)
        self._margin = margin
        self._skips: list[Skip] = []
        self._holes: list[Hole] = []
        self._seen: set[str] = set()

    def propose(self, shard: str, reason: str, step: int) -> None:
        """Create the shard's file, unless another rank has."""
        self._create(f"{shard}.skip", asdict(Skip(shard, step + self._margin, reason)))

    def hole(self, hole: Hole) -> None:
        """Create the hole's file."""
        self._create(f"{hole.shard}.{hole.step}.{hole.position}.hole", asdict(hole))

    def known(self) -> tuple[list[Skip], list[Hole]]:
        """All files, in the order of their names; only new ones are opened."""
        try:
            names = sorted(os.listdir(self._folder))
        except FileNotFoundError:
            return [], []
        except OSError as error:
            raise ShardError(f"ranks cannot agree through {self._folder}: {error.strerror}") from error
        for name in names:
            if name in self._seen or not name.endswith((".skip", ".hole")):
                continue
            try:
                entry = json.loads((self._folder / name).read_bytes())
                if name.endswith(".skip"):
                    self._skips.append(Skip(str(entry["shard"]), int(entry["from_step"]), str(entry["reason"])))
                else:
                    self._holes.append(Hole(int(entry["step"]), int(entry["position"]), str(entry["shard"])))
            except (OSError, KeyError, TypeError, ValueError) as error:
                raise ShardError(f"{self._folder / name} is not a file that ranks agree by: {error!r}") from error
            self._seen.add(name)
        return self._skips, self._holes

    def _create(self, name: str, entry: dict[str, Any]) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(prefix=".tmp-", dir=self._folder)
            try:
                with os.fdopen(handle, "w") as file:
                    json.dump(entry, file)
                os.link(temporary, self._folder / name)  # whole from the moment it exists, and never replaced
            except FileExistsError:
                return
            finally:
                os.unlink(temporary)
        except OSError as error:
            raise ShardError(
                f"ranks cannot agree on {entry} through {self._folder}: {error.strerror}; it must be a folder that all "
                "of them can write to, on a file system with hard links"
            ) from error


class Callback:
    """Agreement by the trainer's own means: ``ask(shard, reason, step)`` returns the step from which the skip holds.

    The trainer sees to it that every other rank calls ``TokenLoader.skip`` with the same answer before that step.
    """

    def __init__(self, ask: Callable[[str, str, int], int]) -> None:
        self._ask = ask
        self._skips: dict[str, Skip] = {}

    def propose(self, shard: str, reason: str, step: int) -> None:
        """Ask, once a shard."""
        if shard not in self._skips:
            self._skips[shard] = Skip(shard, int(self._ask(shard, reason, step)), reason)

    def hole(self, hole: Hole) -> None:
        """Nothing: the hole is in this rank's own set."""

    def known(self) -> tuple[list[Skip], list[Hole]]:
        """What was answered."""
        return list(self._skips.values()), []


class Alone(Callback):
    """A single rank agrees with itself: the skip holds from the next step on."""

    def __init__(self) -> None:
        super().__init__(lambda shard, reason, step: step + 1)
