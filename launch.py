"""Commands that launch Dagster runs: ``gristmill run`` starts this file from the project folder.

Belongs here: registering a crawl, choosing what is not current, and starting the runs in order with progress. Does not
belong here: anything that the UI or the library could not do as well.
"""

import argparse
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent
os.environ.setdefault("DAGSTER_HOME", str(ROOT))
# A stage's materialisations are stored at once, not one by one; planned events are not (see docs/decisions.md).
os.environ.setdefault("DAGSTER_EVENT_BATCH_SIZE", "1000")
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import dagster as dg  # noqa: E402

from definitions import build_definitions, pipeline_file  # noqa: E402
from gristmill.commands.places import PIPELINE_VARIABLE  # noqa: E402
from gristmill.commands.printing import close_output, printing, sentence  # noqa: E402
from gristmill.errors import GristmillError, LandingError  # noqa: E402
from gristmill.funnel import BY_NAME, FUNNEL, Plan  # noqa: E402
from gristmill.observe.progress import Terminal  # noqa: E402
from gristmill.observe.yields import render, stage_yields  # noqa: E402
from gristmill.params import Pipeline, read_pipeline  # noqa: E402
from gristmill.plan.stale import runs, span, survey  # noqa: E402
from gristmill.processes import end_with_starter  # noqa: E402
from gristmill.registry import Registry  # noqa: E402
from gristmill.store import Store  # noqa: E402
from partitions import grid as grids  # noqa: E402
from resources.held_sqlite import hold_connections  # noqa: E402
from sensors.pages import watching  # noqa: E402

PID_TAG, HOST_TAG = "gristmill/pid", "gristmill/host"


def bury_the_dead(instance: dg.DagsterInstance) -> list[str]:
    """Mark runs failed whose process on this machine is gone: a SIGKILL leaves them started for ever."""
    buried = []
    unfinished = dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.STARTING,
                                         dg.DagsterRunStatus.NOT_STARTED])
    for run in instance.get_runs(filters=unfinished):
        pid = run.tags.get(PID_TAG)
        if pid and run.tags.get(HOST_TAG) == socket.gethostname() and not _alive(pid):
            instance.report_run_failed(run, message=f"its process {pid} is gone; run the same command again to resume")
            instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
            buried.append(run.run_id)
    return buried


def _alive(pid_and_start: str) -> bool:
    pid, _, start = pid_and_start.partition("@")
    return _start_time(int(pid)) == start


