"""The loader for torch: an ``IterableDataset`` whose batches hold tensors.

Belongs here: what torch's workers need. Does not belong here: anything a trainer without torch would miss. The only
module of the loader that imports torch.

Use it with ``DataLoader(TokenDataset(...), batch_size=None, num_workers=n)``: worker w reads steps w, w + n, ..., and
torch takes them in turn, so batches come in the order of their steps. Workers read ahead of training, so a checkpoint
takes the steps that training has finished: ``dataset.state_dict(step)``, and what was shown is counted where it is
trained on: ``dataset.audit.add(batch)``. Workers agree on a bad shard through a ``SkipFolder`` only; without one it
stops the run.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch.utils.data import IterableDataset, get_worker_info

from gristmill.loader.audit import Audit
from gristmill.loader.loader import TokenLoader


class TokenDataset(IterableDataset):  # type: ignore[misc, unused-ignore]
    """Batches of a ``TokenLoader``, as tensors; takes its arguments.

    Attributes:
        loader: the loader. Its own ``audit`` counts in whichever process reads.
        audit: what the trainer adds to it, batch by batch; ``audit.vector`` is there to be summed over ranks.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self.loader = TokenLoader(*args, **kwargs)
        self.audit = Audit(self.loader.schedule, self.loader.step)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        info = get_worker_info()
        first, stride = (0, 1) if info is None else (info.id, info.num_workers)
        if info is not None:
            self.loader.agree_with_others()
        for step in range(self.loader.step + first, self.loader.steps, stride):
            self.loader.step = step
            yield tensors(next(self.loader))

    def state_dict(self, step: int | None = None) -> dict[str, Any]:
        """As ``TokenLoader.state_dict``; with workers, ``step`` must be given.

        Skips that workers agreed on (``SkipFolder``) are asked for, so that the state has them.
        """
        self.loader.learn()
        return self.loader.state_dict(step)

    def load_state_dict(self, state: Mapping[str, Any], allow: Collection[str] = ()) -> None:
        """As ``TokenLoader.load_state_dict``; before the ``DataLoader`` is iterated."""
        self.loader.load_state_dict(state, allow)
        self.audit = Audit(self.loader.schedule, self.loader.step)


def tensors(batch: Mapping[str, Any]) -> dict[str, Any]:
    """A batch with its arrays as tensors that share their memory."""
    return {
        name: torch.from_numpy(np.ascontiguousarray(value)) if isinstance(value, np.ndarray) else value
        for name, value in batch.items()
    }
