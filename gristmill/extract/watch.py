"""A watched pool: slices of hostile documents, worked on in processes that are killed when one document takes too long.

Belongs here: dealing slices to workers, the CPU, wall and memory limits of a document, restarting a slice after the
document that broke it, retrying what is transient. Does not belong here: what is done with a document (a handler), and
what becomes of one that was given up (the stage).

A worker gets a slice and reads its documents itself. Before each it writes the document's position and its own CPU
time into shared memory; results come back in batches, and what came back is acknowledged. The parent compares the
worker's CPU time in ``/proc`` with the published one. A killed document is given up; finished ones that were not yet
sent are done again, so no other document is lost. The limit is CPU time, so that a busy machine gives the same answer;
wall time is only a backstop. Compiling a kernel is no document's time: on a new machine, the first page with a style
sheet would be given up for it, and the same crawl would give another text than where kernels are cached.
"""

import atexit
import contextlib
import importlib
import math
import os
import resource
import struct
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing import shared_memory
from multiprocessing.connection import Connection, wait
from typing import Any

from numba.core import event

from gristmill.errors import GristmillError, WorkerError
from gristmill.extract.offline import go_offline
from gristmill.observe import profile_meter as meter
from gristmill.workers import context, die_with_parent, stillborn

POLL = 0.05  # seconds between looks at the workers
BATCH = 16  # documents a message
BATCH_SECONDS = 0.5
TRIES = 3  # once and two retries
_SLOT = struct.Struct("<qdd")  # position in the slice (-1: none), CPU seconds and monotonic time at its start
_NEW = -2  # in place of a position: the worker has not taken a slice yet
_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Limits:
    """What one document may cost."""

    cpu_seconds: float = 5.0
    wall_seconds: float = 60.0
    memory_bytes: int = 1 << 30


@dataclass(frozen=True)
class Slice:
    """Work for one worker.

    Attributes:
        handler: ``module:function``; called once with ``setup``, returns a callable item -> result. An OSError from
            that callable is transient and is tried again; any other exception ends the run: the callable itself must
            turn a bad document into a result.
        setup: picklable; handlers are kept by its equality while slices of one setup follow each other.
        items: picklable, one a document.
    """

    handler: str
    setup: Any
    items: Sequence[Any]


@dataclass(frozen=True)
class GivenUp:
    """Why a document has no result: slow, memory, crash (its worker died on it three times) or unread (transient
    errors three times).
    """

    reason: str
    detail: str


@dataclass
class _Job:
    number: int
    slice: Slice
    todo: list[int]
    tries: dict[int, int] = field(default_factory=dict)


class _Worker:
    def __init__(self, shm: str, slot: int, memory: int) -> None:
        ctx = context()
        self.conn, child = ctx.Pipe()
        self.process = ctx.Process(target=_serve, args=(child, shm, slot, memory), daemon=True)
        self.process.start()
        child.close()
        self.slot = slot
        self.job: _Job | None = None
        self.peak = 0

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.conn.close()


