"""The reference plan gives the reference figures, and the page shows where each comes from."""

import math
import re

import pytest

from gristmill.errors import ParameterError
from gristmill.plan import assumptions
from gristmill.plan.measured import Measured
from gristmill.plan.model import sheet
from gristmill.plan.page import Report, page, show, text

KNOWN = assumptions.read()
VALUES = assumptions.values(KNOWN)


@pytest.fixture(scope="module")
def plan():
    return sheet(VALUES)


@pytest.mark.parametrize(("name", "value"), [
    ("egress.version", 120e12),  # 30T tokens of 4 bytes
    ("egress.naive_money", 2400),  # at $20 a TB
    ("egress.delta_money", 240),
    ("funnel.pages_all", 9e10),
    ("loading.bandwidth", 30e12 * 4 / (30 * 86400)),
    ("sizes.bloom", 12 / 8 * 14 * 3e9 * 0.97 * 0.995 * 0.605 * 0.75 * 0.5),
    ("sizes.union_find", 8 * 3e9 * 0.97 * 0.995 * 0.605 * 0.75),
    ("experiments.run_hours", 6 * 70e9 * 30e12 / (989e12 * 0.4) / 3600),
])
def test_reference_figures(plan, name, value):
    assert math.isclose(plan[name], value, rel_tol=1e-9)


def test_the_designs_round_figures(plan):
    assert 45e6 < plan["loading.bandwidth"] < 47e6  # 46 MB/s
    assert 168e9 < plan["loading.whole_shards"] < 172e9  # 170 GB/s, were a shard fetched a sequence
    assert 0.05 <= plan["funnel.end_to_end_bytes"] <= 0.07
    assert plan["storage.saving"] > 0.5 * plan["storage.all_hot_money"]


def test_scorers_cost_in_the_order_of_their_size(plan):
    sizes = ("encoder_small", "encoder_base", "encoder_large", "llm_small", "llm_middle", "llm_large")
    money = [plan["scorers.fasttext_money"], *(plan[f"scorers.{m}_money"] for m in sizes)]
    assert money == sorted(money)
    per_document = 2 * 70e9 * (1200 / 0.4 + 60 / 0.1) / 989e12 / 3600 * 2.5
    assert math.isclose(plan["scorers.labels_money"], per_document * 5e5, rel_tol=1e-9)


def test_a_file_names_only_what_differs(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("prices:\n  egress_tb: 90\nyields:\n  near: {value: 0.4, unit: share, from: our crawl}\n"
                    "  length_gain: 1.2\nstorage: {hot_crawls: 0}\n")
    mine = assumptions.read(file)
    assert sheet(assumptions.values(mine))["egress.naive_money"] == 120 * 90
    assert mine["yields.near"].source == "our crawl"
    assert mine["corpus.crawls"] == KNOWN["corpus.crawls"]


@pytest.mark.parametrize(("body", "message"), [
    ("prices: {egres_tb: 1}", "no assumption prices.egres_tb; prices.egress_tb is meant"),
    ("prices: {egress_tb: much}", "'much', not a number"),
    ("prices: {egress_tb: -1}", "must be 0 or more"),
    ("yields: {classifier: 1.7}", "yields.classifier is 1.7: a share must be 0 to 1"),
    ("dedup: {rows: 0.5}", "dedup.rows is 0.5: a count must be a whole number of 1 or more"),
    ("dedup: {bands: 14.5}", "dedup.bands is 14.5: a count must be a whole number of 1 or more"),
    ("corpus: {crawls: 0}", "corpus.crawls is 0: a count must be a whole number of 1 or more"),
    ("storage: {hot_crawls: -1}", "storage.hot_crawls is -1.0: it must be 0 or more"),
    ("prices: {core_hour: {value: 4, unit: cent}}", "prices.core_hour has the unit 'cent', and the plan reckons it in "
     "'$'"),
    ("prices: {core_hour: {value: 4, form: own}}", "prices.core_hour has form: an entry holds value, unit and from"),
    ("yields: {near: true}", "yields.near is True, not a number"),
    ("prices: 3", "prices must hold names"),
    ("- 1", "holds sections"),
    ("a: [", "cannot be read as YAML"),
])
def test_what_is_wrong_with_a_file_is_said(tmp_path, body, message):
    file = tmp_path / "mine.yaml"
    file.write_text(body)
    with pytest.raises(ParameterError, match=re.escape(message)):
        assumptions.read(file)


def test_disagreements_are_named_the_furthest_first():
    measured = {n: Measured(n, VALUES[n] * f, 1000) for n, f in (("yields.near", 1.9), ("rates.tokens", 0.1),
                                                                ("yields.exact", 1.01))}
    report = Report(KNOWN, measured)
    assert [d.assumption.name for d in report.differ] == ["rates.tokens", "yields.near"]
    told = text(report)
    assert "rates.tokens" in told.partition("contradicts:")[2]
    assert math.isclose(report.own["work.tokens"], report.assumed["work.tokens"] * 1.9 * 1.01 * 10, rel_tol=1e-9)
    assert report.own["egress.naive_money"] == report.assumed["egress.naive_money"]  # volumes stay assumed


def test_the_page_shows_every_quantity_with_its_formula_and_loads_nothing():
    made = page(Report(KNOWN, {"yields.near": Measured("yields.near", 0.98, 500)}), {"<script>alert(1)</script>": 5})
    for name, formula in sheet(VALUES).formulas.items():
        assert f"<code>{name}</code>" in made
        assert formula.expression in made
    assert all(f"<code>{name}</code>" in made for name in KNOWN)
    assert "<script" not in made
    assert "http" not in made


@pytest.mark.parametrize(("value", "unit", "shown"), [
    (120e12, "B", "120 TB"), (2400.0, "$", "$2,400"), (0.0607, "share", "6.1 %"), (9e10, "pages", "90 G pages"),
    (46.3e6, "B/s", "46.3 MB/s"), (1.5, "core-h", "1.50 core-h"),
])
def test_values_are_shown_short(value, unit, shown):
    assert show(value, unit) == shown
