"""Progress of long work, for a terminal and for log lines.

Belongs here: the ``Reporter`` that the runner of a stage calls, and its terminal form. Does not belong here: yields
(``yields.py``) and anything that is kept.
"""

import io
import os
import sys
import time
from typing import Any, Protocol, TextIO

from gristmill.partition import Made


class Reporter(Protocol):
    """Told of a stage's start, each partition's end, documents in between, and its end."""

    def start(self, stage: str, crawl: str, partitions: int) -> None:
        """A stage begins on this many partitions."""

    def partition(self, stage: str, made: Made) -> None:
        """One partition is committed (or was current)."""

    def documents(self, stage: str, docs_in: int, docs_out: int) -> None:
        """Documents of the partition in work, so far."""

    def end(self, stage: str) -> None:
        """The stage is done."""


class Silent:
    """Says nothing."""

    def start(self, stage: str, crawl: str, partitions: int) -> None:
        """Nothing."""

    def partition(self, stage: str, made: Made) -> None:
        """Nothing."""

    def documents(self, stage: str, docs_in: int, docs_out: int) -> None:
        """Nothing."""

    def end(self, stage: str) -> None:
        """Nothing."""


def _own_stderr() -> TextIO:
    """Where stderr goes now, whatever is done to it later; stderr itself where it is no file (a notebook, a test)."""
    try:
        return os.fdopen(os.dup(sys.stderr.fileno()), "w", buffering=1, encoding="utf-8", errors="replace")
    except (OSError, io.UnsupportedOperation):
        return sys.stderr


class Terminal:
    """One rich line a stage: buckets done, documents in and out, rate, time left. Plain lines where there is no tty."""

    def __init__(self, stages: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        # A stream of its own: Dagster sends this process's stderr to a file while a step runs, and with it every line
        # that is redrawn.
        self._stream = _own_stderr()
        self.console = Console(file=self._stream, soft_wrap=True)
        self.live = self.console.is_terminal
        self.stages, self.number = stages, 0
        self._progress = Progress(
            TextColumn("{task.fields[number]:>6} {task.description:<18}"), BarColumn(bar_width=24),
            MofNCompleteColumn(), TextColumn("{task.fields[facts]}"), TimeRemainingColumn(compact=True),
            console=self.console, refresh_per_second=4,
        )
        self._task: Any = None
        self._begun = time.monotonic()
        self._in = self._out = self._computed = self._buckets = 0

    def __enter__(self) -> "Terminal":
        if self.live:
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live:
            self._progress.stop()
        if self._stream is not sys.stderr:
            self._stream.close()

    def start(self, stage: str, crawl: str, partitions: int) -> None:
        """Open the stage's line."""
        self.number += 1
        self._begun = time.monotonic()
        self._in = self._out = self._computed = self._buckets = 0
        if self.live:
            self._task = self._progress.add_task(
                stage, total=partitions, number=f"{self.number}/{self.stages}", facts=""
            )

    def partition(self, stage: str, made: Made) -> None:
        """Advance it."""
        self._buckets += 1
        self._computed += made.computed
        self._in += made.manifest.counts.docs_in
        self._out += made.manifest.counts.docs_out
        if self.live:
            self._progress.update(self._task, advance=1, facts=self._facts(0, 0))

    def documents(self, stage: str, docs_in: int, docs_out: int) -> None:
        """Show documents of the partition in work."""
        if self.live and self._task is not None:
            self._progress.update(self._task, facts=self._facts(docs_in, docs_out))

    def end(self, stage: str) -> None:
        """Close the line; without a terminal, print it now."""
        if not self.live:
            seconds = time.monotonic() - self._begun
            print(f"  {self.number:>2}/{self.stages} {stage:<18} {self._buckets:>3} partitions "
                  f"({self._computed} computed)  {self._facts(0, 0)}  {seconds:.1f} s", file=self._stream, flush=True)

    def _facts(self, more_in: int, more_out: int) -> str:
        seconds = max(time.monotonic() - self._begun, 1e-3)
        docs = self._in + more_in
        return f"{docs:,} in, {self._out + more_out:,} out, {docs / seconds:,.0f}/s"
