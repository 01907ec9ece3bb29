"""Taking a document's bytes out of the tables on the grid, in place: its rows stay, without their text and tokens.

Belongs here: rewriting one partition, and saying which bytes below it stay. Does not belong here: which documents go
(``purge.py``).

A partition that was scrubbed stands for what it was: stages that read it keep their digest of it, since ids, counts and
spans are what they were, and nothing need run again. Raw records are not rewritten (their digests are their names):
they are named with file, offset and length, for whoever owns the landing area.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.errors import ArchivedPartitionError
from gristmill.release.whereabouts import Finder
from gristmill.schemas import ID
from gristmill.store import FileRef, Key, Store, parquet_bytes

# Table -> role -> columns that hold a document's bytes.
HELD: dict[str, dict[str, tuple[str, ...]]] = {"text": {"data": ("text", "title")}, "tokens": {"by_range": ("ids",)}}


def partitions(store: Store, crawl: str, bucket: int, assets: Iterable[str] = tuple(HELD)) -> Iterator[Key]:
    """Committed partitions of one bucket, by whatever parameters they were made: older ones hold bytes as well."""
    for asset in assets:
        for fingerprint in store.blobs.children(asset)[0]:
            key = Key(asset, fingerprint, crawl, bucket)
            if store.manifest(key) is not None:
                yield key


def require_hot(store: Store, homes: Iterable[tuple[str, int]]) -> None:
    """Raises ArchivedPartitionError, with every asset to restore, where an archive holds what a purge must read."""
    away: dict[str, set[str]] = {}
    for crawl, bucket in homes:
        for key in partitions(store, crawl, bucket, (*HELD, "raw_warc")):
            if store.archived(key) is not None:
                away.setdefault(crawl, set()).add(key.asset)
    if away:
        commands = [f"`gristmill restore {crawl} {' '.join(f'--asset {a}' for a in sorted(assets))}`"
                    for crawl, assets in sorted(away.items())]
        raise ArchivedPartitionError(
            f"nothing was deleted: some of it lies in an archive. Run {' and '.join(commands)}, then this again"
        )


def scrub(
    store: Store, crawl: str, bucket: int, documents: Collection[bytes], records: Collection[bytes]
) -> list[str]:
    """Empty the bytes of some documents, and of all texts made of some records, in one bucket's tables.

    Other parameters may have made another text, with another id, of the same record: every fingerprint is visited.
    Returns the paths of the partitions that held any.
    """
    return [key.path for key in partitions(store, crawl, bucket)
            if _scrub_one(store, key, HELD[key.asset], documents, records)]


def raw_records(finder: Finder, crawl: str, bucket: int, records: Collection[bytes]) -> list[str]:
    """Where the raw bytes of some records lie: frames of ``raw_warc``, and members of landed files."""
    out: list[str] = []
    for record in sorted(records):
        for row in finder.rows("raw_warc", crawl, bucket, "record_id", record):
            path = finder.key("raw_warc", crawl, bucket).path
            out.append(f"{path}: {row['part_length'] or 0} bytes at {row['part_offset'] or 0} of its .warc.zst, and "
                       f"the slice it came from (crawl_slices of {crawl})")
            out.append(f"landing: {row['length'] or 0} bytes at {row['offset'] or 0} of {row['warc_path']}")
    return out


def _scrub_one(
    store: Store, key: Key, roles: dict[str, tuple[str, ...]], documents: Collection[bytes], records: Collection[bytes]
) -> bool:
    with store.lock(key):
        manifest = store.require(key)
        wanted = pa.array(sorted(documents), ID), pa.array(sorted(records), ID)
        files, old = list(manifest.files), []
        for number, ref in enumerate(files):
            columns = roles.get(ref.role)
            fresh = _emptied(store, key, ref, columns, wanted) if columns else None
            if fresh is not None:
                old.append(ref)
                files[number] = fresh
        if not old:
            return False
        store.commit(key, replace(manifest, files=tuple(files), stands_for=manifest.digest))
        for ref in old:
            store.blobs.delete(f"{key.path}/{ref.name}")
    return True


def _emptied(store: Store, key: Key, ref: FileRef, columns: tuple[str, ...], wanted: tuple[pa.Array, pa.Array]
             ) -> FileRef | None:
    """The file with these columns empty in the rows of the documents; None where it holds nothing of them."""
    with store.open_file(key, ref) as source:
        file = pq.ParquetFile(source, page_checksum_verification=True)
        edges, at = [], 0
        for group in range(file.num_row_groups):
            n = file.metadata.row_group(group).num_rows
            edges.append((at, n))
            at += n
        table = file.read(use_threads=False)
    hit = pc.or_(*(pc.is_in(table.column(name), value_set=values)
                   for name, values in zip(("doc_id", "record_id"), wanted, strict=True)))
    changed = False
    for name in columns:
        column = table.column(name)
        nothing = _nothing(column.type)
        held = pc.and_(hit, pc.fill_null(pc.not_equal(_size(column), 0), False))
        if not pc.any(held).as_py():
            continue
        changed = True
        kept = [nothing if gone else value for value, gone in zip(column, hit.to_pylist(), strict=True)]
        values = pa.array([v.as_py() if isinstance(v, pa.Scalar) else v for v in kept], column.type)
        table = table.set_column(table.column_names.index(name), table.schema.field(name), values)
    if not changed:
        return None
    data = parquet_bytes(table, edges if ref.ranges is not None else None)
    return store.put_part(key, data, ref.role, ".parquet", ref.rows, ref.ranges)


def _size(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.list_value_length(column) if pa.types.is_large_list(column.type) else pc.binary_length(column)


def _nothing(kind: pa.DataType) -> object:
    return [] if pa.types.is_large_list(kind) else ""
