"""The one table of bands: what each stage should keep, and how far it may move before someone is told.

Belongs here: the named baselines and how a site changes them. Does not belong here: comparing (``judge.py``).

A baseline is what a site's first crawl is held against; once there are crawls to look back on, their median takes its
place and only the widths stay. The reference's shares are those of a whole crawl of the web, so they are in the
baseline ``web`` alone and never apply to a demo or a small crawl, whose own buckets and earlier crawls speak instead.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gristmill.params import ObserveParams

END_TO_END = "end_to_end"
BY_RULES = "by rules"  # how end to end was counted where nothing is scored: another measure than with scores


@dataclass(frozen=True)
class Band:
    """A stage's expected retention and its alert width, all shares of 1.

    Attributes:
        low, high: the expected range; None where nothing is expected before the site has its own history.
        width: how far outside (of the range, or of the median) retention may be.
        one_sided: only a fall is a fault: keeping more than nearly everything is none.
        blocking: the next stage would spread the damage, so it does not run.
    """

    low: float | None = None
    high: float | None = None
    width: float = 0.10
    one_sided: bool = False
    blocking: bool = False
    unit: str = "docs"  # what the expected range is of; a history is compared in documents and bytes


# Widths hold for every baseline: they say how much the same crawl next month may differ.
WIDTHS: dict[str, Band] = {
    "crawl_slices": Band(width=0.02, one_sided=True), "raw_warc": Band(width=0.01, one_sided=True),
    "unique_records": Band(width=0.06),
    "text": Band(width=0.01, one_sided=True), "language": Band(width=0.04), "exact": Band(width=0.06),
    "lines": Band(width=0.03), "near": Band(width=0.06), "heuristics": Band(width=0.03), "quality": Band(width=0.03),
    "semantic": Band(width=0.06),
    "safety": Band(width=0.01, one_sided=True), "contamination": Band(width=0.005, one_sided=True),
    "tokens": Band(width=0.03), "shards": Band(width=0.005, one_sided=True), END_TO_END: Band(width=0.015),
}  # fmt: skip

# The reference funnel of a whole crawl of the web: expected range and alert width, in shares of documents.
WEB: dict[str, Band] = {
    "text": Band(0.99, 1.0, 0.01, one_sided=True),  # over 99 %, alert under 98
    "language": Band(0.58, 0.63, 0.04),
    "exact": Band(0.70, 0.80, 0.06),
    "near": Band(0.45, 0.55, 0.06),
    "heuristics": Band(0.78, 0.82, 0.03),
    "quality": Band(0.33, 0.37, 0.03),
    "safety": Band(0.99, 1.0, 0.01, one_sided=True),  # over 99 %; the alert at 98 is ours
    "contamination": Band(0.985, 1.0, 0.005, one_sided=True),  # over 98.5 %, alert under 98
    END_TO_END: Band(0.05, 0.07, 0.015, unit="bytes"),
}

# The demo of ``gristmill demo make``, whose text is clean and whose faults are planted: wide, measured on it at 300 to
# 500 pages. A planted trap fills one bucket of its second crawl, so deduplication has no expectation.
DEMO: dict[str, Band] = {
    "text": Band(0.98, 1.0, 0.02, one_sided=True), "language": Band(0.96, 1.0, 0.04),
    "near": Band(0.93, 1.0, 0.06), "heuristics": Band(0.65, 0.95, 0.10), "safety": Band(0.99, 1.0, 0.01, True),
}  # fmt: skip

BASELINES: dict[str, Mapping[str, Band]] = {"web": WEB, "demo": DEMO, "own": {}}


def bands(params: ObserveParams) -> dict[str, Band]:
    """Stage -> band: the baseline's, with what the site's parameter file changes."""
    out = {stage: BASELINES[params.baseline].get(stage, base) for stage, base in WIDTHS.items()}
    for stage, change in params.bands.items():
        given = {k: v for k, v in change.model_dump().items() if v is not None}
        out[stage] = replace(out.get(stage, Band()), **given)
    return out
