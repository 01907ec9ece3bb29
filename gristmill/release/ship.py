"""Copying a version to another place: only what that place lacks, the manifest last.

Belongs here: the delta and its cost. Does not belong here: what a version is (``manifest.py``).
"""

from dataclasses import dataclass
from pathlib import Path

from gristmill.blobs import pieces, sha256_of
from gristmill.errors import ManifestError
from gristmill.fingerprint import canonical_json, digest
from gristmill.release.shard_set import ShardSet, Sizes
from gristmill.release.standing import read_manifest, register, require_unused
from gristmill.store import Store
from gristmill.tokens import shard

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
    store: Store, version: str, target: Store, *, dry_run: bool = False, deep: bool = False,
    expected_hash: str | None = None,
) -> Shipped:
    """Copy a version's shards and manifest to another store.

    Shards are named by their content, so one that is there with the right size is not copied; what is copied is first
    held against its name, so that damage here does not travel. The manifest goes last: whoever sees it there can read
    all of it, and ``retain`` there counts it among the versions. The copy is noted in the source's registry, since a
    purge must reach it.

    Args:
        target: another store, local or S3.
        dry_run: only count.
        deep: read what the target holds too, and copy again what is not what its name says.
        expected_hash: the manifest's pinned hash.

    Raises:
        ManifestError: a shard that the manifest names is missing or damaged here, or the target dropped another
            version of this name; then nothing has been made visible there.
    """
    manifest, found = read_manifest(store, version, expected_hash)
    require_unused(target, version, found)
    named = copied = bytes_named = bytes_copied = 0
    here, there = Sizes(store.blobs), Sizes(target.blobs)
    for key, path, _ in ShardSet(manifest["sources"].values()):
        named += 1
        sizes = {suffix: here.of(path + suffix) for suffix in SUFFIXES}
        for suffix, size in sizes.items():
            if size is None:
                raise ManifestError(
                    f"version {version}: {path}{suffix} is missing; run `gristmill manifest verify {version}`"
                )
            bytes_named += size
        lacking = [s for s, size in sizes.items() if there.of(path + s) != size]
        if deep:
            lacking += [s for s in _differing(store, target, key, path) if s not in lacking]
        copied += bool(lacking)
        bytes_copied += sum(sizes[s] or 0 for s in lacking)
        if lacking and not dry_run:
            sound = _sound(store, version, key, path)
            for suffix in lacking:
                target.blobs.put(path + suffix, sound.get(suffix) or store.blobs.get(path + suffix))
    base = f"manifests/{version}"
    beside = [f"{base}/{n}" for n in ("selection.parquet", "statistics.json", "to_tokenise.json", "report.html")]
    beside += sorted(path for path, _ in store.blobs.list(f"{base}/excluded"))
    for path in (*beside, f"{base}/manifest.json"):
        size = store.blobs.size(path)
        if size is None:
            continue
        bytes_named += size
        if target.blobs.size(path) != size or sha256_of(target.blobs, path) != sha256_of(store.blobs, path):
            bytes_copied += size
            if not dry_run:
                _copy(store, path, target)
    if not dry_run:
        register(target, version)
        note = {"version": version, "manifest": found, "target": target.root}
        store.blobs.put(f"{SHIPPED}/{digest(note)[:24]}.json", canonical_json(note))
    return Shipped(named, copied, bytes_named, bytes_copied)


def _copy(store: Store, path: str, target: Store) -> None:
    """An object of any size, piece by piece."""
    with target.scratch() as folder:
        file = Path(folder) / "copy"
        with file.open("wb") as out:
            out.writelines(pieces(store.blobs, path))
        target.blobs.put_file(path, file)


def _sound(store: Store, version: str, key: str, path: str) -> dict[str, bytes]:
    """A shard's ``.bin`` and ``.idx``. Raises ManifestError where they are not what its name says."""
    data = {suffix: store.blobs.get(path + suffix) for suffix in SUFFIXES[:2]}
    if shard.content_hash(data[".bin"], data[".idx"]) != key:
        raise ManifestError(
            f"version {version}: shard {path} is damaged and was not copied: run `gristmill manifest verify {version} "
            "--deep` for all that are, and make them again with `gristmill run --crawl CRAWL --stage shards --force`"
        )
    return data


def _differing(store: Store, target: Store, key: str, path: str) -> list[str]:
    """Files of a shard that the target holds with other content than here; the tokens by the shard's name."""
    try:
        there = {suffix: target.blobs.get(path + suffix) for suffix in SUFFIXES}
    except FileNotFoundError:
        return []  # what is lacking is known by its size
    out = [".bin", ".idx"] if shard.content_hash(there[".bin"], there[".idx"]) != key else []
    return out + [suffix for suffix in SUFFIXES[2:] if there[suffix] != store.blobs.get(path + suffix)]
