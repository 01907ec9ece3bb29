import re
from pathlib import Path

import numpy as np
import pytest

from gristmill.deduplicate import scurve
from gristmill.deduplicate.lsh import Rules
from gristmill.params import ClusterParams

# (bands, rows) -> threshold, as the design gives them.
STARS = {(14, 8): 0.72, (20, 5): 0.55, (9, 13): 0.845, (32, 8): 0.65, (20, 13): 0.79}


@pytest.mark.parametrize("shape", STARS)
def test_thresholds_of_the_presets(shape):
    assert scurve.threshold(*shape) == pytest.approx(STARS[shape], abs=0.006)


@pytest.mark.parametrize(("s", "p"), [(0.72, 0.015), (0.85, 0.56), (0.90, 0.92)])
def test_four_of_fourteen_votes(s: float, p: float):
    assert scurve.votes(s, 14, 8, 4) == pytest.approx(p, abs=0.01)


def test_curves_rise_from_nothing_to_certainty():
    for curve in (lambda s: scurve.candidate(s, 14, 8), lambda s: scurve.edge(s, 14, 8, 0.8)):
        values = [curve(s) for s in np.linspace(0, 1, 41)]
        assert values[0] == 0
        assert values[-1] == pytest.approx(1)
        assert (np.diff(values) >= -1e-9).all()


@pytest.mark.parametrize("s", [0.7, 0.8, 0.9])
def test_an_edge_is_a_band_in_common_and_an_estimate_at_the_bound(s: float):
    rng = np.random.default_rng(2)
    equal = rng.random((20_000, 14, 8)) < s
    joined = equal.all(axis=2).any(axis=1) & (equal.mean(axis=(1, 2)) >= 0.8)
    assert joined.mean() == pytest.approx(scurve.edge(s, 14, 8, 0.8), abs=0.012)


@pytest.mark.parametrize("s", [0.75, 0.79, 0.8, 0.85, 0.9])
def test_where_the_texts_decide_a_candidate_is_joined_from_the_bound_on(s: float):
    rng = np.random.default_rng(3)
    equal = rng.random((20_000, 14, 8)) < s
    estimate = equal.mean(axis=(1, 2))
    joined = equal.all(axis=2).any(axis=1) & ((estimate >= 0.95) | ((estimate >= 0.75 - 1e-9) & (s >= 0.8)))
    assert joined.mean() == pytest.approx(scurve.joined(s, 14, 8, 0.8, "jaccard"), abs=0.012)
    assert scurve.joined(s, 14, 8, 0.8, "signature") == scurve.edge(s, 14, 8, 0.8)
    assert scurve.joined(s, 14, 8, 0.8, "none") == scurve.candidate(s, 14, 8)
    assert Rules().sure_at == ClusterParams().sure_at == scurve.SURE


def test_the_table_says_what_is_kept_and_removed():
    rows = {r["similarity"]: r for r in scurve.table(14, 8, 0.8)}
    assert rows[0.5]["kept_of_1000"] > 999
    assert rows[0.95]["kept_of_1000"] < 1
    assert rows[0.935]["standard_error"] == pytest.approx(0.0233, abs=1e-3)


def test_the_report_has_the_numbers_and_the_curve():
    assert [float(line.split()[0]) for line in scurve.render(14, 8, at=(0.62, 0.81)).splitlines()
            if line.startswith("  0.")] == [0.62, 0.81]
    text = scurve.render(14, 8)
    assert "s* = 0.719" in text
    assert "4 of 14 votes" in text
    plotted = [line for line in text.splitlines() if "|" in line]
    assert plotted[0].rstrip().endswith("#")
    assert plotted[-1].count("#") > 30


def test_the_table_of_the_page_is_what_the_formulas_say():
    page = (Path(__file__).parents[2] / "docs" / "deduplication.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d\.\d+) \| (.+) \|$", page, re.MULTILINE)
    assert len(rows) == 10
    for similarity, cells in rows:
        s = float(similarity)
        told = scurve.table(14, 8, at=[s])[0]
        alone = scurve.table(14, 8, verify="signature", at=[s])[0]["joined"]
        shares = (told["candidate"], told["joined"], alone, told["matched_across_crawls"])
        assert cells.split(" | ") == [f"{told['standard_error']:.3f}", *(f"{1000 * share:,.0f}" for share in shares)]
    # Two numbers changed in 300 words: 296 shingles on either side, ten of them another's.
    assert round(286 / 306, 3) == 0.935
