"""Cold tiering: the heavy files of old crawls in an archive, and back.

Belongs here: which files of a crawl are read again only when a stage is redone, moving them to an archive root and
back, and choosing crawls by age. Does not belong here: the storage class of the archive: a bucket's own lifecycle rule
(``lifecycle``) or the folder's disk decides that.

A file is copied, read back and held against its sha256 before the hot copy goes. Commit records stay hot, so an
archived partition is as current as before, and a note beside them (``store.ARCHIVED``) lets a reader say where the
bytes are. A stop at any point loses nothing: the same command goes on.
"""

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gristmill.blobs import Blobs, open_blobs
from gristmill.errors import DamagedPartitionError, StoreError
from gristmill.fingerprint import canonical_json
from gristmill.funnel import BY_NAME, FUNNEL
from gristmill.registry import Registry
from gristmill.store import ARCHIVED, MANIFEST, FileRef, Key, Store, note_archive

# Read again only when something is redone. What manifests, runs and later crawls read stays hot: the index across
# crawls, exact's generations, unique records, provenance, verdicts and scores, shards, the catalogue.
COLD = ("crawl_slices", "raw_warc", "text", "quarantine", "line_candidates", "line_counts", "signatures",
        "band_buckets", "band_matches", "tokens")
DAY = 86_400
BLOCK = 32 << 20  # bytes moved at once: a bucket's WARC may be larger than memory


@dataclass(frozen=True)
class Moved:
    """What a call did."""

    crawl: str
    partitions: int
    files: int
    bytes: int


def older(store: Store, *, keep: int | None = None, days: float | None = None, now: float | None = None) -> list[str]:
    """Crawls past a bound, in order.

    Args:
        keep: all but the newest so many.
        days: whose last partition was committed so many days ago or more.
        now: clock time to count from.
    """
    crawls = Registry(store).crawls()
    if keep is not None:
        crawls = crawls[: max(0, len(crawls) - keep)]
    if days is not None:
        at = time.time() if now is None else now
        crawls = [c for c in crawls if 0 < _last_commit(store, c) <= at - days * DAY]
    return crawls


def _last_commit(store: Store, crawl: str) -> float:
    return max((float(store.run_info(key).get("ended", 0.0)) for key in partitions(store, crawl, COLD)), default=0.0)


def partitions(store: Store, crawl: str, assets: Sequence[str]) -> Iterator[Key]:
    """Every committed partition of a crawl, by whatever parameters it was made."""
    for asset in assets:
        for path, _ in store.blobs.list(asset):
            parts = path.split("/")
            if parts[-1] != MANIFEST or f"crawl={crawl}" not in parts:
                continue
            bucket = int(parts[3].removeprefix("host_bucket=")) if len(parts) == 5 else None
            yield Key(asset, parts[1], crawl, bucket)


def archive(store: Store, crawl: str, place: str, *, assets: Sequence[str] = COLD,
            progress: Callable[[Key], None] = lambda _: None) -> Moved:
    """Move a crawl's heavy files to an archive root.

    Args:
        place: folder or ``s3://bucket/prefix``; not the store.
        assets: which of them.

    Raises:
        StoreError: the archive is the store itself, or what it holds is not what was copied (the hot file stays).
    """
    if place.rstrip("/") == store.root.rstrip("/"):
        raise StoreError(f"{place} is the store itself: name another folder or bucket")
    unknown = [a for a in assets if a not in BY_NAME]
    if unknown:
        raise StoreError(f"no asset {', '.join(unknown)}; there are: {', '.join(s.name for s in FUNNEL)}")
    Registry(store).ordinal(crawl)  # raises, with what there is
    target = open_blobs(place)
    done = files = moved = 0
    for key in partitions(store, crawl, assets):
        with store.lock(key):
            manifest = store.require(key)
            hot = [f for f in manifest.files if store.blobs.size(f"{key.path}/{f.name}") is not None]
            if not hot:
                continue
            note_archive(store, place, crawl, key.asset)  # before the copy, so that a purge can name it
            for ref in hot:
                path = f"{key.path}/{ref.name}"
                if _holds(target, path, ref):
                    continue  # copied by a call that was stopped, or archived before
                if not _copy(store, store.blobs, target, path, ref):
                    raise DamagedPartitionError(
                        f"{key}: {path} is not what was committed, and was not archived: run "
                        f"`gristmill run --crawl {crawl} --stage {key.asset} --force`"
                    )
                if not _holds(target, path, ref):
                    raise StoreError(f"{place}/{path} is not what was copied: nothing was removed from the store")
            note = {"place": place, "files": [f.name for f in manifest.files], "archived": int(time.time())}
            store.blobs.put(f"{key.path}/{ARCHIVED}", canonical_json(note))
            for ref in hot:
                store.blobs.delete(f"{key.path}/{ref.name}")
                files, moved = files + 1, moved + ref.bytes
            done += 1
        progress(key)
    return Moved(crawl, done, files, moved)


