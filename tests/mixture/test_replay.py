"""Replay: realised against asked at the size of a real run, and a sampler that is wrong is found."""

import time

import numpy as np
import pytest

from gristmill.errors import RecipeError
from gristmill.loader.sampler import Sampler
from gristmill.mixture.replay import replay
from gristmill.mixture.schedule import compile_schedule
from tests.loader.make import phase


def thirty_trillion():
    """40 sources, 2 layouts, a batch ramp, caps that are met: 30T tokens, 1.9 million steps."""
    rng = np.random.default_rng(0)
    names = [f"s{i:02}" for i in range(40)]
    counts = {"concat:4096": {n: rng.integers(6000, 8000, 2500) for n in names},
              "concat:32768": {n: rng.integers(700, 900, 2500) for n in names}}
    sequences = {layout: {n: int(c.sum()) for n, c in row.items()} for layout, row in counts.items()}
    weights = {n: f"0.{1 + i:03}" for i, n in enumerate(names)}
    phases = [
        phase(weights, tokens=2 * 10**12, seq_len=4096, batch=[[512, 2000], [1024, 3000], [2048, None]], name="warm"),
        phase(weights, tokens=27 * 10**12, seq_len=4096, batch=[[4096, None]], name="stable"),
        phase(weights, tokens=10**12, seq_len=32768, batch=[[512, None]], name="long"),
    ]
    caps = {"s39": "16", "s10": "6", "s38": "17"}
    return phases, caps, sequences, counts


def test_thirty_trillion_tokens_hold_to_one_in_ten_thousand_in_under_a_minute():
    phases, caps, sequences, counts = thirty_trillion()
    start = time.perf_counter()
    schedule = compile_schedule(phases, caps, sequences, 5)
    found = replay(schedule, phases, caps, Sampler(schedule, counts), check_steps=20)
    assert time.perf_counter() - start < 60
    assert found.tokens > 29.99e12
    assert found.holds
    assert max(line.error for line in found.lines) < 1e-4
    assert {r["source"] for r in found.redistributions} == {"s39", "s38"}
    exposures = {e.source: e for e in found.exposures}
    assert exposures["s39"].epochs == pytest.approx(16, abs=1e-6)
    assert exposures["s10"].epochs < 6
    assert found.samples_checked > 20 * 512


def test_asked_granted_and_realised_differ_where_a_cap_is_met():
    phases = [phase({"a": "0.5", "b": "0.5"}, tokens=64 * 10_000)]
    schedule = compile_schedule(phases, {"a": "1"}, {"concat:64": {"a": 1000, "b": 3000}}, 1)
    found = replay(schedule, phases, {"a": "1"})
    a = next(line for line in found.lines if line.source == "a")
    assert (a.asked, a.sequences) == (0.5, 1000)
    assert a.granted == pytest.approx(0.1)
    assert a.realised == 0.1
    assert found.as_dict()["holds"]


def test_a_sampler_that_draws_otherwise_is_found():
    phases = [phase({"a": "0.5", "b": "0.5"}, tokens=64 * 10_000)]
    counts = {"concat:64": {"a": [1000], "b": [3000]}}
    schedule = compile_schedule(phases, {}, {"concat:64": {"a": 1000, "b": 3000}}, 1)
    other = compile_schedule([phase({"a": "0.2", "b": "0.8"}, tokens=64 * 10_000)], {},
                             {"concat:64": {"a": 1000, "b": 3000}}, 1)
    with pytest.raises(RecipeError, match="the sampler is not of this schedule"):
        replay(schedule, phases, {}, Sampler(other, counts), check_steps=3)
