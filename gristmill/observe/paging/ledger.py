"""The ledger of pages, in the store: what was told, what is still to be told, so that nothing is told twice or lost.

Belongs here: noting problems, and delivering what is due. Does not belong here: finding problems, and one attempt to
deliver (``deliver.py``). Laid out as ``registry/pages/pending/{subject}.json`` (noted, not yet delivered everywhere)
and ``registry/pages/told/{subject}.json`` (delivered; when it last failed and when it passed). Problems are noted by
create-exclusive, so any number of processes may note the same one; one process at a time delivers, under a lease. A
process that dies between delivering and recording it delivers again: a page carries a key by which a receiver tells.
"""

import json
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from gristmill.observe.paging.config import Paging, Target, name_of
from gristmill.observe.paging.deliver import DeliveryError, deliver
from gristmill.observe.paging.problem import Passed, Problem, pages
from gristmill.store import Store

PENDING, TOLD, LEASE = "registry/pages/pending", "registry/pages/told", "registry/pages/lease.json"
FIRST_WAIT_S, LONGEST_WAIT_S = 5.0, 900.0
LEASE_S = 60.0

Deliver = Callable[..., None]


@dataclass
class Pending:
    """A noted problem, and how it stands with each target: {name: {"sent_at" | "attempts", "next_at", "error"}}."""

    problem: Problem
    noted_at: float
    targets: dict[str, dict[str, Any]]

    def bytes(self) -> bytes:
        """As stored."""
        return _json({"problem": self.problem.plain(), "noted_at": self.noted_at, "targets": self.targets})

    def wants(self, target: Target) -> bool:
        """Is it still to be told there."""
        return not (_lesser(self.problem, target) or "sent_at" in self.targets.get(name_of(target), {}))


@dataclass(frozen=True)
class Outcome:
    """What one ``flush`` did."""

    delivered: int = 0  # pages
    failed: tuple[str, ...] = ()  # why, a target and page
    waiting: int = 0  # problems that are still to be told somewhere


