"""What the checks say of a crawl's partitions, from what is committed: passed or not, with the evidence.

Belongs here: one function a check, each giving ``Finding``s. Does not belong here: Dagster (``checks/``), statistics
(``judge.py``, ``volume.py``, ``drift.py``) and what happens to a finding that did not pass (paging).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gristmill.funnel import Plan
from gristmill.observe import crawl_report, drift, history
from gristmill.observe.bands import Band, bands
from gristmill.observe.causes import causes
from gristmill.observe.hosts import floods, read_hosts
from gristmill.observe.judge import Verdict, judge
from gristmill.observe.measure import CONTINUES, Count, count, looked_back, manifests
from gristmill.observe.volume import Volume, bucket_volumes, crawl_volume
from gristmill.registry import Registry
from gristmill.store import Key, PartitionManifest, Store

GENERATIONS = {"unique_records": "unique_records", "exact": "exact", "near": "band_index"}  # what each looks into
BEHAVIOUR = 5.0  # times the floor of drift that is told, and over noise: scores of another model
NONE = "none"  # a number that there is nothing to take from; a person reads these facts
HARDLY = 0.1  # of the usual share of copies in earlier crawls: looked up, but nothing found


@dataclass(frozen=True)
class Finding:
    """What a check says of a bucket (None: of the crawl)."""

    crawl: str
    bucket: int | None
    passed: bool
    metadata: dict[str, Any] = field(default_factory=dict)


class Past:
    """The trailing reports of a crawl, read once for all checks of one evaluation."""

    def __init__(self, store: Store, plan: Plan, crawl: str) -> None:
        self.store, self.plan, self.crawl = store, plan, crawl
        self.reports = history.trailing(store, plan, crawl, plan.params.observe.trailing)

    def band(self, stage: str) -> Band:
        """The stage's band."""
        return bands(self.plan.params.observe).get(stage, Band())


def retention(past: Past, stage: str, buckets: Sequence[int]) -> list[Finding]:
    """The retention check of a stage: the crawl's finding first (bucket None), then one a bucket.

    A bucket passes when it is in band and everything that the stage before put out came in. Where the crawl is out of
    band and no bucket by itself is, all are.
    """
    store, plan, crawl = past.store, past.plan, past.crawl
    params = plan.params.observe
    made = manifests(store, plan, stage, crawl)
    now = crawl_report.counts(store, plan, stage, crawl)
    looks_back = any(looked_back(m) for m in made.values())
    before = history.comparable(store, plan, stage, past.reports, looks_back)
    found = judge(now, before, past.band(stage), params.min_docs)
    lost = _lost(past, stage, made)
    total = sum(now.values(), Count())
    whole = _evidence(stage, total, found.crawl, _reasons(made.values()))
    if lost.get(None):
        whole |= _fault(stage, "continuity", lost[None])
    crawl_passed = found.worst is None and not lost.get(None)
    # The crawl is out and no bucket by itself explains it: then every bucket is.
    one_is = any(not v.passed for vs in found.buckets.values() for v in vs) or any(b is not None for b in lost)
    shared = not crawl_passed and not one_is
    out = [Finding(crawl, None, crawl_passed, whole)]
    for bucket in buckets:
        if bucket not in made:
            out.append(Finding(crawl, bucket, False, _fault(
                stage, "missing", f"{stage} {crawl}|{bucket:04d} has not been committed")))
            continue
        facts = _evidence(stage, now[bucket], found.buckets[bucket], _reasons([made[bucket]]))
        own = all(v.passed for v in found.buckets[bucket]) and not lost.get(bucket)
        if lost.get(bucket):
            facts |= _fault(stage, "continuity", lost[bucket])
        elif own and shared:
            facts = _shared(whole, {"documents_in": now[bucket].docs_in, "documents_out": now[bucket].docs_kept})
        out.append(Finding(crawl, bucket, own and not shared, facts))
    return out


def _lost(past: Past, stage: str, made: dict[int, PartitionManifest]) -> dict[int | None, str]:
    """Where what came in is not what the stage before put out: bucket (None: the crawl) -> what is wrong."""
    source, by_bucket = CONTINUES.get(stage, (None, False))
    if source is None:
        return {}
    upstream = manifests(past.store, past.plan, source, past.crawl)
    if by_bucket:
        pairs = {b: (upstream[b].counts.docs_out, m.counts.docs_in) for b, m in made.items() if b in upstream}
    elif len(made) == len(upstream) == past.plan.buckets:
        sides = [sum(m.counts.docs_out for m in upstream.values()), sum(m.counts.docs_in for m in made.values())]
        pairs = {None: (sides[0], sides[1])}  # type: ignore[dict-item]
    else:
        return {}
    return {b: f"{source} put out {out:,} documents, {into:,} came in"
            for b, (out, into) in pairs.items() if out != into}


