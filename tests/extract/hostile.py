"""Handlers for the watched pool that do what hostile documents do. Loaded in workers by name."""

import ctypes
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit


def end_at_once(*_: Any) -> None:
    """A worker that cannot even start."""
    os._exit(1)


def handler(setup: str) -> Callable[[Any], Any]:
    folder = Path(setup)

    def work(item: Any) -> Any:
        kind, value = item
        if kind == "spin":
            deadline = time.process_time() + 60
            while time.process_time() < deadline:
                pass
        elif kind == "regex":
            re.match(r"(a+)+$", "a" * 60 + "b")
        elif kind == "sleep":
            time.sleep(60)
        elif kind == "busy":  # CPU for a while, under the limit
            deadline = time.process_time() + value
            while time.process_time() < deadline:
                pass
        elif kind in ("compile", "compile and spin"):  # a kernel that takes ``value`` seconds of CPU and more
            began = time.process_time()
            while time.process_time() - began < value:
                njit(lambda a: (a[1:] + a[:-1]).sum())(np.zeros(9))
            return work(("spin", 0)) if kind == "compile and spin" else (kind, value)
        elif kind == "eat":
            held = [bytearray(32 << 20) for _ in range(60)]
            time.sleep(30)
            return len(held)
        elif kind == "segfault":
            ctypes.string_at(0)
        elif kind == "vanish":
            os._exit(3)
        elif kind == "flaky":  # a transient error the first ``value`` times
            mark = folder / "flaky"
            tries = int(mark.read_text()) if mark.exists() else 0
            mark.write_text(str(tries + 1))
            if tries < value:
                raise OSError("the object store did not answer")
        elif kind == "bug":
            raise ValueError("a bug of ours")
        return kind, value

    return work
