"""Contracts and licences that end soon, or have ended: what a nightly look at the registry tells.

Belongs here: finding them, and when each is told. Does not belong here: excluding anything: policy does that, by the
day that a recipe names (``policy.as_of``).
"""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from gristmill.observe.paging.problem import Problem
from gristmill.release.policy import licences
from gristmill.store import Store

STEPS_DAYS = (30, 7, 1, 0)  # beside the site's own bound: told again when so many days are left


@dataclass(frozen=True)
class Expiring:
    """A registry entry that ends within the bound."""

    license_id: str
    expires: dt.date
    days_left: int  # 0: today is the first day on which it may not be used; negative: ended before

    @property
    def told(self) -> str:
        """When it ends or ended, for a sentence that begins with its name."""
        if self.days_left > 0:
            return f"ends on {self.expires}, in {_days(self.days_left)}"
        return f"ended on {self.expires}, {_days(-self.days_left) + ' ago' if self.days_left else 'today'}"


def _days(n: int) -> str:
    return f"{n:,} day{'' if n == 1 else 's'}"


def expiring(store: Store, today: dt.date, within_days: int) -> list[Expiring]:
    """Entries that end within so many days, those that have ended included; soonest first."""
    found = [Expiring(name, entry.expires, (entry.expires - today).days)
             for name, entry in licences(store).items() if entry.expires is not None]
    return sorted((e for e in found if e.days_left <= within_days), key=lambda e: (e.expires, e.license_id))


def problems(found: Sequence[Expiring], within_days: int) -> list[Problem]:
    """What is told of them: once when the bound is passed, and once at each of ``STEPS_DAYS``."""
    out = []
    for entry in found:
        step = min(s for s in {within_days, *(s for s in STEPS_DAYS if s <= within_days)} if entry.days_left <= s)
        since = dt.datetime.combine(entry.expires - dt.timedelta(days=step), dt.time(), dt.UTC)
        ended = entry.days_left <= 0
        out.append(Problem(
            subject=("licence", entry.license_id, entry.expires.isoformat()), severity="error" if ended else "warning",
            title=f"licence {entry.license_id} {'ended' if ended else 'ends'} on {entry.expires}",
            at=since.timestamp(), facts={"expires": entry.expires.isoformat(), "days_left": entry.days_left},
            causes=("the contract is to be renewed in the registry, or manifests from that day on go without it",),
        ))
    return out
