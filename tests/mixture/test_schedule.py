"""Schedules: what a recipe asks becomes segments, caps hold exactly, and what cannot be is refused with its numbers."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.errors import RecipeError
from gristmill.loader.corput import WORD
from gristmill.mixture.schedule import compile_schedule, exact
from tests.loader.make import phase

L64 = "concat:64"


def compiled(weights, tokens, sequences, caps=None, batch=10, **more):
    ramp = batch if isinstance(batch, list) else [[batch, None]]
    return compile_schedule([phase(weights, tokens=tokens, batch=ramp)], caps or {}, {L64: sequences}, 1, **more)


def counted(schedule, segment):
    """Sequences of every source in a segment, step by step, from the slots' definition."""
    totals = [0] * len(schedule.sources)
    for b in range(segment.steps):
        under = [segment.under(cut, b) for cut in segment.cuts]
        for s in range(len(totals)):
            totals[s] += under[s + 1] - under[s]
    return totals


def test_a_plain_phase_is_one_segment_of_whole_steps():
    s = compiled({"a": "0.3", "b": "0.7"}, 64 * 10 * 7 + 639, {"a": 50, "b": 50})
    assert len(s.segments) == 1
    assert s.steps == 7
    assert s.tokens == 64 * 70
    assert s.segments[0].weights == (Fraction(3, 10), Fraction(7, 10))
    assert s.segments[0].cuts[0] == 0
    assert s.segments[0].cuts[-1] == WORD


def test_a_batch_ramp_is_a_segment_a_size():
    s = compiled({"a": "1"}, 64 * (4 * 10 + 8 * 10 + 16 * 5), {"a": 9}, batch=[[4, 10], [8, 10], [16, None]])
    assert [(g.batch, g.steps, g.first_step) for g in s.segments] == [(4, 10, 0), (8, 10, 10), (16, 5, 20)]


def test_tokens_that_end_inside_a_ramp_end_there():
    s = compiled({"a": "1"}, 64 * (4 * 10 + 8 * 3), {"a": 9}, batch=[[4, 10], [8, 10], [16, None]])
    assert [(g.batch, g.steps) for g in s.segments] == [(4, 10), (8, 3)]


def test_a_ramp_that_ends_before_the_tokens_is_refused():
    with pytest.raises(RecipeError, match=r"ends 2,560 tokens before the phase's 5,120"):
        compiled({"a": "1"}, 5120, {"a": 9}, batch=[[4, 10]])


def test_less_than_one_step_is_refused():
    with pytest.raises(RecipeError, match="less than one step"):
        compiled({"a": "1"}, 639, {"a": 9})


def test_floats_are_refused_and_ratios_are_exact():
    assert exact("1/3", "x") == Fraction(1, 3)
    with pytest.raises(RecipeError, match="string"):
        exact(0.1, "weight")
    for bad in ("one", "-0.1", None, "1/0"):
        with pytest.raises(RecipeError):
            exact(bad, "weight")


def test_at_its_cap_a_source_stops_exactly_and_the_others_take_its_weight():
    s = compiled({"a": "0.2", "b": "0.3", "c": "0.5"}, 64 * 10 * 1000, {"a": 700, "b": 9000, "c": 9000}, {"a": "1.5"})
    assert s.epochs(s.steps)[0] == Fraction(3, 2)
    assert [r.source for r in s.redistributions] == ["a"]
    assert s.segments[-1].weights == (0, Fraction(3, 8), Fraction(5, 8))
    assert s.segments[1].settling
    assert s.segments[1].steps == 1
    # 2,000 sequences asked, 1,050 given; the rest went to b and c in 3 : 5
    counts = s.counts(s.steps)[L64]
    assert counts[0] == 1050
    assert sum(counts) == 10_000
    assert abs(counts[1] - (3000 + 950 * 3 / 8)) < 5


