"""The sampler: mixtures hold in every step, epochs are whole, and any step is reached at once."""

import hashlib
import time
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.errors import ManifestError, RecipeError
from gristmill.loader.sampler import GROUP, VERSION, Sampler
from gristmill.mixture.schedule import compile_schedule
from tests.loader.make import phase

LAYOUT = "concat:64"


def sampler_of(counts, weights, batch, steps=None, tokens=None, caps=None, seed=1, seq_len=64):
    ramp = batch if isinstance(batch, list) else [[batch, None]]
    total = tokens if tokens is not None else steps * ramp[-1][0] * seq_len
    phases = [phase(weights, tokens=total, seq_len=seq_len, batch=ramp)]
    layout = f"concat:{seq_len}"
    sequences = {layout: {s: int(sum(c)) for s, c in counts.items()}}
    return Sampler(compile_schedule(phases, caps or {}, sequences, seed), {layout: counts})


def everything(sampler, first=0, stop=None):
    """(steps, positions, Samples) of every sample of some steps."""
    stop = sampler.schedule.steps if stop is None else stop
    steps = np.concatenate([np.full(sampler.batch(t), t, np.int64) for t in range(first, stop)])
    positions = np.concatenate([np.arange(sampler.batch(t), dtype=np.int64) for t in range(first, stop)])
    return steps, positions, sampler.locate_many(steps, positions)


def assert_epochs_are_whole(sampler, samples):
    """Every sequence of a source once an epoch, none missed; only the last epoch may be unfinished."""
    for s, source in enumerate(sampler.schedule.sources):
        mine = samples.source == s
        sizes = sampler.sizes(sampler.layouts[0], s)
        every = {(sampler.first_shard[s] + k, j) for k, n in enumerate(sizes) for j in range(n)}
        last = int(samples.epoch[mine].max(initial=-1))
        for epoch in range(last + 1):
            rows = mine & (samples.epoch == epoch)
            shown = Counter(zip(samples.shard[rows].tolist(), samples.sequence[rows].tolist(), strict=True))
            assert max(shown.values()) == 1, (source, epoch)
            assert set(shown) <= every
            if epoch < last:
                assert set(shown) == every, (source, epoch)


COUNTS = st.dictionaries(
    st.sampled_from(["a", "b", "c", "d"]), st.lists(st.integers(0, 9), min_size=1, max_size=40).filter(sum),
    min_size=1, max_size=4)


@given(COUNTS, st.integers(1, 40), st.integers(1, 60), st.integers(0, 2**64 - 1), st.data())
@settings(max_examples=60, deadline=None)
def test_whole_epochs_and_shares_within_one_in_every_step(counts, batch, steps, seed, data):
    weights = {s: str(data.draw(st.integers(1, 1000), label=s)) for s in counts}
    sampler = sampler_of(counts, weights, batch, steps, seed=seed)
    where, _, samples = everything(sampler)
    assert_epochs_are_whole(sampler, samples)
    total = sum(int(w) for w in weights.values())
    for t in range(sampler.schedule.steps):
        shown = np.bincount(samples.source[where == t], minlength=len(counts))
        for s, source in enumerate(sampler.schedule.sources):
            assert abs(shown[s] - batch * Fraction(int(weights[source]), total)) < 1


def test_small_sizes_exhaustively():
    for a in range(1, 6):
        for b in range(1, 6):
            for batch in range(1, 8):
                sampler = sampler_of({"a": [a], "b": [b, 1]}, {"a": "0.3", "b": "0.7"}, batch, 12)
                where, positions, samples = everything(sampler)
                assert_epochs_are_whole(sampler, samples)
                for i in range(0, len(where), 3):
                    one = sampler.locate(int(where[i]), int(positions[i]))
                    assert (one.source, one.epoch, one.sequence) == (
                        samples.source[i], samples.epoch[i], samples.sequence[i])
                    assert one.shard + sampler.first_shard[one.source] == samples.shard[i]
                    assert one in sampler.occurrences(one.source, one.shard, one.sequence, LAYOUT)


