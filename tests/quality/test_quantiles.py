import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.errors import ModelError
from gristmill.quality import quantiles
from gristmill.quality.quantiles import ANY


def cc(langs):
    return langs, np.array(["cc"] * len(langs), object)


def test_a_percentile_is_the_share_of_the_reference_at_or_below():
    rng = np.random.default_rng(1)
    reference = quantiles.freeze({("s", "eng", "cc"): rng.normal(size=20_000)})
    fresh = rng.normal(size=20_000)
    got = reference.percentiles("s", fresh, *cc(np.array(["eng"] * len(fresh), object)))
    # uniform: the top 35 % of the same distribution is 35 % of it
    assert (got >= 0.65).mean() == pytest.approx(0.35, abs=0.015)
    assert np.histogram(got, 10, (0, 1))[0].min() > 1700


def test_a_source_tier_is_measured_against_its_own():
    reference = quantiles.freeze({("s", "eng", "cc"): np.linspace(0, 0.5, 100), ("s", "eng", "books"): np.linspace(
        0.5, 1, 100)})
    langs = np.array(["eng"] * 3, object)
    got = reference.percentiles("s", np.full(3, 0.5), langs, np.array(["cc", "books", "code"], object))
    assert got[0] > 0.98
    assert got[1] < 0.02
    assert 0.4 < got[2] < 0.6  # a tier without quantiles of its own: against its language's


def test_a_junk_crawl_has_no_top_35_percent():
    reference = quantiles.freeze({("s", "eng", "cc"): np.linspace(0, 1, 1000)})
    junk = np.linspace(0, 0.2, 100)
    assert reference.percentiles("s", junk, *cc(np.array(["eng"] * 100, object))).max() < 0.25


def test_the_most_specific_reference_counts():
    reference = quantiles.freeze({
        ("s", "eng", "cc"): np.linspace(0.5, 1, 100), ("s", "deu", "cc"): np.linspace(0, 0.5, 100),
        ("s", "isl", "cc"): np.array([0.1, 0.2]),
    })
    langs = np.array(["eng", "deu", "isl", "und"], object)
    got = reference.percentiles("s", np.full(4, 0.5), *cc(langs))
    assert got[0] < 0.02
    assert got[1] > 0.98
    assert 0.4 < got[2] < 0.6  # too few scores of its own: measured against all
    assert got[2] == got[3]
    assert np.isnan(reference.percentiles("other", np.full(4, 0.5), *cc(langs))).all()
    assert np.isnan(reference.percentiles("s", np.full(4, np.nan), *cc(langs))).all()


@given(st.lists(st.floats(0, 1, width=32), min_size=quantiles.MIN_SCORES, max_size=60))
def test_percentiles_never_fall_as_scores_rise(values):
    reference = quantiles.freeze({("s", ANY, ANY): np.array(values)})
    probe = np.linspace(-0.1, 1.1, 50)
    got = reference.percentiles("s", probe, *cc(np.array([ANY] * 50, object)))
    assert (np.diff(got) >= 0).all()
    assert got[0] == 0
    assert got[-1] == 1


def test_a_frozen_file_reads_back_and_is_the_same_bytes(tmp_path):
    scores = {("b", "eng", "cc"): np.linspace(0, 1, 50), ("a", "deu", "cc"): np.linspace(0, 1, 70)}
    one = quantiles.write(quantiles.freeze(scores), tmp_path / "1.json").read_bytes()
    two = quantiles.write(quantiles.freeze(dict(reversed(scores.items()))), tmp_path / "2.json").read_bytes()
    assert one == two
    back = quantiles.read(tmp_path / "1.json")
    langs = np.array(["eng"], object)
    assert back.percentiles("b", np.array([0.5]), *cc(langs)) == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("content", [b"", b"[]",
    b'{"format":2,"kind":"gristmill-quantiles","levels":1001,"tables":[]}',
    b'{"format":1,"kind":"gristmill-quantiles","levels":1001,"tables":[["s","eng","cc",[0.5]]]}',
    b'{"format":1,"kind":"gristmill-quantiles","levels":1001,"tables":[["s","eng","cc",["x"]]]}'])
def test_another_file_is_refused(tmp_path, content):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(ModelError, match="freeze them again"):
        quantiles.read(tmp_path / "x")
