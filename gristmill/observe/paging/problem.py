"""A problem (one failed check of one partition, one failed run), and a page: problems of one run, told together.

Belongs here: identity, titles, links, what a page says. Does not belong here: the form that a target wants
(``shapes.py``).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import quote

from gristmill.fingerprint import digest
from gristmill.observe.paging.config import Severity

MAX_LISTED = 20  # problems spelt out in a page; the rest is a count, and behind the run's link
MAX_TEXT = 500  # characters of a fact: metadata may hold crawled text


@dataclass(frozen=True)
class Problem:
    """Something a person should know.

    Attributes:
        subject: what it is about: ("check", asset, check, partition), ("run", run id), ("licence", id, ...). The same
            subject is paged once until it passed in between.
        severity: warning or error.
        title: one line.
        at: when it happened, seconds since the epoch.
        run_id: problems of one run share a page; empty for none.
        facts: evidence, small.
        causes: likely ones, most likely first.
        group: shares a page with others of this name where there is no run.
    """

    subject: tuple[str, ...]
    severity: Severity
    title: str
    at: float
    run_id: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    causes: tuple[str, ...] = ()
    group: str = ""

    @property
    def key(self) -> str:
        """Identity in the ledger."""
        return digest(list(self.subject))[:32]

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return {**asdict(self), "subject": list(self.subject), "causes": list(self.causes), "facts": dict(self.facts)}

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> "Problem":
        """From JSON."""
        return cls(**{**data, "subject": tuple(data["subject"]), "causes": tuple(data["causes"])})


@dataclass(frozen=True)
class Passed:
    """A subject that is well again (or still)."""

    subject: tuple[str, ...]
    at: float

    @property
    def key(self) -> str:
        """Identity in the ledger."""
        return digest(list(self.subject))[:32]


def check_subject(asset: str, check: str, partition: str | None) -> tuple[str, ...]:
    """Of a check's verdict on a partition."""
    return ("check", asset, check, partition or "")


@dataclass(frozen=True)
class Page:
    """What one message says: all that is new of one run."""

    problems: tuple[Problem, ...]
    ui: str

    @property
    def key(self) -> str:
        """The same for every attempt to deliver it: a receiver that gets it twice can tell."""
        return digest(sorted([p.key, f"{p.at:.6f}"] for p in self.problems))[:32]

    @property
    def run_id(self) -> str:
        """The run, or empty."""
        return self.problems[0].run_id

    @property
    def incident(self) -> str:
        """What groups pages: the run."""
        return f"gristmill-{self.run_id or self.key}"

    @property
    def severity(self) -> Severity:
        """The worst."""
        return "error" if any(p.severity == "error" for p in self.problems) else "warning"

    @property
    def title(self) -> str:
        """One line: the only problem's, or how many of what."""
        if len(self.problems) == 1:
            return clip(self.problems[0].title, 300)
        runs = sum(p.subject[0] == "run" for p in self.problems)
        checks = Counter(" ".join(p.subject[1:3]) for p in self.problems if p.subject[0] == "check")
        told = [f"run failed: {next(p for p in self.problems if p.subject[0] == 'run').title}"] if runs else []
        told += [f"{name} failed on {n} partition{'s' if n > 1 else ''}" for name, n in checks.most_common(3)]
        if len(checks) > 3:
            told.append(f"and {len(checks) - 3} more checks")
        others = [p for p in self.problems if p.subject[0] not in ("run", "check")]
        if others:
            told.append(others[0].title + (f", and {len(others) - 1} more like it" if len(others) > 1 else ""))
        return clip("; ".join(told), 300)

    def link(self, problem: Problem | None = None) -> str:
        """To a problem's partition in the UI, or to the run."""
        if problem is not None and problem.subject[0] == "check":
            _, asset, check, partition = problem.subject
            where = f"{self.ui.rstrip('/')}/assets/{quote(asset)}"
            if partition:
                return f"{where}?view=partitions&partition={quote(partition, safe='')}"
            return f"{where}?view=checks&checkDetail={quote(check, safe='')}"
        return f"{self.ui.rstrip('/')}/runs/{quote(self.run_id)}" if self.run_id else self.ui

    @property
    def causes(self) -> list[str]:
        """Likely ones of all its problems, each once."""
        return list(dict.fromkeys(c for p in self.problems for c in p.causes))

    def plain(self) -> dict[str, Any]:
        """As generic JSON."""
        return {
            "format": 1,
            "source": "gristmill",
            "key": self.key,
            "incident": self.incident,
            "severity": self.severity,
            "title": self.title,
            "run_id": self.run_id,
            "link": self.link(),
            "count": len(self.problems),
            "problems": [
                {
                    "title": clip(p.title, MAX_TEXT),
                    "severity": p.severity,
                    "at": p.at,
                    "subject": list(p.subject),
                    "facts": {k: clip(v, MAX_TEXT) if isinstance(v, str) else v for k, v in p.facts.items()},
                    "likely_causes": list(p.causes),
                    "link": self.link(p),
                }
                for p in self.problems[:MAX_LISTED]
            ],
            "not_listed": max(len(self.problems) - MAX_LISTED, 0),
            "likely_causes": self.causes,
        }


def pages(problems: Sequence[Problem], ui: str) -> list[Page]:
    """Problems grouped by run, worst first inside; what belongs to no run is a page of its own."""
    groups: dict[str, list[Problem]] = {}
    for problem in problems:
        groups.setdefault(problem.run_id or problem.group or problem.key, []).append(problem)
    order = {"error": 0, "warning": 1}
    return [
        Page(tuple(sorted(group, key=lambda p: (p.subject[0] != "run", order[p.severity], p.subject))), ui)
        for _, group in sorted(groups.items(), key=lambda item: (min(p.at for p in item[1]), item[0]))
    ]


def clip(text: str, length: int) -> str:
    """At most so many characters, and none that a terminal or a header would obey."""
    clean = "".join(c if c.isprintable() else " " for c in text)
    return clean if len(clean) <= length else clean[: length - 3] + "..."
