"""Replay: what a schedule will really show, without reading a token.

Belongs here: realised against asked, by phase and source, from the closed form; exposures and epochs; an optional check
of the closed form against samples drawn one by one. Does not belong here: cutting the schedule (``schedule.py``), or
counting what a running job shows (``loader/audit.py``).

A run of 30T tokens has half a million to some millions of steps and about 10^10 samples; the closed form needs only the
digits of the step number, so a replay takes well under a second a segment, whatever its length.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from gristmill.errors import RecipeError
from gristmill.loader.sampler import Sampler
from gristmill.mixture.schedule import Schedule, exact

TOLERANCE = 1e-4  # relative; under ROUNDING sequences a difference is the rounding of whole sequences, not a fault
ROUNDING = 64


@dataclass(frozen=True)
class Line:
    """One source in one phase.

    Attributes:
        asked: the weight written in the recipe, of the weights' sum.
        granted: the share after redistribution at caps; what the sampler is asked for.
        realised: the share shown.
        sequences, tokens: shown.
        error: |shown / granted sequences - 1|, 0 where nothing was granted.
        excess: shown minus granted sequences.
    """

    phase: str
    source: str
    asked: float
    granted: float
    realised: float
    sequences: int
    tokens: int
    error: float
    excess: float

    @property
    def holds(self) -> bool:
        """Whether it is what was granted, up to TOLERANCE or the rounding of whole sequences."""
        return self.error <= TOLERANCE or abs(self.excess) <= ROUNDING


@dataclass(frozen=True)
class Exposure:
    """How often one source is shown: epochs by layout and together, and its cap."""

    source: str
    epochs: float
    by_layout: Mapping[str, float]
    cap: float | None


@dataclass(frozen=True)
class Replay:
    """A whole run, counted."""

    steps: int
    tokens: int
    lines: tuple[Line, ...]
    exposures: tuple[Exposure, ...]
    redistributions: tuple[dict[str, Any], ...]
    samples_checked: int

    @property
    def worst(self) -> Line | None:
        """The line that is furthest from what it was granted."""
        return max((line for line in self.lines if not line.holds), key=lambda line: line.error, default=None) or max(
            self.lines, key=lambda line: line.error, default=None)

    @property
    def holds(self) -> bool:
        """Whether every line does, and no source passes its cap."""
        capped = [e for e in self.exposures if e.cap is not None]
        return all(line.holds for line in self.lines) and all(e.epochs <= (e.cap or 0) for e in capped)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON, for cards and reports."""
        return {**asdict(self), "holds": self.holds}


def replay(
    schedule: Schedule,
    phases: Sequence[Mapping[str, Any]],
    max_epochs: Mapping[str, Any] | None = None,
    sampler: Sampler | None = None,
    check_steps: int = 0,
) -> Replay:
    """Count a whole run.

    Args:
        schedule: compiled of the phases.
        phases: as in the manifest; their weights are what was asked.
        max_epochs: caps, as in the manifest.
        sampler: of the run, needed for ``check_steps``.
        check_steps: so many steps (spread over the run, seeded) are drawn sample by sample and compared with the closed
            form, count by count.

    Raises:
        RecipeError: when a drawn step is not what the closed form says: the sampler would be wrong.
    """
    checked = _check(schedule, sampler, check_steps) if sampler is not None and check_steps else 0
    caps = {source: exact(value, f"max_epochs of {source}") for source, value in (max_epochs or {}).items()
            if value is not None}
    epochs = schedule.epochs(schedule.steps)
    counts = schedule.counts(schedule.steps)
    exposures = tuple(
        Exposure(
            source, float(epochs[s]),
            {name: row[s] / schedule.sequences[name][s] for name, row in counts.items() if row[s]},
            float(caps[source]) if source in caps else None)
        for s, source in enumerate(schedule.sources)
    )
    return Replay(
        schedule.steps, schedule.tokens, tuple(line for i, phase in enumerate(phases) for line in
                                               _lines(schedule, i, phase)),
        exposures,
        tuple({"source": r.source, "phase": r.phase, "step": r.step, "cap": float(r.cap),
               "asked_epochs": float(r.asked_epochs)} for r in schedule.redistributions),
        checked,
    )


def _lines(schedule: Schedule, index: int, phase: Mapping[str, Any]) -> list[Line]:
    n = len(schedule.sources)
    shown, granted, total, tokens = [0] * n, [Fraction(0)] * n, 0, [0] * n
    for segment in schedule.segments:
        if segment.phase != index:
            continue
        total += segment.steps * segment.batch
        for s in range(n):
            if segment.weights[s]:
                taken = segment.taken(s, segment.steps)
                shown[s] += taken
                tokens[s] += taken * segment.seq_len
                granted[s] += segment.weights[s] * segment.batch * segment.steps
    weights = {source: exact(w, source) for source, w in phase["weights"].items()}
    whole = sum(weights.values(), Fraction(0))
    return [
        Line(
            str(phase["name"]), source, float(weights[source] / whole), float(granted[s] / total), shown[s] / total,
            shown[s], tokens[s], abs(float(shown[s] / granted[s] - 1)) if granted[s] else 0.0,
            float(shown[s] - granted[s]))
        for s, source in enumerate(schedule.sources) if weights.get(source)
    ]


def _check(schedule: Schedule, sampler: Sampler, steps: int) -> int:
    """Draw steps sample by sample; their counts, and the ranks they begin at, must be the closed form's."""
    generator = random.Random(schedule.seed)
    chosen = {generator.randrange(schedule.steps) for _ in range(steps)}
    chosen |= {g.first_step for g in schedule.segments[:steps]} | {schedule.steps - 1}
    checked = 0
    for step in sorted(chosen):
        batch = sampler.batch(step)
        drawn = sampler.locate_many(np.full(batch, step, np.int64), np.arange(batch, dtype=np.int64))
        counted = np.bincount(drawn.source, minlength=len(schedule.sources))
        segment = schedule.segments[schedule.segment_of(step)]
        b = step - segment.first_step
        expected = [segment.taken(s, b + 1) - segment.taken(s, b) for s in range(len(schedule.sources))]
        if counted.tolist() != expected:
            raise RecipeError(f"step {step} shows {counted.tolist()} sequences by source, not {expected}: the sampler "
                              "is not of this schedule")
        checked += batch
    return checked
