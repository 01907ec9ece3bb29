"""Processes that do the work of a machine.

Belongs here: a pool that makes partitions side by side, and the watched pool that reads slices of hostile documents
and kills a worker that stays on one too long. Does not belong here: what a task does.

Workers are forked by a fork server, which has imported the library and compiled nothing: forking this process would
copy threads of Polars, obstore and gRPC in whatever state they are in. A worker dies with its parent.
"""

import contextlib
import multiprocessing as mp
import os
import signal
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

from gristmill.errors import GristmillError, WorkerError
from gristmill.observe import profile_meter as meter
from gristmill.processes import signal_at_death

T = TypeVar("T")
R = TypeVar("R")

TRIES = 3  # a worker that vanishes (killed for memory, say) has its task given to a fresh one twice more


def context() -> mp.context.ForkServerContext:
    """The one way in which processes are started."""
    ctx = mp.get_context("forkserver")
    # Importing Numba and the stages costs a second or two: once in the server, not once a worker.
    ctx.set_forkserver_preload(["gristmill.preload"])
    return ctx


def die_with_parent() -> None:
    """Ask the kernel to kill this process when the fork server goes, which goes when the main process does.

    The fork server lives while anyone holds its "alive" descriptor, and multiprocessing hands that to every worker: a
    worker that kept it would keep the server, and with it itself, alive after the main process was killed.
    """
    signal_at_death(signal.SIGKILL)
    server: Any = vars(forkserver)["_forkserver"]  # private, and the only handle on that descriptor
    if server._forkserver_alive_fd is not None:
        os.close(server._forkserver_alive_fd)
        server._forkserver_alive_fd = None
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    # Whoever starts us may ignore it, and we would too: then the exit of the parent, which asks us to end, never comes.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def stillborn(code: int | None, times: int) -> WorkerError | None:
    """The error of a worker that ended before it took a task, which is no task's doing; None where another may live.

    Args:
        code: its exit code. Of a signal (negative) that may pass; a start that fails by itself fails again.
        times: so many in a row did.
    """
    if (code is None or code < 0) and times < TRIES:
        return None
    why = "see what it printed above"
    if code == 1:
        why = ('the usual cause is a script that calls gristmill without `if __name__ == "__main__":` around the call: '
               "a worker imports the script and would run it again. Else see what it printed above")
    elif code == -signal.SIGKILL:
        why = "the usual cause is memory: give it fewer workers or more memory"
    return WorkerError(f"a worker process ended (exit {code}) before it took any task, so none is to blame: {why}")


def _serve(conn: Connection) -> None:
    die_with_parent()
    taken = False
    while True:
        try:
            message = conn.recv()
        except EOFError:
            return
        if message is None:
            return
        if not taken:
            conn.send(("taken", None))
            taken = True
        function, task = message
        try:
            started = time.monotonic()
            with meter.measured() as spent:
                result = function(task)
            conn.send(("done", (result, meter.for_parent(spent, time.monotonic() - started))))
        except GristmillError as error:
            conn.send(("error", error))
        except BaseException:  # noqa: BLE001 - whatever it was, the parent must name the task
            conn.send(("crash", traceback.format_exc()))


class _Worker:
    def __init__(self) -> None:
        ctx = context()
        self.conn, child = ctx.Pipe()
        self.process = ctx.Process(target=_serve, args=(child,), daemon=True)
        self.process.start()
        child.close()
        self.index = -1
        self.taken = False  # has it ever taken a task

    def give(self, message: Any) -> None:
        with contextlib.suppress(BrokenPipeError):  # it has died; the pipe's end says so
            self.conn.send(message)

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.conn.close()


def run_tasks(function: Callable[[T], R], tasks: Iterable[T], workers: int) -> Iterator[tuple[int, R]]:
    """Run ``function`` on every task, yielding (index, result) as they end.

    Args:
        function: importable by name.
        tasks: picklable.
        workers: processes; 0 runs them here, one after the other.

    Raises:
        GristmillError: as raised by the function; the other workers are stopped.
        WorkerError: when a task raised something else, its worker died three times, or workers die as they start.
    """
    todo = list(tasks)
    if workers <= 0:
        for index, task in enumerate(todo):
            yield index, function(task)
        return
    queue = list(range(len(todo)))[::-1]
    tries = [0] * len(todo)
    lost = 0  # workers in a row that ended before they took a task
    pool = _take_pool(min(workers, len(todo)))
    try:
        while queue or any(w.index >= 0 for w in pool):
            for worker in pool:
                if worker.index < 0 and queue:
                    worker.index = queue.pop()
                    tries[worker.index] += 1
                    worker.give((function, todo[worker.index]))
            busy = {w.conn: w for w in pool if w.index >= 0}
            for ready in wait(list(busy)):
                worker = busy[ready]  # type: ignore[index]
                index = worker.index
                try:
                    kind, value = worker.conn.recv()
                except (EOFError, ConnectionResetError):
                    worker.process.join(5)
                    code = worker.process.exitcode
                    worker.stop()
                    if not worker.taken:
                        lost += 1
                        tries[index] -= 1
                        error = stillborn(code, lost)
                        if error is not None:
                            raise error from None
                    pool[pool.index(worker)] = _Worker()
                    if tries[index] >= TRIES:
                        raise WorkerError(
                            f"task {todo[index]} ended its worker {TRIES} times (exit {code}; -9 is usually memory): "
                            "give it fewer workers or more memory"
                        ) from None
                    queue.append(index)
                    continue
                if kind == "taken":
                    worker.taken, lost = True, 0
                    continue
                worker.index = -1
                if kind == "error":
                    raise value
                if kind == "crash":
                    raise WorkerError(f"task {todo[index]} failed:\n{value}")
                result, spent = value
                meter.add(spent)
                yield index, result
    finally:
        _give_back(pool)


# Idle workers, kept for the next call: they have their kernels loaded. Not for another process that inherits the list.
_IDLE: list["_Worker"] = []
_OWNER = os.getpid()


def _take_pool(size: int) -> list["_Worker"]:
    global _OWNER
    if os.getpid() != _OWNER:
        _IDLE.clear()
        _OWNER = os.getpid()
    pool: list[_Worker] = []
    while _IDLE and len(pool) < size:
        worker = _IDLE.pop()
        if worker.process.is_alive():
            pool.append(worker)
        else:
            worker.stop()
    return pool + [_Worker() for _ in range(size - len(pool))]


def _give_back(pool: list["_Worker"]) -> None:
    """Keep workers that finished their task; one that is still busy (a caller gave up) is stopped."""
    for worker in pool:
        if worker.index < 0 and worker.process.is_alive():
            _IDLE.append(worker)
        else:
            worker.stop()


def stop_idle_workers() -> None:
    """Stop the workers that wait for tasks. They stop with this process anyway."""
    while _IDLE:
        _IDLE.pop().stop()


def default_workers() -> int:
    """Cores that this process may use; at most ``GRISTMILL_WORKERS``: a pod does not have all of its node's."""
    cores, said = len(os.sched_getaffinity(0)), os.environ.get("GRISTMILL_WORKERS", "")
    return max(1, min(cores, int(said))) if said.isdecimal() else cores


def never(*_: Any) -> None:
    """A progress callback that does nothing."""
