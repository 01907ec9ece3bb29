"""Versions that stand in a store: reading a manifest, and the order in which versions were built.

Belongs here: what commands that only look need, so it imports neither Polars nor the models of parameters. Does not
belong here: building a manifest (``manifest.py``), comparing and collecting versions (``versions.py``).
"""

import json
import re
from collections.abc import Sequence
from typing import Any

from gristmill.blobs import pieces
from gristmill.errors import ManifestError
from gristmill.fingerprint import canonical_json
from gristmill.loader.shards import Shards, fold
from gristmill.store import Store

FORMAT = 1
KIND = "gristmill-manifest"
VERSIONS = "registry/versions"
DROPPED = "registry/dropped"
NO_VERSION = "no version has been built yet: `gristmill run --manifest v1` builds one"
_NUMBERED = re.compile(r"^v(\d+)$")


def read_manifest(store: Store, version: str, expected_hash: str | None = None) -> tuple[dict[str, Any], str]:
    """A manifest and its hash.

    Returns:
        its JSON, in which every source is ``Shards``: columns, since one of 10^6 shards takes some GB as objects.

    Raises:
        ManifestError: there is none, it is none, or it is not the one asked for.
    """
    path = f"manifests/{version}/manifest.json"
    try:
        body, found, broken = fold(pieces(store.blobs, path))
    except FileNotFoundError as error:
        here = sorted({p.split("/")[1] for p, _ in store.blobs.list("manifests") if p.endswith("/manifest.json")})
        there = f"there are: {', '.join(here)}" if here else NO_VERSION
        raise ManifestError(f"no version {version!r}; {there}") from error
    if expected_hash is not None and found != expected_hash:
        raise ManifestError(f"{path} has hash {found}, asked for is {expected_hash}")
    if broken is not None:
        raise ManifestError(f"{path} is not JSON: {broken}") from broken
    if not isinstance(body, dict) or body.get("kind") != KIND or body.get("format") != FORMAT:
        raise ManifestError(f"{path} is not a manifest of format {FORMAT}")
    if not all(isinstance(source, Shards) for source in body["sources"].values()):
        raise ManifestError(f"{path}: a source needs shards and layouts")
    return body, found


def excluded_path(version: str, crawl: str, bucket: int) -> str:
    """Where a version says which documents of a catalogue partition it leaves out, by which rule: doc_id, rule."""
    return f"manifests/{version}/excluded/crawl={crawl}/host_bucket={bucket:04d}.parquet"


def register(store: Store, version: str) -> None:
    """Give a version its place in the order of versions, once: what ``retain`` counts by."""
    while True:
        known = registered(store)
        if version in known:
            return
        number = len(known)
        try:
            store.blobs.create(f"{VERSIONS}/{number:06d}.json", canonical_json({"version": version}))
            return
        except FileExistsError:
            continue


def registered(store: Store) -> list[str]:
    """All versions ever built, oldest first; those collected since included."""
    return [json.loads(store.blobs.get(path))["version"] for path, _ in store.blobs.list(VERSIONS)]


def drop(store: Store, version: str) -> None:
    """Note that a standing version is about to go, and its hash: its name means that one for good."""
    note = {"version": version, "hash": read_hash(store, version)}
    store.blobs.put(f"{DROPPED}/{version}.json", canonical_json(note))


def dropped(store: Store) -> dict[str, str | None]:
    """Version that is gone -> the hash that it had; None where an earlier release dropped it and kept no record."""
    out: dict[str, str | None] = {}
    for path, _ in store.blobs.list(DROPPED):
        entry = json.loads(store.blobs.get(path))
        if store.blobs.size(f"manifests/{entry['version']}/manifest.json") is None:
            out[entry["version"]] = entry["hash"]
    # A build that was stopped has its place in the order and files, but no manifest; a dropped version has no file.
    for version in registered(store):
        if version not in out and next(iter(store.blobs.list(f"manifests/{version}/")), None) is None:
            out[version] = None
    return out


def require_unused(store: Store, version: str, made: str | None = None) -> None:
    """Raises ManifestError where the name was another version's, which was dropped.

    Args:
        made: hash of what is to stand there; the one that was dropped may come back. None: not known yet.
    """
    gone = dropped(store)
    if version in gone and (made is None or gone[version] != made):
        had = f"with hash {str(gone[version])[:16]}" if gone[version] else "by an earlier release"
        raise ManifestError(
            f"version {version} stood here {had} and was dropped: its name is in logs and papers and never means "
            f"another; take {next_name(registered(store))}"
        )


def standing_versions(store: Store) -> list[str]:
    """Versions whose manifest is there, those copied in by hand included; by name."""
    return [v for v in store.blobs.children("manifests")[0]
            if store.blobs.size(f"manifests/{v}/manifest.json") is not None]


def next_name(known: Sequence[str]) -> str:
    """The name after all that were ever used: ``v`` and one more than the largest number; other names do not count."""
    return f"v{max((int(m[1]) for m in map(_NUMBERED.match, known) if m), default=0) + 1}"


def read_hash(store: Store, version: str) -> str:
    """The hash of a version. Raises ManifestError where there is none."""
    return read_manifest(store, version)[1]
