"""What a rank has really shown, by source, and whether that is what the schedule says.

Belongs here: online counters that a trainer sums over ranks, and the comparison with the closed form. Does not belong
here: replaying a run that nobody has run (``mixture/replay.py``).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gristmill.mixture.schedule import Schedule

I64 = npt.NDArray[np.int64]


@dataclass
class Audit:
    """Counters of one rank since ``first_step``.

    ``vector`` is one int64 array; its sum over all ranks (an all-reduce) is what ``compare`` takes.
    """

    schedule: Schedule
    first_step: int

    def __post_init__(self) -> None:
        self.next_step = self.first_step
        self.vector: I64 = np.zeros((3, len(self.schedule.sources)), np.int64)

    def add(self, batch: Mapping[str, Any]) -> None:
        """Count a batch that was handed out: sequences, tokens, and repeats (what stands in for skipped shards)."""
        n = self.vector.shape[1]
        sources, replaced = np.asarray(batch["sources"]), np.asarray(batch["replaced"])
        shown = np.bincount(sources, minlength=n)
        self.vector[0] += shown
        self.vector[1] += shown * batch["tokens"].shape[1]
        if replaced.any():
            self.vector[2] += np.bincount(sources[replaced], minlength=n)
        self.next_step = int(batch["step"]) + 1

    def compare(self, summed: I64 | None = None) -> dict[str, dict[str, Any]]:
        """By source: sequences and tokens shown, sequences the schedule says, repeats, realised and expected share.

        Args:
            summed: ``vector`` summed over all ranks; this rank's own when the world is one rank.

        Raises:
            ValueError: nothing was counted, which would agree with anything.
        """
        if self.next_step == self.first_step:
            raise ValueError("no batch was counted: where worker processes read, add() every batch that is trained on")
        vector = self.vector if summed is None else summed
        before, after = self.schedule.counts(self.first_step), self.schedule.counts(self.next_step)
        expected = np.zeros(vector.shape[1], np.int64)
        for layout in after:
            expected += np.array(after[layout], np.int64) - np.array(before[layout], np.int64)
        total, wanted = int(vector[0].sum()) or 1, int(expected.sum()) or 1
        return {
            name: {
                "sequences": int(vector[0, s]), "tokens": int(vector[1, s]), "repeats": int(vector[2, s]),
                "expected_sequences": int(expected[s]), "share": int(vector[0, s]) / total,
                "expected_share": int(expected[s]) / wanted,
            }
            for s, name in enumerate(self.schedule.sources)
        }
