"""The crawls that a crawl is compared with: their reports, found whatever parameters made them.

Belongs here: which earlier crawls count, and whether a stage of theirs is comparable. Does not belong here: what a
report holds (``crawl_report.py``) and comparing (``judge.py``, ``drift.py``).

A changed parameter changes fingerprints, so looking under today's alone would find no past at all, and a mistyped
parameter would never be noticed. Reports are therefore found under any fingerprint, and a stage made with other
settings stays comparable until a person acknowledges the change (``gristmill acknowledge``): then its past begins anew.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gristmill.errors import GristmillError
from gristmill.fingerprint import canonical_json, fingerprint
from gristmill.funnel import BY_NAME, Plan
from gristmill.observe.judge import Past
from gristmill.observe.measure import LOOKS_BACK, Count
from gristmill.observe.yields import MAIN_PATH
from gristmill.registry import Registry
from gristmill.store import MANIFEST, Key, Store

REPORT = "crawl_report"
ACKNOWLEDGED = "registry/acknowledged"


@dataclass(frozen=True)
class Report:
    """An earlier crawl's report: the JSON of role ``data`` of ``crawl_report``."""

    crawl: str
    digest: str
    data: Mapping[str, Any]

    def settings(self, stage: str) -> str | None:
        """Digest of the stage's settings then; None where it was not made."""
        found: str | None = self.data["stages"].get(stage, {}).get("settings", {}).get("digest")
        return found

    def past(self, stage: str) -> Past | None:
        """A stage's counts by bucket."""
        buckets = self.data["stages"].get(stage, {}).get("buckets")
        return None if buckets is None else Past(self.crawl, {int(b): Count(*c) for b, c in buckets.items()})


def family(crawl: str) -> str:
    """Crawls of one family are comparable: their names differ in numbers only (CC-MAIN-2026-21, CC-MAIN-2026-26)."""
    return re.sub(r"[0-9]+", "#", crawl)


def settings(plan: Plan, stage: str) -> dict[str, Any]:
    """A stage's own version and parameters, without those of what it reads: digest, and models by name."""
    spec = BY_NAME[stage]
    chosen = {f: getattr(plan.params, f) for f in spec.params}
    return {"digest": fingerprint({"stage": stage, "version": spec.version, "params": chosen})[:16],
            "models": _models({f: p.model_dump() for f, p in chosen.items() if hasattr(p, "model_dump")})}


def _models(value: Any, name: str = "") -> dict[str, str]:
    if isinstance(value, dict):
        if set(value) == {"name", "sha256"}:
            return {name: value["sha256"]}
        return {k: v for n, inner in value.items() for k, v in _models(inner, f"{name}.{n}".strip(".")).items()}
    if isinstance(value, list | tuple):
        return {k: v for n, inner in enumerate(value) for k, v in _models(inner, f"{name}.{n}").items()}
    return {}


def trailing(store: Store, plan: Plan, crawl: str, n: int) -> list[Report]:
    """Reports of the last ``n`` earlier crawls of the same family that have one, oldest first.

    Of a crawl with several (other parameters), today's counts, else the one that was made last.
    """
    registry = Registry(store)
    if crawl not in registry.ordinals():
        return []
    wanted = [c for c in registry.earlier(crawl) if family(c) == family(crawl)]
    out: list[Report] = []
    others: dict[str, list[str]] | None = None
    for name in reversed(wanted):
        if len(out) == n:
            break
        key: Key | None = Key(REPORT, plan.fingerprints[REPORT], name)
        assert key is not None
        if store.manifest(key) is None:
            others = made_reports(store) if others is None else others
            key = max((Key(REPORT, f, name) for f in others.get(name, [])),
                      key=lambda k: (store.run_info(k).get("ended", 0.0), k.fingerprint), default=None)
        if key is not None:
            manifest = store.require(key)
            out.append(Report(name, manifest.digest, json.loads(store.read_file(key, manifest.role("data")[0]))))
    return out[::-1]


def made_reports(store: Store) -> dict[str, list[str]]:
    """Crawl -> fingerprints under which it has a report."""
    out: dict[str, list[str]] = {}
    for path, _ in store.blobs.list(REPORT):
        parts = path.split("/")
        if len(parts) == 4 and parts[3] == MANIFEST and parts[2].startswith("crawl="):
            out.setdefault(parts[2].removeprefix("crawl="), []).append(parts[1])
    return out


def comparable(store: Store, plan: Plan, stage: str, reports: Sequence[Report], looks_back: bool) -> list[Past]:
    """A stage's counts in earlier crawls that today's may be compared with, oldest first.

    Args:
        store, plan: today's.
        stage: which.
        reports: of ``trailing``.
        looks_back: does today's partition see any earlier crawl. The first crawl of a site cannot be compared with
            later ones where copies in earlier crawls are dropped.
    """
    now = settings(plan, stage)["digest"]
    new = now in acknowledged(store, stage)
    out = []
    for report in reports:
        held = report.data["stages"].get(stage)
        past = report.past(stage)
        if held is None or past is None:
            continue
        if new and held["settings"]["digest"] != now:
            continue
        if stage in LOOKS_BACK and held["looks_back"] != looks_back:
            continue
        out.append(past)
    return out


def acknowledge(store: Store, plan: Plan, stage: str, reason: str) -> str:
    """Say that a stage's present parameters and models are meant; its past begins anew. Returns the path written.

    Raises:
        GristmillError: there is no such stage.
    """
    if stage not in BY_NAME:
        raise GristmillError(f"no stage {stage!r}; there are: {', '.join(BY_NAME)}")
    now = settings(plan, stage)
    path = f"{ACKNOWLEDGED}/{stage}/{now['digest']}.json"
    store.blobs.put(path, canonical_json({"stage": stage, "reason": reason, **now}))
    return path


def acknowledged_now(store: Store, plan: Plan) -> dict[str, str]:
    """Stage -> digest of its present settings, of stages where a person has acknowledged those."""
    found = {stage: settings(plan, stage)["digest"] for stage in MAIN_PATH}
    return {stage: digest for stage, digest in found.items() if digest in acknowledged(store, stage)}


def acknowledged(store: Store, stage: str) -> set[str]:
    """Digests of settings of a stage that a person has acknowledged."""
    return {path.rpartition("/")[2].removesuffix(".json") for path, _ in store.blobs.list(f"{ACKNOWLEDGED}/{stage}")}