def restore(store: Store, crawl: str, *, assets: Sequence[str] = COLD,
            progress: Callable[[Key], None] = lambda _: None) -> Moved:
    """Bring a crawl's archived files back; the archive keeps its copy.

    Raises:
        DamagedPartitionError: the archive does not hold what was committed.
        StoreError: the archive cannot be read (an object still in a deep archive must be retrieved there first).
    """
    done = files = moved = 0
    for key in partitions(store, crawl, assets):
        note = store.archived(key)
        if note is None:
            continue
        note_archive(store, note["place"], crawl, key.asset)  # an earlier release's archive kept no such note
        with store.lock(key):
            source = open_blobs(note["place"])
            for ref in store.require(key).files:
                path = f"{key.path}/{ref.name}"
                if store.blobs.size(path) == ref.bytes:
                    continue
                if source.size(path) is None:
                    raise DamagedPartitionError(
                        f"{key}: the archive {note['place']} has no {path}: run "
                        f"`gristmill run --crawl {crawl} --stage {key.asset} --force` instead"
                    )
                if not _copy(store, source, store.blobs, path, ref):
                    raise DamagedPartitionError(
                        f"{key}: {path} in the archive {note['place']} is not what was committed; run "
                        f"`gristmill run --crawl {crawl} --stage {key.asset} --force` instead"
                    )
                files, moved = files + 1, moved + ref.bytes
            store.blobs.delete(f"{key.path}/{ARCHIVED}")
            done += 1
        progress(key)
    return Moved(crawl, done, files, moved)


def _blocks(blobs: Blobs, path: str, size: int) -> Iterator[bytes]:
    for start in range(0, size, BLOCK):
        yield blobs.get_range(path, start, min(BLOCK, size - start))


def _copy(store: Store, source: Blobs, target: Blobs, path: str, ref: FileRef) -> bool:
    """Copy a file by way of the scratch folder; False, and nothing written, when it is not the committed one."""
    sha = hashlib.sha256()
    with store.scratch() as folder:
        scratch = Path(folder) / "file"
        with scratch.open("wb") as file:
            for block in _blocks(source, path, source.size(path) or 0):
                sha.update(block)
                file.write(block)
        if sha.hexdigest() != ref.sha256:
            return False
        target.put_file(path, scratch)
    return True


def _holds(blobs: Blobs, path: str, ref: FileRef) -> bool:
    """Does a place hold exactly the committed file; it is read back whole."""
    if blobs.size(path) != ref.bytes:
        return False
    sha = hashlib.sha256()
    for block in _blocks(blobs, path, ref.bytes):
        sha.update(block)
    return sha.hexdigest() == ref.sha256


def archived_crawls(store: Store) -> dict[str, int]:
    """Crawl -> partitions whose files lie in an archive."""
    return {c: n for c in Registry(store).crawls()
            if (n := sum(store.archived(k) is not None for k in partitions(store, c, COLD)))}


def lifecycle(days: int = 0, storage_class: str = "DEEP_ARCHIVE") -> dict[str, Any]:
    """An S3 lifecycle configuration for the bucket that archives lie in: everything in it turns cold."""
    return {"Rules": [{"ID": "gristmill-archive", "Status": "Enabled", "Filter": {"Prefix": ""},
                       "Transitions": [{"Days": days, "StorageClass": storage_class}]}]}
