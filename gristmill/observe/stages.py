"""Bodies of the stages of observation. What they compute is in this folder's other modules."""

from gristmill.fingerprint import canonical_json
from gristmill.observe import crawl_report as facts
from gristmill.observe import dashboard, history
from gristmill.observe import yields as ledger
from gristmill.partition import Partition, PartitionManifest, state_check


def yields(part: Partition) -> None:
    """The yield ledger of a crawl: every stage and bucket."""
    assert part.crawl is not None
    manifests = [m for stage in ledger.MAIN_PATH for m in ledger.committed(part.store, part.plan, stage, part.crawl)]
    part.write(ledger.table(manifests))
    part.report(partitions=len(manifests))


def crawl_report(part: Partition) -> None:
    """Role "data": the crawl's numbers as JSON, which later crawls are compared with. Role "report": the dashboard."""
    assert part.crawl is not None
    reports = _reports(part)
    part.state["against"], part.state["acknowledged"] = _against(reports), _meant(part)
    found = facts.gather(part.store, part.plan, part.crawl, reports)
    page = dashboard.page(found, reports, part.plan.params.observe)
    part.write_bytes(canonical_json(found), role="data", suffix=".json")
    part.write_bytes(page.encode("utf-8"), role="report", suffix=".html")
    rate = found["new_hosts"]["rate"]
    part.report(documents=found["total"]["documents"], tokens=found["total"]["tokens"],
                mean_tokens=found["mean_tokens"] or 0.0, against=", ".join(r.crawl for r in reports),
                new_host_rate=-1.0 if rate is None else round(rate, 6))


@state_check("crawl_report")
def _still_against(part: Partition, manifest: PartitionManifest) -> bool:
    return bool(manifest.state.get("against") == _against(_reports(part))
                and manifest.state.get("acknowledged") == _meant(part))


def _meant(part: Partition) -> dict[str, str]:
    return history.acknowledged_now(part.store, part.plan)


def _reports(part: Partition) -> list[history.Report]:
    assert part.crawl is not None
    return history.trailing(part.store, part.plan, part.crawl, part.plan.params.observe.trailing)


def _against(reports: list[history.Report]) -> dict[str, str]:
    return {r.crawl: r.digest for r in reports}
