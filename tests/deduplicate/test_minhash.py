import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.deduplicate import minhash, scurve

TEXT = st.text(st.sampled_from("ab Éé12語ไ. \n-"), max_size=80)
MASK = (1 << 32) - 1


def sketch(texts: list[str], **options: object) -> tuple[np.ndarray, np.ndarray]:
    return minhash.signatures(pa.array(texts, pa.large_string()), **options)


def random_pairs(j: float, count: int, size: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, float]:
    """Signatures of pairs of random shingle sets whose Jaccard is ``j``, and that Jaccard exactly."""
    union = 400
    both = round(j * union)
    left = both + (union - both) // 2
    right = np.array([*range(both), *range(left, union)])
    a, b = minhash.permutations(size, 1)
    one, other = np.empty((count, size), np.uint32), np.empty((count, size), np.uint32)
    for i in range(count):
        hashes = rng.integers(0, 2**64, union, np.uint64)
        minhash._sign(hashes[:left].copy(), left, a, b, one[i])
        minhash._sign(hashes[right], len(right), a, b, other[i])
    return one, other, both / union


@given(st.lists(TEXT, max_size=4), st.sampled_from(["word", "char"]), st.integers(1, 24), st.booleans(), st.booleans())
def test_the_kernel_shingles_as_the_definition(texts: list[str], kind: str, n: int, fold: bool, digits: bool):
    hashes, edges = minhash.shingle_table(pa.array(texts, pa.large_string()), kind, n, fold=fold, fold_digits=digits)
    for i, text in enumerate(texts):
        want = minhash.shingles(text, kind, n, fold=fold, fold_digits=digits)
        assert hashes[edges[i] : edges[i + 1]].tolist() == want


@given(TEXT, st.integers(0, 2**63), st.sampled_from(["word", "char"]))
def test_a_signature_is_the_minimum_of_each_permutation(text: str, seed: int, kind: str):
    values, sizes = sketch([text], shingle=kind, n=3, size=9, seed=seed)
    hashes = minhash.shingles(text, kind, 3)
    a, b = minhash.permutations(9, seed)
    assert (a % 2 == 1).all()
    want = [min(((int(x) * (h & MASK) + int(y)) & MASK for h in hashes), default=MASK) for x, y in zip(a, b)]
    assert values[0].tolist() == want
    assert sizes[0] == len(hashes)


def test_permutations_come_from_splitmix64():
    # First outputs of splitmix64 seeded with 1234567, as published with the generator's reference code.
    assert [minhash._splitmix64(1234567, i) for i in range(3)] == [
        6457827717110365317, 3203168211198807973, 9817491932198370423,
    ]


def test_short_texts_are_one_shingle_and_empty_ones_none():
    _, sizes = sketch(["", "...", "one", "one two three four", "one two three four five six"], n=5)
    assert sizes.tolist() == [0, 0, 1, 1, 2]
    values, _ = sketch(["One two", "one  TWO.", "one three"], n=5)
    assert (values[0] == values[1]).all()
    assert minhash.estimate(values[0], values[2]) < 0.1


def test_pages_of_one_template_with_other_numbers_differ_unless_digits_are_folded():
    page = "The population of the town was {} in the year {} according to the census office"
    texts = [page.format(1200, 1984), page.format(7403, 2001)]
    values, _ = sketch(texts)
    assert minhash.estimate(values[0], values[1]) < 0.6
    folded, _ = sketch(texts, fold_digits=True)
    assert (folded[0] == folded[1]).all()


@given(st.lists(TEXT, max_size=20))
def test_threads_change_nothing(texts: list[str]):
    for one, many in zip(sketch(texts), sketch(texts, threads=3)):
        assert np.array_equal(one, many)


def test_seeds_give_other_permutations():
    one, _ = sketch(["a b c d e f g h"], seed=1)
    other, _ = sketch(["a b c d e f g h"], seed=2)
    assert minhash.estimate(one, other)[0] < 0.2


@pytest.mark.parametrize("j", [0.5, 0.8, 0.95])
def test_the_estimate_is_unbiased_with_the_error_of_theory(j: float):
    count, size = 1500, 112
    one, other, exact = random_pairs(j, count, size, np.random.default_rng(5))
    error = minhash.estimate(one, other) - exact
    theory = scurve.standard_error(exact, size)
    assert abs(error.mean()) < 4 * theory / np.sqrt(count)
    assert np.sqrt((error**2).mean()) == pytest.approx(theory, rel=0.07)  # 0.05 and the error of 1,500 pairs


@pytest.mark.parametrize("name", sorted(minhash.PRESETS))
def test_bands_meet_as_often_as_the_s_curve_says(name: str):
    preset = minhash.PRESETS[name]
    count = 700
    rng = np.random.default_rng(11)
    for j in (scurve.threshold(preset.bands, preset.rows), 0.9):
        one, other, exact = random_pairs(j, count, preset.bands * preset.rows, rng)
        equal = minhash.band_keys(one, preset.bands, preset.rows) == minhash.band_keys(other, preset.bands, preset.rows)
        for got, p in ((equal.any(axis=1), scurve.candidate(exact, preset.bands, preset.rows)),
                       (equal.sum(axis=1) >= preset.min_band_matches,
                        scurve.votes(exact, preset.bands, preset.rows, preset.min_band_matches))):
            assert abs(got.mean() - p) < 4 * np.sqrt(p * (1 - p) / count) + 1e-3


def test_band_keys_tell_bands_apart():
    values = np.zeros((1, 6), np.uint32)
    keys = minhash.band_keys(values, 3, 2)
    assert len(set(keys[0].tolist())) == 3


def test_presets_state_votes_that_mean_the_same():
    for preset in minhash.PRESETS.values():
        assert preset.min_band_matches == scurve.fewest_votes(preset.bands, preset.rows)
    assert minhash.PRESETS["fineweb"].min_band_matches == 4
