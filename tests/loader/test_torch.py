"""The torch dataset: the loader's stream, in order, for any number of workers."""

import numpy as np
import pytest

from gristmill.loader import TokenLoader
from tests.loader.make import small

torch = pytest.importorskip("torch", reason="torch is an extra (embed); the plain iterator is tested without it")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return small(tmp_path_factory.mktemp("torch"))


@pytest.mark.parametrize(("workers", "method"), [(0, None), (1, "fork"), (3, "fork"), (2, "spawn")])
def test_batches_come_in_order_for_any_number_of_workers(made, workers, method):
    from torch.utils.data import DataLoader

    from gristmill.loader.torch import TokenDataset

    dataset = TokenDataset(made.root, "v1", rank=1, world=2)
    dataset.load_state_dict(dataset.state_dict(7))
    got = list(DataLoader(dataset, batch_size=None, num_workers=workers, multiprocessing_context=method))
    plain = TokenLoader(made.root, "v1", rank=1, world=2, step=7)
    wanted = list(plain)
    assert [b["step"] for b in got] == [b["step"] for b in wanted] == list(range(7, plain.steps))
    for a, b in zip(got, wanted, strict=True):
        assert a["tokens"].dtype == torch.int64
        assert (a["tokens"].numpy() == b["tokens"]).all()
        assert (a["cu_seqlens"].numpy() == b["cu_seqlens"]).all()
        assert a["cu_seqlens"].dtype == torch.int32


@pytest.mark.parametrize("workers", [0, 2])
def test_what_was_trained_on_is_counted_where_it_is_trained_on(made, workers):
    from torch.utils.data import DataLoader

    from gristmill.loader.torch import TokenDataset

    ranks = [TokenDataset(made.root, "v1", rank=rank, world=2) for rank in range(2)]
    with pytest.raises(ValueError, match="no batch was counted"):
        ranks[0].audit.compare()
    for dataset in ranks:
        method = "fork" if workers else None
        stream = iter(DataLoader(dataset, batch_size=None, num_workers=workers, multiprocessing_context=method))
        for _ in range(9):
            dataset.audit.add(next(stream))
    told = ranks[0].audit.compare(ranks[0].audit.vector + ranks[1].audit.vector)
    assert all(row["sequences"] == row["expected_sequences"] > 0 for row in told.values())
    plain = TokenLoader(made.root, "v1")
    for _ in range(9):
        next(plain)
    assert told == plain.audit.compare()
    ranks[0].load_state_dict(ranks[0].state_dict(4))
    assert ranks[0].audit.first_step == 4
    assert not ranks[0].audit.vector.any()


def test_the_state_is_that_of_the_steps_trained(made):
    from torch.utils.data import DataLoader

    from gristmill.loader.torch import TokenDataset

    dataset = TokenDataset(made.root, "v1")
    stream = iter(DataLoader(dataset, batch_size=None, num_workers=2, multiprocessing_context="fork"))
    trained = [next(stream) for _ in range(5)]
    state = dataset.state_dict(trained[-1]["step"] + 1)
    del stream
    resumed = TokenLoader(made.root, "v1")
    resumed.load_state_dict(state)
    assert resumed.step == 5
    other = TokenDataset(made.root, "v1")
    other.load_state_dict(state)
    assert (next(iter(other))["tokens"].numpy() == next(resumed)["tokens"]).all()
    assert isinstance(next(resumed)["tokens"], np.ndarray)
