"""Copying a version to another place: only what that place lacks, the manifest last.

Belongs here: the delta and its cost. Does not belong here: what a version is (``manifest.py``).
"""

from dataclasses import dataclass

from gristmill.errors import ManifestError
from gristmill.fingerprint import canonical_json, digest
from gristmill.release.standing import read_manifest, register, shard_paths
from gristmill.store import Store

SUFFIXES = (".bin", ".idx", ".docs", ".meta")
SHIPPED = "registry/shipped"


@dataclass(frozen=True)
class Shipped:
    """What ``ship`` copied, or would copy."""

    shards_named: int
    shards_copied: int
    bytes_named: int
    bytes_copied: int

    def cost(self, dollars_per_tb: float) -> float:
        """Dollars for the bytes copied."""
        return self.bytes_copied / 1e12 * dollars_per_tb


def ship(
    store: Store, version: str, target: Store, *, dry_run: bool = False, expected_hash: str | None = None
) -> Shipped:
    """Copy a version's shards and manifest to another store.

    Shards are named by their content, so one that is there with the right size is not copied. The manifest goes last:
    whoever sees it there can read all of it, and ``retain`` there counts it among the versions. The copy is noted in
    the source's registry, since a purge must reach it.

    Args:
        target: another store, local or S3.
        dry_run: only count.
        expected_hash: the manifest's pinned hash.

    Raises:
        ManifestError: a shard that the manifest names is missing here; then nothing has been made visible there.
    """
    manifest, found = read_manifest(store, version, expected_hash)
    named = copied = bytes_named = bytes_copied = 0
    for path in sorted(shard_paths(manifest).values()):
        named += 1
        lacking = False
        for suffix in SUFFIXES:
            size = store.blobs.size(path + suffix)
            if size is None:
                raise ManifestError(
                    f"version {version}: {path}{suffix} is missing; run `gristmill manifest verify {version}`"
                )
            bytes_named += size
            if target.blobs.size(path + suffix) == size:
                continue
            lacking = True
            bytes_copied += size
            if not dry_run:
                target.blobs.put(path + suffix, store.blobs.get(path + suffix))
        copied += lacking
    base = f"manifests/{version}"
    beside = [f"{base}/{n}" for n in ("selection.parquet", "statistics.json", "to_tokenise.json", "report.html")]
    beside += sorted(path for path, _ in store.blobs.list(f"{base}/excluded"))
    for path in (*beside, f"{base}/manifest.json"):
        size = store.blobs.size(path)
        if size is None:
            continue
        bytes_named += size
        data = store.blobs.get(path)
        try:
            same = target.blobs.get(path) == data
        except FileNotFoundError:
            same = False
        if not same:
            bytes_copied += size
            if not dry_run:
                target.blobs.put(path, data)
    if not dry_run:
        register(target, version)
        note = {"version": version, "manifest": found, "target": target.root}
        store.blobs.put(f"{SHIPPED}/{digest(note)[:24]}.json", canonical_json(note))
    return Shipped(named, copied, bytes_named, bytes_copied)