def volume(past: Past, stage: str, buckets: Sequence[int]) -> list[Finding]:
    """How many documents a stage put out: the crawl's finding first, then one a bucket."""
    params = past.plan.params.observe
    made = manifests(past.store, past.plan, stage, past.crawl)
    now = {b: m.counts.docs_out for b, m in made.items()}
    earlier = [{b: c.docs_kept for b, c in p.buckets.items()}
               for p in history.comparable(past.store, past.plan, stage, past.reports, False)]
    each = bucket_volumes(now, earlier, params.volume_factor, params.min_docs)
    whole = Volume(True, sum(now.values()), None, basis="not all buckets are made")
    if len(now) == past.plan.buckets:
        whole = crawl_volume(sum(now.values()), [sum(e.values()) for e in earlier], params.volume_factor,
                             params.min_docs)
    shared = not whole.passed and all(v.passed for v in each.values())
    out = [Finding(past.crawl, None, whole.passed, _amount(stage, whole))]
    for bucket in buckets:
        if bucket not in each:
            out.append(Finding(past.crawl, bucket, False, _fault(
                stage, "missing", f"{stage} {past.crawl}|{bucket:04d} has not been committed")))
            continue
        facts = _amount(stage, each[bucket])
        if shared:
            facts = _shared(out[0].metadata, {"documents": each[bucket].documents})
        out.append(Finding(past.crawl, bucket, each[bucket].passed and not shared, facts))
    return out


def host_flood(past: Past, buckets: Sequence[int]) -> list[Finding]:
    """Hosts whose records exploded, by bucket."""
    made = manifests(past.store, past.plan, "unique_records", past.crawl)
    total = sum(m.counts.docs_in for m in made.values())
    earlier = [r.data["hosts"] for r in past.reports]
    out = []
    for bucket in buckets:
        table = read_hosts(past.store, made[bucket]) if bucket in made else None
        found = [] if table is None else floods(table, total, earlier, past.plan.params.observe.min_docs)
        facts: dict[str, Any] = {"hosts": 0 if table is None else table.num_rows,
                                 "compared_with": [r.crawl for r in past.reports]}
        if found:
            facts |= _fault("unique_records", "flood", "; ".join(
                f"{f.host}: {f.records:,} records, {f.share:.2%} of the crawl, at most {f.usual:.2%} before"
                for f in found[:5]))
        out.append(Finding(past.crawl, bucket, not found, facts))
    return out


