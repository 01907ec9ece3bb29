"""Bodies of the stages of observation. What they compute is in this folder's other modules."""

from gristmill.observe import yields as ledger
from gristmill.partition import Partition


def yields(part: Partition) -> None:
    """The yield ledger of a crawl: every stage and bucket."""
    assert part.crawl is not None
    manifests = [m for stage in ledger.MAIN_PATH for m in ledger.committed(part.store, part.plan, stage, part.crawl)]
    part.write(ledger.table(manifests))
    part.report(partitions=len(manifests))
