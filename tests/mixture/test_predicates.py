import datetime as dt

import pyarrow as pa
import pytest

from gristmill import schemas
from gristmill.errors import RecipeError
from gristmill.mixture.predicates import Predicate

SCHEMA = pa.schema(
    [*schemas.CATALOGUE, pa.field("ensemble_percentile", pa.float32()), pa.field("toxicity", pa.float32())]
)


def rows(**columns) -> pa.Table:
    return pa.table({n: pa.array(v, SCHEMA.field(n).type) for n, v in columns.items()})


def mask(text: str, **columns) -> list[bool]:
    return Predicate(text, "source web", SCHEMA).mask(rows(**columns)).tolist()


def test_comparisons_lists_patterns_and_dates():
    assert mask(
        "lang = 'eng' AND ensemble_percentile >= 0.5", lang=["eng", "eng", "fra"], ensemble_percentile=[0.5, 0.4, 0.9]
    ) == [True, False, False]
    assert mask("lang IN ('eng', 'fra') OR host LIKE '%.edu'", lang=["deu", "fra"], host=["a.edu", "b.com"]) == [
        True,
        True,
    ]
    days = [dt.datetime(2025, 12, 31, tzinfo=dt.UTC), dt.datetime(2026, 1, 1, tzinfo=dt.UTC)]
    assert mask("fetch_ts >= DATE '2026-01-01'", fetch_ts=days) == [False, True]
    assert mask("fetch_ts >= TIMESTAMP '2026-01-01 00:00:00'", fetch_ts=days) == [False, True]
    assert mask("license_id IS NULL", license_id=[None, "x"]) == [True, False]
    assert mask("NOT contaminated", contaminated=[True, False]) == [False, True]


def test_an_absent_score_selects_nothing_and_is_not_excluded_by_its_complement_either():
    assert mask("ensemble_percentile >= 0.5", ensemble_percentile=[None, 0.6]) == [False, True]
    assert mask("ensemble_percentile < 0.5", ensemble_percentile=[None, 0.6]) == [False, False]


def test_true_selects_everything_and_an_empty_table_is_fine():
    assert mask("TRUE", lang=["a", "b"]) == [True, True]
    assert mask("n_tokens > 5", n_tokens=[]) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("langg = 'eng'", "did you mean 'lang'"),
        ("ensemble_percentil > 0.5", "did you mean 'ensemble_percentile'"),
        ("zzzzzz > 1", "there are: crawl"),
        ("langg = 'eng' AND n_token > 5", "no column 'n_token'; did you mean 'n_tokens'?"),
        ('lang = "eng"', "write 'eng' where the text is meant"),
        ("", "not an expression"),
        ("lang = ", "not an expression"),
        ("n_tokens", "gives Int64"),
        ("n_tokens > 'abc'", "n_tokens is int64"),
        ("n_tokens > AVG(n_tokens)", "more than one document"),
        ("n_tokens > MAX(n_tokens) OVER (PARTITION BY lang)", "more than one document"),
    ],
)
def test_what_cannot_be_a_predicate_is_refused_with_the_reason(text, said):
    with pytest.raises(RecipeError, match=r"source web") as error:
        Predicate(text, "source web", SCHEMA)
    assert said in str(error.value)
