"""Dagster's own share: the grid's assets over 64 buckets with toy bodies, by the bare runner and by one Dagster run.

Belongs here: the wall time that events, checks, partitions and the run itself add, on an instance on disk as
``dagster.yaml`` sets it up. Does not belong here: what real bodies cost. Both sides work in one process, so nothing of
Dagster's hides behind workers.

    python -m bench.overhead [BUCKETS]
"""

import os
import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

import pyarrow as pa
import yaml

from bench.report import Report

BUCKETS = 64
CRAWL = "BENCH-1"
WORK_S = 1200.0  # a crawl of 20 minutes
MAX_SHARE = 0.10
ROOT = Path(__file__).resolve().parents[1]
ROWS = pa.schema([("bucket", pa.int64())])


def body(part) -> None:
    """A toy stage: one row, and a yield with a reason, as every real one reports."""
    part.write(pa.table({"bucket": pa.array([part.bucket or 0], pa.int64())}), ROWS)
    part.report(docs_in=1000, docs_out=900, bytes_in=5000, bytes_out=4000, reasons={"toy": 100})


def main(buckets: int = BUCKETS) -> None:
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        os.environ["DAGSTER_HOME"] = _home(Path(scratch))
        os.environ.pop("GRISTMILL_PIPELINE", None)
        start = time.perf_counter()
        import dagster as dg

        import launch  # sets what the command sets: event batching

        imports = time.perf_counter() - start
        launch.hold_connections()  # as `gristmill run` does
        from gristmill.funnel import FUNNEL, Plan, Stage
        from gristmill.params import GridParams, Pipeline, PipelineParams, SiteConfig
        from gristmill.registry import Registry
        from gristmill.runner import run_stage
        from gristmill.store import Store

        grid = [s for s in FUNNEL if s.on_grid]
        params = PipelineParams(grid=GridParams(host_buckets=buckets))
        upstream = [s for s in FUNNEL if s.name in ("eval_holdout", "landing")]

        def pipeline(name: str) -> Pipeline:
            site = SiteConfig(**{f: f"{scratch}/{name}/{f}" for f in ("store", "landing", "holdout", "models")})
            Registry(Store(site.store)).register(CRAWL)
            for stage in upstream:
                list(run_stage(Store(site.store), Plan(params), site, stage, CRAWL))
            return Pipeline(site=site, params=params)

        with mock.patch.object(Stage, "load", return_value=body):
            bare = pipeline("bare")
            start = time.perf_counter()
            for stage in grid:
                list(run_stage(Store(bare.site.store), Plan(params), bare.site, stage, CRAWL))
            bare_s = time.perf_counter() - start

            wired = pipeline("dagster")
            with dg.DagsterInstance.get() as instance:
                start = time.perf_counter()
                instance.add_dynamic_partitions(launch.grids.CRAWL, [CRAWL])
                defs = launch.build_definitions(wired)
                launch.execute(
                    defs, instance, "funnel_job", tags=launch.grids.range_tags(CRAWL, 0, buckets - 1),
                    assets=[s.name for s in grid],
                    ops={s.name: {"config": {"workers": 1, "force": False}} for s in grid},
                )  # fmt: skip
                wired_s = time.perf_counter() - start
                made = instance.get_materialized_partitions(dg.AssetKey(grid[-1].name))
            assert len(made) == buckets, f"{len(made)} of {buckets} partitions of {grid[-1].name} were recorded"

    partitions = len(grid) * buckets
    over = wired_s - bare_s
    share = over / (WORK_S + over)
    report = Report("overhead")
    report.add(
        f"{len(grid)} assets x {buckets} buckets with toy bodies: wall s (bare runner | one Dagster run)",
        bare_s,
        wired_s,
        wired_s / bare_s,
        note="definitions, events, metadata and checks included; SQLite on disk; one process",
    )
    report.add("Dagster's own time an asset and bucket, ms", 1000 * over / partitions)
    report.add(
        f"Dagster's own share of a crawl of {WORK_S / 60:.0f} minutes of work over {buckets} buckets",
        share,
        ratio=share,
        bar=f"< {MAX_SHARE:.0%}",
        holds=share < MAX_SHARE,
        note=f"{over:.1f} s beside {WORK_S:.0f} s",
    )
    report.add("importing Dagster and the code location, s", imports, note="once a command")
    report.write()


def _home(scratch: Path) -> str:
    """A DAGSTER_HOME with the project's settings, its files in the scratch folder."""
    settings = yaml.safe_load((ROOT / "dagster.yaml").read_text())
    home = scratch / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text(yaml.safe_dump(_moved(settings, str(home))))
    return str(home)


def _moved(value, home: str):
    if isinstance(value, dict):
        return {k: str(Path(home) / v) if k == "base_dir" else _moved(v, home) for k, v in value.items()}
    return value


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:2]))
