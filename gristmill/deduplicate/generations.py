"""Which earlier crawls a crawl is compared with: the generations of ``exact`` and of the band index.

Belongs here: the rule, and its loud failures. Does not belong here: what a generation holds (``exact.py``,
``band_index.py``). A crawl sees only crawls with a smaller ordinal, so reprocessing an old one after newer ones gives
the same answer; what it consumed is recorded, so a newer one that consumed something older than today's is run again.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gristmill.errors import BandIndexError, DamagedPartitionError, MissingPartitionError, StalePartitionError
from gristmill.partition import Partition
from gristmill.store import PartitionManifest


@dataclass(frozen=True)
class Generation:
    """An earlier crawl's committed partitions of an asset, by range."""

    crawl: str
    manifests: tuple[PartitionManifest, ...]

    def state(self, number: int | None = None) -> dict[str, str]:
        """What is recorded as consumed: the digest of one range, or of all."""
        used = self.manifests if number is None else (self.manifests[number],)
        return {"crawl": self.crawl, "digest": "+".join(m.digest[:16] for m in used)}


def earlier(part: Partition, asset: str) -> list[Generation]:
    """Generations of earlier crawls, in their order. A crawl with no partition of the asset at all has none.

    Raises:
        BandIndexError: when an earlier crawl has some but not all of its ranges, has them only as made by other
            parameters, or one cannot be read: going on would append again what it holds.
    """
    if part.seen is None:
        return of(part, asset, part.earlier_crawls())
    name = f"generations/{asset}/{part.crawl}"
    if name not in part.seen:
        part.seen[name] = of(part, asset, part.earlier_crawls())
    return list(part.seen[name])


def of(part: Partition, asset: str, crawls: Sequence[str]) -> list[Generation]:
    """Generations of these crawls, in the order given; see ``earlier``."""
    out = []
    for crawl in crawls:
        found: list[PartitionManifest] = []
        missing: list[int] = []
        for number in range(part.buckets):
            try:
                manifest = part.store.manifest(part.key(asset, number, crawl))
            except DamagedPartitionError as error:
                raise BandIndexError(f"the generation of crawl {crawl} is damaged: {error}") from error
            if manifest is None:
                missing.append(number)
            else:
                found.append(manifest)
        if not missing:
            out.append(Generation(crawl, tuple(found)))
            continue
        if found:
            listed = ", ".join(f"{n:04d}" for n in missing[:5])
            raise BandIndexError(
                f"crawl {crawl} has only {len(found)} of {part.buckets} ranges of {asset} (missing {listed}"
                f"{', ...' if len(missing) > 5 else ''}): run `gristmill run --crawl {crawl}` first"
            )
        try:
            part.store.require(part.key(asset, 0, crawl))
        except StalePartitionError as error:
            raise BandIndexError(
                f"crawl {crawl} is earlier than {part.crawl}, but its generation was made by other parameters: run "
                f"`gristmill run --crawl {crawl}` first. ({error})"
            ) from error
        except MissingPartitionError:
            continue  # registered, never taken this far
    return out
