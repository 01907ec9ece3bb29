"""The report of a crawl: what a person asks after a month, and what the next crawls are compared with.

Belongs here: gathering its numbers from committed tables. Does not belong here: showing them (``dashboard.py``) and
judging them (``judge.py``, ``drift.py``).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.funnel import Plan
from gristmill.observe import drift
from gristmill.observe.bands import BY_RULES, END_TO_END
from gristmill.observe.history import Report, acknowledged_now, settings
from gristmill.observe.hosts import LISTED, clumps, read_hosts
from gristmill.observe.measure import LOOKS_BACK, Count, count, looked_back, manifests, store_columns
from gristmill.observe.yields import MAIN_PATH
from gristmill.params import QualityParams
from gristmill.quality import rules
from gristmill.store import Key, Store, Yield

BY_RANGE = ("crawl_slices", "exact", "semantic", "shards")  # partitions hold documents of every host


def counts(store: Store, plan: Plan, stage: str, crawl: str) -> dict[int, Count]:
    """Bucket -> count of a stage, with how its documents cluster by host."""
    made = manifests(store, plan, stage, crawl)
    held = {} if stage in BY_RANGE or not made else clumps(store, plan, stage, crawl)
    out = {}
    for bucket, manifest in made.items():
        c = count(manifest, store, plan)
        docs, by_bytes = (min(x, max(float(c.docs_in), 1.0)) for x in held.get(bucket, (1.0, 0.0)))
        out[bucket] = replace(c, clump=docs, clump_bytes=by_bytes)
    return out


def stages(store: Store, plan: Plan, crawl: str) -> dict[str, Any]:
    """Stage -> counts by bucket, reasons, by source and language, settings, whether it saw earlier crawls."""
    out: dict[str, Any] = {}
    for stage in MAIN_PATH:
        made = manifests(store, plan, stage, crawl)
        if not made:
            continue
        total = sum((m.counts for m in made.values()), Yield())
        out[stage] = {
            "buckets": {str(b): [c.docs_in, c.docs_kept, c.bytes_in, c.bytes_kept, c.across, round(c.clump, 3),
                                 round(c.clump_bytes, 3)]
                        for b, c in counts(store, plan, stage, crawl).items()},
            "reasons": dict(sorted(total.reasons.items())), "by": total.by, "settings": settings(plan, stage),
            "looks_back": stage in LOOKS_BACK and any(looked_back(m) for m in made.values()),
        }
    return out


def scores(store: Store, plan: Plan, crawl: str) -> dict[str, list[int]]:
    """Histogram of every scorer and of the ensemble's percentile, over all buckets made."""
    bounded = {s.name: s.kind != "ngram" for s in plan.params.quality.scorers}
    out: dict[str, np.ndarray] = {}
    for manifest in manifests(store, plan, "quality", crawl).values():
        key = Key("quality", manifest.fingerprint, crawl, manifest.bucket)
        names = [n for n in store_columns(store, key) if n.startswith("score_") or n == "ensemble_percentile"]
        table = store.read(key, names) if names else pa.table({})
        for name in names:
            values = table[name].to_numpy(zero_copy_only=False).astype(np.float64)
            one = np.array(drift.histogram(values, bounded=bounded.get(name.removeprefix("score_"), True)))
            out[name] = out.get(name, 0) + one
    return {name: [int(n) for n in h] for name, h in sorted(out.items()) if h.sum()}


def models(params: QualityParams) -> dict[str, str]:
    """Where scores come from: member -> sha256."""
    out = {s.name: s.model.sha256 for s in params.scorers}
    if params.classifier is not None:
        out["classifier"] = params.classifier.sha256
    if params.quantiles is not None:
        out["quantiles"] = params.quantiles.sha256
    return dict(sorted(out.items()))


def gives_percentiles(params: QualityParams) -> bool:
    """Can a document have a score's percentile: there is a scorer, and quantiles to hold it against."""
    return params.quantiles is not None and (params.classifier is not None or bool(params.scorers))


