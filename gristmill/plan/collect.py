"""What of a store nothing reads any more: results of parameters that nobody uses, and files that no commit names.

Belongs here: finding them, saying how large they are, and deleting them when asked. Does not belong here: versions and
their shards (``release/versions.retain``), old crawls that are still current (``archive.py``).

A changed parameter leaves the old results where they are, so that going back costs nothing; a killed run leaves part
files without a commit record. Both are kept until someone says otherwise.
"""

import contextlib
import os
import re
import shutil
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gristmill.blobs import TMP_PREFIX, LocalBlobs
from gristmill.funnel import FUNNEL, Plan
from gristmill.release.versions import read_manifest, versions
from gristmill.store import MANIFEST, Key, Store

_FINGERPRINT = re.compile(r"^[0-9a-f]{16}$")
# Small, and what later crawls are compared with, whatever parameters made them (observe/history.py).
HISTORY = ("crawl_report", "yields")
LEFT_BEHIND_S = 86_400.0  # a temporary file that nobody has touched for a day belongs to a run that was killed


@dataclass
class Superseded:
    """An asset's results under a fingerprint that no plan and no standing version names."""

    asset: str
    fingerprint: str
    files: int = 0
    bytes: int = 0
    crawls: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Collected:
    """What there is to collect, or what went.

    Attributes:
        superseded: in the funnel's order, then by fingerprint.
        orphans: path -> bytes of part files that no commit record names, in folders that stay.
        temporary: path -> bytes of what killed processes left half written (local stores; an object store's own
            lifecycle rule ends its unfinished uploads).
    """

    superseded: tuple[Superseded, ...]
    orphans: Mapping[str, int]
    temporary: Mapping[str, int]

    @property
    def bytes(self) -> int:
        """All of it."""
        return sum(s.bytes for s in self.superseded) + sum(self.orphans.values()) + sum(self.temporary.values())


def named_by_versions(store: Store) -> dict[str, set[str]]:
    """Asset -> fingerprints that standing versions were made from: lineage and purge follow them.

    Raises:
        ManifestError: a version that cannot be read: then nobody knows what it needs.
    """
    out: dict[str, set[str]] = {}
    for version in versions(store):
        if store.blobs.size(f"manifests/{version}/manifest.json") is None:
            continue
        for asset, fingerprint in read_manifest(store, version)[0]["fingerprints"].items():
            out.setdefault(asset, set()).add(fingerprint)
    return out


def collect(store: Store, plans: Iterable[Plan], *, delete: bool = False) -> Collected:
    """Find what nothing reads, and delete it when asked.

    No run may be at work: a part file is written before the commit record that names it. On a local disk partitions
    are locked one by one while they are swept, so a run that is at work all the same loses nothing.

    Args:
        plans: of every parameter file that uses the store.
        delete: else only say.

    Returns:
        What there is, or was.

    Raises:
        ManifestError: a standing version cannot be read (then nothing is deleted).
    """
    keep = named_by_versions(store)
    for plan in plans:
        for asset, fingerprint in plan.fingerprints.items():
            keep.setdefault(asset, set()).add(fingerprint)
    superseded: list[Superseded] = []
    orphans: dict[str, int] = {}
    for stage in FUNNEL:
        if stage.name in HISTORY:
            continue
        found: dict[str, Superseded] = {}
        folders: dict[str, dict[str, int]] = {}
        for path, size in list(store.blobs.list(stage.name)):
            parts = path.split("/")
            if not _FINGERPRINT.match(parts[1]):
                continue  # content-addressed shards, merged generations: others' to collect
            if parts[1] in keep.get(stage.name, ()):
                folders.setdefault(path.rpartition("/")[0], {})[parts[-1]] = size
                continue
            one = found.setdefault(parts[1], Superseded(stage.name, parts[1]))
            one.files, one.bytes = one.files + 1, one.bytes + size
            one.crawls |= {p.removeprefix("crawl=") for p in parts if p.startswith("crawl=")}
        for fingerprint in sorted(found):
            superseded.append(found[fingerprint])
            if delete:
                _delete(store, f"{stage.name}/{fingerprint}")
        for folder in sorted(folders):
            orphans.update(_orphans(store, folder, folders[folder], delete=delete))
    return Collected(tuple(superseded), orphans, _temporary(store, delete=delete))


def _temporary(store: Store, *, delete: bool) -> dict[str, int]:
    if not isinstance(store.blobs, LocalBlobs):
        return {}
    root = Path(store.blobs.root)
    out: dict[str, int] = {}
    for folder, names, files in os.walk(root):
        ours = [n for n in (*names, *files) if n.startswith(TMP_PREFIX)]
        names[:] = sorted(n for n in names if not n.startswith(TMP_PREFIX))
        for name in sorted(ours):
            path = Path(folder) / name
            with contextlib.suppress(FileNotFoundError):
                inside = [p for p in path.rglob("*") if p.is_file()] if path.is_dir() else [path]
                if time.time() - max(p.stat().st_mtime for p in [path, *inside]) < LEFT_BEHIND_S:
                    continue
                out[path.relative_to(root).as_posix()] = sum(p.stat().st_size for p in inside)
                if delete and path.is_dir():
                    shutil.rmtree(path)
                elif delete:
                    path.unlink()
    return out


def _delete(store: Store, prefix: str) -> None:
    """Commit records first: a partition is gone before its bytes are."""
    paths = [path for path, _ in store.blobs.list(prefix)]
    for path in sorted(paths, key=lambda p: (not p.endswith(f"/{MANIFEST}"), p)):
        store.blobs.delete(path)


def _orphans(store: Store, folder: str, there: Mapping[str, int], *, delete: bool) -> dict[str, int]:
    if all(name.startswith("_") for name in there):
        return {}
    key = _key(folder)
    with store.lock(key):
        manifest = store.manifest(key)
        named = {f.name for f in manifest.files} if manifest is not None else set()
        out = {f"{folder}/{n}": s for n, s in sorted(there.items()) if n not in named and not n.startswith("_")}
        for path in out if delete else ():
            store.blobs.delete(path)
    return out


def _key(folder: str) -> Key:
    asset, fingerprint, *rest = folder.split("/")
    where = dict(part.partition("=")[::2] for part in rest)
    bucket = where.get("host_bucket")
    return Key(asset, fingerprint, where.get("crawl"), None if bucket is None else int(bucket))
