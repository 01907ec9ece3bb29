"""The yield of each stage: documents and bytes in and out, and why the rest stopped.

Belongs here: gathering the counts that partitions committed, and the table that a person reads. Does not belong here:
judging them (the checks) and computing them (the stages).
"""

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from gristmill import schemas
from gristmill.funnel import BY_NAME, Plan
from gristmill.observe.measure import BY_RULE, Count, count
from gristmill.store import Key, PartitionManifest, Store, Yield

# The stages of the funnel's main path, in the order in which a document meets them.
MAIN_PATH = ("crawl_slices", "raw_warc", "unique_records", "text", "language", "exact", "lines", "near", "heuristics",
             "quality", "semantic", "safety", "contamination", "tokens", "shards")


@dataclass(frozen=True)
class StageYield:
    """A stage's counts over all partitions of a crawl.

    Attributes:
        ruled: of a stage that drops nothing: documents that the reference's rule looks at, and those it would keep, as
            the dashboard and the checks count them.
    """

    stage: str
    counts: Yield
    partitions: int
    ruled: tuple[int, int] | None = None

    @property
    def retention(self) -> float:
        """Documents out over in; 1 where nothing came in."""
        return self.counts.docs_out / self.counts.docs_in if self.counts.docs_in else 1.0


def committed(store: Store, plan: Plan, stage: str, crawl: str) -> list[PartitionManifest]:
    """A stage's committed partitions of a crawl, in bucket order."""
    spec = BY_NAME[stage]
    buckets = range(plan.buckets) if spec.on_grid else [None]
    found = (store.manifest(Key(stage, plan.fingerprints[stage], crawl, b)) for b in buckets)
    return [m for m in found if m is not None]


def stage_yields(store: Store, plan: Plan, crawl: str, stages: Iterable[str] = MAIN_PATH) -> list[StageYield]:
    """Counts of every stage that has been made for a crawl."""
    out = []
    for stage in stages:
        manifests = committed(store, plan, stage, crawl)
        if manifests:
            total = Yield()
            for manifest in manifests:
                total += manifest.counts
            rule = sum((count(m) for m in manifests), Count()) if stage in BY_RULE else Count()
            out.append(StageYield(stage, total, len(manifests),
                                  (rule.docs_in, rule.docs_kept) if rule.docs_in else None))
    return out


def table(manifests: Iterable[PartitionManifest]) -> pa.Table:
    """The ``yields`` table: a totals row (reason null) and a row a reason, for every partition."""
    rows: list[dict[str, object]] = []
    for m in manifests:
        base = {"crawl": m.crawl, "host_bucket": -1 if m.bucket is None else m.bucket, "stage": m.asset}
        c = m.counts
        rows.append({**base, "docs_in": c.docs_in, "docs_out": c.docs_out, "bytes_in": c.bytes_in,
                     "bytes_out": c.bytes_out, "reason": None, "docs": None})
        rows += [{**base, "reason": r, "docs": n} for r, n in sorted(c.reasons.items())]
    return schemas.from_rows(rows, schemas.YIELDS)


def render(yields: list[StageYield]) -> str:
    """The yield table as plain text: one line a stage, its three largest reasons behind, or what a rule would keep."""
    head = f"{'stage':<16} {'docs in':>10} {'docs out':>10} {'kept':>7} {'bytes out':>12}  stopped here"
    lines = [head, "-" * len(head)]
    for y in yields:
        c = y.counts
        top = sorted(c.reasons.items(), key=lambda item: (-item[1], item[0]))
        text = ", ".join(f"{r} {n:,}" for r, n in top[:3]) + (f", {len(top) - 3} more" if len(top) > 3 else "")
        if y.ruled:
            text = f"none; the rules would keep {y.ruled[1]:,} of {y.ruled[0]:,} ({y.ruled[1] / y.ruled[0]:.1%})"
        kept = f"{y.retention:.1%}" if c.docs_in else "-"  # nothing came in: nothing is known of its share
        lines.append(f"{y.stage:<16} {c.docs_in:>10,} {c.docs_out:>10,} {kept:>7} {c.bytes_out:>12,}  {text}".rstrip())
    if any(y.ruled for y in yields):
        lines.append(f"{', '.join(BY_RULE)} stop nothing: a recipe chooses by what they store. The dashboard shows "
                     "what the reference's rules would keep: gristmill dashboard CRAWL")
    return "\n".join(lines)
