"""The loader: the same stream whoever reads it, stopped and started anyhow; what other loaders got wrong."""

import hashlib
import itertools
import json
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gristmill.errors import CheckpointError, ManifestError
from gristmill.loader import TokenLoader
from tests.loader.make import SHIFT, make_dataset, phase, small

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Three sources, three phases with three packings, a ramp, a cap that is met, partly selected shards."""
    phases = [
        phase({"web": "0.6", "code": "0.3", "books": "0.1"}, tokens=60_000, batch=[[4, 10], [10, None]], name="warm"),
        phase({"web": "0.5", "code": "0.5"}, tokens=60_000, seq_len=128, packing="best_fit", batch=[[7, None]],
              name="fit"),
        phase({"web": "0.6", "books": "0.4"}, tokens=40_000, batch=[[12, None]], packing="related", name="long"),
    ]
    return small(tmp_path_factory.mktemp("data"), phases=phases, max_epochs={"code": "1.5"}, select=0.7)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """One phase, steps of ten."""
    return small(tmp_path_factory.mktemp("plain"))


def stream(loader, first=0, stop=None):
    """{(step, position): tokens} of what a loader hands out."""
    loader.step = first
    shown = {}
    while loader.step < (loader.steps if stop is None else stop):
        batch = next(loader)
        for position, tokens in zip(batch["positions"].tolist(), batch["tokens"], strict=True):
            assert (batch["step"], position) not in shown
            shown[batch["step"], position] = tokens.tobytes()
    return shown


def digest(batch):
    return hashlib.sha256(batch["tokens"].tobytes() + batch["cu_seqlens"].tobytes()).hexdigest()


# What is read.


def test_every_token_is_where_the_shards_have_it(made):
    loader = TokenLoader(made.root, "v1", provenance=True)
    seen_layouts = set()
    for batch in loader:
        flat = batch["tokens"].reshape(-1)
        seq_len = batch["tokens"].shape[1]
        seen_layouts.add((seq_len, batch["padded"].any()))
        ends = batch["cu_seqlens"]
        assert ends[0] == 0
        assert ends[-1] == flat.size
        assert set(range(0, flat.size, seq_len)) <= set(ends.tolist())  # every sequence begins a piece
        assert batch["max_seqlen"] == np.diff(ends).max()
        for k, (start, end) in enumerate(itertools.pairwise(ends)):
            piece = flat[start:end]
            if batch["padded"][k]:
                assert (piece == 0).all()  # the tokenizer's EOS
                assert batch["ordinals"][k] == -1
                continue
            source = loader.source_names[batch["sources"][start // seq_len]]
            hash_ = batch["shards"][start // seq_len]
            ordinal = int(batch["ordinals"][k])
            document = made.documents[source, hash_][ordinal]
            assert ordinal in made.selected[source, hash_]
            first = int(piece[0]) & ((1 << SHIFT) - 1)
            assert piece.tolist() == document[first : first + len(piece)].tolist()
            assert batch["doc_ids"][k].tobytes() == made.doc_ids[source, hash_][ordinal]
    assert len({s for s, _ in seen_layouts}) == 2


def test_concatenated_sequences_are_windows_of_the_selected_documents(plain, tmp_path):
    half = small(tmp_path, select=0.4)
    loader = TokenLoader(half.root, "v1", provenance=True)
    windows = {}
    for (source, hash_), _ in half.documents.items():
        whole = half.stream(source, hash_)
        for j in range(len(whole) // 64):
            windows[whole[64 * j : 64 * j + 64].astype(np.int64).tobytes()] = source
    for batch in loader:
        for row, source in zip(batch["tokens"], batch["sources"], strict=True):
            assert windows[row.tobytes()] == loader.source_names[source]


def test_documents_of_best_fit_sequences_are_whole(made):
    loader = TokenLoader(made.root, "v1", provenance=True)
    loader.step = next(s.first_step for s in loader.schedule.segments if s.name == "fit")
    whole = cut = 0
    for _ in range(20):
        batch = next(loader)
        lengths = np.diff(batch["cu_seqlens"])
        for k in np.flatnonzero(~batch["padded"]):
            row = int(batch["cu_seqlens"][k]) // 128
            source, hash_ = loader.source_names[batch["sources"][row]], batch["shards"][row]
            length = len(made.documents[source, hash_][int(batch["ordinals"][k])])
            assert lengths[k] == length or length > 128
            whole, cut = whole + (lengths[k] == length), cut + (length > 128)
    assert whole > 50
    assert cut > 10


def test_every_epoch_shows_every_sequence_once(plain):
    loader = TokenLoader(plain.root, "v1")
    shown = {}
    for batch in loader:
        for source, epoch, tokens in zip(batch["sources"], batch["epochs"], batch["tokens"], strict=True):
            shown.setdefault((loader.source_names[source], int(epoch)), Counter())[tokens.tobytes()] += 1
    for source in loader.source_names:
        every = set()
        for (name, hash_) in plain.documents:
            if name == source:
                whole = plain.stream(name, hash_).astype(np.int64)
                every |= {whole[64 * j : 64 * j + 64].tobytes() for j in range(len(whole) // 64)}
        last = max(e for s, e in shown if s == source)
        for epoch in range(last + 1):
            counts = shown[source, epoch]
            assert set(counts.values()) == {1}
            assert set(counts) <= every
            if epoch < last:
                assert set(counts) == every
    assert max(e for _, e in shown) >= 1  # the border between epochs was crossed


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint32])
def test_token_types_carry_the_same_tokens(plain, dtype):
    batch = TokenLoader(plain.root, "v1", dtype=dtype).batch(3)
    assert batch["tokens"].dtype == dtype
    assert (batch["tokens"].astype(np.int64) == TokenLoader(plain.root, "v1").batch(3)["tokens"]).all()


def test_other_types_and_ranks_are_refused(plain):
    with pytest.raises(ValueError, match="int64"):
        TokenLoader(plain.root, "v1", dtype=np.float32)
    with pytest.raises(ValueError, match="rank 3"):
        TokenLoader(plain.root, "v1", rank=3, world=3)


# Ranks.


@pytest.mark.parametrize("world", [1, 2, 3, 4, 7, 16])
def test_the_set_read_at_a_step_is_the_same_for_every_world_size(made, world):
    wanted = stream(TokenLoader(made.root, "v1"))
    got = {}
    for rank in range(world):
        mine = stream(TokenLoader(made.root, "v1", rank=rank, world=world))
        assert not set(mine) & set(got)
        assert all(position % world == rank for _, position in mine)
        got |= mine
    assert got == wanted


def test_ten_rows_over_three_ranks_stay_together(plain):
    # 10 rows over 3 ranks once gave epochs of different lengths; here ranks have 4, 3 and 3 rows of the same steps.
    loaders = [TokenLoader(plain.root, "v1", rank=r, world=3) for r in range(3)]
    for step in range(loaders[0].steps):
        batches = [next(loader) for loader in loaders]
        assert [len(b["tokens"]) for b in batches] == [4, 3, 3]
        assert {b["step"] for b in batches} == {step}
    assert all(next(loader, None) is None for loader in loaders)


def test_more_ranks_than_rows_get_empty_batches(plain):
    batch = next(TokenLoader(plain.root, "v1", rank=15, world=16))
    assert batch["tokens"].shape == (0, 64)
    assert batch["cu_seqlens"].tolist() == [0]


# Checkpoints.


@given(st.data())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_resuming_anywhere_with_any_world_equals_running_through(made, data):
    whole = stream(TokenLoader(made.root, "v1"))
    steps = TokenLoader(made.root, "v1").steps
    cut = data.draw(st.integers(0, steps))
    stop = min(steps, cut + 12)
    before, after = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 5))
    saver = TokenLoader(made.root, "v1", rank=before - 1, world=before)
    stream(saver, max(0, cut - 3), cut)
    saver.step = cut
    state = json.loads(json.dumps(saver.state_dict()))  # a checkpoint is plain JSON
    got = {}
    for rank in range(after):
        loader = TokenLoader(made.root, "v1", rank=rank, world=after)
        loader.load_state_dict(state)
        got |= stream(loader, loader.step, stop)
    assert got == {k: v for k, v in whole.items() if cut <= k[0] < stop}


def test_four_ranks_saved_two_ranks_loaded(made):
    savers = [TokenLoader(made.root, "v1", rank=r, world=4) for r in range(4)]
    for _ in range(17):
        for saver in savers:
            next(saver)
    states = [saver.state_dict() for saver in savers]
    assert all(state == states[0] for state in states)
    got = {}
    for rank in range(2):
        loader = TokenLoader(made.root, "v1", rank=rank, world=2)
        loader.load_state_dict(states[3])
        got |= stream(loader, loader.step)
    assert got == {k: v for k, v in stream(TokenLoader(made.root, "v1")).items() if k[0] >= 17}


def test_saved_after_the_first_epoch_and_loaded(plain):
    # A loader of note replayed the wrong remainder after epoch 1; another did not reset its start at a new epoch.
    loader = TokenLoader(plain.root, "v1")
    batch = next(b for b in loader if (b["epochs"] >= 1).all() or b["step"] == loader.steps - 20)
    assert (batch["epochs"] >= 1).any()
    rest = [digest(b) for b in loader]
    again = TokenLoader(plain.root, "v1")
    again.load_state_dict({**loader.state_dict(), "global_step": batch["step"] + 1})
    assert [digest(b) for b in again] == rest
    assert len(rest) > 5


def test_loaded_by_a_second_loader_that_has_already_read(plain):
    first = TokenLoader(plain.root, "v1")
    for _ in range(9):
        next(first)
    second = TokenLoader(plain.root, "v1")
    for _ in range(30):
        next(second)
    second.load_state_dict(first.state_dict())
    assert digest(next(second)) == digest(next(first))
    assert second.step == first.step == 10


def test_the_state_is_one_integer_and_the_pins(made):
    state = TokenLoader(made.root, "v1", rank=1, world=3).state_dict()
    assert state == {
        "format": 1, "global_step": 0, "skips": [],
        "pins": {"manifest": hashlib.sha256(made.path.read_bytes()).hexdigest(), "recipe": made.manifest["recipe_hash"],
                 "tokenizer": "00" * 32, "seed": 7, "sampler": 1}}


@pytest.mark.parametrize("pin", ["manifest", "recipe", "tokenizer", "seed", "sampler"])
def test_a_checkpoint_with_another_pin_is_refused_unless_told(plain, pin):
    loader = TokenLoader(plain.root, "v1")
    state = loader.state_dict(12)
    state["pins"][pin] = "other"
    with pytest.raises(CheckpointError, match=f"{pin} was 'other'"):
        loader.load_state_dict(state)
    assert loader.step == 0
    loader.load_state_dict(state, allow=[pin])
    assert loader.step == 12


def test_a_real_other_manifest_is_refused(plain, tmp_path):
    other = small(tmp_path, seed=8)
    with pytest.raises(CheckpointError, match="manifest was"):
        TokenLoader(plain.root, "v1").load_state_dict(TokenLoader(other.root, "v1").state_dict())


@pytest.mark.parametrize("state", [{}, {"format": 2}, {"format": 1, "global_step": "x", "pins": {}, "skips": []},
                                   {"format": 1, "global_step": 1, "pins": {}, "skips": [{"shard": "a"}]}])
def test_what_is_not_a_state_is_refused(plain, state):
    with pytest.raises(CheckpointError):
        TokenLoader(plain.root, "v1").load_state_dict(state)


def test_a_step_past_the_end_is_refused_and_the_end_is_an_end(plain):
    loader = TokenLoader(plain.root, "v1")
    for step in (-1, loader.steps + 1):
        with pytest.raises(CheckpointError, match="outside"):
            loader.state_dict(step)
        with pytest.raises(CheckpointError, match="outside"):
            loader.load_state_dict({**loader.state_dict(), "global_step": step})
    with pytest.raises(CheckpointError, match="not a loader's state"):
        loader.load_state_dict({**loader.state_dict(), "global_step": 3.7})
    loader.load_state_dict(loader.state_dict(loader.steps))
    assert list(loader) == []


# Stopping and starting.


def test_breaking_off_and_iterating_again_goes_on(plain):
    loader = TokenLoader(plain.root, "v1")
    seen = []
    for batch in loader:
        seen.append(digest(batch))
        if len(seen) == 5:
            break
    seen += [digest(b) for b in loader]
    assert seen == [digest(b) for b in TokenLoader(plain.root, "v1")]


def test_two_loaders_in_one_process_do_not_meet(plain, made):
    a, b, c = TokenLoader(plain.root, "v1"), TokenLoader(plain.root, "v1"), TokenLoader(made.root, "v1")
    alone = [digest(x) for x in TokenLoader(plain.root, "v1")]
    mixed_a, mixed_b = [], []
    for i, batch in enumerate(a):
        mixed_a.append(digest(batch))
        next(c, None)
        if i % 3 == 0:
            mixed_b.append(digest(next(b)))
    assert mixed_a == alone
    assert mixed_b == alone[: len(mixed_b)]


def test_an_interrupt_in_the_middle_of_a_read_loses_nothing(plain, monkeypatch):
    loader = TokenLoader(plain.root, "v1")
    wanted = [digest(b) for b in TokenLoader(plain.root, "v1")][:8]
    got = [digest(next(loader)) for _ in range(3)]
    read = loader._reader.read

    def interrupted(*args, **kwargs):
        read(*args, **kwargs)
        raise KeyboardInterrupt

    monkeypatch.setattr(loader._reader, "read", interrupted)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            next(loader)
    monkeypatch.undo()
    assert loader.state_dict()["global_step"] == 3
    got += [digest(next(loader)) for _ in range(5)]
    assert got == wanted
    assert loader.audit.compare()["web"]["sequences"] == loader.audit.compare()["web"]["expected_sequences"]


LOOP = """
import sys, time
from gristmill.loader import TokenLoader
loader = TokenLoader(sys.argv[1], "v1")
for batch in loader:
    print(batch["step"], flush=True)
    time.sleep(0.05)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_stopped_by_a_signal_and_started_again_at_once(plain, how):
    # Shared memory of a killed run has made the next one hang; nothing is left behind here, so nothing can.
    for _ in range(2):
        process = subprocess.Popen([sys.executable, "-c", LOOP, str(plain.root)], stdout=subprocess.PIPE, text=True,
                                   stderr=subprocess.DEVNULL, cwd=ROOT)
        assert process.stdout.readline() == "0\n"
        assert process.stdout.readline() == "1\n"
        process.send_signal(how)
        start = time.time()
        assert process.wait(20) != 0
        assert time.time() - start < 10


