"""The registry of crawls: which there are, and the one order ("ordinal") in which they count as earlier and later.

Belongs here: names, ordinals, where a crawl landed, which duplicates were elected. Does not belong here: what is in a
crawl. An ordinal is given once, by create-exclusive, and never reused; a crawl key is never deleted (Dagster gives a
re-added key its old materialisations back).
"""

import json
import re
from collections.abc import Iterable

from gristmill.errors import LandingError
from gristmill.fingerprint import canonical_json
from gristmill.store import Store

NO_CRAWL = "no crawl has been taken yet: `gristmill run --landing PLACE --crawl NAME` takes one"
# Dagster's keys hold none of | , [ ]; a path holds no slash.
NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")


class Registry:
    """Crawls in the store's ``registry/crawls``."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def crawls(self) -> list[str]:
        """All crawls, by ordinal."""
        return [name for _, name in sorted((o, n) for n, o in self.ordinals().items())]

    def ordinals(self) -> dict[str, int]:
        """Crawl -> ordinal."""
        out: dict[str, int] = {}
        for path, _ in self.store.blobs.list("registry/crawls"):
            entry = json.loads(self.store.blobs.get(path))
            out[entry["crawl"]] = entry["ordinal"]
        return out

    def register(self, crawl: str) -> int:
        """Give a crawl its ordinal, the next one, unless it has one.

        Raises:
            LandingError: for a name that cannot be a key and a folder.
        """
        if not NAME.match(crawl):
            raise LandingError(f"{crawl!r} cannot name a crawl: letters, digits, dot, dash and underscore, at most 100")
        while True:
            known = self.ordinals()
            if crawl in known:
                return known[crawl]
            ordinal = max(known.values(), default=-1) + 1
            try:
                self.store.blobs.create(
                    f"registry/crawls/{ordinal:06d}.json", canonical_json({"crawl": crawl, "ordinal": ordinal})
                )
                return ordinal
            except FileExistsError:
                continue  # another process took the ordinal; look again

    def set_landing(self, crawl: str, landing: str) -> None:
        """Remember where a crawl landed, when that is not the site's landing area. Never part of a fingerprint."""
        self.store.blobs.put(f"registry/landings/{crawl}.json", canonical_json({"landing": landing}))

    def landing(self, crawl: str) -> str | None:
        """Where a crawl landed, or None for the site's landing area."""
        try:
            place: str = json.loads(self.store.blobs.get(f"registry/landings/{crawl}.json"))["landing"]
            return place
        except FileNotFoundError:
            return None

    def elect(self, crawl: str, bucket: int, docs: Iterable[str]) -> int:
        """Have duplicates scored and tokenised beside the survivors: members of clusters in the place of a first that
        policy excludes. ``near`` consumes the list as state, so its bucket is no longer current.

        Args:
            docs: doc_ids in hex that have a row in ``near`` of this crawl and bucket.

        Returns:
            how many are new. None is ever taken off: an old manifest may name its shard.
        """
        known = set(self.elected(crawl, bucket))
        all_of_them = known | set(docs)
        if all_of_them != known:
            self.store.blobs.put(_elected_path(crawl, bucket), canonical_json(sorted(all_of_them)))
        return len(all_of_them) - len(known)

    def elected(self, crawl: str, bucket: int) -> list[str]:
        """doc_ids (hex, sorted) of duplicates that were elected in a bucket."""
        try:
            docs: list[str] = json.loads(self.store.blobs.get(_elected_path(crawl, bucket)))
            return docs
        except FileNotFoundError:
            return []

    def ordinal(self, crawl: str) -> int:
        """The crawl's ordinal. Raises LandingError where it has none."""
        try:
            return self.ordinals()[crawl]
        except KeyError as error:
            raise LandingError(
                f"no crawl {crawl!r} is registered; there are: {', '.join(self.crawls()) or 'none'}. "
                f"Run `gristmill run --landing PLACE --crawl {crawl}`"
            ) from error

    def earlier(self, crawl: str) -> list[str]:
        """Crawls with a smaller ordinal, in order."""
        own = self.ordinal(crawl)
        return [n for o, n in sorted((o, n) for n, o in self.ordinals().items()) if o < own]


def _elected_path(crawl: str, bucket: int) -> str:
    return f"registry/reelected/{crawl}/{bucket:04d}.json"