@given(COUNTS, st.integers(1, 30), st.integers(1, 30), st.integers(0, 2**64 - 1))
@settings(max_examples=30, deadline=None)
def test_kernels_follow_the_definition_and_the_inverse_finds_every_showing(counts, batch, steps, seed):
    sampler = sampler_of(counts, dict.fromkeys(counts, "1"), [[batch, 3], [batch + 3, None]],
                         tokens=(3 * batch + steps * (batch + 3)) * 64, seed=seed)
    where, positions, samples = everything(sampler)
    shown = {}
    for i, (step, position) in enumerate(zip(where.tolist(), positions.tolist(), strict=True)):
        one = sampler.locate(step, position)
        assert (one.segment, one.source, one.epoch, one.shard + sampler.first_shard[one.source], one.sequence) == (
            samples.segment[i], samples.source[i], samples.epoch[i], samples.shard[i], samples.sequence[i])
        shown.setdefault((one.source, one.shard, one.sequence), []).append(one)
    for (source, shard, sequence), all_of_it in list(shown.items())[:20]:
        found = sampler.occurrences(source, shard, sequence, LAYOUT)
        assert sorted((f.step, f.position) for f in found) == sorted((a.step, a.position) for a in all_of_it)
        assert found == sorted(found, key=lambda f: f.rank)


def test_ranks_of_a_source_run_without_gaps_through_a_ramp():
    ramp = [[3, 5], [8, 4], [20, None]]
    sampler = sampler_of({"a": [7, 5], "b": [30]}, {"a": "0.21", "b": "0.79"}, ramp, tokens=30_000)
    for source in range(2):
        ranks = sorted(
            one.rank for t in range(sampler.schedule.steps) for p in range(sampler.batch(t))
            if (one := sampler.locate(t, p)).source == source)
        assert ranks == list(range(len(ranks)))


def test_a_source_much_smaller_than_a_batch():
    sampler = sampler_of({"tiny": [1, 0, 2], "big": [500]}, {"tiny": "0.5", "big": "0.5"}, 64, 20)
    _, _, samples = everything(sampler)
    assert_epochs_are_whole(sampler, samples)
    tiny = sampler.schedule.sources.index("tiny")
    rows = samples.source == tiny
    # 640 showings of 3 sequences: 213 times each, once more for one of them
    counts = Counter(zip(samples.shard[rows].tolist(), samples.sequence[rows].tolist(), strict=True))
    assert sorted(counts.values()) == [213, 213, 214]


@pytest.mark.parametrize("weights", [{"a": "0.001", "b": "0.999"}, {"a": "0.999", "b": "0.001"}])
def test_a_weight_of_a_thousandth_beside_an_equal_set(weights):
    sampler = sampler_of({"a": [50] * 4, "b": [50] * 4}, weights, 8, 1000)
    _, _, samples = everything(sampler)
    assert_epochs_are_whole(sampler, samples)
    counts = np.bincount(samples.source, minlength=2)
    assert abs(counts - [8000 * float(weights["a"]), 8000 * float(weights["b"])]).max() <= 2


def test_more_shards_than_a_group_change_their_order_every_epoch():
    shards = 3 * GROUP + 5
    sampler = sampler_of({"a": [2] * shards}, {"a": "1"}, shards, 6)
    _, _, samples = everything(sampler)
    assert_epochs_are_whole(sampler, samples)
    first = {}
    for epoch in range(3):
        # groups are read one after another: the first GROUP * 2 samples of an epoch hold only GROUP shards
        start = epoch * 2 * shards
        by_rank = {}
        for t in range(2 * epoch, 2 * epoch + 2):
            for p in range(sampler.batch(t)):
                one = sampler.locate(t, p)
                by_rank[one.rank] = one.shard
        group = {by_rank[start + i] for i in range(2 * GROUP)}
        assert len(group) == GROUP
        first[epoch] = frozenset(group)
    assert len(set(first.values())) == 3


def test_seeds_and_epochs_shuffle_differently():
    orders = set()
    for seed in (1, 2):
        sampler = sampler_of({"a": [100]}, {"a": "1"}, 100, 3, seed=seed)
        for t in range(3):
            orders.add(tuple(sampler.locate(t, p).sequence for p in range(100)))
    assert len(orders) == 6


def test_no_position_is_tied_to_a_source():
    sampler = sampler_of({"a": [1000], "b": [1000]}, {"a": "0.5", "b": "0.5"}, 8, 400)
    _, positions, samples = everything(sampler)
    for p in range(8):
        share = float((samples.source[positions == p] == 0).mean())
        assert 0.4 < share < 0.6  # 400 draws: 4 standard deviations


