"""Facts that more than one look finds, each under one subject, so that it is told once whoever sees it first.

Belongs here: contracts near their end (the standing check, the nightly sweep) and hosts that opted out (the same two).
Does not belong here: finding them, and everything that only one look can find.
"""

import datetime as dt
from collections.abc import Mapping
from typing import Any

from gristmill.observe.paging.problem import Problem, check_subject

SITE = "site"  # the asset of the standing checks


def opted_out(host: str, at: float, title: str, facts: Mapping[str, Any], causes: tuple[str, ...], *, run_id: str = "",
              group: str = "") -> Problem:
    """A host that closed pages which the corpus, or a version, shows."""
    return Problem(("opted_out", host), "warning", title, at, run_id, facts, causes, group)


def of_check(asset: str, check: str, metadata: Mapping[str, Any], at: float, run_id: str) -> list[Problem] | None:
    """What a failed standing check says, fact by fact; None where its verdict is the fact.

    Args:
        asset, check: whose verdict.
        metadata: its values as plain JSON.
        at: when it was given, seconds since the epoch.
        run_id: the check's run.
    """
    if asset != SITE:
        return None
    causes = tuple(str(c) for c in metadata.get("likely_causes", ()))
    if check == "contracts" and metadata.get("expiring"):
        from gristmill.release.expiring import Expiring, problems

        today = dt.datetime.fromtimestamp(at, dt.UTC).date()
        ends = {name: dt.date.fromisoformat(day) for name, day in metadata["expiring"].items()}
        return problems([Expiring(name, day, (day - today).days) for name, day in ends.items()],
                        int(metadata["within_days"]))
    if check == "opt_outs":
        version = metadata.get("version", "the newest version")
        out = [opted_out(host, at, f"{version} shows {n:,} pages of {host}, which has opted out", {"pages shown": n},
                         causes, run_id=run_id) for host, n in metadata.get("hosts", {}).items()]
        if metadata.get("tombstones_since"):
            out.append(Problem(check_subject(asset, check, None), "warning",
                               f"tombstones have been written since {version} was frozen", at, run_id, {}, causes))
        return out or None
    return None
