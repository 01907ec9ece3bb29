"""Same inputs, same bytes: any number of workers, any killed run, a second run that has nothing to do."""

import os
import random
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from gristmill.demo.make import make_demo
from gristmill.funnel import Plan
from gristmill.params import read_pipeline
from gristmill.store import Store

SCRIPT = Path(__file__).with_name("run_demo.py")
pytestmark = pytest.mark.timeout(600)


def start(demo: Path, store: Path, workers: int, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(SCRIPT), str(demo), str(store), str(workers), *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


@dataclass(frozen=True)
class Run:
    """An undisturbed run: the hash of its manifest, its lines, and what it committed."""

    store: Path
    hash: str
    lines: tuple[str, ...]
    content: dict[str, str]


def finish(process: subprocess.Popen[str]) -> tuple[str, tuple[str, ...]]:
    out, err = process.communicate(timeout=500)
    assert process.returncode == 0, err[-3000:]
    lines = out.splitlines()
    return lines[-1], tuple(lines[:-1])


@pytest.fixture(scope="module")
def mini(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A demo of 60 pages in two buckets: what a kill can fall into is the same in four, and takes twice as long."""
    folder = tmp_path_factory.mktemp("mini")
    make_demo(folder, 60)
    pipeline = (folder / "pipeline.yaml").read_text()
    assert pipeline.count("host_buckets: 4") == 1
    (folder / "pipeline.yaml").write_text(pipeline.replace("host_buckets: 4", "host_buckets: 2"))
    return folder


@pytest.fixture(scope="module")
def undisturbed(mini: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    store = tmp_path_factory.mktemp("undisturbed")
    hash_, lines = finish(start(mini, store, 2))
    return Run(store, hash_, lines, content(store))


def content(store: Path) -> dict[str, str]:
    """Partition -> its commit record, for all that is committed: file names in it are hashes of content."""
    blobs = Store(store).blobs
    return {p: blobs.get(p).decode() for p, _ in blobs.list("") if p.endswith("_manifest.json")}


@pytest.mark.parametrize("workers", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_any_number_of_workers_gives_the_same_bytes(mini: Path, undisturbed: Run, workers: int, tmp_path: Path):
    hash_, lines = finish(start(mini, tmp_path, workers))
    theirs, ours = undisturbed.content, content(tmp_path)
    assert sorted(ours) == sorted(theirs)
    assert [p for p in ours if ours[p] != theirs[p]] == []
    assert hash_ == undisturbed.hash
    assert len(lines) == len(undisturbed.lines)


def test_a_second_run_computes_nothing(mini: Path, undisturbed: Run):
    hash_, lines = finish(start(mini, undisturbed.store, 2))
    assert hash_ == undisturbed.hash
    assert [line for line in lines if not line.endswith("current")] == []


def test_a_changed_parameter_makes_its_stage_and_those_below_and_no_others(mini: Path, undisturbed: Run):
    pipeline = read_pipeline(mini / "pipeline.yaml")
    assert not pipeline.params.safety.private_ips
    changed = (mini / "pipeline.yaml").read_text() + "  safety:\n    private_ips: true\n"
    (mini / "changed.yaml").write_text(changed)
    _, lines = finish(start(mini, undisturbed.store, 2, "changed.yaml", "changed"))
    computed = {line.split()[0] for line in lines if line.endswith("computed")}
    assert computed == {"safety", *Plan(pipeline.params).downstream("safety")}


def kill_and_resume(mini: Path, undisturbed: Run, store: Path, seed: int) -> None:
    rng = random.Random(seed)
    after = rng.randrange(1, len(undisturbed.lines))
    process = start(mini, store, 1 + seed % 4)
    assert process.stdout is not None
    for _ in range(after):
        assert process.stdout.readline()
    try:  # not on the border between two partitions, but somewhere inside the next
        process.wait(timeout=rng.uniform(0, 0.25))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
    assert process.wait(timeout=30) == -signal.SIGKILL, "the run ended before it was killed"
    process.stdout.close()
    assert process.stderr is not None
    process.stderr.close()
    hash_, lines = finish(start(mini, store, 1 + (seed + 2) % 4))  # by another number of workers
    current = sum(line.endswith("current") for line in lines)
    assert current >= after - 1, "what was committed before the kill was made again"
    assert hash_ == undisturbed.hash
    assert content(store) == undisturbed.content


@pytest.mark.parametrize("seed", range(3))
def test_a_killed_run_goes_on_to_the_same_manifest(mini: Path, undisturbed: Run, tmp_path: Path, seed: int):
    kill_and_resume(mini, undisturbed, tmp_path, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 120))
def test_a_run_killed_anywhere_goes_on_to_the_same_manifest(mini: Path, undisturbed: Run, tmp_path: Path, seed: int):
    kill_and_resume(mini, undisturbed, tmp_path, seed)
