"""Frozen benchmark hold-outs, in a write-once root of their own.

Belongs here: freezing benchmarks before anything else is read, and opening them pinned to a hash. Does not belong here:
matching them with documents (``decontaminate/``), and the held-out web sample (``recrawl.py``).

Layout: ``benchmarks/{name}-{sha256, 20 digits}.parquet`` (columns item, span, text) and ``holdout.json``, whose sha256
is the hash that parameters name. The root is never written again: a new set of benchmarks is a new root.
"""

import contextlib
import csv
import gzip
import hashlib
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gristmill import strict_json
from gristmill.acquire.object_lock import lock
from gristmill.blobs import Blobs, open_blobs
from gristmill.errors import HoldoutError
from gristmill.fingerprint import canonical_json
from gristmill.params import SiteConfig
from gristmill.registry import NAME
from gristmill.store import parquet_bytes

MANIFEST = "holdout.json"
SCHEMA = pa.schema([("item", pa.string()), ("span", pa.string()), ("text", pa.string())])

# obstore's option -> (variable after the site's prefix, must it be set). Region and endpoint may be the store's.
_VARIABLES = {
    "access_key_id": ("AWS_ACCESS_KEY_ID", True), "secret_access_key": ("AWS_SECRET_ACCESS_KEY", True),
    "session_token": ("AWS_SESSION_TOKEN", False), "region": ("AWS_REGION", False),
    "endpoint": ("AWS_ENDPOINT_URL", False),
}

Rows = Iterable[Mapping[str, Any]]
Fields = Mapping[str, str]


@dataclass(frozen=True)
class Holdout:
    """Opened hold-outs.

    Attributes:
        root: where they are.
        hash: sha256 of the manifest.
        manifest: names, counts and digests of the benchmarks.
    """

    root: str
    hash: str
    manifest: dict[str, Any]
    options: Mapping[str, Any] | None = None

    def benchmarks(self) -> Iterator[tuple[str, str, dict[str, str]]]:
        """(benchmark, item id, {span name: text}) of every item, sorted by benchmark, in the benchmark's own order.

        Raises:
            HoldoutError: when a file is gone or is not what was frozen.
        """
        blobs = open_blobs(self.root, self.options)
        for entry in self.manifest["benchmarks"]:
            item, spans = None, {}
            for row in _read(blobs, entry).to_pylist():
                if item is not None and row["item"] != item:
                    yield entry["name"], item, spans
                    spans = {}
                item = row["item"]
                spans[row["span"]] = row["text"]
            if item is not None:
                yield entry["name"], item, spans


def freeze(root: str | Path, benchmarks: Mapping[str, str | Path | Rows],
           fields: Fields | Mapping[str, Fields] | None = None, *,
           options: Mapping[str, Any] | None = None, lock_until: str | None = None) -> str:
    """Write benchmarks into a hold-out root, once.

    Args:
        root: folder or ``s3://``, not the store's.
        benchmarks: name -> file (.jsonl, .json, .csv, .parquet, each also .gz) or rows.
        fields: {span name: field of the row} for all, or benchmark -> such a mapping; the key ``item`` names the field
            that holds the item's id. Without it every field that is text, or a list of texts, is a span under its own
            name, and items are numbered.
        options: object-store settings.
        lock_until: ISO date; on S3 with object lock every object is retained until then.

    Returns:
        The manifest's hash, for ``extract.holdout_hash``.

    Raises:
        HoldoutError: when the root holds other hold-outs (it is never overwritten), or a benchmark cannot be read.
    """
    if not benchmarks:
        raise HoldoutError("no benchmark was named: a hold-out root without any would never be noticed")
    blobs = open_blobs(root, options)
    files: list[tuple[str, bytes]] = []
    entries = []
    for name in sorted(benchmarks):
        if not NAME.match(name):
            raise HoldoutError(f"{name!r} cannot name a benchmark: letters, digits, dot, dash and underscore")
        table, items = _spans(name, _rows(name, benchmarks[name]), _fields_of(name, fields))
        data = parquet_bytes(table)
        sha = hashlib.sha256(data).hexdigest()
        path = f"benchmarks/{name}-{sha[:20]}.parquet"
        files.append((path, data))
        entries.append({"name": name, "path": path, "sha256": sha, "items": items, "spans": table.num_rows})
    manifest = canonical_json({"format": 1, "kind": "gristmill-holdout", "benchmarks": entries})
    new = hashlib.sha256(manifest).hexdigest()
    there = _manifest_bytes(blobs)
    if there is not None and there != manifest:
        raise _other(blobs, there, new)
    for path, data in files:
        with contextlib.suppress(FileExistsError):  # named by content
            blobs.create(path, data)
    if there is None:
        try:
            blobs.create(MANIFEST, manifest)
        except FileExistsError:
            raced = blobs.get(MANIFEST)
            if raced != manifest:
                raise _other(blobs, raced, new) from None
    if lock_until is not None:
        lock(root, lock_until, options)
    return new


