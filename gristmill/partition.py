"""One partition of one stage while it is being made: what a stage's body reads, writes and reports.

Belongs here: ``Partition`` (handed to a body), and ``make`` (lock, skip when current, run, commit). Does not belong
here: how many partitions run side by side (``workers.py``, the assets), and what the bodies compute.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gristmill import schemas, shuffle
from gristmill.blobs import sentence
from gristmill.errors import MissingPartitionError, SchemaError
from gristmill.fingerprint import digest
from gristmill.funnel import BY_NAME, Input, Plan, Stage
from gristmill.observe import profile_meter as meter
from gristmill.params import SiteConfig
from gristmill.registry import Registry
from gristmill.store import MANIFEST, FileRef, Key, PartitionManifest, Store, Yield, parquet_bytes, parquet_writer

Progress = Callable[[int, int], None]  # documents in, documents out, so far


@dataclass
class Partition:
    """What a body works on. Reading is by asset name; the plan supplies fingerprints."""

    store: Store
    plan: Plan
    stage: Stage
    crawl: str | None
    bucket: int | None
    site: SiteConfig
    workers: int = 1
    progress: Progress = lambda _in, _out: None
    counts: Yield = field(default_factory=Yield)
    info: dict[str, Any] = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict)
    run: dict[str, Any] = field(default_factory=dict)
    seen: dict[str, Any] | None = None  # what a survey of a whole crawl has read: each manifest once, not once a reader
    _files: list[FileRef] = field(default_factory=list)

    # -- where ---------------------------------------------------------------------------------------------------

    @property
    def buckets(self) -> int:
        """Host buckets, and ranges of every shuffle."""
        return self.plan.buckets

    def key(self, asset: str | None = None, bucket: int | None = -1, crawl: str | None = None) -> Key:
        """Key of an asset's partition; by default this one's crawl and bucket."""
        name = asset or self.stage.name
        spec = BY_NAME[name]
        return Key(
            name, self.plan.fingerprints[name],
            None if spec.by == "site" else (crawl or self.crawl),
            (self.bucket if bucket == -1 else bucket) if spec.on_grid else None,
        )

    @property
    def registry(self) -> Registry:
        """Crawls and their ordinals."""
        return Registry(self.store)

    # -- reading -------------------------------------------------------------------------------------------------

    def read(self, asset: str, columns: list[str] | None = None, *, role: str = "data", bucket: int | None = -1,
             crawl: str | None = None) -> pa.Table:
        """A partition's rows in committed order; by default the same crawl and bucket."""
        return self.store.read(self.key(asset, bucket, crawl), columns, role)

    def read_all(self, asset: str, columns: list[str] | None = None, *, role: str = "data",
                 crawl: str | None = None) -> Iterator[pa.Table]:
        """Each bucket's rows, in bucket order, one table at a time."""
        for bucket in range(self.buckets):
            yield self.read(asset, columns, role=role, bucket=bucket, crawl=crawl)

    def read_range(self, asset: str, role: str, number: int | Sequence[int] | None = None,
                   columns: list[str] | None = None, crawl: str | None = None) -> pa.Table:
        """Range ``number`` (by default this bucket's; or several) of every bucket's file of a role, in bucket order."""
        n = self.bucket if number is None else number
        if n is None:
            raise ValueError("an asset without buckets must name the range it reads")
        return pa.concat_tables([
            self.store.read_range(self.key(asset, bucket, crawl), role, n, columns) for bucket in range(self.buckets)
        ])

    def manifest(self, asset: str, bucket: int | None = -1, crawl: str | None = None) -> PartitionManifest:
        """An input partition's manifest; missing is an error that says what to run."""
        return self.store.require(self.key(asset, bucket, crawl))

    def earlier_crawls(self) -> list[str]:
        """Crawls with a smaller ordinal than this one's, in order."""
        if self.crawl is None:
            return []
        return self.registry.earlier(self.crawl)

    # -- writing -------------------------------------------------------------------------------------------------

    def write(self, table: pa.Table, schema: pa.Schema | None = None, *, role: str = "data",
              extra: bool = False) -> None:
        """Write a table under a role, checked against its schema (by default the one named like the asset)."""
        table = self._checked(table, schema, role, extra)
        self._files.append(self.store.put_part(self.key(), parquet_bytes(table), role, ".parquet", table.num_rows))

    @contextmanager
    def grouped(self, schema: pa.Schema | None = None, *, role: str = "data") -> Iterator[Callable[[pa.Table], None]]:
        """Write a table that is never all in memory: each table given is a row group, and on disk when that returns."""
        with self.store.scratch() as folder:
            path, rows = Path(folder) / "groups.parquet", 0
            with parquet_writer(path, schema or self._schema()) as writer:

                @meter.marked("write")
                def add(table: pa.Table) -> None:
                    nonlocal rows
                    table = self._checked(table, schema, role, extra=False)
                    if table.num_rows:
                        writer.write_table(table.combine_chunks(), row_group_size=table.num_rows)
                        rows += table.num_rows

                yield add
            self.write_file(path, role=role, suffix=".parquet", rows=rows)

    def write_ranged(self, table: pa.Table, numbers: np.ndarray, schema: pa.Schema | None = None, *, role: str,
                     extra: bool = False, ranges: int | None = None) -> None:
        """Write a table cut by range number, for reducers. Inside a range rows keep their order: sort first."""
        table = self._checked(table, schema, role, extra)
        data, where = shuffle.cut(table, numbers, ranges or self.buckets)
        self._files.append(self.store.put_part(self.key(), data, role, ".parquet", table.num_rows, where))

    def write_bytes(self, data: bytes, *, role: str, suffix: str, rows: int = 0) -> FileRef:
        """Write other bytes (a bloom filter, a report)."""
        ref = self.store.put_part(self.key(), data, role, suffix, rows)
        self._files.append(ref)
        return ref

    def write_file(self, source: Path, *, role: str, suffix: str, rows: int = 0) -> FileRef:
        """Move a scratch file in (a WARC, a signature matrix)."""
        ref = self.store.put_part_file(self.key(), source, role, suffix, rows)
        self._files.append(ref)
        return ref

    def _checked(self, table: pa.Table, schema: pa.Schema | None, role: str, extra: bool) -> pa.Table:
        return schemas.check(table, schema or self._schema(), f"{self.stage.name}/{role}", extra=extra)

    def _schema(self) -> pa.Schema:
        schema = getattr(schemas, self.stage.name.upper(), None)
        if schema is None:
            raise SchemaError(f"no schema is named {self.stage.name.upper()}; pass one")
        return schema

    # -- reporting -----------------------------------------------------------------------------------------------

    def report(self, *, docs_in: int = 0, docs_out: int = 0, bytes_in: int = 0, bytes_out: int = 0,
               reasons: Mapping[str, int] | None = None, by: Mapping[str, Mapping[str, list[int]]] | None = None,
               **info: Any) -> None:
        """Add to the partition's yield; ``info`` are small facts for the UI. Seconds do not belong here.

        ``docs_in == docs_out + sum(reasons)`` must hold when the partition commits: nothing goes uncounted.
        """
        self.counts += Yield(docs_in, docs_out, bytes_in, bytes_out, {k: v for k, v in (reasons or {}).items() if v},
                             {d: {v: list(c) for v, c in values.items()} for d, values in (by or {}).items()})
        self.info.update(info)

    def commit(self, started: float, before: meter.Spent | None = None) -> PartitionManifest:
        """Make it visible. Called by ``make`` when the body has returned.

        Args:
            started: clock time at which work on it began.
            before: the process's ``meter.totals()`` then.
        """
        unexplained = self.counts.docs_in - self.counts.docs_out - sum(self.counts.reasons.values())
        if unexplained:
            raise AssertionError(f"{self.key()}: {unexplained} documents went without a reason: {self.counts}")
        manifest = PartitionManifest(
            asset=self.stage.name, fingerprint=self.plan.fingerprints[self.stage.name], crawl=self.crawl,
            bucket=self.bucket, files=tuple(self._files),
            inputs={i.asset: inputs_digest(self.store, self, i) for i in self.stage.inputs},
            state=self.state, counts=self.counts, info=self.info,
        )
        ended = time.time()
        spent = meter.totals() - before if before is not None else meter.Spent()
        usage = {**meter.account(spent, ended - started), "ended": ended, **self.run}
        self.store.commit(self.key(), manifest, usage)
        return manifest