def _start_time(pid: int) -> str:
    """Kernel start time of a process, which tells a reused pid from the old one; empty where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
    except (FileNotFoundError, ProcessLookupError, IndexError):
        return ""


@contextmanager
def one_command(state: Path) -> Iterator[None]:
    """Only one command at a time launches runs on this instance; the kernel frees the lock when its holder dies."""
    import fcntl

    state.mkdir(parents=True, exist_ok=True)
    with (state / "launch.lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            holder = file.read(32).strip()
            raise GristmillError(
                f"another gristmill command is running on this instance{f' (process {holder})' if holder else ''}: "
                "wait for it, or stop it, then run again; what it has committed is kept"
            ) from error
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def execute(
    defs: dg.Definitions, instance: dg.DagsterInstance, job: str, *, tags: dict[str, str],
    assets: Sequence[str] | None = None, partition: str | None = None, ops: dict[str, Any] | None = None,
) -> None:
    """One run, in this process; its failure is raised as it was raised inside."""
    definition = defs.resolve_job_def(job)
    result = definition.execute_in_process(
        instance=instance, partition_key=partition, raise_on_error=True,
        asset_selection=[dg.AssetKey(a) for a in assets] if assets is not None else None,
        run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}, "ops": ops or {}},
        tags={PID_TAG: f"{os.getpid()}@{_start_time(os.getpid())}", HOST_TAG: socket.gethostname(), **tags},
    )
    if not result.success:
        raise GristmillError(f"run {result.run_id} failed; `make ui` shows where")


def take(pipeline: Pipeline, crawl: str, *, landing: str | None, workers: int, only: Sequence[str] | None,
         buckets: tuple[int, int] | None, force: bool) -> int:
    """Take a crawl through the funnel: what is not current, and nothing else. Returns partitions made."""
    store, plan, site = Store(pipeline.site.store), Plan(pipeline.params), pipeline.site
    from gristmill.acquire.landing import require_crawl
    from gristmill.frozen import require_buckets

    unknown = [o for o in only or () if o not in BY_NAME]
    if unknown:
        raise GristmillError(f"no stage {', '.join(unknown)}; there are: {', '.join(BY_NAME)}")
    require_buckets(store, plan)
    registry = Registry(store)
    place = landing or (registry.landing(crawl) if crawl in registry.ordinals() else None) or site.landing
    require_crawl(place, crawl)  # before anything is registered: a key is never deleted
    registry.register(crawl)
    if landing and landing != site.landing:
        registry.set_landing(crawl, landing)
    instance = dg.DagsterInstance.get()
    buried = bury_the_dead(instance)
    if buried:
        print(f"marked {len(buried)} run(s) of dead processes as failed; resuming what they left", file=sys.stderr)
    if not instance.has_dynamic_partition(grids.CRAWL, crawl):
        instance.add_dynamic_partitions(grids.CRAWL, [crawl])

    states = {s.stage: s for s in survey(store, plan, site, crawl)}
    wanted = [s.name for s in FUNNEL if (only is None or s.name in only) and (force or states[s.name].wanting)]
    if not wanted:
        total = sum(len(s.current) for s in states.values())
        print(f"{crawl}: nothing to do, all {total} partitions are current")
        return 0
    made = 0
    with Terminal(len(wanted)) as reporter:
        defs = build_definitions(pipeline, reporter=reporter)
        knobs = {"config": {"workers": workers, "force": force}}
        for names, on_grid in runs(wanted):
            if on_grid:
                first, last = buckets or ((0, plan.buckets - 1) if force else span([states[n] for n in names]))
                execute(defs, instance, "funnel_job", assets=names, tags=grids.range_tags(crawl, first, last),
                        ops=dict.fromkeys(names, knobs))
            else:
                execute(defs, instance, f"{names[0]}_job", tags={},
                        partition=crawl if BY_NAME[names[0]].by == "crawl" else None, ops={names[0]: knobs})
            made += sum(len(states[n].wanting) for n in names)
    return made


def charge(pipeline: Pipeline, crawl: str) -> str:
    """Keep the crawl's bill beside it; returns its one line."""
    from gristmill.plan import assumptions
    from gristmill.plan.bill import bill, record, summary

    store = Store(pipeline.site.store)
    values = assumptions.values(assumptions.read(pipeline.site.assumptions))
    found = bill(store, Plan(pipeline.params), crawl, values)
    record(store, found)
    return summary(found)