def record_hosts(store: Store, plan: Plan, crawl: str) -> dict[str, Any]:
    """The hosts with most records: {"records", "hosts", "top", "least"}; see ``hosts.floods``."""
    top: list[tuple[str, int]] = []
    records = n = 0
    for manifest in manifests(store, plan, "unique_records", crawl).values():
        table = read_hosts(store, manifest)
        n += table.num_rows
        records += pc.sum(table["n_records"]).as_py() or 0
        top = _largest(top + list(zip(table["host"].to_pylist(), table["n_records"].to_pylist(), strict=True)))
    return {"records": records, "hosts": n, "top": dict(top), "least": top[-1][1] if n > len(top) else 0}


def _largest(pairs: list[tuple[str, int]]) -> list[tuple[str, int]]:
    return sorted(((h or "", n) for h, n in pairs), key=lambda p: (-p[1], p[0]))[:LISTED]


def new_hosts(store: Store, plan: Plan, crawl: str, reports: list[Report]) -> dict[str, Any]:
    """Hosts and records of them that none of the last crawls had; None where there was none to look into."""
    hosts = fresh = records = fresh_records = 0
    for bucket, manifest in manifests(store, plan, "unique_records", crawl).items():
        table = read_hosts(store, manifest)
        ids, n = table["host_id"].to_numpy(), table["n_records"].to_numpy()
        known = [np.zeros(0, np.uint64)]
        for report in reports:
            key = Key("unique_records", report.data["fingerprints"]["unique_records"], report.crawl, bucket)
            before = store.manifest(key)
            if before is not None:
                known.append(read_hosts(store, before)["host_id"].to_numpy())
        new = ~np.isin(ids, np.concatenate(known))
        hosts, fresh = hosts + len(ids), fresh + int(new.sum())
        records, fresh_records = records + int(n.sum()), fresh_records + int(n[new].sum())
    share = fresh / hosts if reports and hosts else None
    return {"hosts": hosts, "new": fresh, "records": records, "new_records": fresh_records, "rate": share,
            "against": [r.crawl for r in reports]}


def documents(store: Store, plan: Plan, crawl: str) -> dict[str, Any]:
    """From the catalogue: tokens by source and language, mean length, hosts by surviving tokens, end to end.

    End to end is what all filters of the reference funnel would keep of a bucket's extracted bytes; the one by score
    is left out where the site has no scores.
    """
    scored = gives_percentiles(plan.params.quality)
    tokens: dict[str, dict[str, list[int]]] = {}
    sources: dict[str, dict[str, int]] = {}
    hosts: list[tuple[str, int]] = []
    total = {"documents": 0, "tokens": 0, "bytes": 0}
    kept: dict[str, list[float]] = {}
    text = counts(store, plan, "text", crawl)
    sizes = {b: m.counts.bytes_out for b, m in manifests(store, plan, "text", crawl).items()}
    for bucket, manifest in manifests(store, plan, "catalogue", crawl).items():
        key = Key("catalogue", manifest.fingerprint, crawl, bucket)
        table = store.read(key, _wanted(store_columns(store, key)))
        there = table.filter(pc.is_valid(table["shard"]))
        for row in _sums(there, ["source_tier", "lang"]):
            cell = tokens.setdefault(row["source_tier"] or "unknown", {}).setdefault(row["lang"] or "und", [0, 0])
            cell[0] += row["n"]
            cell[1] += row["n_tokens_sum"] or 0
        for row in _sums(table, ["source_tier", "survives", "not_tokenised"]):
            cell_ = sources.setdefault(row["source_tier"] or "unknown", {})
            why = "near duplicate" if not row["survives"] else row["not_tokenised"] or "in a shard"
            cell_[why] = cell_.get(why, 0) + row["n"]
        hosts = _largest(hosts + [(r["host"], r["n_tokens_sum"] or 0) for r in _sums(there, ["host"])])
        total["documents"] += there.num_rows
        total["tokens"] += pc.sum(there["n_tokens"]).as_py() or 0
        total["bytes"] += pc.sum(there["released_bytes"]).as_py() or 0
        whole = text.get(bucket, Count())
        passed = there.filter(pa.array(_reference(there, scored))) if there.num_rows else there
        kept[str(bucket)] = [whole.docs_kept, passed.num_rows, sizes.get(bucket, 0),
                             pc.sum(passed["released_bytes"]).as_py() or 0, 0, round(whole.clump, 3),
                             round(whole.clump_bytes, 3)]
    return {"tokens": {s: dict(sorted(v.items())) for s, v in sorted(tokens.items())}, "sources": sources,
            "top_hosts": hosts, "total": total, END_TO_END: kept,
            "mean_tokens": round(total["tokens"] / total["documents"], 3) if total["documents"] else None}


