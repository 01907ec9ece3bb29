"""A sheet of quantities: assumptions, and formulas over them that are written out and can be read.

Belongs here: evaluating formulas, and knowing what each number depends on. Does not belong here: which quantities there
are (``model.py``) and how they are shown (``page.py``).

A formula is an expression of names (``section.name``), numbers, ``+ - * / **`` and ``min max ceil``. Nothing else is
evaluated, so a page that prints the formulas hides nothing.
"""

import ast
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from gristmill.errors import ParameterError

_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.Pow: lambda a, b: a**b,
}
_FUNCTIONS: dict[str, Callable[..., float]] = {"min": min, "max": max, "ceil": lambda x: float(math.ceil(x))}


@dataclass(frozen=True)
class Formula:
    """One derived quantity: its name (``section.name``), unit, expression, and one line on what it is."""

    name: str
    unit: str
    expression: str
    title: str

    @cached_property
    def tree(self) -> ast.expr:
        """The parsed expression."""
        return ast.parse(self.expression, mode="eval").body

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """Names that the expression reads, sorted."""
        called = {id(n.func) for n in ast.walk(self.tree) if isinstance(n, ast.Call)}
        names = {_name(n) for n in ast.walk(self.tree) if isinstance(n, ast.Attribute) and id(n) not in called}
        return tuple(sorted(names))

    @property
    def has_steps(self) -> bool:
        """Does it use ``min``, ``max`` or ``ceil``: then a small change of an input may leave it as it is."""
        return any(isinstance(n, ast.Call) for n in ast.walk(self.tree))


def _name(node: ast.Attribute) -> str:
    if not isinstance(node.value, ast.Name):
        raise ParameterError(f"a name in a formula is section.name, not {ast.unparse(node)}")
    return f"{node.value.id}.{node.attr}"


class Sheet:
    """Every quantity of a model under one set of assumptions.

    Args:
        assumptions: name -> value.
        formulas: in any order.

    Raises:
        ParameterError: a formula reads a name that nothing defines, two define one, or they read each other in a ring.
    """

    def __init__(self, assumptions: Mapping[str, float], formulas: Iterable[Formula]) -> None:
        self.assumptions = dict(assumptions)
        self.formulas: dict[str, Formula] = {}
        for formula in formulas:
            if formula.name in self.formulas or formula.name in self.assumptions:
                raise ParameterError(f"{formula.name} is defined twice")
            self.formulas[formula.name] = formula
        self._values: dict[str, float] = {}
        self._open: list[str] = []

    def __getitem__(self, name: str) -> float:
        if name in self.assumptions:
            return self.assumptions[name]
        if name not in self._values:
            formula = self.formulas.get(name)
            if formula is None:
                raise ParameterError(f"no quantity {name}" + (f", which {self._open[-1]} reads" if self._open else ""))
            if name in self._open:
                raise ParameterError(f"quantities read each other in a ring: {' -> '.join([*self._open, name])}")
            self._open.append(name)
            try:
                self._values[name] = self._value(formula.tree)
            finally:
                self._open.pop()
        return self._values[name]

    def _value(self, node: ast.expr) -> float:
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            return float(node.value)
        if isinstance(node, ast.Attribute):
            return self[_name(node)]
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            left, right = self._value(node.left), self._value(node.right)
            try:
                return _OPERATORS[type(node.op)](left, right)
            except ZeroDivisionError as error:
                raise ParameterError(f"{self._open[-1]} divides by {ast.unparse(node.right)}, which is 0") from error
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS:
            return _FUNCTIONS[node.func.id](*(self._value(a) for a in node.args))
        raise ParameterError(f"{self._open[-1]}: {ast.unparse(node)} is no part of a formula")

    def values(self) -> dict[str, float]:
        """Every derived quantity, in the order of the formulas."""
        return {name: self[name] for name in self.formulas}

    def ancestors(self, name: str) -> frozenset[str]:
        """The assumptions that a quantity depends on, directly or through others."""
        if name in self.assumptions:
            return frozenset({name})
        return frozenset().union(*(self.ancestors(n) for n in self.formulas[name].reads))

    def stepped(self, name: str) -> bool:
        """Does the quantity, or one that it depends on, use ``min``, ``max`` or ``ceil``."""
        formula = self.formulas.get(name)
        return formula is not None and (formula.has_steps or any(self.stepped(n) for n in formula.reads))
