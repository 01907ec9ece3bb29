"""Pages: failed checks and failed runs of Dagster's event log, told to people once.

Belongs here: finding problems in the event log, the sensor that does so while the daemon runs, and the watch that does
so inside ``gristmill run``, which needs no daemon. Does not belong here: what is told where, and how often
(``gristmill/observe/paging``). Both ways note into one ledger, in the store, so neither tells what the other has told.
"""

import json
import math
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import dagster as dg
from dagster._core.events import DagsterEventType

from gristmill.errors import GristmillError
from gristmill.observe.causes import causes
from gristmill.observe.paging import shared
from gristmill.observe.paging.config import Paging
from gristmill.observe.paging.ledger import FIRST_WAIT_S, Ledger, Outcome
from gristmill.observe.paging.problem import Passed, Problem, check_subject, clip
from gristmill.store import Store
from resources.places import Places

TICK_S = 10
LOOK_BACK_S = 600.0  # of the first look; what is read twice is told once
OVERLAP_S = 60.0  # runs updated this long before the last look are read on: clocks and commits are not exact
BATCH = 2000  # events read at a time
MAX_FACTS = 16
RETRIES_S = (FIRST_WAIT_S + 0.5, 2 * FIRST_WAIT_S + 0.5)  # at a command's end: there may be no daemon to go on trying
_GOING = [dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.CANCELING]
_SAYS = ("likely_causes", "causes")
# What a verdict was given by stands first: a target with little room cuts the rest.
_FIRST = ("why", "direction", "retention", "median", "band", "documents_in", "documents_out", "top_reasons")


@dataclass(frozen=True)
class Found:
    """What one look at the event log gave."""

    problems: tuple[Problem, ...]
    passed: tuple[Passed, ...]
    going: frozenset[str]  # runs that have not ended
    cursor: str


def collect(instance: dg.DagsterInstance, cursor: str | None, *, now: float | None = None) -> Found:
    """Failed runs, and verdicts of checks, since the last look.

    Args:
        instance: whose event log.
        cursor: of the last look; None looks ten minutes back.
        now: seconds since the epoch.
    """
    now = time.time() if now is None else now
    state: dict[str, Any] = json.loads(cursor) if cursor else {"since": now - LOOK_BACK_S, "runs": {}}
    since = datetime.fromtimestamp(state["since"] - OVERLAP_S, UTC)
    records = {r.dagster_run.run_id: r for r in (
        *instance.get_run_records(dg.RunsFilter(updated_after=since)),
        *instance.get_run_records(dg.RunsFilter(statuses=_GOING)),
    )}
    problems: list[Problem] = []
    passed: list[Passed] = []
    going, runs = set(), {}
    for run_id, record in sorted(records.items()):
        seen = state["runs"].get(run_id, {"cursor": None, "by_partition": []})
        runs[run_id] = _verdicts(instance, run_id, seen, problems, passed)
        status = record.dagster_run.status
        if status == dg.DagsterRunStatus.FAILURE:
            problems.append(_failed(instance, record))
        elif not record.dagster_run.is_finished:
            going.add(run_id)
    return Found(tuple(problems), tuple(passed), frozenset(going), json.dumps({"since": now, "runs": runs}))


def _verdicts(instance: dg.DagsterInstance, run_id: str, seen: Mapping[str, Any], problems: list[Problem],
              passed: list[Passed]) -> dict[str, Any]:
    """Read on in a run's checks. A range run's summary repeats its partitions' verdicts, and is left out."""
    at, by_partition = seen["cursor"], set(seen["by_partition"])
    while True:
        page = instance.get_records_for_run(run_id, at, of_type={DagsterEventType.ASSET_CHECK_EVALUATION}, limit=BATCH)
        for record in page.records:
            event = record.event_log_entry.dagster_event
            if event is None:
                continue
            verdict = event.asset_check_evaluation_data
            asset = verdict.asset_key.to_user_string()
            name = f"{asset} {verdict.check_name}"
            if verdict.partition:
                by_partition.add(name)
            elif name in by_partition:
                continue
            when = record.event_log_entry.timestamp
            if verdict.passed:
                passed.append(Passed(check_subject(asset, verdict.check_name, verdict.partition), when))
            else:
                said = {name: value.value for name, value in verdict.metadata.items()}
                facts = shared.of_check(asset, verdict.check_name, said, when, run_id)
                problems.extend(facts or [_out_of_band(verdict, asset, when, run_id)])
        at = page.cursor
        if not page.has_more:
            return {"cursor": at, "by_partition": sorted(by_partition)}


def _out_of_band(verdict: dg.AssetCheckEvaluation, asset: str, when: float, run_id: str) -> Problem:
    facts = {name: _plain(value) for name, value in verdict.metadata.items()}
    likely = next((facts.pop(n) for n in _SAYS if n in facts), None)
    if not isinstance(likely, list):
        likely = [likely] if likely else _causes(asset, facts)
    facts = {k: facts[k] for k in (*(k for k in _FIRST if k in facts), *(k for k in facts if k not in _FIRST))}
    where = f" {verdict.partition}" if verdict.partition else ""
    told = clip(verdict.description, 200) if verdict.description else ""
    return Problem(
        subject=check_subject(asset, verdict.check_name, verdict.partition),
        severity="error" if verdict.severity == dg.AssetCheckSeverity.ERROR else "warning",
        title=f"{asset}{where}: check {verdict.check_name} failed{': ' + told if told else ''}",
        at=when, run_id=run_id,
        facts={k: v for k, v in list(facts.items())[:MAX_FACTS] if v is not None},
        causes=tuple(str(c) for c in likely),
    )


