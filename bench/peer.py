"""Other tools, each in an environment of its own, run as a process whose time and memory are measured.

Belongs here: making ``bench/peers/.venv-NAME`` from the exact pins in ``bench/peers/NAME.txt``, and running a script of
``bench/peers/`` in it. Does not belong here: what the scripts do, and what their numbers are held against.
"""

import ctypes
import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PEERS = Path(__file__).resolve().parent / "peers"
PR_SET_CHILD_SUBREAPER = 36
# Nothing a peer runs may reach a model hub: the input is local, and a download would be timed as work.
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "DO_NOT_TRACK": "1"}


class PeerUnavailable(Exception):  # noqa: N818 - a state of the other tool, not a fault of ours
    """Another tool cannot be installed or run here; the message is the reason, for the row's note."""


@dataclass(frozen=True)
class Measured:
    """A finished process: its stdout, wall and CPU seconds of all its processes, largest peak RSS in MB of one."""

    stdout: str
    stderr: str
    wall_s: float
    cpu_s: float
    peak_rss_mb: float


def peer_python(name: str) -> Path:
    """The interpreter of the environment ``name``, made from ``bench/peers/NAME.txt`` the first time or after a change.

    ``python -m venv`` and pip; the pins are exact. Raises PeerUnavailable with pip's last lines.
    """
    pins = PEERS / f"{name}.txt"
    if not pins.exists():
        raise PeerUnavailable(f"no file bench/peers/{name}.txt")
    home = PEERS / f".venv-{name}"
    python = home / ("Scripts" if os.name == "nt" else "bin") / "python"
    mark = home / "made-from"
    digest = hashlib.sha256(pins.read_bytes()).hexdigest()
    locks = PEERS / ".venv-locks"
    locks.mkdir(exist_ok=True)
    with (locks / name).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two benchmarks started at once make it once
        if not (mark.exists() and mark.read_text() == digest):
            _make(name, pins, home, python)
            mark.write_text(digest)
    return python


def _make(name: str, pins: Path, home: Path, python: Path) -> None:
    print(f"making bench/peers/.venv-{name} from bench/peers/{name}.txt ...", file=sys.stderr, flush=True)
    shutil.rmtree(home, ignore_errors=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    for command in ([sys.executable, "-m", "venv", str(home)], [*pip, "-r", str(pins)]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            last = " | ".join(line for line in done.stderr.splitlines()[-3:] if line.strip())
            raise PeerUnavailable(f"{name} could not be installed: {last}")


def run_peer(
    name: str,
    script: str,
    args: Sequence[str] = (),
    *,
    timeout: float = 900,
    env: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Run ``bench/peers/SCRIPT`` in the environment ``name`` and return the JSON object on its last line.

    Adds ``_wall_s``, ``_cpu_s`` and ``_peak_rss_mb`` of the whole process (imports included: a script that wants only
    its work timed times it and says so in its own JSON). Raises PeerUnavailable when the environment cannot be made,
    the script fails, or it runs past ``timeout`` seconds.
    """
    return _json_of([str(peer_python(name)), str(PEERS / script), *args], f"{name}: {script}", timeout, env)


def run_own(module: str, args: Sequence[str] = (), *, timeout: float = 900) -> dict[str, Any]:
    """The same for ours: ``python -m MODULE ARGS`` in a fresh process, so that both sides are measured alike."""
    return _json_of([sys.executable, "-m", module, *args], module, timeout, None)


def _json_of(argv: list[str], who: str, timeout: float, env: Mapping[str, str] | None) -> dict[str, Any]:
    done = measure(argv, timeout=timeout, env=env, who=who)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        raise PeerUnavailable(f"{who} printed no JSON line: {done.stdout[-200:]!r}")
    found: dict[str, Any] = json.loads(lines[-1])
    return found | {
        "_wall_s": round(done.wall_s, 4),
        "_cpu_s": round(done.cpu_s, 4),
        "_peak_rss_mb": round(done.peak_rss_mb, 1),
    }


def measure(
    argv: Sequence[str], *, timeout: float = 900, env: Mapping[str, str] | None = None, who: str = ""
) -> Measured:
    """Run a process to its end and account for its whole process group by ``wait4``.

    Raises PeerUnavailable when it fails or runs past ``timeout`` seconds.
    """
    who = who or argv[0]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        _adopt()
        start = time.perf_counter()
        process = subprocess.Popen(
            argv,
            stdout=out,
            stderr=err,
            env=os.environ | OFFLINE | dict(env or {}),
            cwd=PEERS.parents[1],
            start_new_session=True,
        )
        status, cpu, peak = None, 0.0, 0.0
        while status is None:
            pid, code, usage = os.wait4(-process.pid, os.WNOHANG)
            if pid:
                cpu, peak = cpu + usage.ru_utime + usage.ru_stime, max(peak, usage.ru_maxrss / 1024)
                status = code if pid == process.pid else None
            elif time.perf_counter() - start > timeout:
                os.killpg(process.pid, signal.SIGKILL)
                _reap(process.pid)
                process.returncode = -signal.SIGKILL
                raise PeerUnavailable(f"{who} ran past {timeout:.0f} s")
            else:
                time.sleep(0.005)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        more_cpu, more_peak = _reap(process.pid)  # fork servers outlive their parent, and account for their workers
        out.seek(0)
        err.seek(0)
        stdout, stderr = out.read(), err.read()
    if process.returncode:
        raise PeerUnavailable(f"{who} exited with {process.returncode}: {' | '.join(stderr.splitlines()[-3:])[-500:]}")
    return Measured(stdout, stderr, wall, cpu + more_cpu, max(peak, more_peak))


def _adopt() -> None:
    """Have orphans of what runs below become this process's children, so that ``wait4`` accounts for them (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _reap(group: int, patience_s: float = 10) -> tuple[float, float]:
    """Wait for what is left of a process group, killing it in the end; CPU seconds and peak RSS in MB of it."""
    cpu, peak, deadline = 0.0, 0.0, time.perf_counter() + patience_s
    while True:
        try:
            pid, _, usage = os.wait4(-group, os.WNOHANG)
        except ChildProcessError:
            return cpu, peak
        if pid:
            cpu, peak = cpu + usage.ru_utime + usage.ru_stime, max(peak, usage.ru_maxrss / 1024)
        elif time.perf_counter() > deadline:
            os.killpg(group, signal.SIGKILL)
        else:
            time.sleep(0.005)
