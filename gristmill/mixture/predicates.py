"""Predicates: Polars SQL expressions over the catalogue, checked before anything is read.

Belongs here: parsing, the check against the catalogue's columns and types, evaluation on one table. Does not belong
here: which sources a recipe has (``recipe.py``).
"""

import json
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from polars.exceptions import PolarsError

from gristmill.errors import RecipeError
from gristmill.validation import nearest

# An expression whose value for a document depends on other rows would differ from bucket to bucket.
_NOT_ROWWISE = (
    "Agg",
    "Over",
    "Rolling",
    "Window",
    "Gather",
    "Sort",
    "SortBy",
    "Filter",
    "Slice",
    "Explode",
    "Len",
    "SubPlan",
)


class Predicate:
    """One boolean SQL expression, such as ``lang = 'eng' AND ensemble_percentile >= 0.65``.

    Args:
        text: the expression.
        where: what it belongs to, for messages (``source web``).
        schema: the catalogue's columns.

    Raises:
        RecipeError: it cannot be parsed, names a column that is not there (the nearest one is named), compares what
            cannot be compared, is not boolean, or is not a function of one row.
    """

    def __init__(self, text: str, where: str, schema: pa.Schema) -> None:
        self.text = text
        self.where = where
        try:
            self._expr = pl.sql_expr(text)
        except PolarsError as error:
            raise RecipeError(f"{where}: {text!r} is not an expression: {error}") from error
        self.columns = sorted(set(self._expr.meta.root_names()))
        unknown = [name for name in self.columns if name not in schema.names]
        if unknown:
            hints = "; ".join(f"no column {name!r}; {self._hint(name, schema)}" for name in unknown)
            raise RecipeError(f"{where}: the catalogue has {hints}")
        wrong = sorted(_kinds(json.loads(self._expr.meta.serialize(format="json"))) & set(_NOT_ROWWISE))
        if wrong:
            raise RecipeError(
                f"{where}: {text!r} looks at more than one document ({', '.join(wrong)}); a predicate may not"
            )
        probe = pa.schema([schema.field(n) for n in self.columns]).empty_table()
        try:
            found = self._run(probe).dtype
        except PolarsError as error:
            types = ", ".join(f"{n} is {schema.field(n).type}" for n in self.columns)
            raise RecipeError(
                f"{where}: {text!r} cannot be evaluated ({str(error).splitlines()[0]}); {types}"
            ) from error
        if found != pl.Boolean:
            raise RecipeError(f"{where}: {text!r} gives {found}, a predicate gives true or false")

    def _hint(self, name: str, schema: pa.Schema) -> str:
        if f'"{name}"' in self.text:
            return f"in double quotes it names a column: write '{name}' where the text is meant"
        hint = nearest(name, schema.names)
        if name.startswith("score_"):
            hint += "; a score is there once params.quality names its classifier or scorer"
        return hint

    def _run(self, table: pa.Table) -> pl.Series:
        # A column is always there to give the length, whatever the expression names.
        height = pl.Series("__n", np.zeros(table.num_rows, np.int8))
        frame = pl.DataFrame([height, *(_column(n, table.column(n)) for n in self.columns)])
        return frame.with_columns(__hit=self._expr).get_column("__hit")

    def mask(self, table: pa.Table) -> np.ndarray:
        """Bool [rows]: which documents it selects. A null (an absent score, say) selects nothing."""
        return self._run(table).fill_null(False).to_numpy().astype(bool)


def _column(name: str, values: pa.ChunkedArray) -> pl.Series:
    """Times lose their zone, which is UTC everywhere: SQL's literals have none and would not compare."""
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp("us"))
    return pl.Series(name, pl.from_arrow(values))


def _kinds(node: Any) -> set[str]:
    out: set[str] = set()
    if isinstance(node, dict):
        for key, value in node.items():
            if isinstance(key, str) and key[:1].isupper():
                out.add(key)
            if key != "Literal":
                out |= _kinds(value)
    elif isinstance(node, list):
        for value in node:
            out |= _kinds(value)
    return out
