"""A site that has run for years: 64 host buckets x 500 crawls x all assets, and how soon it notices what is new or bad.

Belongs here: how long the UI's status query, a sensor's evaluation and the loading of the definitions take there; how
many ticks pass from a listing to its first run; and how long from a bad partition to its page. Does not belong here:
how long stages take. A materialisation of every partition is in the event log: one is written by Dagster itself, the
others are copies of its row with other keys, as years of runs would have left them.

    python -m bench.operation [CRAWLS]
"""

import gzip
import json
import os
import resource
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import yaml

from bench import overhead
from bench.report import Report

BUCKETS, CRAWLS = 64, 500
QUERY_S, SENSOR_S, LOAD_S, PAGE_S = 1.0, 5.0, 3.0, 60.0
BATCH = 10  # assets that Dagster's UI asks for at a time
ROOT = Path(__file__).resolve().parents[1]
# What the UI asks for the assets on its screen, again and again (its own query, in our words).
LIVE = """
query Live($keys: [AssetKeyInput!]!) {
  assetNodes(assetKeys: $keys) {
    id
    assetKey { path }
    assetMaterializations(limit: 1) { timestamp runId }
    partitionStats { numMaterialized numMaterializing numPartitions numFailed }
    assetChecksOrError { ... on AssetChecks { checks {
      name executionForLatestMaterialization { id runId status timestamp evaluation { severity } } } } }
  }
  assetsLatestInfo(assetKeys: $keys) { id unstartedRunIds inProgressRunIds latestRun { id status } }
}
"""


def name(number: int) -> str:
    return f"BENCH-{number:04d}"


def main(crawls: int = CRAWLS) -> None:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        scratch = Path(folder)
        os.environ["DAGSTER_HOME"] = overhead._home(scratch)
        pipeline = write_site(scratch)
        os.environ["GRISTMILL_PIPELINE"] = str(pipeline)
        report = Report("operation")
        definitions_load(report)
        with toys():
            sensors(report, crawls)
            page(report)
            history(scratch, crawls)
        status_query(report, crawls)
        report.write()


def write_site(scratch: Path) -> Path:
    target = {"kind": "file", "path": "pages.jsonl"}
    file = scratch / "pipeline.yaml"
    places = {n: str(scratch / n) for n in ("store", "landing", "holdout", "models")}
    file.write_text(yaml.safe_dump({"site": {**places, "paging": {"targets": [target]}},
                                    "params": {"grid": {"host_buckets": BUCKETS}}}))
    return file


@contextmanager
def toys():
    """Every stage's body is a toy."""
    from gristmill import partition
    from gristmill.funnel import Stage

    checks = mock.patch.object(partition, "_STATE_CHECKS", {})
    with mock.patch.object(Stage, "load", return_value=overhead.body), checks:
        yield


def read_site():
    from definitions import pipeline_file
    from gristmill.params import read_pipeline

    return read_pipeline(pipeline_file())