def _digests(root, rank, world, queue):
    loader = TokenLoader(root, "v1", rank=rank, world=world)
    queue.put((rank, [digest(next(loader)) for _ in range(6)]))


def _go_on(loader, queue):
    queue.put([digest(next(loader)) for _ in range(6)])


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_worker_processes_read_the_same(made, method):
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    workers = [context.Process(target=_digests, args=(str(made.root), r, 2, queue)) for r in range(2)]
    for worker in workers:
        worker.start()
    got = dict(queue.get(timeout=60) for _ in workers)
    for worker in workers:
        worker.join()
    for rank in range(2):
        loader = TokenLoader(made.root, "v1", rank=rank, world=2)
        assert got[rank] == [digest(next(loader)) for _ in range(6)]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_a_loader_that_has_read_goes_on_in_a_worker(made, method):
    context = multiprocessing.get_context(method)
    loader = TokenLoader(made.root, "v1")
    for _ in range(4):
        next(loader)
    queue = context.Queue()
    worker = context.Process(target=_go_on, args=(loader, queue))
    worker.start()
    got = queue.get(timeout=60)
    worker.join()
    assert got == [digest(next(loader)) for _ in range(6)]  # and the parent's is where it was


def test_a_pickled_loader_goes_on(made):
    loader = TokenLoader(made.root, "v1", provenance=True)
    for _ in range(4):
        next(loader)
    other = pickle.loads(pickle.dumps(loader))
    assert other.step == 4
    assert digest(next(other)) == digest(next(loader))


