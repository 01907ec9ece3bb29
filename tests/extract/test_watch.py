"""The watched pool: hostile documents are given up, no other is lost, and workers go with their parent."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gristmill.errors import WorkerError
from gristmill.extract import watch
from gristmill.extract.watch import GivenUp, Limits, Slice, WatchedPool, _usage
from tests.extract import hostile

LIMITS = Limits(cpu_seconds=1.0, wall_seconds=30.0, memory_bytes=1 << 30)


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[WatchedPool]:
    found = WatchedPool(2)
    yield found
    found.close()


def run(pool: WatchedPool, slices: list[list], folder: Path, limits: Limits = LIMITS) -> dict:
    out: dict = {}
    for number, position, result in pool.run(
        [Slice("tests.extract.hostile:handler", str(folder), s) for s in slices], limits
    ):
        assert (number, position) not in out, "a document came back twice"
        out[number, position] = result
    return out


def test_documents_before_and_after_hostile_ones_are_not_lost(pool: WatchedPool, tmp_path: Path) -> None:
    good = [("ok", i) for i in range(40)]
    slices = [[*good[:20], ("spin", 0), *good[20:]], [("regex", 0), *good, ("spin", 1)], good]
    out = run(pool, slices, tmp_path)
    assert len(out) == sum(map(len, slices))
    for number, items in enumerate(slices):
        for position, item in enumerate(items):
            if item[0] == "ok":
                assert out[number, position] == item
            else:
                assert out[number, position].reason == "slow"
                assert "CPU" in out[number, position].detail
    assert pool.kills == 3


def test_a_sleeping_document_falls_to_the_wall_clock(pool: WatchedPool, tmp_path: Path) -> None:
    out = run(pool, [[("ok", 1), ("sleep", 0), ("ok", 2)]], tmp_path, Limits(1.0, 1.5))
    assert out[0, 1].reason == "slow"
    assert "wall" in out[0, 1].detail
    assert out[0, 2] == ("ok", 2)


def test_time_is_a_documents_own(pool: WatchedPool, tmp_path: Path) -> None:
    """Ten documents that together take longer than one may: none is given up."""
    out = run(pool, [[("busy", 0.3)] * 10], tmp_path)
    assert all(r == ("busy", 0.3) for r in out.values())


def test_compiling_a_kernel_is_no_documents_time(pool: WatchedPool, tmp_path: Path) -> None:
    """Else the first page of a new machine that needs one is given up, and its crawl is another than everywhere."""
    out = run(pool, [[("ok", 0), ("compile", 2.5), ("ok", 1)], [("compile and spin", 0.2)]], tmp_path)
    assert out[0, 1] == ("compile", 2.5)
    assert out[1, 0].reason == "slow"


def test_a_document_that_eats_memory_is_given_up(pool: WatchedPool, tmp_path: Path) -> None:
    out = run(pool, [[("ok", 0), ("eat", 0), ("ok", 1)]], tmp_path, Limits(20.0, 60.0, 700 << 20))
    assert out[0, 1].reason == "memory"
    assert out[0, 2] == ("ok", 1)


@pytest.mark.parametrize("kind", ["segfault", "vanish"])
def test_a_document_that_ends_its_worker_three_times_is_given_up(pool: WatchedPool, tmp_path: Path, kind: str) -> None:
    out = run(pool, [[("ok", 0), (kind, 0), ("ok", 1)]], tmp_path)
    assert out[0, 1].reason == "crash"
    assert out[0, 0] == ("ok", 0)
    assert out[0, 2] == ("ok", 1)


def test_a_transient_error_is_tried_twice_more(pool: WatchedPool, tmp_path: Path) -> None:
    assert run(pool, [[("ok", 0), ("flaky", 2), ("ok", 1)]], tmp_path)[0, 1] == ("flaky", 2)
    (tmp_path / "flaky").unlink()
    out = run(pool, [[("ok", 0), ("flaky", 9), ("ok", 1)]], tmp_path)
    assert out[0, 1] == GivenUp("unread", "OSError: the object store did not answer")
    assert out[0, 2] == ("ok", 1)
    assert (tmp_path / "flaky").read_text() == "3"


def test_a_bug_ends_the_run_with_its_traceback(pool: WatchedPool, tmp_path: Path) -> None:
    with pytest.raises(WorkerError, match="a bug of ours"):
        run(pool, [[("ok", 0), ("bug", 0)]], tmp_path)
    assert run(pool, [[("ok", 1)]], tmp_path) == {(0, 0): ("ok", 1)}, "the pool can be used again"


def test_no_document_is_given_up_for_a_worker_that_never_took_it(
    pool: WatchedPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a script without a main guard: an error, not documents set aside as crashes. The pool lives on."""
    with monkeypatch.context() as patch:
        patch.setattr(watch, "_serve", hostile.end_at_once)
        with pytest.raises(WorkerError, match=r"exit 1\) before it took any task, so none is to blame.*__main__"):
            run(pool, [[("ok", 0)], [("ok", 1)]], tmp_path)
    assert run(pool, [[("ok", 0)]], tmp_path) == {(0, 0): ("ok", 0)}


def test_a_worker_killed_as_it_starts_is_replaced_and_its_documents_are_read(
    pool: WatchedPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give, killed = pool._give, []

    def kill_first(worker, job):
        if len(killed) < 2:
            killed.append(worker.process.pid)
            os.kill(worker.process.pid, signal.SIGKILL)
        give(worker, job)

    monkeypatch.setattr(pool, "_give", kill_first)
    assert run(pool, [[("ok", 0), ("ok", 1)]], tmp_path) == {(0, 0): ("ok", 0), (0, 1): ("ok", 1)}
    assert len(killed) == 2


def test_workers_die_with_their_parent(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(
        textwrap.dedent(f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parents[2])!r})
        from gristmill.extract.watch import Limits, Slice, WatchedPool
        if __name__ == "__main__":
            pool = WatchedPool(1)
            for _ in pool.run([Slice("tests.extract.hostile:handler", "x", [("ok", 0)])], Limits()):
                pass
            print(pool._workers[0].process.pid, flush=True)
            for _ in pool.run([Slice("tests.extract.hostile:handler", "x", [("sleep", 0)])], Limits()):
                pass
    """)
    )
    parent = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    worker = int(parent.stdout.readline())
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    deadline = time.monotonic() + 20
    while _usage(worker) is not None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert _usage(worker) is None