def definitions_load(report: Report) -> None:
    """A fresh process, as the code server's: Dagster's import, the code location, its repository."""
    code = "import definitions; definitions.build_definitions().get_repository_def()"
    best = []
    for _ in range(3):
        before, start = _cpu(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
        best.append((time.perf_counter() - start, _cpu(resource.RUSAGE_CHILDREN) - before))
    wall, cpu = min(best)
    report.add(f"definitions load in a fresh process, Dagster's import included, wall s ({BUCKETS} buckets)", wall,
               ratio=wall, bar=f"< {LOAD_S:g} s", holds=wall < LOAD_S, note=f"CPU {cpu:.1f} s")


def sensors(report: Report, crawls: int) -> None:
    """The sensor of new crawls: from nothing, at rest, with a new crawl, and with one to survey in full."""
    import dagster as dg

    from definitions import build_definitions
    from gristmill.funnel import FUNNEL, Plan
    from gristmill.registry import Registry
    from gristmill.runner import run_stage
    from gristmill.store import Store
    from resources.places import Places

    pipeline = read_site()
    site, plan, store = pipeline.site, Plan(pipeline.params), Store(pipeline.site.store)
    land(Path(site.landing), [name(n) for n in range(crawls)])
    registry = Registry(store)
    for n in range(crawls):
        store.blobs.put(f"registry/crawls/{n:06d}.json", json.dumps({"crawl": name(n), "ordinal": n}).encode())
    assert registry.ordinals()[name(crawls - 1)] == crawls - 1
    for stage in FUNNEL:  # one crawl in full: the longest survey there is
        list(run_stage(store, plan, site, stage, name(0)))
    defs = build_definitions(pipeline)
    places = Places(store=site.store, landing=site.landing, holdout=site.holdout, models=site.models)
    sensor = defs.resolve_sensor_def("new_crawls")
    with dg.DagsterInstance.get() as instance:
        instance.add_dynamic_partitions("crawl", [name(n) for n in range(crawls)])

        def tick(cursor):
            cpu, start = time.process_time(), time.perf_counter()
            context = dg.build_sensor_context(instance=instance, cursor=cursor, resources={"places": places},
                                              definitions=defs)
            result = sensor.evaluate_tick(context)
            spent = (time.process_time() - cpu, time.perf_counter() - start)
            return result, spent

        first, cold = tick(None)  # surveys the finished one, which may take all of a tick's time
        cursor = json.loads(first.cursor)
        done = cursor["crawls"][name(0)]
        assert "done" in done
        cursor["crawls"] = {name(n): done | {"mark": mark(site.landing, name(n))} for n in range(crawls)}
        resting, rest = tick(json.dumps(cursor))
        assert not resting.run_requests
        land(Path(site.landing), ["NEW-0001"])
        asked, new = tick(resting.cursor)
        ticks = 1 if [r.tags["gristmill/crawl"] for r in asked.run_requests] == ["NEW-0001"] else 2
        looks = defs.resolve_sensor_def("pages")
        cpu, start = time.process_time(), time.perf_counter()
        looks.evaluate_tick(dg.build_sensor_context(instance=instance, resources={"places": places}, definitions=defs))
        paging = (time.process_time() - cpu, time.perf_counter() - start)
    report.add("ticks from a listing at rest to its crawl's registration and first run request", ticks, ratio=ticks,
               bar="1", holds=ticks == 1)
    cases = {"with its cursor lost, a finished crawl surveyed in full": cold, "nothing new": rest,
             "a new crawl": new, "the sensor of pages": paging}
    for what, (cpu, wall) in cases.items():
        report.add(f"sensor evaluation over {crawls} crawls x {BUCKETS} buckets, wall s: {what}", wall, ratio=wall,
                   bar=f"< {SENSOR_S:g} s", holds=wall < SENSOR_S, note=f"CPU {cpu:.2f} s")


def mark(landing: str, crawl: str) -> str:
    from gristmill.blobs import open_blobs
    from gristmill.fingerprint import digest

    _, files = open_blobs(landing).children(f"crawl-data/{crawl}")
    return digest(sorted([n, c.bytes, c.stamp] for n, c in files.items()))


def land(root: Path, names: list[str]) -> None:
    """Listings of one file each, written an hour ago."""
    for crawl in names:
        folder = root / "crawl-data" / crawl
        folder.mkdir(parents=True)
        (folder / "a.warc.gz").write_bytes(b"x")
        (folder / "warc.paths.gz").write_bytes(gzip.compress(f"crawl-data/{crawl}/a.warc.gz\n".encode(), mtime=0))
        for file in folder.iterdir():
            os.utime(file, (time.time() - 3600,) * 2)


def page(report: Report) -> None:
    """A run of two stages: the first leaves a bad partition, the second takes two minutes; when is it told of."""
    import dagster as dg

    from checks.partitioned import Evaluation, report_evaluations
    from gristmill.store import Store
    from partitions import grid as grids
    from sensors.pages import watching

    crawl = name(0)
    committed: list[float] = []

    @dg.asset(name="bad", partitions_def=grids.grid(BUCKETS), backfill_policy=dg.BackfillPolicy.single_run())
    def bad(context) -> None:
        committed.append(time.time())

    @dg.asset_check(asset=bad, name="retention", partitions_def=bad.partitions_def)
    def retention(context):
        told = [Evaluation(str(k), not str(k).endswith("0007"), {"retention": 0.1}) for k in context.partition_keys]
        report_evaluations(context, dg.AssetCheckKey(bad.key, "retention"), told, dg.AssetCheckSeverity.WARN, False)
        return dg.AssetCheckResult(passed=False, severity=dg.AssetCheckSeverity.WARN)

    pipeline = read_site()
    out = Path(pipeline.site.paging.targets[0].path)

    @dg.asset(name="later", deps=[bad], partitions_def=grids.grid(BUCKETS),
              backfill_policy=dg.BackfillPolicy.single_run())
    def later(context) -> None:
        while not out.exists() and time.time() - committed[0] < 120:
            time.sleep(0.1)

    job = dg.define_asset_job("job", selection=[bad, later], executor_def=dg.in_process_executor)
    defs = dg.Definitions(assets=[bad, later], asset_checks=[retention], jobs=[job])
    with dg.DagsterInstance.get() as instance, watching(instance, Store(pipeline.site.store), pipeline.site.paging):
        defs.resolve_job_def("job").execute_in_process(
            instance=instance, tags=grids.range_tags(crawl, 0, BUCKETS - 1),
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}})
        told = out.stat().st_mtime
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [p["subject"][3] for line in lines for p in line["problems"]] == [f"{crawl}|0007"]
    seconds = told - committed[0]
    report.add("from a bad partition to its page, in a run that goes on, s", seconds, ratio=seconds,
               bar=f"< {PAGE_S:g} s", holds=seconds < PAGE_S, note=f"{len(lines)} page; a command without a daemon")


