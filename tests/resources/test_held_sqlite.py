"""Held SQLite connections: the same events, readable by another process, and far fewer connections."""

import sqlite3
import subprocess
import sys

import dagster as dg
import pytest
from dagster._core.storage.event_log.sqlite import sqlite_event_log
from dagster._core.storage.runs.sqlite import sqlite_run_storage

from resources.held_sqlite import hold_connections

PARTS = dg.StaticPartitionsDefinition([f"{i:04d}" for i in range(8)])


@dg.asset(partitions_def=PARTS, backfill_policy=dg.BackfillPolicy.single_run())
def toy(context) -> None:
    for key in context.partition_keys:
        context.add_asset_metadata({"n": int(key)}, partition_key=key)


@pytest.fixture(params=["as it comes", "held"])
def connections(request, monkeypatch):
    """Connections opened, counted."""
    monkeypatch.setattr(sqlite_event_log, "create_engine", sqlite_event_log.create_engine)
    monkeypatch.setattr(sqlite_run_storage, "create_engine", sqlite_run_storage.create_engine)
    if request.param == "held":
        hold_connections()
    opened = []
    real = sqlite3.connect

    def counted(*args, **kwargs):
        opened.append(args)
        return real(*args, **kwargs)

    monkeypatch.setattr(sqlite3, "connect", counted)
    monkeypatch.setattr(sqlite3.dbapi2, "connect", counted)
    return request.param, opened


def test_events_are_the_same_and_another_process_reads_them(connections, tmp_path):
    how, opened = connections
    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        job = dg.Definitions(assets=[toy], executor=dg.in_process_executor).resolve_implicit_global_asset_job_def()
        opened.clear()
        result = job.execute_in_process(instance=instance, tags={
            "dagster/asset_partition_range_start": "0000", "dagster/asset_partition_range_end": "0007"})
        assert result.success
        during = len(opened)
    code = (
        "import dagster as dg, sys\n"
        "with dg.DagsterInstance.from_config(sys.argv[1]) as i:\n"
        "    print(sorted(i.get_materialized_partitions(dg.AssetKey('toy'))))\n"
    )
    seen = subprocess.run([sys.executable, "-W", "ignore", "-c", code, str(tmp_path)], capture_output=True, text=True,
                          check=True)
    assert seen.stdout.strip() == str([f"{i:04d}" for i in range(8)])
    assert during < 20 if how == "held" else during > 60