def _other(blobs: Blobs, there: bytes, new: str) -> HoldoutError:
    return HoldoutError(
        f"{blobs.root} already holds hold-outs {hashlib.sha256(there).hexdigest()}; these would be {new}. Hold-outs "
        "are written once: freeze the new set into a new root, and name its hash in extract.holdout_hash"
    )


def access(site: SiteConfig, store_options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Object-store settings for the hold-out root: its own credentials where the site names some, else the store's.

    With ``site.holdout_env: HOLDOUT_`` they come from the variables HOLDOUT_AWS_ACCESS_KEY_ID,
    HOLDOUT_AWS_SECRET_ACCESS_KEY and, where set, HOLDOUT_AWS_SESSION_TOKEN, _REGION and _ENDPOINT_URL.

    Raises:
        HoldoutError: naming the variable that is not set. The store's credentials are no substitute.
    """
    if not site.holdout.startswith("s3://"):
        return None
    if not site.holdout_env:
        return dict(store_options)
    options = {}
    for option, (variable, needed) in _VARIABLES.items():
        value = os.environ.get(site.holdout_env + variable)
        if value:
            options[option] = value
        elif needed:
            raise HoldoutError(
                f"{site.holdout_env}{variable} is not set: site.holdout_env says that the hold-outs in {site.holdout} "
                "have credentials of their own; give this process those variables, or empty site.holdout_env"
            )
        elif option in store_options:
            options[option] = store_options[option]
    return options


def open_holdout(root: str | Path, expected_hash: str | None = None, *,
                 options: Mapping[str, Any] | None = None) -> Holdout:
    """Open frozen hold-outs.

    Args:
        root: where they were frozen.
        expected_hash: what the parameters name; None takes what is there.
        options: object-store settings.

    Raises:
        HoldoutError: when there are none, or others than expected.
    """
    blobs = open_blobs(root, options)
    raw = _manifest_bytes(blobs)
    if raw is None:
        raise HoldoutError(
            f"there are no hold-outs in {blobs.root}: freeze the benchmarks first (gristmill init --holdout FILE), "
            "before any page is read, and name the hash in extract.holdout_hash"
        )
    found = hashlib.sha256(raw).hexdigest()
    if expected_hash is not None and found != expected_hash:
        raise HoldoutError(
            f"the hold-outs in {blobs.root} have hash {found}, the parameters name {expected_hash}: point site.holdout "
            "at the root that was frozen with it, or name the new hash in extract.holdout_hash"
        )
    try:
        manifest = json.loads(raw)
        if manifest["kind"] != "gristmill-holdout" or manifest["format"] != 1:
            raise KeyError("kind")
    except (ValueError, KeyError, TypeError) as error:
        raise HoldoutError(f"{blobs.root}/{MANIFEST} is not a hold-out manifest of this release") from error
    return Holdout(blobs.root, found, manifest, options)


def require(root: str | Path, expected_hash: str | None, *, options: Mapping[str, Any] | None = None) -> Holdout:
    """Hold-outs for a stage that must not start without: the parameters have to name their hash.

    Raises:
        HoldoutError: saying why, and what to do.
    """
    if expected_hash is None:
        raise HoldoutError(
            "extract.holdout_hash is not set: extraction starts only when the benchmarks have been frozen, so that no "
            "page is read before it is known what must be kept out. Freeze them, and write the hash into pipeline.yaml"
        )
    return open_holdout(root, expected_hash, options=options)


def _manifest_bytes(blobs: Blobs) -> bytes | None:
    try:
        return blobs.get(MANIFEST)
    except FileNotFoundError:
        return None


def _read(blobs: Blobs, entry: Mapping[str, Any]) -> pa.Table:
    try:
        data = blobs.get(entry["path"])
    except FileNotFoundError as error:
        raise HoldoutError(f"the hold-out {entry['name']} is gone: no {entry['path']} in {blobs.root}") from error
    if hashlib.sha256(data).hexdigest() != entry["sha256"]:
        raise HoldoutError(f"the hold-out {entry['name']} was changed: {entry['path']} is not what was frozen")
    return pq.read_table(pa.BufferReader(data), use_threads=False)


def _rows(name: str, source: str | Path | Rows) -> list[Mapping[str, Any]]:
    if not isinstance(source, str | Path):
        return list(source)
    path = Path(source)
    try:
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
        kind = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
        if kind == ".parquet":
            rows: list[Mapping[str, Any]] = pq.read_table(pa.BufferReader(data), use_threads=False).to_pylist()
        elif kind in (".jsonl", ".ndjson"):
            rows = _lines(data)
        elif kind == ".json":
            rows = strict_json.loads(data)
        elif kind == ".csv":
            rows = list(csv.DictReader(io.StringIO(data.decode("utf-8"), newline="")))
        else:
            raise HoldoutError(f"benchmark {name}: {path} is none of .jsonl, .json, .csv, .parquet (also .gz)")
    except (OSError, EOFError, ValueError, pa.ArrowException) as error:
        raise HoldoutError(f"benchmark {name}: {path} cannot be read: {error}") from error
    if not isinstance(rows, list) or not all(isinstance(r, Mapping) for r in rows):
        raise HoldoutError(f"benchmark {name}: {path} is not a list of items")
    return rows


def _lines(data: bytes) -> list[Any]:
    """The values of JSON lines. Raises ValueError naming the line."""
    rows = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if line.strip():
            try:
                rows.append(strict_json.loads(line))
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from error
    return rows


def _spans(name: str, rows: list[Mapping[str, Any]], fields: Fields | None) -> tuple[pa.Table, int]:
    out: list[dict[str, str]] = []
    seen: set[str] = set()
    for number, row in enumerate(rows):
        chosen = {s: f for s, f in fields.items() if s != "item"} if fields else {f: f for f in row}
        item = str(row[fields["item"]]) if fields and "item" in fields and fields["item"] in row else str(number)
        if item in seen:
            raise HoldoutError(f"benchmark {name}: item {item!r} occurs twice; name another field as its id")
        found = 0
        for span, source in sorted(chosen.items()):
            if fields and source not in row:
                raise HoldoutError(f"benchmark {name}: item {item} has no field {source!r}, only {', '.join(row)}")
            text = _text(row.get(source))
            if text:
                out.append({"item": item, "span": span, "text": text})
                found += 1
        if found:
            seen.add(item)
    if not out:
        raise HoldoutError(f"benchmark {name} holds no text: name its fields")
    try:
        return pa.Table.from_pylist(out, schema=SCHEMA), len(seen)
    except UnicodeEncodeError as error:  # rows that were given, not read
        raise HoldoutError(f"benchmark {name}: a text holds a lone surrogate: that is no text") from error


def _fields_of(name: str, fields: Fields | Mapping[str, Fields] | None) -> Fields | None:
    if not fields:
        return None
    flat = {span: source for span, source in fields.items() if isinstance(source, str)}
    if len(flat) == len(fields):
        return flat
    own = fields.get(name)
    return None if isinstance(own, str) else own


def _text(value: object) -> str:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, list | tuple) and value and all(isinstance(v, str) for v in value):
        return "\n".join(v.strip() for v in value)
    return ""
