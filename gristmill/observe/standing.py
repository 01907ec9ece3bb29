"""What is broken now, whatever was run last: the standing checks and ``gristmill status``.

Belongs here: looking at the store as it stands, on a given day. Does not belong here: judging a crawl's yields
(``assess.py``), asking hosts (``acquire/robots_sweep.py``), and telling people (paging).

Older crawls are looked at by their report alone, so a store of hundreds costs little more than one of ten.
"""

import datetime as dt
import json
import statistics
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.acquire import robots, robots_sweep
from gristmill.funnel import FUNNEL, Plan
from gristmill.identity import host_bucket, host_id
from gristmill.observe.history import REPORT, family, made_reports
from gristmill.registry import NO_CRAWL, Registry
from gristmill.release import tombstones
from gristmill.release.expiring import expiring
from gristmill.release.shard_set import NameSet, ShardSet
from gristmill.release.standing import read_manifest, registered
from gristmill.release.versions import examine, mending
from gristmill.schemas import ROBOTS
from gristmill.store import MANIFEST, Key, Store

LOOKED_AT = 12  # crawls without a report that are looked into, the newest ones
GOING_H = 1.0  # hours since a crawl's last partition until it counts as stopped where no run is known
GROWTH = 2.0  # times the median share of records set aside
SET_ASIDE = ("crawl_slices", "raw_warc", "text")  # stages whose reasons mean that a record could not be read


@dataclass(frozen=True)
class Standing:
    """One standing check."""

    name: str
    passed: bool
    why: str
    facts: dict[str, Any] = field(default_factory=dict)
    likely_causes: tuple[str, ...] = ()


def standing(store: Store, plan: Plan, now: dt.datetime) -> list[Standing]:
    """All of them.

    Args:
        store, plan: of the site.
        now: with a time zone; what expiry and freshness are judged by.
    """
    return [check(store, plan, now) for check in CHECKS.values()]


def partitions(store: Store, plan: Plan, now: dt.datetime) -> Standing:
    """Crawls that were begun and are not whole: a stage has some of its partitions, or those after it have none.

    A crawl that was whole by other parameters is old, not broken (``gristmill plan stale``), until it is begun anew:
    it is named all the same, as is one of which nothing is made.
    """
    found: dict[str, list[str]] = {}
    ages: dict[str, float] = {}
    old: list[str] = []  # whole by other parameters
    unmade: list[str] = []  # nothing of today's, and never whole
    known = Registry(store).crawls()
    unfinished = [c for c in reversed(known)
                  if store.blobs.size(f"{Key(REPORT, plan.fingerprints[REPORT], c).path}/{MANIFEST}") is None]
    reported = made_reports(store) if unfinished else {}
    for crawl in unfinished[:LOOKED_AT]:
        made = {s.name: _made(store, plan, s.name, crawl) for s in FUNNEL if s.on_grid}
        begun = [n for n, m in made.items() if m]
        partial = [f"{n} {m} of {plan.buckets}" for n, m in made.items() if 0 < m < plan.buckets]
        whole = max((float(store.run_info(Key(REPORT, f, crawl)).get("ended", 0.0)) for f in reported.get(crawl, ())),
                    default=None)
        last = _last(store, plan, begun[-1], crawl) if begun else 0.0
        if begun and (whole is None or last > whole):
            found[crawl] = partial or [f"stopped after {begun[-1]}"]
            ages[crawl] = round((now.timestamp() - last) / 3600, 3)
        else:
            (unmade if whole is None else old).append(crawl)
    return _unfinished(found, ages, {"crawls_known": len(known), "unfinished": len(unfinished),
                                     "by_other_parameters": old, "not_made": unmade})


