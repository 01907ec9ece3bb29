import numpy as np
import pyarrow as pa
import pytest

from gristmill.deduplicate import minhash

torch = pytest.importorskip("torch", reason="torch is not installed (extra embed)")

TEXTS = pa.array(
    ["", "one", "the quick brown fox jumps over the lazy dog", "日本語のテキストです", "a b c d e f g " * 300],
    pa.large_string(),
)
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", sorted(minhash.PRESETS))
def test_torch_gives_the_integers_of_the_kernel(name: str, device: str):
    from gristmill.deduplicate import minhash_torch

    preset = minhash.PRESETS[name]
    options = {"shingle": preset.shingle, "n": preset.n, "size": preset.bands * preset.rows, "seed": 7}
    want, sizes = minhash.signatures(TEXTS, **options)
    got, torch_sizes = minhash_torch.signatures(TEXTS, device=device, **options)
    assert np.array_equal(want, got)
    assert np.array_equal(sizes, torch_sizes)


def test_steps_do_not_show():
    from gristmill.deduplicate import minhash_torch

    one, _ = minhash_torch.signatures(TEXTS, device="cpu", cells=1)
    many, _ = minhash_torch.signatures(TEXTS, device="cpu")
    assert np.array_equal(one, many)
