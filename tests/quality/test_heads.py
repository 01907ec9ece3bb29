import numpy as np
import pytest

from gristmill.errors import ModelError
from gristmill.params import EmbedderParams
from gristmill.quality.heads import Fit, Head, Heads, fit, joined, read, write


def cloud(n: int, dim: int = 12, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, dim)).astype(np.float32)


def test_a_linear_head_finds_a_plane_and_needs_a_hidden_layer_for_what_is_none():
    x, unseen = cloud(600), cloud(300, seed=2)
    plane = lambda v: (v[:, 0] - v[:, 3] > 0.2).astype(float)
    assert ((fit(x, plane(x)).apply(unseen) > 0.5) == plane(unseen)).mean() > 0.95
    either = lambda v: ((v[:, 0] > 0) ^ (v[:, 1] > 0)).astype(float)
    linear = ((fit(x, either(x)).apply(unseen) > 0.5) == either(unseen)).mean()
    hidden = ((fit(x, either(x), Fit(hidden=32)).apply(unseen) > 0.5) == either(unseen)).mean()
    assert linear < 0.65
    assert hidden > 0.85


def test_a_rare_side_counts_as_much_as_the_common_one():
    x = cloud(800, seed=3)
    y = (x[:, 0] > 1.5).astype(float)  # 7 in 100
    found = fit(x, y).apply(x) > 0.5
    assert found[y == 1].mean() > 0.95
    assert found[y == 0].mean() < 0.1


def test_the_same_vectors_give_the_same_file_and_it_reads_back(tmp_path):
    x, y = cloud(100), (cloud(100)[:, 1] > 0).astype(float)
    heads = Heads(EmbedderParams(), {"a": fit(x, y), "b": fit(x, 1 - y, Fit(hidden=4))})
    first = write(heads, tmp_path / "1.json").read_bytes()
    again = Heads(EmbedderParams(), {"a": fit(x, y), "b": fit(x, 1 - y, Fit(hidden=4))})
    assert write(again, tmp_path / "2.json").read_bytes() == first
    back = read(tmp_path / "1.json")
    assert back.embedder == EmbedderParams()
    for name in "ab":
        assert back.heads[name].apply(x).tolist() == heads.heads[name].apply(x).tolist()


def test_what_is_no_file_of_heads_and_what_has_one_side_is_an_error(tmp_path):
    (tmp_path / "x").write_text('{"kind": "other"}')
    with pytest.raises(ModelError, match="no file of classifier heads"):
        read(tmp_path / "x")
    with pytest.raises(ModelError, match="4 good, 0 bad"):
        fit(cloud(4), np.ones(4))


def test_layers_that_do_not_fit_are_refused_and_heads_of_one_embedder_go_in_one_file(tmp_path):
    def head(*shapes):
        return Head(tuple((np.ones(w, np.float32), np.ones(b, np.float32)) for w, b in shapes))

    for wrong in (((4, 2), 3), ((4, 2), 2)), (((4, 2), 2), ((3, 1), 1)), (((4,), 1),), ():
        with pytest.raises(ModelError, match="no file of classifier heads"):
            read(write(Heads(EmbedderParams(), {"a": head(*wrong)}), tmp_path / "wrong.json"))
    one = Heads(EmbedderParams(), {"a": head(((4, 1), 1)), "b": head(((4, 1), 1))})
    more = Heads(EmbedderParams(), {"b": head(((4, 2), 2), ((2, 1), 1))})
    both = read(write(joined(one, more), tmp_path / "both.json"))
    assert sorted(both.heads) == ["a", "b"]
    assert len(both.heads["b"].layers) == 2
    with pytest.raises(ModelError, match="do not go in one file"):
        joined(one, Heads(EmbedderParams(max_tokens=64), {}))
