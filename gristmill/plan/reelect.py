"""Elected documents that no shard holds yet: what the newest version lists, where each has its row, and having it made.

Belongs here: from ``manifests/V/to_tokenise.json`` to the registry that ``near`` consumes. Does not belong here: who is
elected (``release/eligibility.py``) and the making (the funnel).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gristmill.funnel import Plan
from gristmill.registry import Registry
from gristmill.release.standing import registered
from gristmill.release.versions import to_tokenise
from gristmill.store import Key, Store


@dataclass(frozen=True)
class Wanted:
    """Elected documents by the partition of ``near`` that has their row.

    Attributes:
        version: the manifest that lists them; None where there is no version.
        places: (crawl, bucket) -> doc_ids in hex, sorted.
        nowhere: listed, and with no row in ``near`` under today's parameters: nothing can tokenise them.
    """

    version: str | None = None
    places: dict[tuple[str, int], list[str]] = field(default_factory=dict)
    nowhere: tuple[str, ...] = ()

    @property
    def documents(self) -> int:
        """How many can be tokenised."""
        return sum(map(len, self.places.values()))

    def touched(self, crawl: str) -> Mapping[str, list[int]]:
        """What ``stale.survey`` is told of a crawl."""
        return {"near": [b for c, b in self.places if c == crawl]}


def wanted(store: Store, plan: Plan, version: str | None = None) -> Wanted:
    """What the newest version (or the one named) lists and the registry does not have yet."""
    known = registered(store)
    version = version or (known[-1] if known else None)
    if version is None:
        return Wanted()
    registry = Registry(store)
    places: dict[tuple[str, int], list[str]] = {}
    nowhere = []
    held: dict[tuple[str, int], frozenset[bytes]] = {}
    for entry in to_tokenise(store, version):
        named = (entry["crawl"], int(entry["host_bucket"]))
        place = _home(store, plan, registry.crawls(), entry["doc_id"], named, held)
        if place is None:
            nowhere.append(entry["doc_id"])
        elif entry["doc_id"] not in registry.elected(*place):
            places.setdefault(place, []).append(entry["doc_id"])
    return Wanted(version, {k: sorted(set(v)) for k, v in sorted(places.items())}, tuple(sorted(nowhere)))


def _home(store: Store, plan: Plan, crawls: Sequence[str], doc: str, named: tuple[str, int],
          held: dict[tuple[str, int], frozenset[bytes]]) -> tuple[str, int] | None:
    """Where a document has its row in ``near``: as a rule where its record lies, else where its first record does.

    Args:
        held: documents of the partitions read so far; added to.
    """
    elsewhere = ((c, b) for c in crawls for b in range(plan.buckets) if (c, b) != named)
    for place in (named, *elsewhere):
        if place not in held:
            key = Key("near", plan.fingerprints["near"], *place)
            there = store.manifest(key) is not None
            held[place] = frozenset(store.read(key, ["doc_id"])["doc_id"].to_pylist() if there else ())
        if bytes.fromhex(doc) in held[place]:
            return place
    return None


def register(store: Store, found: Wanted) -> int:
    """Enter them in the registry; the next run of their crawls scores and tokenises them. Returns how many are new."""
    registry = Registry(store)
    return sum(registry.elect(crawl, bucket, docs) for (crawl, bucket), docs in found.places.items())