class Ledger:
    """Noting and delivering, for one site.

    Args:
        store: of the site.
        paging: its configuration.
        clock: seconds since the epoch.
        send: one attempt.
    """

    def __init__(self, store: Store, paging: Paging, *, clock: Callable[[], float] = time.time,
                 send: Deliver = deliver) -> None:
        self.blobs, self.paging, self.clock, self.send = store.blobs, paging, clock, send

    # -- noting ----------------------------------------------------------------------------------------------------

    def note(self, problems: Iterable[Problem], passed: Iterable[Passed] = ()) -> list[Problem]:
        """Note what is new; returns that. Passing subjects make a later failure of theirs new again.

        A problem is new when its subject was never told, or passed since, or is an error that was told as a warning, or
        was told longer ago than ``again_after_hours``. Events may come again or out of order.
        """
        told = _names(self.blobs.list(TOLD))
        waiting = _names(self.blobs.list(PENDING))
        for one in passed:
            if one.key in told or one.key in waiting:
                self._pass(one, told, waiting)
        new: list[Problem] = []
        for problem in sorted(problems, key=lambda p: p.at):
            if problem.key in told and not self._news(problem, self._told(problem.key)):
                continue
            record = Pending(problem, self.clock(), {})
            try:
                self.blobs.create(f"{PENDING}/{problem.key}.json", record.bytes())
            except FileExistsError:
                self._escalate(problem)
                continue
            new.append(problem)
        return new

    def _news(self, problem: Problem, told: Mapping[str, Any]) -> bool:
        passed_at, failed_at = told.get("passed_at"), told["failed_at"]
        if passed_at is not None:
            return problem.at > passed_at
        if problem.at <= failed_at:
            return False  # the same event, read again
        if problem.severity == "error" and told["severity"] == "warning":
            return True
        return bool(problem.at - failed_at >= self.paging.again_after_hours * 3600)

    def _pass(self, one: Passed, told: Collection[str], waiting: Collection[str]) -> None:
        # What is pending is told all the same: it did fail.
        record = self._told(one.key) if one.key in told else None
        if record is None:
            with suppress(FileNotFoundError):
                pending = self._pending(one.key)
                if one.at > pending.problem.at:
                    self.blobs.put(f"{TOLD}/{one.key}.json", _json(
                        {**_told_record(pending.problem, None), "passed_at": one.at}))
            return
        if one.at > max(record["failed_at"], record.get("passed_at") or 0.0):
            self.blobs.put(f"{TOLD}/{one.key}.json", _json({**record, "passed_at": one.at}))

    def _escalate(self, problem: Problem) -> None:
        with suppress(FileNotFoundError):
            pending = self._pending(problem.key)
            if problem.severity == "error" and pending.problem.severity == "warning":
                pending.problem = problem
                self.blobs.put(f"{PENDING}/{problem.key}.json", pending.bytes())

    # -- delivering ------------------------------------------------------------------------------------------------

    def flush(self, *, ended: Callable[[str], bool] = lambda _run: True) -> Outcome:
        """Deliver what is due, one page a run and target.

        Args:
            ended: has a run ended; a run that goes on collects problems for ``group_seconds``.
        """
        names = _names(self.blobs.list(PENDING))
        if not names:
            return Outcome()
        token = self._lease()
        if token is None:  # another process is delivering right now, and sees what was noted
            return Outcome(waiting=len(names))
        try:
            return self._flush(token, ended)
        finally:
            self._release(token)

    def _flush(self, token: str, ended: Callable[[str], bool]) -> Outcome:
        delivered = 0
        failed: list[str] = []
        records = {r.problem.key: r for r in self.pending() if not self._late(r)}
        now = self.clock()
        due = [r for r in records.values() if self._ripe(r, now, ended)]
        for target in self.paging.targets:
            name = name_of(target)
            ready = [r.problem for r in due
                     if r.wants(target) and r.targets.get(name, {}).get("next_at", 0.0) <= self.clock()]
            for page in pages(ready, self.paging.ui):
                if not self._renew(token):  # it ran out, and another process took over
                    return Outcome(delivered, tuple(failed), len(records))
                try:
                    self.send(target, page, timeout=self.paging.timeout_seconds)
                    state: dict[str, Any] = {"sent_at": self.clock()}
                    delivered += 1
                except DeliveryError as error:
                    attempts = max(records[p.key].targets.get(name, {}).get("attempts", 0) for p in page.problems) + 1
                    wait = max(min(FIRST_WAIT_S * 2 ** min(attempts - 1, 12), LONGEST_WAIT_S), error.wait_s)
                    state = {"attempts": attempts, "next_at": self.clock() + wait, "error": str(error)}
                    failed.append(str(error))
                for problem in page.problems:
                    record = records[problem.key]
                    record.targets[name] = state
                    self.blobs.put(f"{PENDING}/{problem.key}.json", record.bytes())
        for key, record in list(records.items()):
            if not any(record.wants(t) for t in self.paging.targets):
                self._settle(key, record)
                del records[key]
        return Outcome(delivered, tuple(failed), len(records))

    def _late(self, record: Pending) -> bool:
        """Noted by a process that looked before another one had told the same event; then it goes."""
        key = record.problem.key
        with suppress(FileNotFoundError):
            told = self._told(key)
            if told["told_at"] is not None and record.problem.at <= told["failed_at"]:
                self.blobs.delete(f"{PENDING}/{key}.json")
                return True
        return False

    def _ripe(self, record: Pending, now: float, ended: Callable[[str], bool]) -> bool:
        run = record.problem.run_id
        return bool(record.targets) or not run or now - record.noted_at >= self.paging.group_seconds or ended(run)

    def _settle(self, key: str, record: Pending) -> None:
        new = _told_record(record.problem, self.clock())
        with suppress(FileNotFoundError):
            old = self._told(key)
            if (old.get("passed_at") or 0.0) > record.problem.at:
                new["passed_at"] = old["passed_at"]
        self.blobs.put(f"{TOLD}/{key}.json", _json(new))
        self.blobs.delete(f"{PENDING}/{key}.json")

    def pending(self) -> list[Pending]:
        """What is still to be told somewhere, oldest first."""
        out = []
        for path, _ in self.blobs.list(PENDING):
            with suppress(FileNotFoundError):  # settled meanwhile
                out.append(self._pending(_name(path)))
        return sorted(out, key=lambda r: (r.noted_at, r.problem.subject))

    def told(self) -> list[dict[str, Any]]:
        """What was told, newest first."""
        found = [self._told(name) for name in _names(self.blobs.list(TOLD))]
        return sorted((r for r in found if r["told_at"]), key=lambda r: (-r["told_at"], r["title"]))

    # -- records -----------------------------------------------------------------------------------------------------

    def _pending(self, key: str) -> Pending:
        data = json.loads(self.blobs.get(f"{PENDING}/{key}.json"))
        return Pending(Problem.read(data["problem"]), data["noted_at"], data["targets"])

    def _told(self, key: str) -> dict[str, Any]:
        data: dict[str, Any] = json.loads(self.blobs.get(f"{TOLD}/{key}.json"))
        return data

    def _lease(self) -> str | None:
        token = uuid.uuid4().hex
        body = _json({"token": token, "until": self.clock() + LEASE_S})
        try:
            self.blobs.create(LEASE, body)
            return token
        except FileExistsError:
            pass
        held = self._held()
        if held is not None and held["until"] > self.clock():
            return None
        self.blobs.put(LEASE, body)  # its holder died; where two take over at once, the later one keeps it
        time.sleep(0.05)
        return token if (self._held() or {}).get("token") == token else None

    def _held(self) -> dict[str, Any] | None:
        try:
            data: dict[str, Any] = json.loads(self.blobs.get(LEASE))
            return data
        except FileNotFoundError:
            return None

    def _renew(self, token: str) -> bool:
        if (self._held() or {}).get("token") != token:
            return False
        self.blobs.put(LEASE, _json({"token": token, "until": self.clock() + LEASE_S}))
        return True

    def _release(self, token: str) -> None:
        if (self._held() or {}).get("token") == token:
            self.blobs.delete(LEASE)


def _lesser(problem: Problem, target: Target) -> bool:
    return target.least == "error" and problem.severity == "warning"


def _told_record(problem: Problem, now: float | None) -> dict[str, Any]:
    return {"subject": list(problem.subject), "title": problem.title, "severity": problem.severity,
            "failed_at": problem.at, "told_at": now, "passed_at": None, "run_id": problem.run_id}


def _name(path: str) -> str:
    return path.rpartition("/")[2].removesuffix(".json")


def _names(found: Iterable[tuple[str, int]]) -> set[str]:
    return {_name(path) for path, _ in found}


def _json(data: dict[str, Any]) -> bytes:
    return json.dumps(data, ensure_ascii=False, sort_keys=True).encode()