@pytest.mark.slow
def test_two_machines_agree(made):
    # Another process with other hash seeds, threads, locale and instruction set stands in for another machine.
    code = (
        "import sys, hashlib\nfrom gristmill.loader import TokenLoader\n"
        "h = hashlib.sha256()\n"
        "for b in TokenLoader(sys.argv[1], 'v1'): h.update(b['tokens'].tobytes())\n"
        "print(h.hexdigest())")
    seen = set()
    for environment in ({"PYTHONHASHSEED": "1", "LC_ALL": "C"}, {"PYTHONHASHSEED": "2", "NUMBA_NUM_THREADS": "1",
                                                                   "NUMBA_CPU_NAME": "generic"}):
        done = subprocess.run([sys.executable, "-c", code, str(made.root)], env={**os.environ, **environment}, cwd=ROOT,
                              capture_output=True, text=True, check=True)
        seen.add(done.stdout)
    mine = hashlib.sha256(b"".join(b["tokens"].tobytes() for b in TokenLoader(made.root, "v1"))).hexdigest()
    assert seen == {mine + "\n"}


def test_a_mixture_whose_length_is_not_a_multiple_ends_on_a_whole_step(tmp_path):
    made = small(tmp_path, phases=[phase({"web": "1", "code": "2"}, tokens=64 * 10 * 7 + 333)])
    batches = list(TokenLoader(made.root, "v1"))
    assert len(batches) == 7
    assert {len(b["tokens"]) for b in batches} == {10}