def _causes(asset: str, facts: Mapping[str, Any]) -> list[str]:
    kept, median = facts.get("retention"), facts.get("median")
    if not isinstance(kept, int | float) or not isinstance(median, int | float) or median < 0:
        return []
    return causes(asset, "down" if kept < median else "up")


def _plain(value: Any) -> Any:
    """Metadata as JSON, small; None for what does not belong in a message (plots, tables, paths to nowhere)."""
    raw = getattr(value, "value", None)
    if isinstance(value, dg.MarkdownMetadataValue | dg.TableMetadataValue):
        return None
    if isinstance(raw, float):
        return raw if math.isfinite(raw) else str(raw)
    if isinstance(raw, bool | int | str):
        return clip(raw, 300) if isinstance(raw, str) else raw
    if isinstance(raw, list | dict):
        return raw if len(json.dumps(raw, default=str)) <= 600 else f"{len(raw)} entries"
    return None


def _failed(instance: dg.DagsterInstance, record: dg.RunRecord) -> Problem:
    run = record.dagster_run
    step, why = "", ""
    wanted = {DagsterEventType.STEP_FAILURE, DagsterEventType.RUN_FAILURE}
    for entry in instance.get_records_for_run(run.run_id, of_type=wanted, limit=20).records:
        event = entry.event_log_entry.dagster_event
        if event is None:
            continue
        if event.event_type == DagsterEventType.STEP_FAILURE and not step:
            step, error = event.step_key or "", event.step_failure_data.error
            while error is not None and error.cause is not None and (error.cls_name or "").startswith("Dagster"):
                error = error.cause  # Dagster wraps what a body raised; what that was raised from says less
            why = _gist(error.message) if error is not None else event.message or ""
        elif not why:
            why = event.message or ""
    range_ = [run.tags.get(f"dagster/asset_partition_range_{end}") for end in ("start", "end")]
    partitions = run.tags.get("dagster/partition") or (" to ".join(r for r in range_ if r))
    facts = {"job": run.job_name, "step": step, "partitions": partitions, "error": clip(why, 500)}
    return Problem(
        subject=("run", run.run_id), severity="error",
        title=f"run {run.run_id[:8]} of {run.job_name} failed{f' in {step}' if step else ''}: {clip(why, 200)}",
        at=record.end_time or record.update_timestamp.timestamp(), run_id=run.run_id,
        facts={k: v for k, v in facts.items() if v},
    )


def _gist(message: str) -> str:
    """First and last line: a worker's error ends with what it raised, below its traceback."""
    lines = [line.strip() for line in message.strip().splitlines() if line.strip()]
    return " ".join(dict.fromkeys([*lines[:1], *lines[-1:]]))


def tell(instance: dg.DagsterInstance, ledger: Ledger, cursor: str | None) -> tuple[str, Outcome]:
    """One look and one delivery; (the next look's cursor, what was delivered)."""
    found = collect(instance, cursor)
    ledger.note(found.problems, found.passed)
    return found.cursor, ledger.flush(ended=lambda run: run not in found.going)


def pages_sensor(paging: Paging) -> dg.SensorDefinition:
    """Look every ten seconds. On from the start: who names targets in the site's configuration wants pages."""

    @dg.sensor(name="pages", minimum_interval_seconds=TICK_S, default_status=dg.DefaultSensorStatus.RUNNING,
               description="Tells people of failed checks and failed runs, as site.paging says; tries again what could "
                           "not be delivered.")
    def _pages(context: dg.SensorEvaluationContext, places: Places) -> dg.SkipReason:
        ledger = Ledger(places.open_store(), paging)
        found = collect(context.instance, context.cursor)
        ledger.note(found.problems, found.passed)
        context.update_cursor(found.cursor)  # what is noted is never lost; what was not is looked at again
        done = ledger.flush(ended=lambda run: run not in found.going)
        for why in done.failed:
            context.log.warning(f"a page could not be delivered, and is tried again: {why}")
        return dg.SkipReason(f"{done.delivered} pages delivered, {done.waiting} problems waiting")

    return _pages


@contextmanager
def watching(instance: dg.DagsterInstance, store: Store, paging: Paging | None, every_s: float = TICK_S
             ) -> Iterator[None]:
    """Page while a command runs, and once more at its end; a page that cannot be delivered never stops the command."""
    if paging is None:
        yield
        return
    from sqlalchemy.exc import SQLAlchemyError

    ledger, stop = Ledger(store, paging), threading.Event()
    state: dict[str, Any] = {"cursor": json.dumps({"since": time.time(), "runs": {}}), "errors": []}

    def look() -> Outcome:
        try:
            state["cursor"], done = tell(instance, ledger, state["cursor"])
            return done
        except (GristmillError, OSError, dg.DagsterError, SQLAlchemyError) as error:
            state["errors"].append(str(error))
            return Outcome()

    def loop() -> None:
        while not stop.wait(every_s):
            look()

    thread = threading.Thread(target=loop, name="pages", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        done = look()
        for wait in RETRIES_S:
            if not done.failed:
                break
            time.sleep(wait)
            done = look()
        if done.waiting:
            print(f"gristmill: {done.waiting} problem(s) could not be told yet ({'; '.join(done.failed[:3])}); the "
                  "next command or the sensor tries again, and `gristmill pages` lists them", file=sys.stderr)
        for error in dict.fromkeys(state["errors"]):
            print(f"gristmill: paging failed: {error}", file=sys.stderr)
