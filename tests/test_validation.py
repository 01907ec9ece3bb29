"""What is wrong with a person's parameter file or recipe is said in words that help to mend it."""

import datetime as dt

import pyarrow as pa
import pytest

from gristmill.errors import ParameterError, RecipeError
from gristmill.mixture import recipe
from gristmill.mixture.predicates import Predicate
from gristmill.params import read_pipeline
from gristmill.release import policy

RECIPE = {"sources": {"web": {}}, "phases": [
    {"name": "p", "tokens": 3000, "seq_len": 64, "samples_per_step": 2, "weights": {"web": 1}}]}


def refused(tmp_path, text: str) -> str:
    file = tmp_path / "pipeline.yaml"
    file.write_text(text)
    with pytest.raises(ParameterError) as told:
        read_pipeline(file)
    return str(told.value)


@pytest.mark.parametrize(("text", "says"), [
    ("params: {minhash: {band: 3}}", "params.minhash.band: there is no such name; did you mean 'bands'?"),
    ("param: {}", "param: there is no such name; did you mean 'params'?"),
    ("params: {quality: {scorers: [{modle: 1}]}}",
     "params.quality.scorers.0.modle: there is no such name; did you mean 'model'?"),
    ("params: {observe: {bands: {text: {hihg: 1}}}}", "params.observe.bands.text.hihg: there is no such name; did you "
     "mean 'high'?"),
    ("params: {grid: {zzz: 1}}", "there are: host_buckets, parts_per_bucket"),
    ("params: {unique: {time_forward_after: yesterday}}", "unique.time_forward_after: 'yesterday' is no ISO date"),
    ("", "is empty: `gristmill init`"), ("# params:\n", "is empty"),
])
def test_a_parameter_file_is_refused_with_the_nearest_name(tmp_path, text, says):
    told = refused(tmp_path, text)
    assert says in told
    assert "permitted" not in told


def test_a_date_may_stand_without_quotes(tmp_path):
    file = tmp_path / "pipeline.yaml"
    for written in ("2026-05-25", "'2026-05-25'"):
        file.write_text(f"params: {{unique: {{time_forward_after: {written}}}}}")
        assert read_pipeline(file).params.unique.time_forward_after == dt.date(2026, 5, 25).isoformat()


@pytest.mark.parametrize(("weight", "says"), [
    (-1, "r: phases.0.weights.web: Input should be greater than 0"), ("x", "'x' is not a number"),
    ({"len9": 1}, "phases.0.weights.web"), ({"len0": -1}, "phases.0.weights.web.len0: Input should be greater than 0"),
])
def test_a_wrong_weight_is_told_without_the_names_of_functions(weight, says):
    data = {**RECIPE, "phases": [{**RECIPE["phases"][0], "weights": {"web": weight}}]}
    with pytest.raises(RecipeError) as told:
        recipe.parse(data, "r")
    assert says in str(told.value)
    assert "function-" not in str(told.value)


def test_a_misspelt_name_of_a_recipe_or_policy_is_answered_with_the_nearest():
    with pytest.raises(RecipeError, match=r"phases\.0\.seqlen: there is no such name; did you mean 'seq_len'"):
        recipe.parse({**RECIPE, "phases": [{**RECIPE["phases"][0], "seqlen": 3}]})
    with pytest.raises(policy.ManifestError, match=r"robots_agent: .* did you mean 'robots_agents'"):
        policy.parse({"robots_agent": ["x"]})


def test_a_column_that_is_nothing_like_another_gets_no_suggestion():
    schema = pa.schema([("source_tier", pa.string()), ("score_mine", pa.float32())])
    with pytest.raises(RecipeError, match=r"there are: source_tier, score_mine; a score is there once params.quality"):
        Predicate("score_classifier > 0.5", "source web", schema)