@given(st.integers(0, 10**12), st.integers(1, 1 << 22), st.data())  # a run of 2^62 samples, and not one of 2^64
@settings(max_examples=60, deadline=None)
def test_kernels_follow_the_definition_at_any_depth_of_a_run(step, batch, data):
    counts = {"a": [10_000] * 3, "b": [77_777] * 5, "c": [3]}
    sampler = sampler_of(counts, {"a": "0.123456789", "b": "0.7", "c": "1/3"}, batch, tokens=64 * batch * (10**12 + 1))
    position = data.draw(st.integers(0, batch - 1))
    one = sampler.locate(step, position)
    many = sampler.locate_many(np.array([step]), np.array([position]))
    assert (one.source, one.epoch, one.sequence) == (many.source[0], many.epoch[0], many.sequence[0])
    assert one.shard + sampler.first_shard[one.source] == many.shard[0]


def test_a_run_whose_positions_do_not_fit_the_kernels_is_refused():
    with pytest.raises(RecipeError, match="positions of a run are counted to"):
        sampler_of({"a": [10_000]}, {"a": "1"}, 1 << 30, tokens=64 * (1 << 30) * 10**12)


def test_positions_and_steps_outside_the_run_are_refused():
    sampler = sampler_of({"a": [10]}, {"a": "1"}, 4, 5)
    for step, position in [(5, 0), (-1, 0), (0, 4), (0, -1)]:
        with pytest.raises(IndexError):
            sampler.locate(step, position)
        with pytest.raises(IndexError):
            sampler.locate_many(np.array([step]), np.array([position]))


def test_counts_of_another_manifest_are_refused():
    good = sampler_of({"a": [10]}, {"a": "1"}, 4, 5)
    with pytest.raises(ManifestError, match="11 sequences, the schedule was cut for 10"):
        Sampler(good.schedule, {LAYOUT: {"a": [11]}})


def test_version_one_is_this_stream_on_every_machine():
    # A change of these bytes moves samples under running jobs: it needs a new VERSION, and then new bytes here.
    counts = {"books": [11, 7, 0, 19], "code": [5] * 40, "web": [23, 31, 29, 17, 3] * 14}
    sampler = sampler_of(counts, {"books": "0.15", "code": "0.25", "web": "0.6"}, [[12, 10], [32, None]],
                         tokens=200_000, caps={"books": "6.5"}, seed=2024)
    _, _, samples = everything(sampler)
    stream = np.stack([samples.source, samples.epoch, samples.shard, samples.sequence]).astype("<i8").tobytes()
    assert VERSION == 1
    assert hashlib.sha256(stream).hexdigest() == GOLDEN


GOLDEN = "3d945c2cf1b0049c89a04e528c37ace650d1c6bbd273bfd414c7117d3687ca59"


@pytest.fixture(scope="module")
def large():
    """10^4 shards of 20 sources."""
    counts = {f"s{i:02}": np.full(500, 15_000 + i) for i in range(20)}
    return counts, {s: str(i + 1) for i, s in enumerate(counts)}


def best_of(n, f):
    """CPU seconds of the fastest of ``n`` calls: other work on the machine slows some of them, and speeds none."""
    times = []
    for _ in range(n):
        start = time.thread_time()
        f()
        times.append(time.thread_time() - start)
    return min(times)


def test_a_lookup_takes_at_most_a_microsecond(large):
    sampler = sampler_of(*large, 1024, tokens=10**16)
    steps = np.repeat(np.arange(10**8, 10**8 + 512), 16)
    positions = np.tile(np.arange(16, dtype=np.int64), 512)
    sampler.locate_many(steps, positions)
    assert best_of(25, lambda: sampler.locate_many(steps, positions)) / len(steps) < 1e-6


def test_resuming_at_step_ten_to_the_eight_takes_under_ten_milliseconds(large):
    def resume():
        sampler = sampler_of(*large, 1024, tokens=10**16)
        sampler.locate_many(np.full(16, 10**8), np.arange(16, dtype=np.int64))

    resume()
    assert best_of(25, resume) < 0.010


def test_tables_are_of_the_size_of_the_shards(large):
    import tracemalloc

    sampler = sampler_of(*large, 1024, tokens=10**18)
    tracemalloc.start()
    for step in (0, 10**6, 10**9, 10**10):
        sampler.locate_many(np.full(1024, step), np.arange(1024, dtype=np.int64))
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 64 * sampler.shards  # order and prefix sums: 16 bytes a shard, and little else