def _wanted(there: list[str]) -> list[str]:
    measures = {r.measure for r in rules.reference()}
    named = ("source_tier", "lang", "host", "shard", "n_tokens", "released_bytes", "survives", "not_tokenised",
             "contaminated", "hard_removal", "ensemble_percentile")
    return [n for n in there if n in named or n in measures]


def _sums(table: pa.Table, keys: list[str]) -> list[dict[str, Any]]:
    if not table.num_rows:
        return []
    grouped = table.group_by(keys, use_threads=False).aggregate([("n_tokens", "sum"), ([], "count_all")])
    return [{**r, "n": r["count_all"]} for r in grouped.to_pylist()]


def _reference(table: pa.Table, scored: bool) -> np.ndarray:
    """Which documents the reference funnel's filters after deduplication would keep, bool (rows).

    Args:
        table: rows of the catalogue.
        scored: must a document be in the top share by score; then one without a percentile is not kept.
    """
    keep = rules.passes(table, rules.reference(), table["lang"].to_pylist())
    if scored:
        percentile = table["ensemble_percentile"].to_numpy(zero_copy_only=False).astype(np.float64)
        keep &= np.nan_to_num(percentile, nan=-1.0) >= np.float32(rules.TOP_SHARE)
    keep &= ~table["contaminated"].fill_null(False).to_numpy(zero_copy_only=False).astype(bool)
    if "hard_removal" in table.column_names:
        keep &= table["hard_removal"].is_null().to_numpy(zero_copy_only=False).astype(bool)
    return np.asarray(keep, bool)


def gather(store: Store, plan: Plan, crawl: str, reports: list[Report]) -> dict[str, Any]:
    """Everything, as plain JSON; see the functions above."""
    made = stages(store, plan, crawl)
    found = documents(store, plan, crawl)
    made[END_TO_END] = {"buckets": found.pop(END_TO_END), "reasons": {}, "by": {}, "looks_back": False,
                        "settings": {"digest": "" if gives_percentiles(plan.params.quality) else BY_RULES,
                                     "models": {}}}
    hosts = record_hosts(store, plan, crawl)
    histograms = scores(store, plan, crawl)
    meant = acknowledged_now(store, plan)
    scored_so = [r for r in reports if "quality" not in meant or r.settings("quality") == meant["quality"]]
    return {"crawl": crawl, "acknowledged": sorted(meant),
            "fingerprints": {s: plan.fingerprints[s] for s in (*MAIN_PATH, "catalogue")},
            "stages": made, "scores": histograms, "drift": drifts(histograms, scored_so, plan, _clump(made)),
            "models": models(plan.params.quality), "hosts": hosts, "new_hosts": new_hosts(store, plan, crawl, reports),
            "against": [r.crawl for r in reports], **found}


def _clump(made: Mapping[str, Any]) -> float:
    """Of the crawl's scored documents."""
    cells = made.get("quality", {}).get("buckets", {}).values()
    n = sum(c[0] for c in cells)
    return sum(c[0] * c[5] for c in cells) / n if n else 1.0


def drifts(now: Mapping[str, list[int]], reports: list[Report], plan: Plan, clump: float) -> dict[str, Any]:
    """Scorer -> its drift against the last crawls."""
    out = {}
    for name, histogram in now.items():
        past = [r.data["scores"][name] for r in reports if name in r.data["scores"]]
        found = drift.drift(histogram, past, plan.params.observe.drift_floor, clump)
        out[name] = {"divergence": round(found.divergence, 6), "index": round(found.index, 6),
                     "allowed": round(found.allowed, 6), "crawls": found.crawls, "passed": found.passed}
    return out
