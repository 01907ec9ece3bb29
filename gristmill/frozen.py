"""What is frozen for the life of a store: how many host buckets its grid has.

Belongs here: recording the number at first use, and refusing another. Does not belong here: what a bucket is
(``identity.py``), and other parameters, which may change (``plan/change.py``).

Another number makes every stage again beside what there is, with versions, crawls compared across and Dagster's
partitions on two grids; so it takes another store.
"""

import contextlib
import json

from gristmill.errors import ParameterError
from gristmill.fingerprint import canonical_json
from gristmill.funnel import FUNNEL, Plan
from gristmill.release.standing import read_manifest, registered
from gristmill.store import Store

GRID = "registry/grid.json"


def recorded(store: Store) -> int | None:
    """Host buckets that the store was first used with; None where nothing has been recorded."""
    try:
        found: int = json.loads(store.blobs.get(GRID))["host_buckets"]
        return found
    except FileNotFoundError:
        return None


def require_buckets(store: Store, plan: Plan, *, record: bool = True) -> None:
    """Hold a plan's host buckets against the store's, which are recorded at first use.

    Args:
        record: else only look: what is not recorded yet is taken from what there is, and written nowhere.

    Raises:
        ParameterError: the store has another number.
    """
    found = recorded(store)
    if found is None:
        found = _there(store, plan) or plan.buckets
        if record:
            with contextlib.suppress(FileExistsError):  # another process was first: then its number counts
                store.blobs.create(GRID, canonical_json({"host_buckets": found}))
            found = recorded(store)
    if found != plan.buckets:
        raise other_buckets(store, plan, found)


def other_buckets(store: Store, plan: Plan, found: int | None) -> ParameterError:
    """What is said of a plan whose number of host buckets is not the store's."""
    return ParameterError(
        f"grid.host_buckets is {plan.buckets}, and the store {store.root} has {found}, frozen for its life: set it "
        f"back to {found}, or name another store (site.store)"
    )


def _there(store: Store, plan: Plan) -> int | None:
    """The number of a store that an earlier release wrote, which recorded none.

    By the newest version that stands; else today's, where today's parameters made something; else by the highest
    bucket, where a stage stands that reads all buckets of a crawl. Of a crawl taken in part only so much is known,
    that there are no fewer buckets than were made: then today's number is taken where it is enough.
    """
    for version in reversed(registered(store)):
        if store.blobs.size(f"manifests/{version}/manifest.json") is not None:
            buckets: int = read_manifest(store, version)[0]["grid"]["host_buckets"]
            return buckets
    least = 0
    for stage in (s for s in FUNNEL if s.on_grid):
        homes = [h for h in (_home(path) for path, _ in store.blobs.list(stage.name)) if h is not None]
        if any(fingerprint == plan.fingerprints[stage.name] for fingerprint, _ in homes):
            return plan.buckets
        least = max([least, *(bucket + 1 for _, bucket in homes)])
        if homes and any(i.scope == "crawl" for i in stage.inputs):
            return least
    return max(least, plan.buckets) if least else None


def _home(path: str) -> tuple[str, int] | None:
    """(fingerprint, bucket) of a file of a partition on the grid; None of another file."""
    parts = path.split("/")
    if len(parts) != 5 or not parts[3].startswith("host_bucket="):
        return None
    return parts[1], int(parts[3].removeprefix("host_bucket="))