class WatchedPool:
    """Workers that live from slice to slice. Use ``shared_pool`` unless you need your own."""

    def __init__(self, workers: int, memory_bytes: int = 1 << 30) -> None:
        self.memory = memory_bytes
        self._shm = shared_memory.SharedMemory(create=True, size=_SLOT.size * workers)
        self._buffer: Any = self._shm.buf
        self._workers: list[_Worker | None] = [None] * workers
        self.kills = 0
        self._lost = 0  # workers in a row that ended before they took a slice
        self.peak_bytes = 0
        atexit.register(self.close)

    def close(self) -> None:
        """Stop the workers. Idempotent."""
        atexit.unregister(self.close)
        for worker in self._workers:
            if worker is not None:
                worker.stop()
        if self._workers:
            self._workers = []
            self._buffer = None
            self._shm.close()
            self._shm.unlink()

    def run(self, slices: Sequence[Slice], limits: Limits) -> Iterator[tuple[int, int, Any]]:
        """Yield (slice number, position in its items, result or ``GivenUp``) as documents are done, in any order.

        Raises:
            GristmillError: as raised by a handler. WorkerError: what else a handler raised, with its traceback; or
                workers die as they start, for which no document is given up.
        """
        queue = [_Job(n, s, list(range(len(s.items)))) for n, s in enumerate(slices) if len(s.items)][::-1]
        try:
            while queue or any(w is not None and w.job is not None for w in self._workers):
                for slot, worker in enumerate(self._workers):
                    if worker is None and queue:
                        worker = self._start(slot)
                    if worker is not None and worker.job is None and queue:
                        self._give(worker, queue.pop())
                busy = [w for w in self._workers if w is not None and w.job is not None]
                ready = set(wait([w.conn for w in busy], POLL))
                for worker in busy:
                    if worker.conn in ready:
                        yield from self._receive(worker, queue)
                    else:
                        yield from self._look(worker, limits, queue)
        finally:
            for slot, worker in enumerate(self._workers):  # an abandoned run leaves no worker in the middle of a slice
                if worker is not None and worker.job is not None:
                    worker.stop()
                    self._workers[slot] = None

    # -- one worker ------------------------------------------------------------------------------------------------

    def _start(self, slot: int) -> _Worker:
        _SLOT.pack_into(self._buffer, slot * _SLOT.size, _NEW, 0.0, 0.0)
        worker = _Worker(self._shm.name, slot, self.memory)
        self._workers[slot] = worker
        return worker

    def _give(self, worker: _Worker, job: _Job) -> None:
        worker.job = job
        with contextlib.suppress(BrokenPipeError):  # it has died; the pipe's end says so
            worker.conn.send((job.slice.handler, job.slice.setup, [(i, job.slice.items[i]) for i in job.todo]))

    def _receive(self, worker: _Worker, queue: list[_Job]) -> Iterator[tuple[int, int, Any]]:
        try:
            kind, value = worker.conn.recv()
        except (EOFError, OSError):
            yield from self._died(worker, queue)
            return
        self._lost = 0
        job = worker.job
        assert job is not None
        if kind == "batch":
            yield from self._taken(job, value)
        elif kind == "done":
            meter.add(value)
            worker.job = None
            self._note_peak(worker)
        elif kind == "transient":
            worker.job = None
            position, detail = value
            yield from self._again(job, position, GivenUp("unread", detail), queue)
        elif kind == "error":
            raise value
        else:
            raise WorkerError(f"slice {job.number} of {job.slice.handler} failed:\n{value}")

    def _taken(self, job: _Job, batch: list[tuple[int, Any]]) -> Iterator[tuple[int, int, Any]]:
        done = {position for position, _ in batch}
        job.todo = [i for i in job.todo if i not in done]
        for position, result in batch:
            yield job.number, position, result

    def _look(self, worker: _Worker, limits: Limits, queue: list[_Job]) -> Iterator[tuple[int, int, Any]]:
        """Is the worker past a limit on the document it is on."""
        position, cpu, since = self._slot(worker)
        if position < 0 or cpu == math.inf:
            return
        used = _usage(worker.process.pid or 0)
        if used is None:
            return  # it died; the pipe will say so
        seconds, rss = used
        self.peak_bytes = max(self.peak_bytes, rss)
        wall = time.monotonic() - since
        if seconds - cpu > limits.cpu_seconds:
            verdict = GivenUp("slow", f"over {limits.cpu_seconds:g} s of CPU time")
        elif wall > limits.wall_seconds:
            verdict = GivenUp("slow", f"over {limits.wall_seconds:g} s of wall time")
        elif rss > limits.memory_bytes:
            verdict = GivenUp("memory", f"over {limits.memory_bytes >> 20} MiB of memory")
        else:
            return
        if self._slot(worker) != (position, cpu, since):
            return  # it went on while we looked
        worker.process.kill()
        worker.process.join()
        self.kills += 1
        meter.add(meter.Spent(cpu_s=seconds - cpu, worker_cpu_s=seconds - cpu, worker_wall_s=wall))
        yield from self._died(worker, queue, verdict)

    def _died(self, worker: _Worker, queue: list[_Job],
              verdict: GivenUp | None = None) -> Iterator[tuple[int, int, Any]]:
        """Take what it still sent, give up (or retry) the document it was on, and put the rest back."""
        job = worker.job
        assert job is not None
        try:
            while worker.conn.poll():
                kind, value = worker.conn.recv()
                if kind == "batch":
                    yield from self._taken(job, value)
        except (EOFError, OSError):
            pass  # the end of what it sent, or a message cut by the kill
        position = self._slot(worker)[0]
        worker.process.join(5)
        code = worker.process.exitcode
        worker.stop()
        self._workers[worker.slot] = None
        if verdict is not None:
            job.todo = [i for i in job.todo if i != position]
            yield job.number, position, verdict
            if job.todo:
                queue.append(job)
            return
        if position == _NEW:
            self._lost += 1
            error = stillborn(code, self._lost)
            if error is not None:
                raise error
            queue.append(job)
            return
        crash = GivenUp("crash", f"its worker died with exit code {code}")
        yield from self._again(job, position if position in job.todo else job.todo[0] if job.todo else -1, crash, queue)

    def _again(self, job: _Job, position: int, verdict: GivenUp, queue: list[_Job]) -> Iterator[tuple[int, int, Any]]:
        """Retry a slice from a document that failed for a reason that may pass; the third time it is given up."""
        job.tries[position] = job.tries.get(position, 0) + 1
        if job.tries[position] >= TRIES and position in job.todo:
            job.todo.remove(position)
            yield job.number, position, verdict
        if job.todo:
            queue.append(job)

    def _slot(self, worker: _Worker) -> tuple[int, float, float]:
        position, cpu, since = _SLOT.unpack_from(self._buffer, worker.slot * _SLOT.size)
        return int(position), float(cpu), float(since)

    def _note_peak(self, worker: _Worker) -> None:
        self.peak_bytes = max(self.peak_bytes, _peak(worker.process.pid or 0))


