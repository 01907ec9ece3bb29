"""``gristmill run`` as a person uses it: once, again, after a change, after a kill, and with what cannot be."""

import contextlib
import fcntl
import gzip
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

import pytest
import yaml

from gristmill.demo.make import make_demo
from gristmill.funnel import Plan
from gristmill.params import read_pipeline
from tests.launch.terminal import on_a_terminal

ROOT = Path(__file__).resolve().parents[2]
CRAWL = "CC-DEMO-2026-01"
RECIPE = """
name: mini
seed: 7
sources: {all: {where: "n_chars > 0"}}
phases: [{name: main, tokens: 16384, seq_len: 256, samples_per_step: 4, weights: {all: "1"}}]
"""
pytestmark = pytest.mark.timeout(600)


class Home:
    """A place of its own: a demo, and a Dagster instance."""

    def __init__(self, folder: Path, demo: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copytree(demo, folder / "demo", ignore=shutil.ignore_patterns("store"))
        shutil.copy(ROOT / "dagster.yaml", folder / "dagster.yaml")
        self.pipeline = folder / "demo" / "pipeline.yaml"
        # One crawl of sixty pages has too little of other languages for the demo's recipe.
        (folder / "demo" / "recipe.yaml").write_text(RECIPE)
        self.env = {**os.environ, "DAGSTER_HOME": str(folder), "GRISTMILL_PIPELINE": str(self.pipeline)}

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "gristmill.cli", *arguments]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.command(*arguments), env=self.env, cwd=ROOT, capture_output=True, text=True,
                              timeout=500)

    def start(self, *arguments: str, said: IO[bytes] | int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self.command(*arguments), env=self.env, cwd=ROOT, stdout=subprocess.DEVNULL,
                                stderr=said, start_new_session=True)

    def change(self, stage: str, **values: object) -> None:
        data = yaml.safe_load(self.pipeline.read_text())
        data.setdefault("params", {}).setdefault(stage, {}).update(values)
        self.pipeline.write_text(yaml.safe_dump(data))

    def committed(self) -> set[tuple[str, str]]:
        """(asset, fingerprint) of every dataset in the store."""
        store = self.folder / "demo" / "store"
        return {p.relative_to(store).parts[:2] for p in store.rglob("_manifest.json")}


@pytest.fixture(scope="session")
def mini_demo(tmp_path_factory):
    out = tmp_path_factory.mktemp("mini") / "demo"
    make_demo(out, pages=60)
    return out


@pytest.fixture(scope="module")
def taken(tmp_path_factory, mini_demo):
    """A crawl taken to a manifest."""
    home = Home(tmp_path_factory.mktemp("home"), mini_demo)
    home.first = home.run("run", "--crawl", CRAWL, "--manifest", "v1", "--workers", "2")
    assert home.first.returncode == 0, home.first.stderr[-4000:]
    return home


def manifest_hash(text: str) -> str:
    found = re.search(r"manifest \w+: (?:nothing to do, )?([0-9a-f]{64})", text)
    assert found, text
    return found[1]


def test_a_run_prints_each_stages_yield_and_the_manifests_hash(taken):
    for stage in ("raw_warc", "unique_records", "text", "language", "exact", "near", "tokens", "shards"):
        assert re.search(rf"^{stage} +[\d,]+ +[\d,]+", taken.first.stdout, re.MULTILINE), stage
    manifest_hash(taken.first.stdout)


def test_progress_is_shown_without_a_terminal_too(taken):
    assert re.search(r"text +4 partitions \(4 computed\) +\d+ in, \d+ out, [\d,]+/s", taken.first.stderr)


def test_on_a_terminal_a_stages_line_is_redrawn_while_it_works(taken):
    """Stage, buckets done, documents in and out, rate, time left: on the screen before the stage is done."""
    command = taken.command("run", "--crawl", CRAWL, "--stage", "language", "--force", "--workers", "1")
    code, screen = on_a_terminal(command, taken.env, str(ROOT))
    assert code == 0, "\n".join(screen.lines)
    lines = [line for line in screen.seen if "1/1 language" in line]
    done = [int(m[1]) for line in lines if (m := re.search(r"(\d)/4", line))]
    assert done == sorted(done)
    assert done[0] < 4 == done[-1], "drawn while it worked, and when it was done"
    full = re.compile(r"1/1 language +\S+ [1-4]/4 [\d,]+ in, [\d,]+ out, [\d,]+/s (\d+:)*\d\d:\d\d")
    last = [line for line in screen.lines if "1/1 language" in line]
    assert len(last) == 1, "one line a stage"
    assert full.search(last[0]), last
    assert any("bill of" in line or "yield of" in line for line in screen.lines[screen.lines.index(last[0]) :])


