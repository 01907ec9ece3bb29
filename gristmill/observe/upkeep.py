"""The work that a site does by itself at night and once a month, and what of it people are told.

Belongs here: each sweep with its pages, as the command line and Dagster's schedules call it. Does not belong here: the
sweeps themselves (``acquire/robots_sweep.py``, ``release/expiring.py``, ``deduplicate/compaction.py``).
"""

import datetime as dt
from collections.abc import Callable, Sequence

from gristmill.acquire.robots_sweep import Swept, sweep
from gristmill.deduplicate.compaction import Compacted, compact_site
from gristmill.funnel import Plan
from gristmill.observe.paging.ledger import Ledger, Outcome
from gristmill.observe.paging.problem import Problem
from gristmill.params import SiteConfig
from gristmill.release import expiring
from gristmill.store import Store


def tell(store: Store, site: SiteConfig, problems: Sequence[Problem]) -> Outcome:
    """Note problems and deliver what is due; nothing where nobody is to be paged."""
    if site.paging is None:
        return Outcome()
    ledger = Ledger(store, site.paging)
    ledger.note(problems)
    return ledger.flush()


def sweep_robots(store: Store, plan: Plan, site: SiteConfig, *, progress: Callable[[Swept], None] | None = None
                 ) -> Swept:
    """Read robots.txt of the corpus again, and tell who has closed pages since."""
    done = sweep(store, plan, site.robots, progress=progress)
    if done.opted_out:
        now = dt.datetime.now(dt.UTC)
        most = sorted(done.opted_out, key=lambda h: (-h.closed, h.authority))[:5]
        pages = sum(h.closed for h in done.opted_out)
        tell(store, site, [Problem(
            subject=("robots", now.isoformat()), severity="warning",
            title=f"{len(done.opted_out)} host(s) opted out: robots.txt now closes {pages:,} pages of the corpus",
            at=now.timestamp(), facts={h.authority: f"{h.closed:,} of {h.pages:,} pages" for h in most},
            causes=("later manifests leave these pages out, and versions that stand still show them: build a new one",
                    "`gristmill robots list` names every host"),
        )])
    return done


def sweep_licences(store: Store, site: SiteConfig, today: dt.date, within_days: int) -> list[expiring.Expiring]:
    """Contracts near their end, told."""
    found = expiring.expiring(store, today, within_days)
    tell(store, site, expiring.problems(found, within_days))
    return found


def compact(store: Store, plan: Plan, site: SiteConfig) -> Compacted:
    """Merge the band index's generations."""
    return compact_site(store, plan, site)
