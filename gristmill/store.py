"""The store: datasets as partitions that appear whole or not at all.

Belongs here: paths, the commit by ``_manifest.json``, reading with verification, locks. Nothing else builds a path in
the store. Does not belong here: what a stage computes, and how bytes reach a disk or a bucket (``blobs.py``).

Layout: ``{asset}/{fingerprint}/crawl=C/host_bucket=0007/{digest}.parquet`` and ``_manifest.json`` beside it. Part files
are named by content digest, so a re-run never overwrites what a reader may hold; what no manifest names is garbage.
"""

import contextlib
import fcntl
import hashlib
import io
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.blobs import TMP_PREFIX, Blobs, LocalBlobs, open_blobs
from gristmill.errors import (
    ArchivedPartitionError,
    DamagedPartitionError,
    MissingPartitionError,
    PartitionBusyError,
    StalePartitionError,
    StoreError,
)
from gristmill.fingerprint import canonical_json, digest
from gristmill.observe import profile_meter as meter

FORMAT = 1
MANIFEST = "_manifest.json"
RUN = "_run.json"
ARCHIVED = "_archived.json"  # beside the manifest of a partition whose files were moved to an archive
ARCHIVES = "registry/archives"
ZSTD_LEVEL = 3


@dataclass(frozen=True)
class Key:
    """Which partition of which dataset. ``crawl`` and ``bucket`` are None where the asset has no such dimension."""

    asset: str
    fingerprint: str
    crawl: str | None = None
    bucket: int | None = None

    @property
    def path(self) -> str:
        """Folder of the partition, relative to the store's root."""
        parts = [self.asset, self.fingerprint]
        if self.crawl is not None:
            parts.append(f"crawl={self.crawl}")
        if self.bucket is not None:
            parts.append(f"host_bucket={self.bucket:04d}")
        return "/".join(parts)

    def __str__(self) -> str:
        where = [w for w in (self.crawl, None if self.bucket is None else f"{self.bucket:04d}") if w is not None]
        return f"{self.asset}[{'|'.join(where)}]" if where else self.asset


@dataclass(frozen=True)
class FileRef:
    """One committed file. ``ranges`` maps a range number to its row groups, for files cut by a shuffle key."""

    name: str
    role: str
    rows: int
    bytes: int
    sha256: str
    ranges: dict[str, list[int]] | None = None


@dataclass(frozen=True)
class Yield:
    """What went in, what goes on, and why the rest does not. Counts of documents and bytes, never seconds."""

    docs_in: int = 0
    docs_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    by: dict[str, dict[str, list[int]]] = field(default_factory=dict)  # "lang" -> value -> [in, out]

    def __add__(self, other: "Yield") -> "Yield":
        reasons = {k: self.reasons.get(k, 0) + other.reasons.get(k, 0) for k in {*self.reasons, *other.reasons}}
        by: dict[str, dict[str, list[int]]] = {}
        for side in (self.by, other.by):
            for dimension, values in side.items():
                for value, (i, o) in values.items():
                    cell = by.setdefault(dimension, {}).setdefault(value, [0, 0])
                    cell[0] += i
                    cell[1] += o
        return Yield(
            self.docs_in + other.docs_in, self.docs_out + other.docs_out,
            self.bytes_in + other.bytes_in, self.bytes_out + other.bytes_out, reasons, by,
        )


@dataclass(frozen=True)
class PartitionManifest:
    """The content of ``_manifest.json``. Its ``digest`` is the partition's data version."""

    asset: str
    fingerprint: str
    crawl: str | None
    bucket: int | None
    files: tuple[FileRef, ...]
    inputs: dict[str, str]  # input asset -> digest of what was read of it
    state: dict[str, Any]  # state consumed at run time: index generations, registry versions, hold-out hash
    counts: Yield
    info: dict[str, Any]  # small facts worth showing: never times, they differ between runs
    format: int = FORMAT
    stands_for: str | None = None  # digest of the partition before a purge took bytes out of it: what readers recorded

    @property
    def digest(self) -> str:
        """sha256 over files, counts and state: equal digests, equal bytes (but for those that a purge took out)."""
        if self.stands_for is not None:
            return self.stands_for
        return digest({"files": [asdict(f) for f in self.files], "counts": asdict(self.counts), "info": self.info})

    def role(self, role: str) -> list[FileRef]:
        """Files of a role, in committed order."""
        return [f for f in self.files if f.role == role]


