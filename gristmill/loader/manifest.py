"""Reading a manifest: pins, phases, and the shards of every source in compact columns.

Belongs here: finding and checking ``manifest.json``, and looking up selected documents. Does not belong here: the
columns and the parser (``shards.py``), building one (``release/manifest.py``), drawing samples of it (``sampler.py``).
"""

import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.errors import ManifestError
from gristmill.loader.places import Place, open_place
from gristmill.loader.sampler import Sampler
from gristmill.loader.shards import PIECE, Shards, fold
from gristmill.mixture.schedule import Schedule, compile_schedule

FORMAT = 1
KIND = "gristmill-manifest"
VERIFY_SELECTION_BYTES = 256 << 20  # a larger selection is checked by its counts, document by document, not by its hash
GROUPS_IN_MEMORY = 8

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Manifest:
    """A data set version: what it is pinned to, and what it is made of."""

    place: Place
    path: str
    hash: str
    version: str
    recipe_hash: str
    seed: int
    phases: tuple[dict[str, Any], ...]
    max_epochs: Mapping[str, str]
    tokenizer: Mapping[str, Any]
    sources: Mapping[str, Shards]
    selection: "Selection"
    made_from: Mapping[str, Any]  # what lineage follows: fingerprints, grid, crawls; empty where it does not say

    @cached_property
    def schedule(self) -> Schedule:
        """The run's segments."""
        return compile_schedule(self.phases, self.max_epochs, self._sequences(), self.seed)

    @cached_property
    def sampler(self) -> Sampler:
        """The run's sampler."""
        wanted = self.schedule.sequences
        counts = {
            layout: {name: shards.layouts.get(layout, np.zeros(len(shards), np.int64))
                     for name, shards in self.sources.items()}
            for layout in wanted
        }
        return Sampler(self.schedule, counts)

    @cached_property
    def _first_shard(self) -> I64:
        return np.array(self.sampler.first_shard, np.int64)

    def shard_of(self, flat: int) -> tuple[str, int]:
        """(source, row among its shards) of a shard's number over all sources."""
        source = int(np.searchsorted(self._first_shard, flat, side="right")) - 1
        return self.schedule.sources[source], flat - int(self._first_shard[source])

    def documents(self, flat: int, columns: Sequence[str]) -> pa.Table:
        """Columns of a shard's ``.docs``. Raises FileNotFoundError."""
        source, row = self.shard_of(flat)
        with self.place.open(f"{self.sources[source].path(row)}.docs") as file:
            return pq.read_table(file, columns=list(columns), use_threads=False)

    def _sequences(self) -> dict[str, dict[str, int]]:
        result: dict[str, dict[str, int]] = {}
        for name, shards in self.sources.items():
            for layout, sizes in shards.layouts.items():
                result.setdefault(layout, {})[name] = int(sizes.sum())
        return result

    def pins(self) -> dict[str, Any]:
        """What a checkpoint must agree with; the skip set is the sixth."""
        from gristmill.loader.sampler import VERSION

        return {
            "manifest": self.hash, "recipe": self.recipe_hash, "tokenizer": str(self.tokenizer["sha256"]),
            "seed": self.seed, "sampler": VERSION,
        }


class Selection:
    """``selection.parquet``: which documents of a shard a source selects; read by row group, when asked."""

    def __init__(self, place: Place, path: str, sha256: str) -> None:
        self._place, self._path, self._sha256 = place, path, sha256
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._file: pq.ParquetFile | None = None
        self._ranges: list[tuple[tuple[str, str], tuple[str, str]]] = []
        self._groups: OrderedDict[int, tuple[dict[tuple[str, str], int], pa.ListArray]] = OrderedDict()
        self._lock = threading.Lock()

    def ordinals(self, source: str, shard: str) -> npt.NDArray[np.int64] | None:
        """Ordinals in reading order; None where every document is selected.

        Raises:
            ManifestError: when the file is missing, not the manifest's, or does not list the shard.
        """
        if self._pid != os.getpid():  # an open file of the parent's connection is not a forked child's to use
            self._begin()
        with self._lock:
            file = self._open()
            key = (source, shard)
            for group, (first, last) in enumerate(self._ranges):
                if first[0] <= source <= last[0] and first[1] <= shard <= last[1]:
                    rows, lists = self._group(file, group)
                    if key in rows:
                        value = lists[rows[key]]
                        return value.values.to_numpy().astype(np.int64) if value.is_valid else None
        raise ManifestError(f"{self._path} does not list shard {shard} of source {source}")

    def _open(self) -> pq.ParquetFile:
        if self._file is None:
            try:
                handle = self._place.open(self._path)
            except FileNotFoundError as error:
                raise ManifestError(f"{self._place.root}/{self._path}, which the manifest names, is missing") from error
            if handle.size() <= VERIFY_SELECTION_BYTES:
                found = hashlib.sha256(handle.read()).hexdigest()
                handle.seek(0)
                if found != self._sha256:
                    raise ManifestError(f"{self._path} has sha256 {found}, the manifest says {self._sha256}")
            self._file = pq.ParquetFile(handle)
            self._ranges = [_key_range(self._file, group) for group in range(self._file.num_row_groups)]
        return self._file

    def _group(self, file: pq.ParquetFile, group: int) -> tuple[dict[tuple[str, str], int], pa.ListArray]:
        if group not in self._groups:
            table = file.read_row_group(group).combine_chunks()
            keys = zip(table.column("source").to_pylist(), table.column("shard").to_pylist(), strict=True)
            self._groups[group] = {k: i for i, k in enumerate(keys)}, table.column("ordinals").chunk(0)
            if len(self._groups) > GROUPS_IN_MEMORY:
                self._groups.popitem(last=False)
        self._groups.move_to_end(group)
        return self._groups[group]