def index_loaded(past: Past, stage: str, buckets: Sequence[int]) -> list[Finding]:
    """Was the partition compared with every earlier crawl that has a generation, and did that find anything.

    Going on without them would append the whole web again, so this check blocks.
    """
    store, plan, crawl = past.store, past.plan, past.crawl
    made = manifests(store, plan, stage, crawl)
    asset = GENERATIONS[stage]
    there = [c for c in Registry(store).earlier(crawl)
             if store.manifest(Key(asset, plan.fingerprints[asset], c, 0)) is not None]
    total = sum((count(m) for m in made.values()), Count())
    usual = sorted(t.across / t.docs_in for p in history.comparable(store, plan, stage, past.reports, True)
                   if (t := p.total()).docs_in >= plan.params.observe.min_docs)
    median = usual[len(usual) // 2] if usual else None
    hardly = bool(there) and median is not None and median * total.docs_in >= 50 \
        and total.across < HARDLY * median * total.docs_in
    out = []
    for bucket in buckets:
        seen = looked_back(made[bucket]) if bucket in made else []
        missing = [c for c in there if c not in seen] if bucket in made else []
        facts: dict[str, Any] = {
            "earlier_crawls": len(there), "consulted": len(seen), "copies_in_earlier_crawls": total.across,
            "share": total.across / total.docs_in if total.docs_in else 0.0,
            "usual_share": NONE if median is None else median}
        if missing:
            facts |= _fault(stage, "index", f"not compared with {', '.join(missing[:5])}"
                            + (f" and {len(missing) - 5} more" if len(missing) > 5 else ""))
        elif hardly:
            facts |= _fault(stage, "index", "compared with earlier crawls, but next to no copy was found in them")
        out.append(Finding(crawl, bucket, not missing and not hardly, facts))
    return out


def same_scorers(past: Past, buckets: Sequence[int]) -> list[Finding]:
    """Are the scores those of the same models as the last crawl's, by hash and by behaviour. Blocks.

    A change is meant when a person has acknowledged the stage's present settings.
    """
    store, plan, crawl = past.store, past.plan, past.crawl
    now = history.settings(plan, "quality")
    meant = now["digest"] in history.acknowledged(store, "quality")
    models = crawl_report.models(plan.params.quality)
    before = past.reports[-1].data["models"] if past.reports else models
    changed = {name: f"{before.get(name, 'none')[:12]} -> {models.get(name, 'none')[:12]}"
               for name in sorted({*models, *before}) if models.get(name) != before.get(name)}
    comparable = [r for r in past.reports if not meant or r.settings("quality") == now["digest"]]
    cells = crawl_report.counts(store, plan, "quality", crawl).values()
    n = sum(c.docs_in for c in cells)
    clump = sum(c.docs_in * c.clump for c in cells) / n if n else 1.0
    moved: dict[str, drift.Drift] = {}
    for name, histogram in crawl_report.scores(store, plan, crawl).items():
        if sum(histogram) >= plan.params.observe.min_docs:
            held = [r.data["scores"][name] for r in comparable if name in r.data["scores"]]
            moved[name] = drift.drift(histogram, held, plan.params.observe.drift_floor, clump)
    bound = {name: max(BEHAVIOUR * plan.params.observe.drift_floor, d.allowed) for name, d in moved.items()}
    other = sorted(name for name, d in moved.items() if d.crawls and d.divergence > bound[name])
    facts: dict[str, Any] = {
        "models": models, "acknowledged": meant, "compared_with": [r.crawl for r in comparable],
        "drift_bits": {name: round(d.divergence, 5) for name, d in moved.items()},
        "allowed_bits": {name: round(b, 5) for name, b in bound.items()}}
    if changed and not meant:
        facts |= _fault("quality", "model", "other models than the last crawl's: "
                        + ", ".join(f"{k} {v}" for k, v in changed.items())
                        + ". If that is meant: gristmill acknowledge quality --reason WHY, then run again")
    elif other:
        facts |= _fault("quality", "drift", f"scores behave like another model's: {', '.join(other)}")
    return [Finding(crawl, b, not (changed and not meant) and not other, facts) for b in buckets]


def score_drift(data: dict[str, Any]) -> list[str]:
    """Scorers of a report whose scores drifted."""
    return sorted(name for name, d in data["drift"].items() if not d["passed"])


def _evidence(stage: str, c: Count, verdicts: Sequence[Verdict], reasons: dict[str, int]) -> dict[str, Any]:
    main = verdicts[0]
    worst = next((v for v in verdicts if not v.passed), main)
    out: dict[str, Any] = {
        "documents_in": c.docs_in, "documents_out": c.docs_kept, "retention": c.ratio("docs") if c.docs_in else 1.0,
        "bytes_in": c.bytes_in, "bytes_out": c.bytes_kept, "median": NONE if worst.median is None else worst.median,
        "band": "nothing to compare with" if worst.low is None else f"{worst.low:.2%} to {worst.high:.2%}",
        "unit": worst.unit, "compared_with": worst.basis, "top_reasons": reasons, "judged": "own"}
    ratio = c.ratio("bytes")
    if ratio is not None:
        out["retention_bytes"] = ratio
    if not worst.passed:
        kept = f"{stage} kept {worst.retention:.2%} of {worst.unit}"
        out |= _fault(stage, worst.direction, f"{kept}, expected {out['band']}")
    return out


def _amount(stage: str, v: Volume) -> dict[str, Any]:
    out: dict[str, Any] = {
        "documents": v.documents, "expected": NONE if v.expected is None else round(v.expected, 1),
        "band": "nothing to compare with" if v.low is None else f"{v.low:,.0f} to {v.high:,.0f}",
        "compared_with": v.basis, "judged": "own"}
    if not v.passed:
        out |= _fault(stage, v.direction, f"{v.documents:,} documents, expected {out['band']}")
    return out


def _fault(stage: str, direction: str, why: str) -> dict[str, Any]:
    return {"why": why, "direction": direction, "likely_causes": causes(stage, direction)}


def _shared(whole: dict[str, Any], own: dict[str, int]) -> dict[str, Any]:
    """What is said of a bucket that only shares its crawl's fault: the crawl's numbers, which it was judged by.

    Args:
        whole: the crawl's facts.
        own: the bucket's counts, told as ``bucket_NAME``.
    """
    return {**whole, "judged": "crawl", **{f"bucket_{name}": n for name, n in own.items()}}


def _reasons(made: Iterable[PartitionManifest]) -> dict[str, int]:
    total: dict[str, int] = {}
    for m in made:
        for reason, n in m.counts.reasons.items():
            total[reason] = total.get(reason, 0) + n
    return dict(sorted(total.items(), key=lambda i: (-i[1], i[0]))[:5])