def _unfinished(found: Mapping[str, list[str]], ages: Mapping[str, float], rest: Mapping[str, Any]) -> Standing:
    told = [f"{c}: {', '.join(w[:4])}" + (f" (the last {60 * ages[c]:.0f} minutes ago)" if ages[c] < 1 else "")
            for c, w in found.items()]
    if rest["by_other_parameters"]:
        told.append(f"made by other parameters than today's: {', '.join(rest['by_other_parameters'])} (gristmill plan "
                    "stale says what is not current)")
    if rest["not_made"]:
        told.append(f"nothing is made by today's parameters of {', '.join(rest['not_made'])} (gristmill run --crawl "
                    "NAME makes it)")
    if rest["unfinished"] > LOOKED_AT:
        told.append(f"{rest['unfinished'] - LOOKED_AT} older crawls that have no report by them were not looked into")
    if not rest["crawls_known"]:
        told.append(NO_CRAWL)
    return Standing(
        "partitions", not found, "; ".join(told) or "all crawls are whole",
        {"crawls": dict(found), "last_made_hours_ago": dict(ages), **rest},
        ("a run failed or was stopped: the same command resumes it", "a changed parameter: see gristmill plan stale"))


def but_going(found: Standing, going: Collection[str]) -> Standing:
    """The check ``partitions`` without crawls that are just being made, of which nobody is to be paged every hour.

    Args:
        found: of ``partitions``.
        going: crawls of runs in progress, as far as is known. Runs of other machines are known by what they made in the
            last ``GOING_H`` hours; one that fails says so itself.
    """
    ages = found.facts["last_made_hours_ago"]
    left = {c: w for c, w in found.facts["crawls"].items() if c not in going and ages[c] >= GOING_H}
    rest = {k: v for k, v in found.facts.items() if k not in ("crawls", "last_made_hours_ago")}
    return _unfinished(left, {c: ages[c] for c in left}, rest)


def _made(store: Store, plan: Plan, stage: str, crawl: str) -> int:
    base = Key(stage, plan.fingerprints[stage], crawl).path
    return sum(path.endswith(f"/{MANIFEST}") for path, _ in store.blobs.list(base))


def _last(store: Store, plan: Plan, stage: str, crawl: str) -> float:
    """When the newest partition of a stage was made, seconds since the epoch."""
    infos = (store.run_info(Key(stage, plan.fingerprints[stage], crawl, b)) for b in range(plan.buckets))
    return max((float(i.get("ended", 0.0)) for i in infos), default=0.0)


def _reports(store: Store, plan: Plan) -> dict[str, list[tuple[str, Mapping[str, Any], float]]]:
    """Family -> (crawl, report, when it was made) of today's parameters, the last six, in order."""
    out: dict[str, list[tuple[str, Mapping[str, Any], float]]] = {}
    for crawl in reversed(Registry(store).crawls()):
        held = out.setdefault(family(crawl), [])
        key = Key(REPORT, plan.fingerprints[REPORT], crawl)
        made = store.manifest(key) if len(held) < 6 else None
        if made is not None:
            held.append((crawl, json.loads(store.read_file(key, made.role("data")[0])),
                         float(store.run_info(key).get("ended", 0.0))))
    return {name: held[::-1] for name, held in out.items() if held}


def quarantine(store: Store, plan: Plan, _now: dt.datetime) -> Standing:
    """The newest crawl of each family sets aside no more of its records than the ones before did."""
    grown, shares = [], {}
    for held in _reports(store, plan).values():
        each = {crawl: _set_aside(report) for crawl, report, _ in held}
        newest = held[-1][0]
        shares[newest] = each[newest][0]
        before = [s for c, (s, _) in each.items() if c != newest]
        usual = statistics.median(before) if before else None
        n = each[newest][1]
        # Three standard errors of a count, beside the factor: a small crawl sets aside few either way.
        if usual is not None and each[newest][0] > GROWTH * usual + 3 * (max(usual, 1 / max(n, 1)) / max(n, 1)) ** 0.5:
            grown.append(f"{newest} sets aside {each[newest][0]:.2%}, the crawls before {usual:.2%}")
    well = "no growth" if shares else "no crawl has been finished by today's parameters"
    return Standing("quarantine", not grown, "; ".join(grown) or well, {"shares": shares},
                    ("damaged WARC files", "an extractor that crashes or is too slow", "other content than before"))


