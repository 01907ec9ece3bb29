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
    """A range of an asset that an earlier crawl committed."""

    crawl: str
    number: int
    manifest: PartitionManifest

    def state(self) -> dict[str, str]:
        """What is recorded as consumed."""
        return {"crawl": self.crawl, "digest": self.manifest.digest[:16]}


def earlier(part: Partition, asset: str, number: int) -> list[Generation]:
    """A range of the generations of earlier crawls, in their order. A crawl with none of the asset at all has none.

    Only that range is looked at: each range stops for itself, and nothing goes on before all of them have.

    Raises:
        BandIndexError: when an earlier crawl lacks this range but has others, has it only as made by other
            parameters, or it cannot be read: going on would append again what it holds.
    """
    if part.seen is None:
        return of(part, asset, part.earlier_crawls(), number)
    name = f"generations/{asset}/{part.crawl}/{number}"
    if name not in part.seen:
        part.seen[name] = of(part, asset, part.earlier_crawls(), number)
    return list(part.seen[name])


def of(part: Partition, asset: str, crawls: Sequence[str], number: int) -> list[Generation]:
    """A range of the generations of these crawls, in the order given; see ``earlier``."""
    out = []
    for crawl in crawls:
        manifest = _manifest(part, asset, crawl, number)
        if manifest is not None:
            out.append(Generation(crawl, number, manifest))
        else:
            _refuse_part(part, asset, crawl)
            _refuse_other_parameters(part, asset, crawl, number)
    return out


def _manifest(part: Partition, asset: str, crawl: str, number: int) -> PartitionManifest | None:
    try:
        return part.store.manifest(part.key(asset, number, crawl))
    except DamagedPartitionError as error:
        raise BandIndexError(f"the generation of crawl {crawl} is damaged: {error}") from error


def _refuse_part(part: Partition, asset: str, crawl: str) -> None:
    folders, _ = part.store.blobs.children(part.key(asset, 0, crawl).path.rpartition("/")[0])
    if not folders:
        return  # one request, for a crawl that was never taken this far
    missing = [n for n in range(part.buckets) if _manifest(part, asset, crawl, n) is None]
    if len(missing) < part.buckets:
        listed = ", ".join(f"{n:04d}" for n in missing[:5])
        raise BandIndexError(
            f"crawl {crawl} has only {part.buckets - len(missing)} of {part.buckets} ranges of {asset} (missing "
            f"{listed}{', ...' if len(missing) > 5 else ''}): run `gristmill run --crawl {crawl}` first"
        )


def _refuse_other_parameters(part: Partition, asset: str, crawl: str, number: int) -> None:
    try:
        part.store.require(part.key(asset, number, crawl))
    except StalePartitionError as error:
        raise BandIndexError(
            f"crawl {crawl} is earlier than {part.crawl}, but its generation was made by other parameters: run "
            f"`gristmill run --crawl {crawl}` first. ({error})"
        ) from error
    except MissingPartitionError:
        return  # registered, never taken this far