def inputs_digest(store: Store, part: Partition, source: Input) -> str:
    """Digest of what a stage reads of one input: of its partition, or of all of them in bucket order."""
    whole = source.scope == "crawl"
    # The same name for every bucket that reads all of them; bucket 0 where the reader has none.
    name = part.key(source.asset, 0 if whole else -1).path + ("/all" if whole else "")
    if part.seen is not None and name in part.seen:
        return str(part.seen[name])
    if whole:
        found = digest([_manifest_digest(store, part.key(source.asset, bucket)) for bucket in range(part.buckets)])
    else:
        found = _manifest_digest(store, part.key(source.asset))
    if part.seen is not None:
        part.seen[name] = found
    return found


def _manifest_digest(store: Store, key: Key) -> str:
    """Manifests are re-read (they are small), but parsed and hashed only when their bytes changed."""
    path = f"{key.path}/{MANIFEST}"
    try:
        raw = store.blobs.get(path)
    except FileNotFoundError:
        return store.require(key).digest  # raises with what to run
    hit = _DIGESTS.get((store.root, path))
    if hit is None or hit[0] != raw:
        hit = (raw, store.require(key).digest)
        if len(_DIGESTS) > MAX_DIGESTS:
            _DIGESTS.clear()
        _DIGESTS[(store.root, path)] = hit
    return hit[1]


