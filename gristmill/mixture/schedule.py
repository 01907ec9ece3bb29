"""From phases of a recipe to segments: stretches of steps with constant weights, sequence length and batch.

Belongs here: cutting phases at batch ramps and at epoch caps, redistributing the weight of a source that is used up,
integer cuts of [0, 2^64), and how much every source has given before any step. Does not belong here: what a source is
(``recipe.py``), which sequence a slot gets (``loader/sampler.py``), or comparing with what was asked (``replay.py``).

All arithmetic is exact (fractions, then integers), so every machine cuts the same segments.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from gristmill.errors import RecipeError
from gristmill.loader.corput import WORD, below, reverse
from gristmill.tokens.packing import layout as layout_name

MAX_SAMPLES = 1 << 62  # the kernels count what a source has given in 64 bits, and several phases add up
MAX_BATCH = 1 << 31  # slots of a step fit 32 bits, so products with a cut fit 96


@dataclass(frozen=True)
class Segment:
    """Steps ``first_step`` to ``first_step + steps`` of one phase, all drawn in the same way.

    Attributes:
        phase: index into the recipe's phases.
        name: the phase's name.
        layout: ``packing:seq_len``.
        seq_len: tokens of a sequence.
        first_step: global step of its first step.
        steps: how many.
        batch: samples per step.
        weights: exact share of every source, in the schedule's order; their sum is 1.
        cuts: [sources + 1] integers from 0 to 2^64; source s owns [cuts[s], cuts[s + 1]).
        base: [sources] sequences that earlier segments of this layout took from each source.
        settling: True for the single step in which a source gives exactly what its cap still allows.
    """

    phase: int
    name: str
    layout: str
    seq_len: int
    first_step: int
    steps: int
    batch: int
    weights: tuple[Fraction, ...]
    cuts: tuple[int, ...]
    base: tuple[int, ...]
    settling: bool = False

    def under(self, cut: int, step: int) -> int:
        """Slots of the segment's step ``step`` that lie under ``cut``."""
        q, f = divmod(self.batch * cut, WORD)
        return q + (reverse(step) < f)

    def taken(self, source: int, steps: int) -> int:
        """Sequences that ``source`` gives in the segment's first ``steps`` steps."""
        q0, f0 = divmod(self.batch * self.cuts[source], WORD)
        q1, f1 = divmod(self.batch * self.cuts[source + 1], WORD)
        return steps * (q1 - q0) + below(f1, steps) - below(f0, steps)


def _first_step(segment: Segment) -> int:
    return segment.first_step


@dataclass(frozen=True)
class Redistribution:
    """A source met its cap: from ``step`` of ``phase`` on the others carry its weight."""

    source: str
    phase: str
    step: int
    cap: Fraction
    asked_epochs: Fraction


@dataclass(frozen=True)
class Schedule:
    """The whole run, as segments.

    Attributes:
        sources: names, sorted; every per-source tuple follows this order.
        segments: in order of steps, without gaps.
        sequences: {layout: sequences of one epoch, by source}.
        redistributions: where caps were met.
        seed: of the sampler.
    """

    sources: tuple[str, ...]
    segments: tuple[Segment, ...]
    sequences: Mapping[str, tuple[int, ...]]
    redistributions: tuple[Redistribution, ...]
    seed: int

    @property
    def steps(self) -> int:
        """Steps of the whole run."""
        return self.segments[-1].first_step + self.segments[-1].steps if self.segments else 0

    @property
    def tokens(self) -> int:
        """Tokens that the whole run presents."""
        return sum(s.steps * s.batch * s.seq_len for s in self.segments)

    def segment_of(self, step: int) -> int:
        """Index of the segment that holds ``step``. Raises IndexError past the end."""
        if not 0 <= step < self.steps:
            raise IndexError(f"step {step} is not one of the schedule's {self.steps}")
        return bisect_right(self.segments, step, key=_first_step) - 1

    def counts(self, step: int) -> dict[str, list[int]]:
        """Sequences shown before ``step``, by layout and source; closed form, whatever the step."""
        totals = {name: [0] * len(self.sources) for name in self.sequences}
        for segment in self.segments:
            steps = min(step - segment.first_step, segment.steps)
            if steps > 0:
                row = totals[segment.layout]
                for source in range(len(self.sources)):
                    row[source] += segment.taken(source, steps)
        return totals

    def epochs(self, step: int) -> list[Fraction]:
        """Epochs of every source shown before ``step``, summed over layouts."""
        spent = [Fraction(0)] * len(self.sources)
        for name, row in self.counts(step).items():
            for source, shown in enumerate(row):
                if shown:
                    spent[source] += Fraction(shown, self.sequences[name][source])
        return spent


