import numpy as np
import pytest

from gristmill.quality import quantiles
from gristmill.quality.ensemble import ENSEMBLE, TIERS, combine, frozen, threshold, tier_of


def cc(langs):
    return np.array(["cc"] * len(langs), object)


def test_members_on_different_scales_meet_as_percentiles():
    reference = quantiles.freeze({
        ("a", "eng", "cc"): np.linspace(0, 1, 500), ("b", "eng", "cc"): np.linspace(-900, -100, 500),
    })
    langs = np.array(["eng"] * 3, object)
    scores = {"a": np.array([0.9, 0.1, np.nan]), "b": np.array([-800.0, -150.0, -500.0])}
    got = combine(scores, langs, cc(langs), reference)
    assert got.members["a"][:2] == pytest.approx([0.9, 0.1], abs=0.01)
    assert got.maximum == pytest.approx([0.9, 0.9375, 0.5], abs=0.01)
    assert got.mean == pytest.approx([(0.9 + 0.125) / 2, (0.1 + 0.9375) / 2, 0.5], abs=0.01)
    assert np.isnan(got.percentile).all()  # nothing was frozen for the ensemble of two


def test_a_lone_member_is_the_ensemble():
    reference = quantiles.freeze({("a", "eng", "cc"): np.linspace(0, 1, 500)})
    got = combine({"a": np.array([0.3])}, np.array(["eng"], object), cc("1"), reference)
    assert got.percentile == pytest.approx([0.3], abs=0.01)


def test_the_ensemble_has_quantiles_of_its_own():
    # the maximum of two is high more often than either: its top 35 % is not theirs
    rng = np.random.default_rng(3)
    langs = np.array(["eng"] * 5000, object)
    scores = {"a": rng.uniform(size=5000), "b": rng.uniform(size=5000)}
    members = {("a", "eng", "cc"): rng.uniform(size=5000), ("b", "eng", "cc"): rng.uniform(size=5000)}
    first = combine(scores, langs, cc(langs), quantiles.freeze(members))
    assert (first.maximum >= 0.65).mean() == pytest.approx(1 - 0.65**2, abs=0.03)
    again = combine(scores, langs, cc(langs), quantiles.freeze({**members, (ENSEMBLE, "eng", "cc"): first.maximum}))
    assert (again.percentile >= 0.65).mean() == pytest.approx(0.35, abs=0.01)


def test_what_is_frozen_from_scores_gives_each_language_and_tier_its_own_top_35_percent():
    rng = np.random.default_rng(4)
    langs, tiers = (np.array(values, object) for values in (["eng", "eng", "deu"] * 2000, ["cc", "books", "cc"] * 2000))
    shift = np.array([0.0, 5.0, -3.0] * 2000)  # books score high, German low: by the model, not by their worth
    scores = {"a": rng.normal(size=6000) + shift, "b": rng.normal(size=6000) + shift}
    got = combine(scores, langs, tiers, frozen(scores, langs, tiers))
    for lang, tier in (("eng", "cc"), ("eng", "books"), ("deu", "cc")):
        own = (langs == lang) & (tiers == tier)
        assert (got.percentile[own] >= 0.65).mean() == pytest.approx(0.35, abs=0.01)
    other = combine({"a": np.array([0.0]), "b": np.array([0.0])}, np.array(["isl"], object), cc("1"),
                    frozen(scores, langs, tiers))
    assert 0 < other.percentile[0] < 1  # a language that was not there is measured against all


def test_without_scorers_nothing_is_known():
    got = combine({}, np.array(["eng"], object), cc("1"), quantiles.Reference({}))
    assert np.isnan(got.maximum).all()
    assert np.isnan(got.mean).all()
    assert np.isnan(got.percentile).all()


@pytest.mark.parametrize(("tokens", "least"), [(200_000_000_000, 0.65), (100_000_000_000, 0.65), (99_999_999_999, 0.40),
                                               (5_000_000_000, 0.40), (4_999_999_999, None), (0, None)])
def test_language_tiers_are_those_of_the_reference(tokens, least):
    assert threshold(tokens) == (None if least is None else pytest.approx(least))
    assert tier_of(tokens) in TIERS