def test_progress_stands_in_dagsters_event_log(taken):
    """What the UI shows on a run's page; read through the instance."""
    code = (
        "import dagster as dg\n"
        "instance = dg.DagsterInstance.get()\n"
        "for run in instance.get_runs():\n"
        "    for entry in instance.all_logs(run.run_id):\n"
        "        if entry.level == 20 and not entry.is_dagster_event: print(entry.user_message)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], env=taken.env, cwd=taken.pipeline.parent, capture_output=True,
                          text=True, check=True)
    line = r"^text: 4/4 partitions \(4 computed\), \d+ documents in, \d+ out, [\d,]+/s$"
    assert re.search(line, done.stdout, re.MULTILINE), done.stdout[-2000:]


def test_a_second_run_computes_nothing_and_says_so(taken):
    again = taken.run("run", "--crawl", CRAWL, "--manifest", "v1")
    assert again.returncode == 0
    assert "nothing to do" in again.stdout
    assert manifest_hash(again.stdout) == manifest_hash(taken.first.stdout)
    assert "computed" not in again.stderr


def test_a_changed_parameter_runs_its_stage_and_those_below_and_no_others(taken):
    before = taken.committed()
    plan = Plan(read_pipeline(taken.pipeline).params)
    taken.change("quality", first_chars=1500)
    changed = Plan(read_pipeline(taken.pipeline).params)
    shown = taken.run("plan", "stale", "--crawl", CRAWL)
    second = taken.run("run", "--crawl", CRAWL)
    assert second.returncode == 0, second.stderr[-3000:]
    new = {asset for asset, _ in taken.committed() - before}
    assert new == {"quality", *plan.downstream("quality")}
    assert {line.split()[1] for line in shown.stdout.splitlines() if line.startswith(CRAWL)} == new
    assert {a: f for a, f in changed.fingerprints.items() if a not in new} == {
        a: f for a, f in plan.fingerprints.items() if a not in new}


@pytest.mark.parametrize(("arguments", "says"), [
    (["run", "--crawl", "CC-NONE"], "CC-DEMO-2026-01"),
    (["run"], "--crawl NAME"),
    (["run", "--crawl", CRAWL, "--stage", "nonsense"], "no stage nonsense"),
    (["run", "--crawl", CRAWL, "--buckets", "2-9"], "buckets 0 to 3"),
    (["run", "--crawl", CRAWL, "--buckets", "x"], "FIRST-LAST"),
    (["run", "--crawl", "a|b"], "a|b"),
    (["run", "--crawl", CRAWL, "--landing", "no-such-folder"], "no-such-folder"),
    (["run", "--crawl", CRAWL, "--pipeline", "no-such-file.yaml"], "no-such-file.yaml"),
    (["run", "--crawl", CRAWL, "--workers", "-1"], "--workers"),
    (["yields", "CC-NONE"], "CC-DEMO-2026-01"),
    (["manifest", "verify", "nope"], "nope"),
    (["explain", "http://nowhere.example/"], "nowhere.example"),
])
def test_what_cannot_be_is_a_sentence(taken, arguments, says):
    result = taken.run(*arguments)
    assert result.returncode != 0
    assert says in result.stderr + result.stdout
    assert "Traceback" not in result.stderr + result.stdout, result.stderr[-2000:]


def test_a_misspelt_parameter_is_named(taken, tmp_path):
    bad = tmp_path / "pipeline.yaml"
    bad.write_text("params: {language: {treshold: 0.5}}")
    result = taken.run("run", "--crawl", CRAWL, "--pipeline", str(bad))
    assert result.returncode == 1
    assert "params.language.treshold" in result.stderr