_DIGESTS: dict[tuple[str, str], tuple[bytes, str]] = {}
MAX_DIGESTS = 100_000


def is_current(part: Partition) -> PartitionManifest | None:
    """The committed manifest when it was made from exactly today's inputs; else None."""
    manifest = part.store.manifest(part.key())
    if manifest is None:
        return None
    for source in part.stage.inputs:
        try:
            now = inputs_digest(part.store, part, source)
        except MissingPartitionError:
            return None
        if manifest.inputs.get(source.asset) != now:
            return None
    check = _STATE_CHECKS.get(part.stage.name)
    if check is not None and not check(part, manifest):
        return None
    return manifest


# Stages whose inputs lie outside the store (the landing area, the hold-out root) say here whether they still hold.
_STATE_CHECKS: dict[str, Callable[[Partition, PartitionManifest], bool]] = {}


def state_check(stage: str) -> Callable[[Callable[[Partition, PartitionManifest], bool]], Callable[..., bool]]:
    """Register a test that a committed partition's outside state is still today's."""

    def register(function: Callable[[Partition, PartitionManifest], bool]) -> Callable[..., bool]:
        _STATE_CHECKS[stage] = function
        return function

    return register


@dataclass(frozen=True)
class Made:
    """Outcome of ``make``: the manifest, and whether anything was computed."""

    bucket: int | None
    manifest: PartitionManifest
    computed: bool
    seconds: float


def make(part: Partition, *, force: bool = False) -> Made:
    """Make one partition: lock it, skip it when current, else run its body and commit."""
    started, before = time.time(), meter.totals()
    body = part.stage.load()  # importing the body's module registers its state check
    try:
        with part.store.lock(part.key()):
            current = None if force else is_current(part)
            if current is not None:
                return Made(part.bucket, current, False, time.time() - started)
            body(part)
            return Made(part.bucket, part.commit(started, before), True, time.time() - started)
    except OSError as error:  # of a lock or a scratch file: what goes through the store's blobs has its sentence
        raise sentence(error, part.store.root, error.filename or str(part.key())) from error