_POOLS: dict[int, WatchedPool] = {}


def shared_pool(workers: int) -> WatchedPool:
    """The pool of this process with so many workers: importing the engines takes longer than a small bucket."""
    pool = _POOLS.get(workers)
    if pool is None or not pool._workers:
        close_pools()
        pool = _POOLS[workers] = WatchedPool(max(workers, 1))
    return pool


def close_pools() -> None:
    """Stop all shared pools of this process."""
    while _POOLS:
        _POOLS.popitem()[1].close()


def _usage(pid: int) -> tuple[float, int] | None:
    """(CPU seconds, resident bytes) of a process, or None where it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    if fields[0] in (b"Z", b"X"):
        return None
    return (int(fields[11]) + int(fields[12])) / _TICK, int(fields[21]) * _PAGE


def _peak(pid: int) -> int:
    """Most resident bytes that a process ever had."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            for line in file:
                if line.startswith(b"VmHWM:"):
                    return int(line.split()[1]) << 10
    except OSError:
        pass
    return 0


# -- in the worker -------------------------------------------------------------------------------------------------


def _serve(conn: Connection, shm_name: str, slot: int, memory: int) -> None:
    die_with_parent()
    go_offline()  # what it reads lies on this machine: see slices.at_hand
    # A backstop behind the parent's look at resident memory: an allocation of gigabytes at once fails by itself.
    soft = 4 * memory
    resource.setrlimit(resource.RLIMIT_DATA, (soft, soft))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    shm = shared_memory.SharedMemory(shm_name)
    buffer: Any = shm.buf
    event.register("numba:compiler_lock", _Uncharged(buffer, slot * _SLOT.size))
    kept: tuple[str, Any, Callable[[Any], Any]] | None = None
    while True:
        try:
            handler, setup, items = conn.recv()
        except EOFError:
            return
        _SLOT.pack_into(buffer, slot * _SLOT.size, -1, 0.0, 0.0)
        try:
            if kept is None or kept[0] != handler or kept[1] != setup:
                module, _, name = handler.partition(":")
                kept = (handler, setup, getattr(importlib.import_module(module), name)(setup))
            _work(conn, buffer, slot * _SLOT.size, kept[2], items)
        except GristmillError as error:
            conn.send(("error", error))
        except Exception:  # noqa: BLE001 - the parent names the slice
            conn.send(("crash", traceback.format_exc()))
        finally:
            _SLOT.pack_into(buffer, slot * _SLOT.size, -1, 0.0, 0.0)


class _Uncharged(event.Listener):
    """Stops a document's clocks while Numba compiles or loads a kernel."""

    def __init__(self, buffer: Any, at: int) -> None:
        self.buffer, self.at = buffer, at
        self.depth = 0
        self.used = (0.0, 0.0)  # by the document before the kernel

    def on_start(self, event: Any) -> None:
        self.depth += 1
        position, cpu, since = _SLOT.unpack_from(self.buffer, self.at)
        if self.depth == 1 and position >= 0:
            self.used = (time.process_time() - cpu, time.monotonic() - since)
            _SLOT.pack_into(self.buffer, self.at, position, math.inf, math.inf)

    def on_end(self, event: Any) -> None:
        self.depth -= 1
        position, *_ = _SLOT.unpack_from(self.buffer, self.at)
        if self.depth == 0 and position >= 0:
            cpu, wall = self.used
            _SLOT.pack_into(self.buffer, self.at, position, time.process_time() - cpu, time.monotonic() - wall)


def _work(conn: Connection, buffer: Any, at: int, function: Callable[[Any], Any],
          items: list[tuple[int, Any]]) -> None:
    batch: list[tuple[int, Any]] = []
    started = sent = time.monotonic()
    before = meter.totals()
    for position, item in items:
        now = time.monotonic()
        _SLOT.pack_into(buffer, at, position, time.process_time(), now)
        if batch and (len(batch) >= BATCH or now - sent > BATCH_SECONDS):
            conn.send(("batch", batch))
            batch, sent = [], now
        try:
            batch.append((position, function(item)))
        except OSError as error:
            if batch:
                conn.send(("batch", batch))
            conn.send(("transient", (position, f"{type(error).__name__}: {error}")))
            return
    conn.send(("batch", batch))
    conn.send(("done", meter.for_parent(meter.totals() - before, time.monotonic() - started)))
