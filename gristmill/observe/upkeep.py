"""The work that a site does by itself at night and once a month, and what of it people are told.

Belongs here: each sweep with its pages, as the command line and Dagster's schedules call it. Does not belong here: the
sweeps themselves (``acquire/robots_sweep.py``, ``release/expiring.py``, ``deduplicate/compaction.py``).
"""

import datetime as dt
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gristmill.funnel import Plan
from gristmill.identity import host_of
from gristmill.observe.paging import shared
from gristmill.observe.paging.ledger import Ledger, Outcome
from gristmill.observe.paging.problem import Problem
from gristmill.params import SiteConfig
from gristmill.store import Store

if TYPE_CHECKING:  # what the nightly work draws in (Numba, HTTP) is no matter of whoever lists the schedules
    from gristmill.acquire.robots_sweep import Swept
    from gristmill.deduplicate.compaction import Compacted
    from gristmill.release.expiring import Expiring


def tell(store: Store, site: SiteConfig, problems: Sequence[Problem]) -> Outcome:
    """Note problems and deliver what is due; nothing where nobody is to be paged."""
    if site.paging is None:
        return Outcome()
    ledger = Ledger(store, site.paging)
    ledger.note(problems)
    return ledger.flush()


def sweep_robots(store: Store, plan: Plan, site: SiteConfig, *, progress: "Callable[[Swept], None] | None" = None
                 ) -> "Swept":
    """Read robots.txt of the corpus again, and tell who has closed pages since."""
    from gristmill.acquire.robots_sweep import sweep

    done = sweep(store, plan, site.robots, progress=progress)
    if done.opted_out:
        now = dt.datetime.now(dt.UTC)
        causes = ("later manifests leave these pages out, and versions that stand still show them: build a new one",
                  "`gristmill robots list` names every host")
        most = sorted(done.opted_out, key=lambda h: (-h.closed, h.authority))
        tell(store, site, [shared.opted_out(
            host_of(h.authority + "/"), now.timestamp(),
            f"{h.authority} opted out: robots.txt now closes {h.closed:,} of {h.pages:,} pages",
            {"closed": f"{h.closed:,} of {h.pages:,} pages"}, causes, group=f"robots {now.isoformat()}") for h in most])
    return done


def sweep_licences(store: Store, site: SiteConfig, today: dt.date, within_days: int) -> "list[Expiring]":
    """Contracts near their end, told."""
    from gristmill.release import expiring

    found = expiring.expiring(store, today, within_days)
    tell(store, site, expiring.problems(found, within_days))
    return found


def compact(store: Store, plan: Plan, site: SiteConfig) -> "Compacted":
    """Merge the band index's generations."""
    from gristmill.deduplicate.compaction import compact_site

    return compact_site(store, plan, site)