def _key_range(file: pq.ParquetFile, group: int) -> tuple[tuple[str, str], tuple[str, str]]:
    """Least and greatest source and shard of a row group; from its statistics where it has them."""
    names = file.schema_arrow.names
    lows, highs = [], []
    for name in ("source", "shard"):
        statistics = file.metadata.row_group(group).column(names.index(name)).statistics
        if statistics is not None and statistics.has_min_max:
            lows.append(str(statistics.min))
            highs.append(str(statistics.max))
        else:
            values = file.read_row_group(group, columns=[name]).column(0).to_pylist()
            lows.append(min(values))
            highs.append(max(values))
    return (lows[0], lows[1]), (highs[0], highs[1])


def open_manifest(
    root: str | Path,
    manifest: str | Path,
    *,
    expected_hash: str | None = None,
    options: Mapping[str, Any] | None = None,
    place: Place | None = None,
) -> Manifest:
    """Read a manifest.

    Args:
        root: the store's root, a folder or ``s3://bucket/prefix``.
        manifest: a version (``v1``), or the path of a ``manifest.json`` (on this machine, or below the root).
        expected_hash: sha256 of the manifest's bytes, where the caller pins it.
        options: see ``open_place``.
        place: instead of opening ``root``.

    Raises:
        ManifestError: when it is missing, not a manifest, or not the pinned one.
    """
    where = place if place is not None else open_place(root, options)
    text = str(manifest)
    path = text if text.endswith(".json") else f"manifests/{text}/manifest.json"
    try:
        body, found, broken = fold(_pieces(where, path))
    except FileNotFoundError as error:
        raise ManifestError(f"no manifest {text} in {where.root}") from error
    if expected_hash is not None and found != expected_hash:
        raise ManifestError(f"manifest {text} has hash {found}, pinned is {expected_hash}")
    if broken is not None:
        raise ManifestError(f"{where.root}/{path} is not JSON: {broken}") from broken
    return _checked(where, path, found, body)


def _pieces(place: Place, path: str) -> Iterator[bytes]:
    """The bytes below the root, or else of a file on this machine. Raises FileNotFoundError."""
    here = Path(path)
    below = here if here.is_absolute() else place.local(path)
    file: Any
    if below is not None:
        file = (below if below.is_file() else here).open("rb")
    else:
        try:
            file = place.open(path)
        except FileNotFoundError:
            file = here.open("rb")
    with file:
        while piece := file.read(PIECE):
            yield piece


def _checked(place: Place, path: str, digest: str, body: Any) -> Manifest:
    if not isinstance(body, dict) or body.get("kind") != KIND:
        raise ManifestError(f"{place.root}/{path} is not a {KIND}")
    if body.get("format") != FORMAT:
        raise ManifestError(f"{place.root}/{path} has format {body.get('format')!r}; this release reads {FORMAT}")
    try:
        for name, shards in body["sources"].items():
            for layout, sizes in shards.layouts.items():
                if len(sizes) != len(shards):
                    raise ManifestError(f"{path}: source {name} has {len(shards)} shards, layout {layout} {len(sizes)}")
        return Manifest(
            place, path, digest, body["version"], body["recipe_hash"], int(body["seed"]), tuple(body["phases"]),
            body["max_epochs"], body["tokenizer"], body["sources"],
            Selection(place, body["selection"]["path"], body["selection"]["sha256"]),
            {name: body[name] for name in ("fingerprints", "grid", "crawls") if name in body},
        )
    except (KeyError, AttributeError) as error:
        raise ManifestError(f"{place.root}/{path} lacks {error}") from error