def freeze(pipeline: Pipeline, version: str, crawls: Sequence[str], recipe: str | None, force: bool) -> str:
    """Build the manifest of a version as a Dagster run; returns its hash."""
    from gristmill.frozen import require_buckets
    from gristmill.release.manifest import manifest_is_current
    from gristmill.release.standing import next_name, read_hash, registered

    store, plan, site = Store(pipeline.site.store), Plan(pipeline.params), pipeline.site
    require_buckets(store, plan)
    chosen = recipe or site.recipe
    if not chosen:
        raise GristmillError("no recipe: pass --recipe FILE, or name one in pipeline.yaml (site.recipe)")
    if version == "next":
        known = registered(store)
        version = known[-1] if known else next_name(known)
        if known and not manifest_is_current(store, plan, site, Path(chosen), version, list(crawls) or None):
            version = next_name(known)
    if not force and manifest_is_current(store, plan, site, Path(chosen), version, list(crawls) or None):
        current = read_hash(store, version)
        print(f"manifest {version}: nothing to do, {current} is current")
        return current
    instance = dg.DagsterInstance.get()
    if not instance.has_dynamic_partition(grids.VERSION, version):
        instance.add_dynamic_partitions(grids.VERSION, [version])
    execute(build_definitions(pipeline), instance, "manifest_job", partition=version, tags={},
            ops={"manifest": {"config": {"crawls": list(crawls), "recipe": chosen}}})
    built = read_hash(store, version)
    print(f"manifest {version}: {built}")
    return built


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The command line of runs."""
    parser = argparse.ArgumentParser(prog="gristmill run", description="Take a landed crawl through the funnel.")
    parser.add_argument("--pipeline", type=Path,
                        help="parameter file (default: GRISTMILL_PIPELINE, pipeline.yaml, the demo's)")
    parser.add_argument("--landing", help="folder or s3:// in Common Crawl's layout (default: the site's)")
    parser.add_argument("--crawl", action="append", default=[], help="the crawl's name; repeat for several, in order")
    parser.add_argument("--stage", action="append", help="only this stage (repeat for several)")
    parser.add_argument("--buckets", help="only these host buckets, FIRST-LAST")
    parser.add_argument("--workers", type=int, default=0, help="processes; 0, the default: one a core")
    parser.add_argument("--force", action="store_true", help="make partitions again though they are current")
    parser.add_argument("--manifest", metavar="VERSION",
                        help="then freeze this dataset version; next: the newest, or the number after it")
    parser.add_argument("--only", action="append", default=[], metavar="CRAWL",
                        help="the manifest takes these crawls only (default: every one with a catalogue)")
    parser.add_argument("--recipe", help="recipe of that version (default: the site's)")
    return parser.parse_args(argv)


def _bucket_range(text: str | None, total: int) -> tuple[int, int] | None:
    if text is None:
        return None
    first, _, last = text.partition("-")
    try:
        pair = int(first), int(last or first)
    except ValueError as error:
        raise GristmillError(f"--buckets {text!r}: write FIRST-LAST, for instance 0-3") from error
    if not 0 <= pair[0] <= pair[1] < total:
        raise GristmillError(f"--buckets {text!r}: there are buckets 0 to {total - 1}")
    return pair


def run(argv: Sequence[str]) -> int:
    """``gristmill run``: returns a process exit code."""
    args = parse(argv)
    started = time.monotonic()
    hold_connections()
    if args.landing is not None and not args.landing.strip():
        raise LandingError("--landing names no place: a folder or s3://bucket/prefix, or leave it out")
    if args.landing and "://" not in args.landing:
        args.landing = str(Path(args.landing).resolve())
    if args.recipe:
        args.recipe = str(Path(args.recipe).resolve())
    if args.workers < 0:
        raise GristmillError("--workers must be 0 (one a core) or more")
    file = args.pipeline or pipeline_file()
    pipeline = read_pipeline(file)
    os.environ[PIPELINE_VARIABLE] = str(Path(file).resolve())
    home = Path(file).resolve().parent
    os.chdir(home)  # dagster.yaml's paths are relative: every site keeps its own history beside its parameter file
    if not args.crawl and not args.manifest:
        raise LandingError("name a crawl: --crawl NAME (or --manifest VERSION to freeze what there is)")
    with one_command(home / "state"), watching(dg.DagsterInstance.get(), Store(pipeline.site.store),
                                               pipeline.site.paging):
        for crawl in args.crawl:
            print(f"{crawl} -> {pipeline.site.store} (parameters: {file})", file=sys.stderr)
            take(pipeline, crawl, landing=args.landing, workers=args.workers, only=args.stage, force=args.force,
                 buckets=_bucket_range(args.buckets, pipeline.params.grid.host_buckets))
            yields = stage_yields(Store(pipeline.site.store), Plan(pipeline.params), crawl)
            print(f"\nyield of {crawl}\n{render(yields)}\n")
            print(f"{charge(pipeline, crawl)}\n")
        if args.manifest:
            freeze(pipeline, args.manifest, args.only, args.recipe, args.force)
    print(f"done in {time.monotonic() - started:.1f} s", file=sys.stderr)
    return 0


def main() -> int:
    """Run, and print a person's error without a traceback."""
    end_with_starter()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # where Dagster does not listen, as Ctrl-C
    with printing():
        return _run()


def _run() -> int:
    try:
        code = run(sys.argv[1:])
        sys.stdout.flush()
        return code
    except GristmillError as error:
        print(f"gristmill: {error}", file=sys.stderr)
        return 1
    except dg.DagsterError as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, GristmillError):
            cause = cause.__cause__ or cause.__context__
        if cause is None:
            raise
        print(f"gristmill: {cause}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        close_output()
        print("gristmill: nobody reads the output any more; what was made is kept, the same command goes on from there",
              file=sys.stderr)
        return 1
    except OSError as error:  # a place that cannot be read or written
        print(f"gristmill: {sentence(error)}", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, dg.DagsterExecutionInterruptedError):  # Ctrl-C, or a terminate signal amid a run
        print("gristmill: stopped; run the same command again to resume", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