def exact(value: Any, what: str) -> Fraction:
    """A weight or cap as a fraction: a decimal string (``"0.34"``), a ratio (``"1/3"``), or an integer."""
    if isinstance(value, float):
        raise RecipeError(f"{what}: give {value!r} as a string; a float is not the decimal that was written")
    try:
        result = Fraction(value)
    except (ValueError, TypeError, ZeroDivisionError) as error:
        raise RecipeError(f"{what}: {value!r} is not a decimal or a ratio") from error
    if result < 0:
        raise RecipeError(f"{what}: {value!r} is negative")
    return result


def compile_schedule(
    phases: Sequence[Mapping[str, Any]],
    max_epochs: Mapping[str, Any],
    sequences: Mapping[str, Mapping[str, int]],
    seed: int,
    on_cap: str = "redistribute",
) -> Schedule:
    """Cut phases into segments.

    Args:
        phases: as in a manifest: ``name, tokens, seq_len, packing, batch [[samples, steps | null], ...], weights
            {source: decimal string}``. Weights count relative to their sum. A phase has as many whole steps as its
            ``tokens`` hold.
        max_epochs: {source: decimal string}; a source that is not named has no cap. An epoch is every sequence of the
            source once; what layouts show adds up.
        sequences: {layout: {source: sequences of one epoch}}.
        seed: kept in the schedule.
        on_cap: ``redistribute``: from the step where a source has shown all its cap allows, the phase's other sources
            carry its weight, in proportion. ``refuse``: such a recipe is refused.

    Raises:
        RecipeError: with the numbers, for a source with nothing to show, a cap that leaves nobody to take the weight,
            or a phase whose ramp ends before its tokens do.
    """
    if on_cap not in ("redistribute", "refuse"):
        raise RecipeError(f"on_cap {on_cap!r} is neither redistribute nor refuse")
    names = tuple(sorted({source for phase in phases for source in phase["weights"]}))
    caps = {s: exact(value, f"max_epochs of {s}") for s, value in max_epochs.items() if value is not None}
    table = {}
    for phase in phases:
        name = layout_name(int(phase["seq_len"]), phase["packing"])
        given = sequences.get(name, {})
        table[name] = tuple(int(given.get(s, 0)) for s in names)
    compiler = _Compiler(names, caps, table, on_cap)
    for index, phase in enumerate(phases):
        compiler.phase(index, phase)
    return Schedule(names, tuple(compiler.segments), table, tuple(compiler.redistributions), seed)


