"""How many documents a tombstone is about today.

Belongs here: counting over the catalogue. Does not belong here: writing tombstones (``tombstones.py``), deleting what
they name (``purge.py``).
"""

import pyarrow as pa
import pyarrow.compute as pc

from gristmill import identity
from gristmill.funnel import Plan
from gristmill.registry import Registry
from gristmill.release.tombstones import Kind, host_covered
from gristmill.store import Key, Store

_COLUMNS: dict[Kind, str] = {"url": "url_hash", "host": "host", "doc": "doc_id", "contract": "license_id"}


def count_named(store: Store, plan: Plan, kind: Kind, value: str) -> int:
    """Documents of today's catalogue that a tombstone of this kind names, over all crawls.

    Args:
        store, plan: where to look.
        kind, value: as ``tombstones.normal`` spells it.
    """
    buckets = range(plan.buckets)
    if kind == "url":
        home = identity.host_bucket(identity.host_id(value), plan.buckets)
        buckets = range(home, home + 1)
    found = 0
    for crawl in Registry(store).crawls():
        for bucket in buckets:
            key = Key("catalogue", plan.fingerprints["catalogue"], crawl, bucket)
            if store.manifest(key) is not None:
                found += _hits(store.read(key, [_COLUMNS[kind]]).column(0), kind, value)
    return found


def _hits(column: pa.ChunkedArray, kind: Kind, value: str) -> int:
    if kind == "host":
        hosts = frozenset({value})
        # Each distinct host once: a bucket holds whole hosts, so there are far fewer of them than documents.
        counts = pc.value_counts(column).to_pylist()
        return sum(int(one["counts"]) for one in counts if host_covered(one["values"] or "", hosts))
    wanted: object = identity.url_hash(value) if kind == "url" else bytes.fromhex(value) if kind == "doc" else value
    return pc.sum(pc.equal(column, pa.scalar(wanted, column.type))).as_py() or 0
