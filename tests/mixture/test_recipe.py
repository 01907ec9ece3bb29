from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.errors import RecipeError
from gristmill.mixture import recipe as lib

T = 10**12


def recipe(**changes):
    data = {
        "seed": 1,
        "sources": {"web": {"where": "lang = 'eng'"}, "code": {"where": "source_tier = 'code'"}},
        "phases": [
            {"name": "main", "tokens": "1M", "seq_len": 64, "samples_per_step": 8, "weights": {"web": 0.7, "code": 0.3}}
        ],
    }
    data.update(changes)
    return lib.parse(data)


def phase(name="main", tokens="1M", weights=None, **more):
    return {
        "name": name,
        "tokens": tokens,
        "seq_len": 64,
        "samples_per_step": 8,
        "weights": weights or {"web": "0.7", "code": "0.3"},
        **more,
    }


def test_numbers_are_exact_and_sizes_have_names(tmp_path):
    path = tmp_path / "r.yaml"
    path.write_text(
        "sources: {web: {max_epochs: 1.1}, code: {}}\n"
        "phases:\n- {name: a, tokens: 25T, seq_len: 4096, samples_per_step: 1024, weights: {web: 0.1, code: 0.9}}\n"
        "- {name: b, tokens: 1.5B, seq_len: 4096, samples_per_step: 1024, weights: {web: 1}}\n"
    )
    r = lib.read(path)
    assert [p.tokens for p in r.phases] == [25 * T, 1_500_000_000]
    assert r.phases[0].weights["web"] == Decimal("0.1")
    assert r.sources["web"].max_epochs == Decimal("1.1")
    assert r.plain()["phases"][0]["weights"] == {"web": "0.1", "code": "0.9"}


def test_the_hash_is_of_what_is_said_and_not_of_how():
    a = recipe()
    b = recipe(phases=[phase(tokens=1_000_000, weights={"code": "0.30", "web": "0.700"})])
    assert a.hash == b.hash
    assert a.hash != recipe(seed=2).hash


def test_a_file_may_hold_its_policy(tmp_path):
    path = tmp_path / "r.yaml"
    path.write_text(
        "sources: {web: {}}\nphases: [{name: a, tokens: 1k, seq_len: 8, samples_per_step: 1, weights: {web: 1}}]\n"
        "policy: {robots: [], as_of: 2026-01-01}\n"
    )
    r, policy = lib.read_with_policy(path)
    assert list(r.sources) == ["web"]
    assert policy["robots"] == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"phases": [phase(weights={"web": "0.7", "code": "0.2"})]}, "add up to 0.9, not 1"),
        ({"phases": [phase(weights={"web": "0.7", "cod": "0.3"})]}, "['cod']"),
        ({"phases": [phase(weights={"web": "1"})]}, "no phase weighs ['code']"),
        ({"phases": [phase(), phase()]}, "different names"),
        ({"phases": [phase(tokens="25X")]}, "25X"),
        ({"phases": [phase(tokens="1.0000001k")]}, "whole number"),
        ({"phases": [phase(weights={"web": "-0.5", "code": "1.5"})]}, "greater than 0"),
        ({"phases": [phase(weights={"web": "nan", "code": "0.3"})]}, "finite"),
        ({"phases": [phase(samples_per_step=[{"samples": 8}, {"samples": 16}])]}, "the last must have none"),
        ({"phases": [phase(samples_per_step=[{"samples": 8, "steps": 10}])]}, "the last must have none"),
        ({"phases": [phase(packing="best")]}, "best_fit"),
        ({"phases": [phase(sequence_length=9)]}, "sequence_length"),
        ({"sources": {"web": {"max_epochs": 0}, "code": {}}}, "max_epochs"),
        ({"sources": {"we b": {}}}, "we b"),
    ],
)
def test_what_cannot_be_is_refused_with_the_field_named(changes, said):
    with pytest.raises(RecipeError) as error:
        recipe(**changes)
    assert said in str(error.value)


def test_a_missing_or_broken_file_is_named(tmp_path):
    for content, said in ((None, "no recipe"), ("a: [", "YAML"), ("- 1", "no mapping")):
        path = tmp_path / "x.yaml"
        path.unlink(missing_ok=True)
        if content is not None:
            path.write_text(content)
        with pytest.raises(RecipeError, match=said):
            lib.read(path)


