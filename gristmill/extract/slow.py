"""The list of documents that were given up: an input of extraction like any other.

Belongs here: reading, adding to, and clearing ``registry/slow`` in the store. A document killed for time, memory or
because it ended its worker stays on the list, so that a later run on a faster machine gives the same bytes, until
someone asks for another try with ``forget``. The text stage's fingerprint is in the path: with another engine or
another limit the question is a new one. Does not belong here: the limits (``watch.py``).
"""

import json
from collections.abc import Mapping
from typing import Any

from gristmill.extract.watch import GivenUp
from gristmill.fingerprint import canonical_json
from gristmill.partition import Partition


def _folder(part: Partition) -> str:
    return f"registry/slow/{part.plan.fingerprints['text']}/{part.crawl}/{part.bucket:04d}"


def listed(part: Partition) -> dict[bytes, GivenUp]:
    """record_id -> why it was given up, for this crawl and bucket."""
    out = {}
    for path, _ in part.store.blobs.list(_folder(part)):
        entry = json.loads(part.store.blobs.get(path))
        out[bytes.fromhex(entry["record_id"])] = GivenUp(entry["reason"], entry["detail"])
    return out


def record(part: Partition, row: Mapping[str, Any], verdict: GivenUp) -> None:
    """Add a record, at once: a run that is killed later has not forgotten it."""
    entry = {"record_id": row["record_id"].hex(), "url": row["url"], "reason": verdict.reason, "detail": verdict.detail}
    part.store.blobs.put(f"{_folder(part)}/{entry['record_id']}.json", canonical_json(entry))


def forget(part: Partition, record_id: bytes | None = None) -> int:
    """Take one record, or all of this bucket, off the list; the next run tries again. Returns how many."""
    tail = "" if record_id is None else f"{record_id.hex()}.json"
    paths = [p for p, _ in part.store.blobs.list(_folder(part)) if p.endswith(tail)]
    for path in paths:
        part.store.blobs.delete(path)
    return len(paths)
