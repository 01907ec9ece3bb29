"""End to end, as a crawl's report counts it."""

import numpy as np
import pyarrow as pa
import pytest

from gristmill.observe import crawl_report, dashboard
from gristmill.observe.bands import BY_RULES, END_TO_END
from gristmill.observe.history import Report
from gristmill.params import ModelRef, ObserveParams, QualityParams
from gristmill.quality import rules

MODEL = ModelRef(name="m", sha256="0" * 64)


def catalogue(percentiles):
    """Documents that pass every rule; the last but one is contaminated, the last fails the rules."""
    n = len(percentiles)
    bad = np.array([False] * (n - 1) + [True])
    columns = {}
    for rule in rules.reference():
        held = columns.get(rule.measure, [None] * n)
        columns[rule.measure] = [rule.bound - 1 if b and rule.op == ">=" else h for b, h in zip(bad, held, strict=True)]
    return pa.table({
        **{k: pa.array(v, pa.float32()) for k, v in columns.items()}, "lang": ["eng"] * n,
        "contaminated": [i == n - 2 for i in range(n)], "ensemble_percentile": pa.array(percentiles, pa.float32())})


def test_without_scores_the_rules_alone_say_what_is_kept():
    assert crawl_report._reference(catalogue([None] * 4), scored=False).tolist() == [True, True, False, False]


def test_with_scores_the_top_share_is_kept_and_what_has_none_is_not():
    found = crawl_report._reference(catalogue([0.9, 0.2, None, 0.9, 0.9]), scored=True)
    assert found.tolist() == [True, False, False, False, False]


@pytest.mark.parametrize(("quality", "can"), [
    (QualityParams(classifier=None, quantiles=None), False),
    (QualityParams(classifier=MODEL, quantiles=None), False),  # no quantiles: no percentile
    (QualityParams(classifier=MODEL, quantiles=MODEL), True),
])
def test_what_gives_percentiles(quality, can):
    assert crawl_report.gives_percentiles(quality) is can


def test_end_to_end_by_rules_is_compared_with_its_like_alone():
    def made(crawl, kept, digest):
        cells = {str(b): [1000, kept, 1_000_000, 1000 * kept, 0, 1.0] for b in range(4)}
        return {"crawl": crawl, "stages": {END_TO_END: {"buckets": cells, "looks_back": False, "reasons": {}, "by": {},
                                                        "settings": {"digest": digest, "models": {}}}}}

    def worst(data, *past):
        reports = [Report(r["crawl"], "x", r) for r in past]
        return dashboard.judged(data, reports, ObserveParams(baseline="web"))[END_TO_END].worst

    now = made("C-2", 170, BY_RULES)
    assert worst(now) is None  # the web's 5 to 7 % are of a scored crawl
    assert worst(now, made("C-1", 60, "")) is None
    assert worst(now, made("C-1", 400, BY_RULES)) is not None
    assert worst(made("C-2", 170, "")) is not None
