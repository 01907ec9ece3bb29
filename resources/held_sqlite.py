"""Dagster's SQLite storage with connections that are kept, for the process that runs a crawl.

Belongs here: one patch of a private name, kept in one place with a test. Dagster 1.13 makes a new SQLAlchemy engine
and a new connection for every event, and closing the last connection of a WAL database checkpoints it: about four
fifths of its own time in a range run. Held connections write the same rows. Does not belong here: Postgres, which a
deployment of several machines uses.
"""

import sqlite3
from typing import Any

_ENGINES: dict[str, Any] = {}


def hold_connections() -> None:
    """Let Dagster's SQLite storages of this process reuse engines and connections. Doing it again changes nothing."""
    from dagster._core.storage.event_log.sqlite import sqlite_event_log
    from dagster._core.storage.runs.sqlite import sqlite_run_storage

    for module in (sqlite_event_log, sqlite_run_storage):
        module.create_engine = _held  # type: ignore[attr-defined]


def _held(url: Any, *, poolclass: Any = None, connect_args: dict[str, Any] | None = None, **more: Any) -> Any:
    from sqlalchemy import create_engine as new_engine
    from sqlalchemy import event
    from sqlalchemy.pool import NullPool, QueuePool

    key = str(url)
    if ":memory:" in key or poolclass is not NullPool:
        return new_engine(url, poolclass=poolclass, connect_args=connect_args or {}, **more)
    if key not in _ENGINES:
        engine = new_engine(
            url, poolclass=QueuePool, connect_args={**(connect_args or {}), "check_same_thread": False}, **more
        )
        event.listen(engine, "connect", _no_sync_per_commit)
        engine.dispose = _keep  # type: ignore[method-assign]  # the event log disposes of its engine after every event
        _ENGINES[key] = engine
    return _ENGINES[key]


def _keep(close: bool = True) -> None:
    """Instead of ``Engine.dispose``: the process's end closes the connections."""


def _no_sync_per_commit(connection: Any, _: Any) -> None:
    # In WAL mode NORMAL loses no committed row when a process dies, at most the last ones when the power goes; the
    # data itself is in the store, and a run resumes from that.
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA synchronous=NORMAL")