class _Compiler:
    """State of one compilation: the segments so far and what every source has given in every layout."""

    def __init__(
        self, names: tuple[str, ...], caps: Mapping[str, Fraction], table: Mapping[str, tuple[int, ...]], on_cap: str
    ) -> None:
        self.names, self.caps, self.table, self.on_cap = names, caps, table, on_cap
        self.segments: list[Segment] = []
        self.redistributions: list[Redistribution] = []
        self.given = {layout: [0] * len(names) for layout in table}
        self.step = 0

    def phase(self, index: int, phase: Mapping[str, Any]) -> None:
        name, seq_len = str(phase["name"]), int(phase["seq_len"])
        layout = layout_name(seq_len, phase["packing"])
        weights = [exact(phase["weights"].get(s, 0), f"phase {name}: weight of {s}") for s in self.names]
        total = sum(weights, Fraction(0))
        if total == 0:
            raise RecipeError(f"phase {name}: no source has a weight")
        weights = [w / total for w in weights]
        ramp = _ramp(name, int(phase["tokens"]), seq_len, phase["batch"])
        samples = sum(batch * steps for batch, steps in ramp)
        for s, weight in enumerate(weights):
            if weight and not self.table[layout][s]:
                raise RecipeError(
                    f"phase {name}: source {self.names[s]} has weight {float(weight):.4g} and no whole sequence of "
                    f"layout {layout}; take it out of the phase, or use shorter sequences"
                )
        asked = [self._spent(s) + samples * w / self.table[layout][s] if w else None for s, w in enumerate(weights)]
        self._refuse_where_told(name, phase, weights, asked, layout, seq_len)
        active = list(weights)
        for batch, steps in ramp:
            active = self._run(index, name, layout, seq_len, batch, steps, active, asked)

    def _spent(self, source: int) -> Fraction:
        spent = Fraction(0)
        for layout, given in self.given.items():
            if given[source]:
                spent += Fraction(given[source], self.table[layout][source])
        return spent

    def _left(self, source: int, layout: str) -> int | None:
        """Sequences of ``layout`` that the cap still allows, None where there is no cap."""
        cap = self.caps.get(self.names[source])
        if cap is None:
            return None
        return max(0, int((cap - self._spent(source)) * self.table[layout][source]))

    def _refuse_where_told(
        self,
        name: str,
        phase: Mapping[str, Any],
        weights: list[Fraction],
        asked: list[Fraction | None],
        layout: str,
        seq_len: int,
    ) -> None:
        if self.on_cap != "refuse":
            return
        for s, epochs in enumerate(asked):
            cap = self.caps.get(self.names[s])
            # A cap of exactly what is asked may be passed by the rounding of one step; that is not what is refused.
            if epochs is not None and cap is not None and epochs > cap + Fraction(1, self.table[layout][s]):
                raise RecipeError(_too_many(name, self.names[s], phase, weights[s], self.table[layout][s] * seq_len,
                                            epochs, cap))

    def _run(
        self,
        index: int,
        name: str,
        layout: str,
        seq_len: int,
        batch: int,
        steps: int,
        active: list[Fraction],
        asked: list[Fraction | None],
    ) -> list[Fraction]:
        """Append the segments of ``steps`` steps of one batch size; returns the weights that hold after them."""
        while steps:
            left = {s: self._left(s, layout) for s, w in enumerate(active) if w}
            used_up = [s for s, n in left.items() if n == 0]
            if used_up:
                active = self._redistribute(name, active, used_up, asked, layout)
                continue
            segment = Segment(index, name, layout, seq_len, self.step, steps, batch, tuple(active), _cuts(active),
                              tuple(self.given[layout]))
            whole = min((_most_steps(segment, s, n) for s, n in left.items() if n is not None), default=steps)
            if whole:
                self._append(segment, whole)
            steps -= whole
            if steps:
                quota = _settle(active, batch, {s: self._left(s, layout) for s in left})
                if quota is None:
                    raise self._nobody(name, asked, layout)
                shares = tuple(Fraction(n, batch) for n in quota)
                self._append(
                    Segment(index, name, layout, seq_len, self.step, 1, batch, shares, _cuts_of(quota, batch),
                            tuple(self.given[layout]), settling=True), 1)
                steps -= 1
        return active

    def _append(self, segment: Segment, steps: int) -> None:
        kept = replace(segment, steps=steps)
        self.segments.append(kept)
        given = self.given[kept.layout]
        for s in range(len(self.names)):
            given[s] += kept.taken(s, steps)
        self.step += steps

    def _redistribute(
        self, name: str, active: list[Fraction], used_up: list[int], asked: list[Fraction | None], layout: str
    ) -> list[Fraction]:
        for s in used_up:
            self.redistributions.append(Redistribution(
                self.names[s], name, self.step, self.caps[self.names[s]], asked[s] or Fraction(0)))
        rest = [Fraction(0) if s in used_up else w for s, w in enumerate(active)]
        total = sum(rest, Fraction(0))
        if total == 0:
            raise self._nobody(name, asked, layout)
        return [w / total for w in rest]

    def _nobody(self, name: str, asked: list[Fraction | None], layout: str) -> RecipeError:
        """Every source of the phase is at its cap and the phase goes on."""
        lines = [
            f"{source} would be shown {float(epochs):.2f} epochs and its cap is {float(self.caps[source]):g} "
            f"({self.table[layout][s]:,} sequences an epoch)"
            for s, source in enumerate(self.names)
            if (epochs := asked[s]) is not None and source in self.caps
        ]
        return RecipeError(
            f"phase {name}: from step {self.step} nobody is left to take the weight; {'; '.join(lines)}: raise a cap, "
            "add a source, or ask for fewer tokens"
        )