def test_the_recipe_of_25_trillion_tokens_is_refused_with_its_numbers():
    sequences = {"concat:4096": {"code": 1_100_000_000_000 // 4096, "web": 20_000_000_000_000 // 4096}}
    phases = [phase({"code": "0.34", "web": "0.66"}, tokens=25_000_000_000_000, seq_len=4096, batch=[[4096, None]],
                    name="stable")]
    with pytest.raises(RecipeError, match=r"weight 0\.34 .*asks 7\.73 epochs.*cap is 4"):
        compile_schedule(phases, {"code": "4"}, sequences, 1, on_cap="refuse")
    redistributed = compile_schedule(phases, {"code": "4"}, sequences, 1)
    assert redistributed.epochs(redistributed.steps)[0] == 4
    assert [(r.source, round(float(r.asked_epochs), 2)) for r in redistributed.redistributions] == [("code", 7.73)]


def test_caps_that_leave_nobody_are_refused_with_their_numbers():
    with pytest.raises(RecipeError, match=r"nobody is left.*a would be shown 5\.00 epochs and its cap is 2 .*100 seq"):
        compiled({"a": "0.5", "b": "0.5"}, 64 * 1000, {"a": 100, "b": 400}, {"a": "2", "b": "1"})


def test_all_that_the_caps_allow_can_be_shown():
    s = compiled({"a": "0.5", "b": "0.5"}, 64 * 600, {"a": 100, "b": 400}, {"a": "2", "b": "1"})
    assert s.counts(s.steps)[L64] == [200, 400]


def test_a_source_without_a_whole_sequence_is_refused():
    with pytest.raises(RecipeError, match=r"source b has weight 0\.5 and no whole sequence"):
        compiled({"a": "1", "b": "1"}, 64 * 100, {"a": 100, "b": 0})
    with pytest.raises(RecipeError, match="no source has a weight"):
        compiled({"a": "0"}, 64 * 100, {"a": 100})


def test_caps_add_up_over_layouts_and_phases():
    phases = [
        phase({"a": "0.5", "b": "0.5"}, tokens=64 * 600, name="one"),
        phase({"a": "0.5", "b": "0.5"}, tokens=128 * 600, seq_len=128, name="two"),
        phase({"a": "0.5", "b": "0.5"}, tokens=64 * 600, name="three"),
    ]
    sequences = {L64: {"a": 400, "b": 5000}, "concat:128": {"a": 200, "b": 2500}}
    s = compile_schedule(phases, {"a": "2"}, sequences, 1)
    # 300 of 400 = 0.75 epochs, then 250 of 200 = 1.25: the cap is met inside the second phase
    assert s.counts(s.steps) == {L64: [300, 900], "concat:128": [250, 350]}
    assert s.epochs(s.steps)[0] == 2
    back = [g for g in s.segments if g.name == "three"]
    assert back[0].base == (300, 300)  # a phase that returns to a layout goes on where it left
    assert back[0].weights[0] == 0


def test_a_phase_may_leave_sources_out():
    phases = [phase({"a": "1"}, tokens=64 * 100), phase({"b": "1"}, tokens=64 * 100)]
    s = compile_schedule(phases, {}, {L64: {"a": 10, "b": 10}}, 1)
    assert s.counts(10)[L64] == [100, 0]
    assert s.counts(20)[L64] == [100, 100]


NAMES = ["a", "b", "c", "d"]


@st.composite
def recipes(draw):
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
    sequences = {layout: {s: draw(st.integers(1, most)) for s in names}
                 for layout, most in ((L64, 300), ("concat:128", 150))}
    phases = []
    for _ in range(draw(st.integers(1, 3))):
        mine = draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
        seq_len = draw(st.sampled_from([64, 128]))
        batch = draw(st.integers(1, 40))
        phases.append(phase({s: f"0.{draw(st.integers(1, 999)):03}" for s in mine}, seq_len=seq_len,
                            tokens=seq_len * batch * draw(st.integers(1, 60)), batch=[[batch, None]]))
    caps = {s: f"{draw(st.integers(0, 40)) / 10}" for s in names if draw(st.booleans())}
    return phases, caps, sequences


@given(recipes())
@settings(max_examples=150, deadline=None)
def test_any_recipe_is_refused_or_kept_to(recipe):
    phases, caps, sequences = recipe
    try:
        s = compile_schedule(phases, caps, sequences, 1)
    except RecipeError as error:
        refusal = str(error)
    else:
        refusal = ""
    if refusal:
        assert "nobody is left to take the weight" in refusal
        assert caps
        return
    step = 0
    given_so_far = {name: [0] * len(s.sources) for name in s.sequences}
    for segment in s.segments:
        assert segment.first_step == step
        assert sum(segment.weights) == 1
        assert segment.base == tuple(given_so_far[segment.layout])
        counts = counted(s, segment)
        assert counts == [segment.taken(i, segment.steps) for i in range(len(s.sources))]
        assert sum(counts) == segment.steps * segment.batch
        for i, n in enumerate(counts):
            given_so_far[segment.layout][i] += n
            assert n == 0 or segment.weights[i]
        for b in {0, segment.steps // 2, segment.steps - 1}:  # within one of its share in every step
            for i, w in enumerate(segment.weights):
                assert abs(segment.taken(i, b + 1) - segment.taken(i, b) - w * segment.batch) < 1
        step += segment.steps
    assert step == s.steps
    for i, source in enumerate(s.sources):
        if source in caps:
            cap, epochs = Fraction(caps[source]), s.epochs(s.steps)[i]
            assert epochs <= cap
            met = [r for r in s.redistributions if r.source == source]
            if met:  # then what is left is less than one sequence of the layout in which the cap was met
                layout = next(g.layout for g in s.segments if g.first_step + g.steps >= met[0].step)
                later = [g.layout for g in s.segments if g.name == met[0].phase] or [layout]
                assert cap - epochs < max(Fraction(1, s.sequences[name][i]) for name in later)
    for index, wanted in enumerate(phases):
        shown = sum(g.steps * g.batch * g.seq_len for g in s.segments if g.phase == index)
        assert wanted["tokens"] - wanted["batch"][0][0] * wanted["seq_len"] < shown <= wanted["tokens"]