def history(scratch: Path, crawls: int) -> None:
    """A materialisation of every partition of every asset on the grid, in the instance's event log."""
    import dagster as dg

    from gristmill.funnel import FUNNEL
    from partitions import grid as grids

    grid = [s.name for s in FUNNEL if s.on_grid]
    last = f"{name(crawls - 1)}|{grids.bucket_key(BUCKETS - 1)}"

    def tell(partition: str) -> None:
        with dg.DagsterInstance.get() as instance:
            for asset in grid:
                instance.report_runless_asset_event(dg.AssetMaterialization(
                    dg.AssetKey(asset), partition=partition, metadata={"documents_in": 1000, "retention": 0.9}))

    tell(last)
    index = next(scratch.rglob("index.db"))
    with sqlite3.connect(index) as db:
        db.execute("PRAGMA synchronous=OFF")
        db.execute("CREATE TEMP TABLE keys (key TEXT)")
        db.executemany("INSERT INTO keys VALUES (?)", (
            (f"{name(n)}|{grids.bucket_key(b)}",) for n in range(crawls) for b in range(BUCKETS)))
        db.execute(
            "INSERT INTO event_logs (run_id, event, dagster_event_type, timestamp, step_key, asset_key, partition) "
            "SELECT run_id, replace(event, ?, key), dagster_event_type, timestamp, step_key, asset_key, key "
            "FROM (SELECT * FROM event_logs WHERE partition = ? AND dagster_event_type = ?), keys WHERE key != ?",
            (last, last, "ASSET_MATERIALIZATION", last))
        db.commit()
    tell(last)  # so that what Dagster itself wrote is the newest


def status_query(report: Report, crawls: int) -> None:
    """The UI's query, over HTTP to its own server: the first time, and as it asks again and again."""
    from gristmill.funnel import FUNNEL

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    home = Path(os.environ["GRISTMILL_PIPELINE"]).parent
    with (home / "web.log").open("wb") as log:
        server = subprocess.Popen(
            [str(Path(sys.executable).parent / "dagster-webserver"), "-w", str(ROOT / "workspace.yaml"),
             "-h", "127.0.0.1", "-p", str(port)], cwd=home, stdout=log, stderr=log)
    try:
        deadline = time.time() + 180
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/server_info", timeout=5).read()
                break
            except OSError as error:
                if server.poll() is not None or time.time() > deadline:
                    raise RuntimeError((home / "web.log").read_text()[-3000:]) from error
                time.sleep(0.3)
        names = [s.name for s in FUNNEL]
        batches = [[{"path": [n]} for n in names[i : i + BATCH]] for i in range(0, len(names), BATCH)]
        first, found = ask(port, [key for batch in batches for key in batch])
        stats = {n["assetKey"]["path"][0]: n["partitionStats"] for n in found["assetNodes"]}
        assert stats["language"]["numMaterialized"] == crawls * BUCKETS, stats["language"]
        spent = []
        for batch in batches:
            before = _cpu_of(server.pid)
            wall = min(ask(port, batch)[0] for _ in range(5))
            spent.append((wall, (_cpu_of(server.pid) - before) / 5))
        wall, cpu = max(spent)
    finally:
        server.terminate()
        server.wait()
    report.add(f"UI status query of {BATCH} assets, as the UI asks, the slowest of {len(names)} assets x {crawls} "
               f"crawls x {BUCKETS} buckets, every partition materialised, wall s over HTTP", wall, ratio=wall,
               bar=f"< {QUERY_S:g} s", holds=wall < QUERY_S, note=f"CPU of the server {cpu:.2f} s; SQLite")
    report.add(f"all of them the first time after {crawls * BUCKETS:,} materialisations an asset, wall s", first,
               note="Dagster fills its cache of partition states, once")


def _cpu_of(pid: int) -> float:
    """Seconds of CPU that a running process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ask(port: int, keys: list[dict[str, list[str]]]) -> tuple[float, dict]:
    body = json.dumps({"query": LIVE, "variables": {"keys": keys}}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/graphql", body, {"Content-Type": "application/json"})
    start = time.perf_counter()
    with urllib.request.urlopen(request, timeout=300) as reply:
        data = json.load(reply)
    seconds = time.perf_counter() - start
    if "errors" in data:
        raise RuntimeError(str(data["errors"])[:2000])
    return seconds, data["data"]


def _cpu(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:2]))