def test_a_source_smaller_than_a_batch(tmp_path):
    rng = np.random.default_rng(0)
    made = make_dataset(tmp_path, {"tiny": [[100]], "big": [rng.integers(50, 200, 300).tolist()]},
                        [phase({"tiny": "0.5", "big": "0.5"}, tokens=64 * 32 * 10, batch=[[32, None]])])
    loader = TokenLoader(made.root, "v1")
    for batch in loader:
        assert np.bincount(batch["sources"]).tolist() == [16, 16]
        rows = batch["tokens"][batch["sources"] == loader.source_names.index("tiny")]
        assert (rows == rows[0]).all()  # its single sequence
    assert loader.audit.compare()["tiny"]["sequences"] == 160


# The rest.


def test_the_dataset_is_imported_without_the_pipeline(made):
    code = (
        "import sys\n"
        "class Refuse:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in ('dagster', 'polars', 'pydantic', 'obstore', 'torch', 'yaml', 'blake3'):\n"
        "            raise ImportError(name)\n"
        "sys.meta_path.insert(0, Refuse())\n"
        "from gristmill.loader import TokenLoader\n"
        "from gristmill.mixture import replay\n"
        "print(next(TokenLoader(sys.argv[1], 'v1'))['tokens'].shape)")
    done = subprocess.run([sys.executable, "-c", code, str(made.root)], capture_output=True, text=True, cwd=ROOT,
                          check=False)
    assert done.stdout == "(4, 64)\n", done.stderr


