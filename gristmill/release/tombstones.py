"""Tombstones: what must never again be shown, by URL, host, document or contract.

Belongs here: writing and reading them, and physical deletion of the bytes. Does not belong here: applying them to a
selection (``policy.py``). A tombstone is written once and never taken away; it outlives the bytes it is about.
"""

import contextlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gristmill.errors import ManifestError
from gristmill.fingerprint import canonical_json, digest
from gristmill.identity import canonical_url, url_hash
from gristmill.store import Store

Kind = Literal["url", "host", "doc", "contract"]
FOLDER = "registry/tombstones"
PURGED = "registry/purged"


@dataclass(frozen=True)
class Tombstones:
    """All of a store, as sets to test against."""

    urls: frozenset[int]  # url_hash
    hosts: frozenset[str]  # a host and everything under it
    docs: frozenset[bytes]
    contracts: frozenset[str]  # licence ids

    def __len__(self) -> int:
        return len(self.urls) + len(self.hosts) + len(self.docs) + len(self.contracts)

    @property
    def digest(self) -> str:
        """sha256 over them: state that a manifest consumed."""
        return digest(
            [
                [str(u) for u in sorted(self.urls)],
                sorted(self.hosts),
                sorted(d.hex() for d in self.docs),
                sorted(self.contracts),
            ]
        )


def classify(what: str) -> Kind:
    """Which kind an argument is: a URL has ``://``, a document 32 hex digits, a host a dot.

    Raises:
        ManifestError: it is none of these. A contract is named as one: a mistyped opt-out must not look done.
    """
    if "://" in what:
        return "url"
    if len(what) == 32 and all(c in "0123456789abcdef" for c in what.lower()):
        return "doc"
    if "." in what and "/" not in what and " " not in what:
        return "host"
    raise ManifestError(
        f"{what!r} is no URL (with its scheme), host or document id: correct it, or say --kind contract for a licence "
        "or contract id"
    )


def normal(kind: Kind, what: str) -> str:
    """One spelling for one thing. Raises ManifestError for what cannot be of that kind."""
    if kind == "url":
        if "://" not in what:
            raise ManifestError(f"{what!r} is not a URL: give it with its scheme, or say --kind host")
        url = canonical_url(what.strip())
        if not url.partition("://")[2].partition("/")[0].rpartition("@")[2].strip(":"):
            raise ManifestError(f"{what!r} is a URL without a host: it can name no page")
        return url
    if kind == "doc":
        try:
            if len(bytes.fromhex(what)) != 16:
                raise ValueError
        except ValueError as error:
            raise ManifestError(f"{what!r} is not a document: its id has 32 hex digits") from error
        return what.lower()
    if kind == "host":
        host = what.strip().lower().rstrip(".")
        if not host or re.search(r"[\s/@?#]|^\.|\.\.", host):
            raise ManifestError(f"{what!r} is not a host: write it as it stands in a URL, such as www.example.org")
        return host
    if not what.strip():
        raise ManifestError("an empty licence or contract id names nothing")
    return what


def forget(store: Store, what: str, *, kind: Kind | None = None, reason: str = "") -> str:
    """Write a tombstone, and return its path. Writing it again changes nothing.

    Args:
        store: where.
        what: a URL, a host (subdomains included), a document id in hex, or a licence or contract id.
        kind: which of these; guessed from its form where not given.
        reason: for people; stays in the file.
    """
    chosen = kind or classify(what)
    value = normal(chosen, what)
    path = f"{FOLDER}/{chosen}-{digest(value)[:24]}.json"
    body: dict[str, Any] = {"kind": chosen, "value": value, "reason": reason}
    if chosen == "url":
        body["url_hash"] = f"{url_hash(value):016x}"
    with contextlib.suppress(FileExistsError):  # the first one stands
        store.blobs.create(path, canonical_json(body))
    return path


def entries(store: Store) -> list[dict[str, Any]]:
    """Every tombstone, sorted by kind and value."""
    found = [json.loads(store.blobs.get(path)) for path, _ in store.blobs.list(FOLDER)]
    return sorted(found, key=lambda e: (e["kind"], e["value"]))


def read(store: Store) -> Tombstones:
    """All tombstones of a store."""
    by: dict[str, list[dict[str, Any]]] = {"url": [], "host": [], "doc": [], "contract": []}
    for entry in entries(store):
        by[entry["kind"]].append(entry)
    return Tombstones(
        frozenset(int(e["url_hash"], 16) for e in by["url"]),
        frozenset(e["value"] for e in by["host"]),
        frozenset(bytes.fromhex(e["value"]) for e in by["doc"]),
        frozenset(e["value"] for e in by["contract"]),
    )


def host_covered(host: str, hosts: frozenset[str]) -> bool:
    """Is ``host`` one of ``hosts``, or under one of them (``www.example.org`` under ``example.org``)."""
    if not hosts:
        return False
    parts = host.split(".")
    return any(".".join(parts[i:]) in hosts for i in range(len(parts)))


def mark_purged(store: Store, what: str, places: Sequence[str]) -> None:
    """Note that bytes are gone, and why: what an old manifest says when it is asked for them."""
    body = {"because": what, "places": sorted(places)}
    store.blobs.put(f"{PURGED}/{digest(body)[:24]}.json", canonical_json(body))


def purged(store: Store) -> dict[str, str]:
    """Place (a path in the store) -> the tombstone because of which its bytes were deleted."""
    out: dict[str, str] = {}
    for path, _ in store.blobs.list(PURGED):
        entry = json.loads(store.blobs.get(path))
        for place in entry["places"]:
            out[place] = entry["because"]
    return out