def _too_many(
    phase_name: str, source: str, phase: Mapping[str, Any], weight: Fraction, unique: int, epochs: Fraction,
    cap: Fraction,
) -> str:
    return (
        f"phase {phase_name}: {int(phase['tokens']):,} tokens at weight {float(weight):.4g} from {source}, which has "
        f"{unique:,} unique tokens, asks {float(epochs):.2f} epochs of it by the phase's end; its cap is {float(cap):g}"
    )


def _ramp(name: str, tokens: int, seq_len: int, batch: Sequence[Sequence[Any]]) -> list[tuple[int, int]]:
    """[(samples per step, steps)] that show at most ``tokens``: whole steps only, under one step left over."""
    left = tokens // seq_len  # sequences
    if left > MAX_SAMPLES:
        raise RecipeError(f"phase {name}: {left:,} sequences; positions of a run are counted to {MAX_SAMPLES:,}")
    result = []
    for samples, steps in batch:
        if not 0 < samples < MAX_BATCH:
            raise RecipeError(f"phase {name}: {samples} samples per step is not between 1 and {MAX_BATCH - 1}")
        fitting = left // samples
        taken = fitting if steps is None else min(int(steps), fitting)
        if taken > 0:
            result.append((int(samples), taken))
            left -= taken * samples
        if taken == fitting:
            if not result:
                raise RecipeError(f"phase {name}: {tokens:,} tokens are less than one step ({samples} x {seq_len})")
            return result
    raise RecipeError(
        f"phase {name}: its batch ramp {[list(b) for b in batch]} ends {left * seq_len:,} tokens before the phase's "
        f"{tokens:,}; give the last entry null steps"
    )


def _cuts(weights: Sequence[Fraction]) -> tuple[int, ...]:
    """Cumulative weights as integers over 2^64."""
    cuts, total = [0], Fraction(0)
    for weight in weights:
        total += weight
        cuts.append(int(total * WORD))
    return tuple(cuts)


def _cuts_of(quota: Sequence[int], batch: int) -> tuple[int, ...]:
    """Cuts by which the first step of a segment gives every source exactly its ``quota``."""
    cuts, total = [0], 0
    for n in quota:
        total += n
        cuts.append(total * WORD // batch)  # floor: slot ``total`` itself lies at or above it
    return tuple(cuts)


def _most_steps(segment: Segment, source: int, allowed: int) -> int:
    """The most steps of ``segment`` in which ``source`` gives at most ``allowed`` sequences."""
    share = segment.weights[source] * segment.batch
    slack = 2 * 66  # the sequence's discrepancy at either cut is under 64 points, whatever the step
    low = max(0, int((allowed - slack) / share))
    high = min(segment.steps, int((allowed + slack) / share) + 1)
    if low >= segment.steps or segment.taken(source, segment.steps) <= allowed:
        return segment.steps
    while low < high:
        middle = (low + high + 1) // 2
        if segment.taken(source, middle) <= allowed:
            low = middle
        else:
            high = middle - 1
    return low


def _settle(weights: Sequence[Fraction], batch: int, left: Mapping[int, int | None]) -> list[int] | None:
    """Whole quotas of one step: shares of the weights, but no source gives more than its cap still allows.

    At least one source gives exactly what it has left. None when all of them together cannot fill the step.
    """
    fixed: dict[int, int] = {}
    while True:
        free = {s: weights[s] for s in left if s not in fixed}
        room = batch - sum(fixed.values())
        total = sum(free.values(), Fraction(0))
        over = {s: n for s, w in free.items() if (n := left[s]) is not None and room * w / total >= n}
        if not over:
            break
        fixed.update(over)
        if len(fixed) == len(left) and sum(fixed.values()) < batch:
            return None
    quota = [fixed.get(s, 0) for s in range(len(weights))]
    shares = {s: room * w / total for s, w in free.items()}
    for s, share in shares.items():
        quota[s] = int(share)
    missing = batch - sum(quota)
    for s in sorted(shares, key=lambda s: (int(shares[s]) - shares[s], s))[:missing]:
        quota[s] += 1
    return quota