def test_the_tokenizers_behaviour_is_checked(plain):
    TokenLoader(plain.root, "v1", tokenizer=lambda text: list(text.encode()))
    with pytest.raises(ManifestError, match=r"turns ' ' into \[220\]"):
        TokenLoader(plain.root, "v1", tokenizer=lambda text: [220] if text == " " else list(text.encode()))


def test_the_audit_summed_over_ranks_is_the_schedule(made):
    loaders = [TokenLoader(made.root, "v1", rank=r, world=3) for r in range(3)]
    for loader in loaders:
        loader.load_state_dict(loader.state_dict(5))
        for _ in range(40):
            next(loader)
    summed = sum(loader.audit.vector for loader in loaders)
    found = loaders[0].audit.compare(summed)
    assert sum(line["sequences"] for line in found.values()) > 300
    for line in found.values():
        assert line["sequences"] == line["expected_sequences"]
        assert line["share"] == line["expected_share"]
        assert line["repeats"] == 0


def test_memory_does_not_grow_with_samples(plain):
    import tracemalloc

    loader = TokenLoader(plain.root, "v1")
    for _ in range(50):
        next(loader)
    tracemalloc.start()
    for _ in range(30):
        next(loader)
    early = tracemalloc.get_traced_memory()[0]
    for _ in range(150):
        next(loader)
    late = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert late < early + 300_000  # at most the samples drawn ahead