def test_25t_at_a_third_from_1t_asks_7_7_epochs():
    r = recipe(
        sources={"web": {}, "code": {"max_epochs": 4}},
        phases=[phase(tokens="25T", weights={"web": "0.66", "code": "0.34"})],
    )
    tokens = {"web": 20 * T, "code": 11 * T // 10}
    with pytest.raises(RecipeError) as error:
        lib.refuse_impossible(r, tokens)
    text = str(error.value)
    for part in ("code", "8.5T", "1.1T", "7.7 epochs", "cap of 4"):
        assert part in text
    assert "source web" not in text
    lib.refuse_impossible(
        recipe(on_cap="redistribute", phases=[phase(tokens="25T", weights={"web": "0.66", "code": "0.34"})]), tokens
    )


def test_epochs_add_up_over_phases():
    r = recipe(phases=[phase("a", "3M"), phase("b", "3M")])
    with pytest.raises(RecipeError, match=r"a 2\.1M, b 2\.1M"):
        lib.refuse_impossible(r, {"web": 1_000_000, "code": 1_000_000})
    lib.refuse_impossible(r, {"web": 1_050_000, "code": 1_000_000})  # exactly 4 epochs


def test_upsampling_long_documents_leaves_the_shares_between_domains():
    r = recipe(
        sources={
            "web": {"upsample": [{"where": "n_tokens >= 32768", "factor": 5, "name": "long"}]},
            "code": {"where": "source_tier = 'code'"},
        }
    )
    assert [p.name for p in lib.parts_of(r)] == ["code", "web/long", "web/rest"]
    weights = lib.part_weights(r, r.phases[0], {"code": 500, "web/long": 100, "web/rest": 900})
    assert weights["code"] == Fraction(3, 10)
    assert weights["web/long"] + weights["web/rest"] == Fraction(7, 10)
    # A token of a long document is shown five times as often as another of its domain.
    assert (weights["web/long"] / 100) / (weights["web/rest"] / 900) == 5


def test_parts_are_disjoint_and_the_first_entry_wins():
    r = recipe(sources={"web": {"upsample": [{"where": "a", "factor": 2}, {"where": "b", "factor": 3}]}, "code": {}})
    parts = {p.name: (p.predicates, p.excluded, p.factor) for p in lib.parts_of(r) if p.source == "web"}
    assert parts == {
        "web/up0": (("TRUE", "a"), (), 2),
        "web/up1": (("TRUE", "b"), ("a",), 3),
        "web/rest": (("TRUE",), ("a", "b"), 1),
    }


def test_weights_by_source_and_length_bucket_jointly():
    r = recipe(phases=[phase(weights={"web": {"len0": "0.5", "len3": "0.2"}, "code": "0.3"})])
    assert "web/len4" in [p.name for p in lib.parts_of(r)]
    weights = lib.part_weights(r, r.phases[0], {"web/len0": 10, "web/len1": 10, "web/len3": 1, "code": 7})
    assert weights == {"web/len0": Fraction(1, 2), "web/len3": Fraction(1, 5), "code": Fraction(3, 10)}


def test_a_source_whose_shards_hold_no_whole_sequence_is_refused_as_that():
    one = recipe(phases=[phase(weights={"web": {"len0": "0.5", "len3": "0.2"}, "code": "0.3"})])
    usable = {"web/len0": 640, "code": 640}
    with pytest.raises(RecipeError, match="web/len3 selects 7k tokens, but no shard holds the 64 of one sequence"):
        lib.part_weights(one, one.phases[0], usable, {**usable, "web/len3": 7000})
    with pytest.raises(RecipeError, match="it selects no tokens"):
        lib.part_weights(one, one.phases[0], usable, usable)


def test_a_weighed_source_that_selects_nothing_is_refused():
    with pytest.raises(RecipeError, match="code"):
        lib.part_weights(recipe(), recipe().phases[0], {"web": 5})


@given(st.lists(st.integers(1, 10**15), min_size=1, max_size=12))
def test_decimal_strings_add_up_to_exactly_one(masses):
    total = sum(masses)
    strings = lib.decimal_strings({f"s{i}": Fraction(m, total) for i, m in enumerate(masses)})
    assert sum((Decimal(s) for s in strings.values()), Decimal(0)) == 1
    for i, m in enumerate(masses):
        assert abs(Fraction(strings.get(f"s{i}", "0")) - Fraction(m, total)) <= Fraction(len(masses), 10**18)


def test_round_weights_stay_as_they_were_written():
    assert lib.decimal_strings({"a": Fraction(7, 10), "b": Fraction(3, 10)}) == {"a": "0.7", "b": "0.3"}
