"""The sheet: every number follows from the assumptions, and a change moves what depends on it and nothing else."""

import ast
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.errors import ParameterError
from gristmill.plan import assumptions
from gristmill.plan.model import formulas, sheet
from gristmill.plan.sheet import Formula, Sheet

VALUES = assumptions.values(assumptions.read())
# What a share, or a price a token, cannot depend on: it stands above and below the line.
CANCELS = {("work.per_billion", "corpus.pages_per_crawl"), ("work.after_extraction", "corpus.pages_per_crawl"),
           ("work.after_extraction", "rates.overhead")}


def differ(a: float, b: float) -> bool:
    return not math.isclose(a, b, rel_tol=1e-12)


def test_formulas_are_arithmetic():
    made = Sheet({"a.x": 3.0, "a.y": 4.0}, [
        Formula("b.sum", "", "a.x + a.y * 2", ""), Formula("b.power", "", "(b.sum - 1) ** 2 / 4", ""),
        Formula("b.steps", "", "ceil(max(a.x, a.y) / 3) + min(a.x, 1)", ""),
    ])
    assert made.values() == {"b.sum": 11.0, "b.power": 25.0, "b.steps": 3.0}
    assert made.ancestors("b.power") == {"a.x", "a.y"}
    assert (made.stepped("b.steps"), made.stepped("b.power")) == (True, False)


@pytest.mark.parametrize(("expression", "message"), [
    ("a.x + b.gone", "no quantity b.gone, which c.one reads"),
    ("c.two * 2", "ring: c.one -> c.two -> c.one"),
    ("a.x / a.zero", "divides by a.zero"),
    ("__import__('os').system('true')", "no part of a formula"),
    ("a.x if a.x else 1", "no part of a formula"),
])
def test_what_cannot_be_evaluated_is_said(expression, message):
    made = Sheet({"a.x": 1.0, "a.zero": 0.0}, [Formula("c.one", "", expression, ""), Formula("c.two", "", "c.one", "")])
    with pytest.raises(ParameterError, match=message.replace("(", r"\(")):
        made["c.one"]


def test_a_name_is_defined_once():
    with pytest.raises(ParameterError, match=r"a\.x is defined twice"):
        Sheet({"a.x": 1.0}, [Formula("a.x", "", "2", "")])


@pytest.mark.parametrize("name", sorted(VALUES))
def test_changing_an_assumption_changes_all_that_depend_on_it_and_nothing_else(name):
    before = sheet(VALUES)
    after = sheet(VALUES | {name: VALUES[name] * 1.01})
    dependents = {q for q in before.formulas if name in before.ancestors(q)}
    assert dependents, "an assumption that nothing reads does not belong in the file"
    for quantity in before.formulas:
        moved = differ(before[quantity], after[quantity])
        if quantity not in dependents or (quantity, name) in CANCELS:
            assert not moved, quantity
        elif not before.stepped(quantity):
            assert moved, quantity


@given(st.sampled_from(sorted(VALUES)), st.floats(0.5, 2.0))
def test_the_graph_says_what_a_big_change_may_move(name, factor):
    before, after = sheet(VALUES), sheet(VALUES | {name: VALUES[name] * factor})
    moved = {q for q in before.formulas if differ(before[q], after[q])}
    assert moved <= {q for q in before.formulas if name in before.ancestors(q)}


def test_no_number_hides_in_a_formula_but_units_and_definitions():
    """Constants are seconds of a day, bits of a byte, billions, months, FLOPs a parameter and token: never a volume."""
    allowed = {1, 2, 6, 8, 12, 24, 30, 3600, 86400, 1e9, 1e12, 0}
    for formula in formulas():
        found = {n.value for n in ast.walk(formula.tree) if isinstance(n, ast.Constant)}
        assert found <= allowed, (formula.name, found - allowed)
