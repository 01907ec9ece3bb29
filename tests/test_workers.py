"""The pool: every task once, errors named, a vanished worker's task tried again, no worker outlives its parent."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gristmill.errors import LandingError, WorkerError
from gristmill.workers import default_workers, run_tasks, stillborn


def square(x):
    return x * x


def fail(x):
    raise LandingError(f"no crawl {x}")


def crash(x):
    return 1 // x


def vanish_once(path):
    marker = Path(path)
    if not marker.exists():
        marker.write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
    return "done"


def vanish(_):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_every_task_once(workers):
    assert sorted(run_tasks(square, range(20), workers)) == [(i, i * i) for i in range(20)]


def test_a_persons_error_arrives_as_it_was_raised():
    with pytest.raises(LandingError, match="no crawl 0"):
        list(run_tasks(fail, [0], 1))


def test_a_crash_names_the_task_and_carries_the_traceback():
    with pytest.raises(WorkerError, match=r"(?s)task 0 failed.*ZeroDivisionError"):
        list(run_tasks(crash, [0], 1))


def test_a_vanished_worker_is_replaced(tmp_path):
    assert list(run_tasks(vanish_once, [str(tmp_path / "m")], 1)) == [(0, "done")]


def test_a_task_that_always_kills_its_worker_is_an_error():
    with pytest.raises(WorkerError, match="3 times"):
        list(run_tasks(vanish, [0], 1))


def test_a_script_without_a_main_guard_is_told_so(tmp_path):
    script = tmp_path / "main.py"
    script.write_text("from gristmill.workers import run_tasks\nprint(list(run_tasks(abs, [-1, -2], 2)))\n")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    told = done.stderr.splitlines()[-1]
    assert "before it took any task, so none is to blame" in told
    assert '`if __name__ == "__main__":`' in told
    assert done.stdout == ""


def test_a_worker_that_is_killed_as_it_starts_may_live_next_time():
    assert stillborn(-signal.SIGKILL, 1) is None
    assert "memory" in str(stillborn(-signal.SIGKILL, 3))
    assert "(exit 127)" in str(stillborn(127, 1))
    assert "__main__" not in str(stillborn(127, 1))


def test_workers_die_with_their_parent(tmp_path):
    script = tmp_path / "main.py"
    script.write_text(
        "import os, sys, time\nfrom gristmill.workers import run_tasks\n"
        "def stay(path):\n    open(path, 'w').write(str(os.getpid()))\n    time.sleep(120)\n"
        "if __name__ == '__main__':\n    list(run_tasks(stay, [sys.argv[1]], 1))\n"
    )
    pid_file = tmp_path / "pid"
    parent = subprocess.Popen([sys.executable, str(script), str(pid_file)])
    deadline = time.time() + 30
    while not (pid_file.exists() and pid_file.read_text()) and time.time() < deadline:
        time.sleep(0.05)
    worker = int(pid_file.read_text())
    parent.kill()
    parent.wait()
    while Path(f"/proc/{worker}").exists() and time.time() < deadline:
        if Path(f"/proc/{worker}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
            break
        time.sleep(0.05)
    else:
        assert not Path(f"/proc/{worker}").exists()


def test_a_process_whose_starter_ignores_terminate_ends_all_the_same(tmp_path):
    script = tmp_path / "main.py"
    script.write_text(
        "from gristmill.workers import run_tasks\n"
        "def one(x):\n    return x + 1\n"
        "if __name__ == '__main__':\n    print(sorted(r for _, r in run_tasks(one, [1, 2], 2)))\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=True,
                          preexec_fn=lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN))
    assert done.stdout == "[2, 3]\n"


def test_a_pod_has_as_many_workers_as_it_asked_for_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    monkeypatch.delenv("GRISTMILL_WORKERS", raising=False)
    assert default_workers() == 64
    for said, workers in (("8", 8), ("100", 64), ("0", 1), ("", 64)):
        monkeypatch.setenv("GRISTMILL_WORKERS", said)
        assert default_workers() == workers
