"""What every benchmark reports: rows of ours beside theirs with a bar, printed as a table and written as JSON.

Belongs here: the row, the table, ``bench/results/NAME.json`` and a line about the machine. Does not belong here: what
is measured (one module a subject), nor how another tool is run (``peer.py``).
"""

import json
import os
import platform
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).resolve().parent / "results"


@dataclass(frozen=True)
class Row:
    """One comparison.

    ``ours`` and ``theirs`` carry their unit in ``what`` (or are short strings such as "412 docs/s"). ``ratio`` is ours
    over theirs such that more is better, or the quantity that ``bar`` bounds. ``holds`` is None where there is nothing
    to hold: the other tool could not be run, or the row only informs; ``note`` says which.
    """

    what: str
    ours: float | int | str | None
    theirs: float | int | str | None
    ratio: float | None
    bar: str
    holds: bool | None
    note: str = ""


class Report:
    """The rows of one subject. ``add`` them, then ``write`` once at the end of a real run."""

    def __init__(self, name: str, results: Path = RESULTS) -> None:
        self.name = name
        self.results = results
        self.rows: list[Row] = []

    def add(
        self,
        what: str,
        ours: float | int | str | None,
        theirs: float | int | str | None = None,
        ratio: float | None = None,
        bar: str = "",
        holds: bool | None = None,
        note: str = "",
    ) -> Row:
        """Append a row and return it. ``holds`` is coerced from NumPy's bool, so that JSON can carry it."""
        row = Row(what, _plain(ours), _plain(theirs), _plain(ratio), bar, None if holds is None else bool(holds), note)
        self.rows.append(row)
        return row

    @property
    def missed(self) -> list[Row]:
        """The rows whose bar does not hold."""
        return [row for row in self.rows if row.holds is False]

    def write(self) -> Path:
        """Print the table, write ``results/NAME.json``, and return its path."""
        table = Table(title=f"bench: {self.name}", title_justify="left", show_lines=False)
        for column in ("what", "ours", "theirs", "ratio", "bar", "holds", "note"):
            number = column in {"ours", "theirs", "ratio"}
            table.add_column(column, justify="right" if number else "left", overflow="fold")
        marks = {True: "[green]yes[/]", False: "[red]no[/]", None: "-"}
        for row in self.rows:
            table.add_row(
                row.what, _show(row.ours), _show(row.theirs), _show(row.ratio), row.bar, marks[row.holds], row.note
            )
        terminal = Console().is_terminal
        Console(width=None if terminal else 160).print(table)  # rich takes a pipe to be 80 wide, too few for seven
        path = self.results / f"{self.name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        body = {"machine": machine(), "rows": [asdict(row) for row in self.rows]}
        path.write_text(json.dumps(body, indent=1, ensure_ascii=False) + "\n")
        return path


def machine() -> dict[str, str | int]:
    """Cores this process may use, the CPU's model and the Python version: enough to read a ratio, no more."""
    model = platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = names[0].split(":", 1)[1].strip() if names else model
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return {"cores": cores, "cpu": model, "python": platform.python_version()}


def _plain(value):
    """A NumPy scalar as Python's own; floats to six significant digits, enough for a ratio and steady in a diff."""
    value = value.item() if hasattr(value, "item") else value
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _show(value: float | int | str | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else value