def parquet_writer(sink: Path | io.BytesIO, schema: pa.Schema) -> pq.ParquetWriter:
    """zstd, page checksums, and the same bytes for the same row groups."""
    return pq.ParquetWriter(sink, schema, compression="zstd", compression_level=ZSTD_LEVEL, write_page_checksum=True,
                            write_statistics=True, version="2.6")


@meter.marked("write")
def parquet_bytes(table: pa.Table, row_groups: list[tuple[int, int]] | None = None) -> bytes:
    """A table as Parquet: zstd, page checksums, and the same bytes for the same table.

    Args:
        table: columns already in schema order, rows already in their order.
        row_groups: (start, length) slices to make row groups of; None means groups of about 64 k rows.
    """
    sink = io.BytesIO()
    table = table.combine_chunks()
    with parquet_writer(sink, table.schema) as writer:
        if row_groups is None:
            writer.write_table(table, row_group_size=65_536)
        else:
            for start, length in row_groups:
                writer.write_table(table.slice(start, length), row_group_size=max(length, 1))
    return sink.getvalue()


class Store:
    """All reading and writing of datasets, in a local folder or an S3 bucket.

    Args:
        root: folder or ``s3://bucket/prefix``.
        options: object-store settings (see ``blobs.S3Blobs``); never written anywhere.
    """

    def __init__(self, root: str | Path, options: Mapping[str, Any] | None = None) -> None:
        self.root = str(root)
        self.options = dict(options or {})
        self.blobs: Blobs = open_blobs(root, options)
        self._check_format()

    def __getstate__(self) -> dict[str, Any]:
        return {"root": self.root, "options": self.options}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["root"], state["options"])  # type: ignore[misc]

    def _check_format(self) -> None:
        wanted = canonical_json({"format": FORMAT, "kind": "gristmill-store"})
        try:
            found = self.blobs.get("store.json")
        except FileNotFoundError:
            with contextlib.suppress(FileExistsError):
                self.blobs.create("store.json", wanted)
            return
        try:
            version = json.loads(found).get("format")
        except (ValueError, AttributeError) as error:
            raise StoreError(f"{self.root}/store.json is not a gristmill store's: point the store elsewhere") from error
        if version != FORMAT:
            raise StoreError(
                f"{self.root} was written by store format {version}, this release reads {FORMAT}: use the release that "
                "wrote it, or a new store root"
            )

    # -- reading ---------------------------------------------------------------------------------------------------

    def manifest(self, key: Key) -> PartitionManifest | None:
        """The partition's manifest, or None where it has not been committed.

        Raises:
            DamagedPartitionError: when the manifest is not one.
        """
        try:
            raw = json.loads(self.blobs.get(f"{key.path}/{MANIFEST}"))
            if raw["format"] != FORMAT:
                raise StoreError(f"{key}: manifest format {raw['format']}, this release reads {FORMAT}")
            return PartitionManifest(
                asset=raw["asset"], fingerprint=raw["fingerprint"], crawl=raw["crawl"], bucket=raw["bucket"],
                files=tuple(FileRef(**f) for f in raw["files"]), inputs=raw["inputs"], state=raw["state"],
                counts=Yield(**raw["counts"]), info=raw["info"],
                stands_for=raw.get("stands_for"),
            )
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise DamagedPartitionError(
                f"{key}: {key.path}/{MANIFEST} cannot be read ({error}); delete it and run {_command(key)}"
            ) from error

    def require(self, key: Key) -> PartitionManifest:
        """As ``manifest``, but a missing partition is an error that says what to run.

        Raises:
            MissingPartitionError, StalePartitionError (other parameters than today's made it).
        """
        found = self.manifest(key)
        if found is not None:
            return found
        tail = key.path.removeprefix(f"{key.asset}/{key.fingerprint}")
        others = sorted({
            path.split("/")[1] for path, _ in self.blobs.list(key.asset) if path.endswith(f"{tail}/{MANIFEST}")
        })
        if others:
            raise StalePartitionError(
                f"{key} exists only as made by other parameters ({', '.join(others)}; today's fingerprint is "
                f"{key.fingerprint}): run {_command(key)}"
            )
        raise MissingPartitionError(f"{key} has not been made: run {_command(key)}")

    @meter.marked("read")
    def read_file(self, key: Key, ref: FileRef) -> bytes:
        """A committed file's bytes, verified.

        Raises:
            DamagedPartitionError: when they are gone or not what was committed.
        """
        path = f"{key.path}/{ref.name}"
        try:
            data = self.blobs.get(path)
        except FileNotFoundError as error:
            raise self._gone(key, path) from error
        if len(data) != ref.bytes or hashlib.sha256(data).hexdigest() != ref.sha256:
            cut = f"{len(data)} of {ref.bytes} bytes" if len(data) != ref.bytes else "its checksum differs"
            raise DamagedPartitionError(
                f"{key}: {path} is not what was committed ({cut}); run {_command(key)} --force"
            )
        return data

    @meter.marked("read")
    def read(self, key: Key, columns: list[str] | None = None, role: str = "data") -> pa.Table:
        """All rows of a role, in committed order, verified by sha256.

        Raises:
            MissingPartitionError, StalePartitionError, DamagedPartitionError.
        """
        manifest = self.require(key)
        refs = manifest.role(role)
        if not refs:
            raise DamagedPartitionError(f"{key} has no files of role {role!r}")
        tables = [
            pq.read_table(pa.BufferReader(self.read_file(key, ref)), columns=columns, use_threads=False) for ref in refs
        ]
        return pa.concat_tables(tables)

    @meter.marked("read")
    def read_range(self, key: Key, role: str, number: int | Sequence[int], columns: list[str] | None = None
                   ) -> pa.Table:
        """The rows of one range (or several, in the order given) of a file that a shuffle cut; nothing else is fetched.

        Pages are verified by their own checksums, since the whole file is not read.
        """
        manifest = self.require(key)
        tables = []
        for ref in manifest.role(role):
            if ref.ranges is None:
                raise DamagedPartitionError(f"{key}: {ref.name} is not cut by ranges")
            path = f"{key.path}/{ref.name}"
            if self.blobs.size(path) != ref.bytes:
                raise self._gone(key, path)
            try:
                with self.blobs.open_input(path) as source:
                    file = pq.ParquetFile(source, page_checksum_verification=True)
                    wanted = (number,) if isinstance(number, int) else number
                    groups = [group for n in wanted for group in ref.ranges.get(str(n), [])]
                    if groups:
                        tables.append(file.read_row_groups(groups, columns=columns, use_threads=False))
                    else:
                        empty = file.schema_arrow.empty_table()
                        tables.append(empty.select(columns) if columns else empty)
            except (OSError, pa.ArrowException) as error:
                raise DamagedPartitionError(f"{key}: {path}: {error}; run {_command(key)} --force") from error
        if not tables:
            raise DamagedPartitionError(f"{key} has no files of role {role!r}")
        return pa.concat_tables(tables)

    @contextlib.contextmanager
    def open_file(self, key: Key, ref: FileRef) -> Iterator[pa.NativeFile]:
        """Random access to a committed file, its size checked but not its content.

        Raises:
            DamagedPartitionError: also for what reading in the ``with`` block finds (a page's checksum, say).
        """
        path = f"{key.path}/{ref.name}"
        if self.blobs.size(path) != ref.bytes:
            raise self._gone(key, path)
        try:
            with self.blobs.open_input(path) as source:
                yield source
        except (OSError, pa.ArrowException) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # the system's, not the file's: a full disk, a lost mount
            raise DamagedPartitionError(f"{key}: {path}: {error}; run {_command(key)} --force") from error

    def archived(self, key: Key) -> dict[str, Any] | None:
        """Where a partition's files were moved (``place``, ``files``, ``archived``), or None (``plan/archive.py``)."""
        try:
            note: dict[str, Any] = json.loads(self.blobs.get(f"{key.path}/{ARCHIVED}"))
            return note
        except FileNotFoundError:
            return None

    def _gone(self, key: Key, path: str) -> StoreError:
        """Why a committed file is not there as it should be, and what to do."""
        note = self.archived(key)
        if note is not None and self.blobs.size(path) is None:
            crawl = key.crawl or ""
            return ArchivedPartitionError(
                f"{key} is archived in {note['place']}: run `gristmill restore {crawl} --asset {key.asset}`, then this "
                "again"
            )
        return DamagedPartitionError(f"{key}: {path} is gone or cut short; run {_command(key)} --force")

    # -- writing ---------------------------------------------------------------------------------------------------

    @meter.marked("write")
    def put_part(self, key: Key, data: bytes, role: str, suffix: str, rows: int,
                 ranges: dict[str, list[int]] | None = None) -> FileRef:
        """Write bytes as a part file named by their digest. Nothing sees it before ``commit`` names it."""
        sha = hashlib.sha256(data).hexdigest()
        name = f"{sha[:20]}{suffix}"
        path = f"{key.path}/{name}"
        if self.blobs.size(path) != len(data):
            self.blobs.put(path, data)
        return FileRef(name, role, rows, len(data), sha, ranges)

    @meter.marked("write")
    def put_part_file(self, key: Key, source: Path, role: str, suffix: str, rows: int) -> FileRef:
        """As ``put_part`` for a local scratch file, which is moved in."""
        sha = hashlib.sha256()
        with source.open("rb") as file:
            while block := file.read(1 << 20):
                sha.update(block)
        size = source.stat().st_size
        name = f"{sha.hexdigest()[:20]}{suffix}"
        self.blobs.put_file(f"{key.path}/{name}", source)
        return FileRef(name, role, rows, size, sha.hexdigest())

    @meter.marked("write")
    def commit(self, key: Key, manifest: PartitionManifest, run: Mapping[str, Any] | None = None) -> None:
        """Make the partition visible, replacing what was there, and clear files that it no longer names."""
        if run is not None:
            self.blobs.put(f"{key.path}/{RUN}", json.dumps(run, sort_keys=True).encode())
        self.blobs.put(f"{key.path}/{MANIFEST}", canonical_json(asdict(manifest)))

    def run_info(self, key: Key) -> dict[str, Any]:
        """Seconds of the last run of this partition (``_run.json``), or an empty mapping."""
        try:
            data: dict[str, Any] = json.loads(self.blobs.get(f"{key.path}/{RUN}"))
            return data
        except FileNotFoundError:
            return {}

    @contextlib.contextmanager
    def lock(self, key: Key) -> Iterator[None]:
        """Hold a partition against other processes of this machine; the kernel frees it when the holder dies.

        On S3 there is no lock: two writers of one partition write the same bytes under the same names, and a commit
        is one atomic put.

        Raises:
            PartitionBusyError: when another live process holds it.
        """
        if not isinstance(self.blobs, LocalBlobs):
            yield
            return
        path = Path(self.blobs.root) / ".locks" / (key.path.replace("/", "+") + ".lock")
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                holder = os.read(handle, 64).decode("ascii", "replace").strip() or "unknown"
                raise PartitionBusyError(
                    f"{key} is being written by process {holder}: wait for that run, or stop it; nothing was lost"
                ) from error
            os.ftruncate(handle, 0)
            os.pwrite(handle, str(os.getpid()).encode(), 0)
            yield
        finally:
            os.close(handle)

    def scratch(self) -> "tempfile.TemporaryDirectory[str]":
        """A folder for unfinished files; on the store's own disk where it has one."""
        if isinstance(self.blobs, LocalBlobs):
            parent = Path(self.blobs.root) / ".scratch"
            parent.mkdir(parents=True, exist_ok=True)
            return tempfile.TemporaryDirectory(prefix=TMP_PREFIX, dir=parent)
        return tempfile.TemporaryDirectory()


def note_archive(store: Store, place: str, crawl: str, asset: str) -> None:
    """Remember that an archive holds copies of an asset of a crawl, also after they were brought back."""
    note = {"place": place.rstrip("/"), "crawl": crawl, "asset": asset}
    store.blobs.put(f"{ARCHIVES}/{digest(note)[:24]}.json", canonical_json(note))


def archives(store: Store) -> list[tuple[str, str, str]]:
    """(place, crawl, asset) of all that was ever copied to an archive, sorted."""
    notes = [json.loads(store.blobs.get(path)) for path, _ in store.blobs.list(ARCHIVES)]
    return sorted((n["place"], n["crawl"], n["asset"]) for n in notes)


def _command(key: Key) -> str:
    crawl = f" --crawl {key.crawl}" if key.crawl else ""
    return f"gristmill run{crawl} --stage {key.asset}"