@pytest.mark.parametrize(("listing", "says"), [
    (b"", "empty"),
    (b"crawl-data/OWN-1/segments/0/warc/gone.warc.gz\n", r"gone\.warc\.gz"),
    (b"crawl-data/OWN-1/segments/0/wet/a.warc.wet.gz\n", "WET"),
])
def test_a_bad_listing_is_a_sentence(taken, tmp_path, listing, says):
    folder = tmp_path / "crawl-data" / "OWN-1"
    (folder / "segments/0/wet").mkdir(parents=True)
    (folder / "segments/0/wet/a.warc.wet.gz").write_bytes(gzip.compress(b"WARC/1.0\r\n"))
    (folder / "warc.paths.gz").write_bytes(gzip.compress(listing))
    result = taken.run("run", "--crawl", "OWN-1", "--landing", str(tmp_path))
    assert result.returncode == 1
    assert re.search(says, result.stderr)
    assert "Traceback" not in result.stderr


def held(lock: Path) -> bool:
    """Does a process hold this lock now."""
    if not lock.exists():
        return False
    with lock.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_two_commands_at_once_the_second_is_told(taken, tmp_path):
    lock = taken.folder / "demo" / "state" / "launch.lock"
    with (tmp_path / "said").open("wb") as said:
        first = taken.start("run", "--crawl", CRAWL, "--force", said=said)
    try:
        deadline = time.time() + 60
        while not held(lock) and time.time() < deadline:
            time.sleep(0.1)
        second = taken.run("run", "--crawl", CRAWL)
        assert second.returncode == 1
        holder = re.search(r"another gristmill command is running on this instance \(process (\d+)\)", second.stderr)
        assert holder, second.stderr
        os.kill(int(holder[1]), signal.SIGTERM)
        assert first.wait(60) == 130
        end = (tmp_path / "said").read_text()
        assert "run the same command again to resume" in end
        assert "Traceback" not in end
    finally:
        if first.poll() is None:
            os.killpg(first.pid, signal.SIGKILL)
            first.wait()
    third = taken.run("run", "--crawl", CRAWL)
    assert third.returncode == 0, third.stderr[-3000:]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_what_stops_the_command_stops_the_run(taken, number):
    """By its own process id, as a supervisor or ``kill`` does; not by its group."""
    lock = taken.folder / "demo" / "state" / "launch.lock"
    command = taken.start("run", "--crawl", CRAWL, "--force")
    try:
        deadline = time.time() + 60
        while not held(lock) and time.time() < deadline:
            time.sleep(0.1)
        os.kill(command.pid, number)
        assert command.wait(60) == (130 if number == signal.SIGTERM else -signal.SIGKILL)
        while held(lock) and time.time() < deadline + 60:
            time.sleep(0.1)
        assert not held(lock), "the run goes on without its command"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(command.pid, signal.SIGKILL)
    again = taken.run("run", "--crawl", CRAWL)
    assert again.returncode == 0, again.stderr[-3000:]


def test_a_store_of_another_version_is_refused(taken, tmp_path):
    (tmp_path / "store").mkdir()
    (tmp_path / "store/store.json").write_text('{"format": 2, "kind": "gristmill-store"}')
    data = yaml.safe_load(taken.pipeline.read_text())
    data["site"]["store"] = str(tmp_path / "store")
    other = taken.pipeline.with_name("other.yaml")
    other.write_text(yaml.safe_dump(data))
    result = taken.run("run", "--crawl", CRAWL, "--pipeline", str(other))
    assert result.returncode == 1
    assert "store format 2" in result.stderr


def test_killed_through_dagster_and_run_again_gives_the_same_manifest(taken, tmp_path, mini_demo):
    home = Home(tmp_path, mini_demo)
    moments = random.Random(20261130)
    for _ in range(2):
        running = home.start("run", "--crawl", CRAWL, "--manifest", "v1", "--workers", "2")
        time.sleep(moments.uniform(4, 14))
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
    last = home.run("run", "--crawl", CRAWL, "--manifest", "v1", "--workers", "2")
    assert last.returncode == 0, last.stderr[-3000:]
    assert manifest_hash(last.stdout) == manifest_hash(taken.first.stdout)
