"""What work costs while it is done: seconds of CPU, GPU, reading, writing and waiting for a lock.

Belongs here: the process's running totals, the marks on calls that read and write, and the difference over a stretch
of work. Does not belong here: what partitions committed of it (``profile.py``). Standard library only: a training host
opens places for bytes too. Seconds never enter a digest; they go to ``_run.json``.

A worker's totals come back with its result and are added to its parent's, so a partition counts the processes that
worked for it, whether or not they were its children.
"""

import functools
import resource
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, Literal, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
Kind = Literal["read", "write"]


@dataclass
class Spent:
    """Seconds. ``cpu_s`` includes what reading, writing and driving a GPU burn."""

    cpu_s: float = 0.0
    gpu_s: float = 0.0
    gpu_cpu_s: float = 0.0  # CPU of the thread that drives the GPU: it spins while it waits
    read_s: float = 0.0  # wall seconds in calls that read, with unpacking and verifying
    read_cpu_s: float = 0.0
    write_s: float = 0.0
    write_cpu_s: float = 0.0
    worker_cpu_s: float = 0.0  # the part of cpu_s that other processes burnt
    worker_wall_s: float = 0.0  # wall seconds of those processes, added up

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def __sub__(self, other: "Spent") -> "Spent":
        return Spent(*(getattr(self, f.name) - getattr(other, f.name) for f in fields(self)))


_TOTAL = Spent()
_LOCK = threading.Lock()
_INSIDE = threading.local()  # only the outermost marked call of a thread counts


def add(spent: Spent) -> None:
    """Count what another process spent for this one. Its wall seconds stand in ``worker_wall_s``."""
    global _TOTAL
    with _LOCK:
        _TOTAL = _TOTAL + spent


def totals() -> Spent:
    """Everything that this process, its ended children and its workers have spent so far."""
    own, ended = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    with _LOCK:
        return _TOTAL + Spent(cpu_s=own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime)


@contextmanager
def measured() -> Iterator[Spent]:
    """Gives a record that holds, once the block has ended, what was spent in it."""
    out, before = Spent(), totals()
    try:
        yield out
    finally:
        spent = totals() - before
        for f in fields(Spent):
            setattr(out, f.name, getattr(spent, f.name))


def for_parent(spent: Spent, wall_s: float) -> Spent:
    """A worker's totals as its parent counts them."""
    return spent + Spent(worker_cpu_s=spent.cpu_s - spent.worker_cpu_s, worker_wall_s=wall_s)


def marked(kind: Kind) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Count a function's seconds as reading or writing."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if getattr(_INSIDE, "on", False):
                return function(*args, **kwargs)
            _INSIDE.on = True
            wall, cpu = time.perf_counter(), time.thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                _INSIDE.on = False
                wall, cpu = time.perf_counter() - wall, time.thread_time() - cpu
                if kind == "read":
                    add(Spent(read_s=wall, read_cpu_s=cpu))
                else:
                    add(Spent(write_s=wall, write_cpu_s=cpu))

        return call

    return decorate


@contextmanager
def gpu(device: Any) -> Iterator[None]:
    """Count a block as work of a GPU, from an idle device to an idle device. On a CPU it counts nothing.

    Args:
        device: as torch knows it: ``cuda``, ``cuda:1``, a ``torch.device``.
    """
    if not str(device).startswith("cuda"):
        yield
        return
    import torch

    torch.cuda.synchronize(device)
    wall, cpu = time.perf_counter(), time.thread_time()
    try:
        yield
    finally:
        torch.cuda.synchronize(device)
        add(Spent(gpu_s=time.perf_counter() - wall, gpu_cpu_s=time.thread_time() - cpu))


def account(spent: Spent, wall_s: float) -> dict[str, float]:
    """How a partition's time divides, for ``_run.json``.

    ``compute_s`` is CPU outside reading, writing and driving a GPU. ``wait_s`` is what is left of the time that was
    there: the partition's wall seconds or, where workers worked for it, theirs and its own CPU.
    """
    compute = max(0.0, spent.cpu_s - spent.read_cpu_s - spent.write_cpu_s - spent.gpu_cpu_s)
    there = spent.worker_wall_s + spent.cpu_s - spent.worker_cpu_s if spent.worker_wall_s else wall_s
    wait = max(0.0, there - compute - spent.read_s - spent.write_s - spent.gpu_s)
    seconds = {"wall_s": wall_s, "cpu_s": spent.cpu_s, "compute_s": compute, "gpu_s": spent.gpu_s,
               "read_s": spent.read_s, "write_s": spent.write_s, "wait_s": wait}
    return {name: round(value, 4) for name, value in seconds.items()}
