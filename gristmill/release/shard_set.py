"""Very many shards at once: the distinct ones of a version, sets of names, sizes of files; in columns or by folder.

Belongs here: what keeps ``verify``, ``diff``, ``ship`` and ``retain`` small and quick for a version of 10^6 shards.
Does not belong here: reading a manifest (``standing.py``), the shards that a new one may name (``shard_table.py``).
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import xxhash

from gristmill.blobs import Blobs
from gristmill.loader.shards import Shards

_KEY = "S32"


class Named(NamedTuple):
    """A shard that a version names."""

    hash: str
    path: str
    n_tokens: int


class ShardSet:
    """The distinct shards of some sources: 44 bytes each, beside the sources' own columns.

    Args:
        sources: of one version, or of several. One that stands twice counts once, where it was given first.
    """

    def __init__(self, sources: Iterable[Shards]) -> None:
        self._sources = [shards for shards in sources if len(shards)]
        lengths = [len(shards) for shards in self._sources]
        hashes = np.concatenate([s.hashes for s in self._sources]) if lengths else np.zeros((0, 32), np.uint8)
        # Fixed-size byte strings: NumPy compares them whole, the zeros at their ends too.
        self._keys, first = np.unique(np.ascontiguousarray(hashes).view(_KEY).ravel(), return_index=True)
        starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        self._source = (np.searchsorted(starts, first, side="right") - 1).astype(np.int32)
        self._row = first - starts[self._source]

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[Named]:
        """In order of strata, and of hashes within: the files of one folder after another."""
        names = sorted({name for shards in self._sources for name in shards.stratum_names})
        number = {name: i for i, name in enumerate(names)}
        stratum = np.zeros(len(self), np.int32)
        for i, shards in enumerate(self._sources):
            own = self._source == i
            known = np.array([number[name] for name in shards.stratum_names], np.int32)
            stratum[own] = known[shards.strata[self._row[own]]]
        for at in np.argsort(stratum, kind="stable").tolist():
            shards, row = self._sources[self._source[at]], int(self._row[at])
            yield Named(shards.hash(row), shards.path(row), int(shards.counts[row, 1]))

    def without(self, other: "ShardSet") -> list[str]:
        """Content hashes (hex) of shards that the other does not hold, sorted."""
        found = np.setdiff1d(self._keys, other._keys, assume_unique=True)
        raw = found.tobytes()
        return [raw[at : at + 32].hex() for at in range(0, len(raw), 32)]


class NameSet:
    """A set of very many strings in 8 bytes each.

    Of n strings, one that is not among them passes for one that is once in 2^64 / n.
    """

    def __init__(self) -> None:
        self._known = np.zeros(0, np.uint64)

    def add(self, names: Iterable[str]) -> None:
        """Take strings in; many at a time."""
        fresh = np.fromiter((xxhash.xxh3_64_intdigest(name.encode()) for name in names), np.uint64)
        self._known = np.union1d(self._known, fresh)

    def __contains__(self, name: str) -> bool:
        key = np.uint64(xxhash.xxh3_64_intdigest(name.encode()))
        at = int(np.searchsorted(self._known, key))
        return at < len(self._known) and self._known[at] == key


class Sizes:
    """Sizes of shards' files, from one listing of a stratum's folder at a time.

    Asked one by one, the files of a million shards take an object store hours. Ask in the order of folders.
    """

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._folder = ""
        self._found: dict[str, int] = {}

    def of(self, path: str) -> int | None:
        """Bytes of a file, None where there is none."""
        parts = path.split("/")
        if parts[0] != "shards" or len(parts) < 3:
            return self._blobs.size(path)
        folder = f"shards/{parts[1]}"
        if folder != self._folder:
            self._folder, self._found = folder, {}
            self._found = dict(self._blobs.list(folder))
        return self._found.get(path)