def _set_aside(report: Mapping[str, Any]) -> tuple[float, int]:
    came = sum(c[0] for c in report["stages"].get("crawl_slices", {"buckets": {}})["buckets"].values())
    aside = sum(n for s in SET_ASIDE for n in report["stages"].get(s, {"reasons": {}})["reasons"].values())
    return (aside / came if came else 0.0), came


def shards(store: Store, plan: Plan, _now: dt.datetime) -> Standing:
    """Shards that the newest version names are there. Shards that no version names are a note: that is ordinary."""
    versions = [v for v in registered(store) if store.blobs.size(f"manifests/{v}/manifest.json") is not None]
    if not versions:
        return Standing("shards", True, "no version has been frozen")
    looked = examine(store, versions[-1])
    wrong = list(looked.problems)
    manifest, _ = read_manifest(store, versions[-1])
    newest = max((Registry(store).ordinals().get(c, -1) for c in manifest["crawls"]), default=-1)
    named = NameSet()  # content hashes
    for version in versions:
        named.add(s.hash for s in ShardSet(read_manifest(store, version)[0]["sources"].values()))
    waiting: dict[str, int] = {}
    for crawl, ordinal in Registry(store).ordinals().items():
        if ordinal >= newest:  # newer ones wait for the next version
            continue
        held = 0
        for bucket in range(plan.buckets):
            key = Key("shards", plan.fingerprints["shards"], crawl, bucket)
            if store.manifest(key) is not None:
                held += sum(h not in named for h in store.read(key, ["hash"]).column(0).to_pylist())
        if held:
            waiting[crawl] = held
    # What a purge deleted says so itself, with the tombstone; nothing else needs to be guessed at then.
    purged = [w for w in wrong if ": deleted because of " in w]
    causes = []
    if purged:
        causes.append("a tombstone's bytes were deleted, as asked: freeze a version without them (gristmill run "
                      "--manifest next)")
    if len(purged) < len(wrong):
        causes.append("files deleted or damaged outside gristmill")
        causes += mending(store, versions[-1], looked.lost) if looked.lost else []
    why = "; ".join(wrong[:5]) or f"all shards of {versions[-1]} are there"
    if waiting:
        spare = ", ".join(f"{n} of {c}" for c, n in sorted(waiting.items())[:5])
        why += (f"; note: shards in no version: {spare} (no recipe selects of them, a dropped version did, or --only "
                "left the crawl out). The next version may name them; once their stage has other parameters, gristmill "
                "manifest retain N deletes them")
    return Standing("shards", not wrong, why,
                    {"version": versions[-1], "problems": wrong[:20], "unadmitted": waiting}, tuple(causes))


def contracts(store: Store, plan: Plan, now: dt.datetime) -> Standing:
    """Contracts and licences that end soon or have ended."""
    days = plan.params.observe.contract_days
    found = expiring(store, now.date(), days)
    told = [f"{e.license_id} {e.told}" for e in found]
    return Standing("contracts", not found, "; ".join(told[:10]) or f"none ends within {days} days",
                    {"expiring": {e.license_id: e.expires.isoformat() for e in found}, "within_days": days},
                    ("renew the contract in the registry, or freeze versions without it (policy.as_of)",))


def opt_outs(store: Store, plan: Plan, _now: dt.datetime) -> Standing:
    """Hosts whose robots.txt now closes pages that the newest version shows, and tombstones newer than it."""
    versions = [v for v in registered(store) if store.blobs.size(f"manifests/{v}/manifest.json") is not None]
    if not versions:
        return Standing("opt_outs", True, "no version has been frozen")
    manifest, _ = read_manifest(store, versions[-1])
    shown = _closed_but_shown(store, plan, manifest)
    stones = manifest["registries"]["tombstones"] != tombstones.read(store).digest
    told = [f"{host}: {n} pages" for host, n in sorted(shown.items(), key=lambda i: (-i[1], i[0]))[:10]]
    if stones:
        told.append("tombstones have been written since")
    return Standing("opt_outs", not told, "; ".join(told) or f"{versions[-1]} shows nothing of hosts that opted out",
                    {"version": versions[-1], "hosts": shown, "tombstones_since": stones},
                    ("freeze a new version: gristmill run --manifest next", "then ship it, and retain what runs use"))


def _closed_but_shown(store: Store, plan: Plan, manifest: Mapping[str, Any]) -> dict[str, int]:
    """Host -> selected documents whose URL the newest swept robots.txt closes to an agent of the manifest's policy."""
    agents = tuple(manifest["policy"].get("robots_agents") or ())
    by_bucket: dict[int, list[str]] = {}
    for host in robots_sweep.opted_out(store, plan.buckets):
        by_bucket.setdefault(host_bucket(host_id(host.authority + "/"), plan.buckets), []).append(host.authority)
    if not by_bucket or not agents:
        return {}
    chosen = _selection(store, manifest)
    out: dict[str, int] = {}
    for bucket in sorted(by_bucket):
        rules = robots.from_table(robots_sweep.versions(store, bucket).select(ROBOTS.names))
        for crawl in manifest["crawls"]:
            key = Key("catalogue", plan.fingerprints["catalogue"], crawl, bucket)
            if store.manifest(key) is None:
                continue
            table = store.read(key, ["url", "host", "shard", "ordinal"])
            for row in table.filter(pc.is_in(table["shard"], pa.array(list(chosen), pa.string()))).to_pylist():
                ordinals = chosen[row["shard"]]
                if (ordinals is None or row["ordinal"] in ordinals) and any(
                    rules.current(row["url"], agent)[0] == robots.RETRO for agent in agents
                ):
                    out[row["host"]] = out.get(row["host"], 0) + 1
    return out


def _selection(store: Store, manifest: Mapping[str, Any]) -> dict[str, frozenset[int] | None]:
    """Shard -> ordinals that the manifest shows; None: all."""
    rows = pq.read_table(pa.BufferReader(store.blobs.get(manifest["selection"]["path"])))
    out: dict[str, frozenset[int] | None] = {}
    for shard, ordinals in zip(rows["shard"].to_pylist(), rows["ordinals"], strict=True):
        mine = None if not ordinals.is_valid else frozenset(np.asarray(ordinals.values).tolist())
        before = out.get(shard, frozenset())
        out[shard] = None if mine is None or before is None else before | mine
    return out


def freshness(store: Store, plan: Plan, now: dt.datetime) -> Standing:
    """The newest crawl of each family that comes again and again was finished here no longer ago than it may be.

    Its date is the day on which this installation finished its last stage, not that of its pages' fetches.
    """
    days = plan.params.observe.fresh_days
    ages, old = {}, []
    for name, held in _reports(store, plan).items():
        crawl, _, ended = held[-1]
        ages[crawl] = round((now.timestamp() - ended) / 86_400, 2)
        if len(held) > 1 and ages[crawl] > days:
            old.append(f"{name}: the newest, {crawl}, was finished here {ages[crawl]:.0f} days ago")
    well = (f"every family has a crawl that was finished here in the last {days} days" if ages else
            "no crawl has been finished by today's parameters")
    return Standing("freshness", not old, "; ".join(old) or well,
                    {"age_days": ages, "bound_days": days},
                    ("no new listing has landed", "the sensor new_crawls is off", "a run of the new crawl failed"))


CHECKS: dict[str, Callable[[Store, Plan, dt.datetime], Standing]] = {
    "partitions": partitions, "quarantine": quarantine, "shards": shards, "contracts": contracts,
    "opt_outs": opt_outs, "freshness": freshness,
}  # fmt: skip


def render(found: Iterable[Standing]) -> str:
    """One line a check; what to do beneath those that did not pass."""
    lines = []
    for one in found:
        lines.append(f"{'ok ' if one.passed else 'BAD'}  {one.name:<11} {one.why}")
        lines += [f"       perhaps: {cause}" for cause in one.likely_causes if not one.passed]
    return "\n".join(lines)
