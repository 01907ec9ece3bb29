"""Bad shards: the same substitute on every rank, agreed on ahead, counted, carried in checkpoints, and bounded."""

import json

import numpy as np
import pytest

from gristmill.errors import CheckpointError, ShardError
from gristmill.loader import SkipFolder, SkipSet, TokenLoader
from gristmill.loader.skips import Hole, Skip
from tests.loader.make import make_dataset, phase


@pytest.fixture
def made(tmp_path):
    """40 shards of web: a skipped one is 2.5 % of it."""
    rng = np.random.default_rng(4)
    return make_dataset(
        tmp_path / "data",
        {"web": [rng.integers(30, 300, 20).tolist() for _ in range(40)], "code": [rng.integers(30, 300, 30).tolist()]},
        [phase({"web": "0.8", "code": "0.2"}, tokens=64 * 20 * 200, batch=[[20, None]])])


def web_shard(made, row):
    return made.manifest["sources"]["web"]["shards"][row]["hash"]


def damage(made, hash_):
    path = next((made.root / "shards").rglob(f"{hash_}/*.bin"))
    raw = bytearray(path.read_bytes())
    raw[10] ^= 1
    path.write_bytes(raw)


def stream(loaders):
    """{(step, position): (tokens, shard)} of loaders that go step by step together."""
    shown = {}
    while loaders[0].step < loaders[0].steps:
        for loader in loaders:
            batch = next(loader)
            for i, position in enumerate(batch["positions"].tolist()):
                shown[batch["step"], position] = (
                    batch["tokens"][i].tobytes(), batch["shards"][i], bool(batch["replaced"][i]))
    return shown


def loaders_of(made, world, **more):
    return [TokenLoader(made.root, "v1", rank=r, world=world, provenance=True, max_skipped="0.1", **more)
            for r in range(world)]


def test_from_its_step_on_a_shard_is_replaced_by_its_successor_on_every_rank(made):
    bad = web_shard(made, 7)
    before = stream(loaders_of(made, 1))
    got = {}
    for world in (1, 3):
        loaders = loaders_of(made, world)
        for loader in loaders:
            loader.skip(bad, 25, "looks wrong")
        got[world] = stream(loaders)
        assert sum(loader.audit.compare()["web"]["repeats"] for loader in loaders) == sum(
            1 for k, v in before.items() if v[1] == bad and k[0] >= 25)
    assert got[1] == got[3]
    assert any(v[1] == bad for k, v in before.items() if k[0] >= 25)
    successors = set()
    for where, (tokens, shard, replaced) in got[1].items():
        old_tokens, old_shard, _ = before[where]
        if where[0] >= 25 and old_shard == bad:
            assert replaced
            successors.add(shard)
        else:
            assert (tokens, shard, replaced) == (old_tokens, old_shard, False)
    assert len(successors) == 1
    assert bad not in successors


def test_a_skipped_successor_passes_on_to_the_next(made):
    bad = web_shard(made, 7)
    one = loaders_of(made, 1)[0]
    one.skip(bad, 0, "a")
    first = {v[1] for k, v in stream([one]).items() if v[2]}
    two = loaders_of(made, 1)[0]
    two.skip(bad, 0, "a")
    two.skip(next(iter(first)), 0, "b")
    both = {v[1] for v in stream([two]).values()}
    assert bad not in both
    assert not first & both


def test_a_bad_block_is_skipped_and_the_stream_reads_again_from_its_checkpoint(made):
    bad = web_shard(made, 3)
    clean = stream(loaders_of(made, 1))
    damage(made, bad)
    loader = loaders_of(made, 1)[0]
    got = stream([loader])
    met = min(k for k, v in clean.items() if v[1] == bad)
    assert [s.shard for s in loader.skips.skips] == [bad]
    assert loader.skips.skips[0].from_step == met[0] + 1
    assert {(h.step, h.position) for h in loader.skips.holes} == {
        k for k, v in clean.items() if v[1] == bad and k[0] == met[0]}
    assert all(v[1] != bad for v in got.values())
    assert {k for k, v in got.items() if v[2]} == {k for k, v in clean.items() if v[1] == bad}
    state = json.loads(json.dumps(loader.state_dict(0)))
    for world in (1, 4):
        again = loaders_of(made, world)
        for one in again:
            one.load_state_dict(state)
        assert stream(again) == got


def test_ranks_agree_through_a_folder(made, tmp_path):
    bad = web_shard(made, 3)
    clean = stream(loaders_of(made, 1))
    damage(made, bad)
    loaders = loaders_of(made, 4, agree=None)
    with pytest.raises(ShardError, match=r"agree="):
        stream(loaders)
    loaders = [TokenLoader(made.root, "v1", rank=r, world=4, provenance=True, max_skipped="0.1",
                           agree=SkipFolder(tmp_path / "agreed", margin=5)) for r in range(4)]
    got = stream(loaders)
    first = min(k for k, v in clean.items() if v[1] == bad)
    assert {loader.skips.skips[0].from_step for loader in loaders} == {first[0] + 5}
    assert all(loader.skips.state() == loaders[0].skips.state() for loader in loaders)
    assert {k for k, v in got.items() if v[2]} == {k for k, v in clean.items() if v[1] == bad}
    # once more, by one rank, from what rank 2 saved
    again = loaders_of(made, 1)[0]
    again.load_state_dict(loaders[2].state_dict(0))
    assert stream([again]) == got
    # a second run of the same job finds the folder and holds by it from the start
    rerun = [TokenLoader(made.root, "v1", rank=r, world=2, provenance=True, max_skipped="0.1",
                         agree=SkipFolder(tmp_path / "agreed", margin=5)) for r in range(2)]
    assert stream(rerun) == got


def test_two_ranks_that_find_the_same_shard_agree_on_the_first(tmp_path):
    a, b = SkipFolder(tmp_path, 10), SkipFolder(tmp_path, 10)
    a.propose("s", "first", 100)
    b.propose("s", "second", 103)
    assert a.known()[0] == b.known()[0] == [Skip("s", 110, "first")]
    b.hole(Hole(103, 4, "s"))
    assert a.known()[1] == [Hole(103, 4, "s")]


def test_ranks_agree_through_a_callback(made):
    bad = web_shard(made, 3)
    damage(made, bad)
    asked = []

    def ask(shard, reason, step):
        asked.append((shard, step))
        return step + 3

    loader = TokenLoader(made.root, "v1", provenance=True, max_skipped="0.1", agree=ask)
    stream([loader])
    assert [s for s, _ in asked] == [bad]
    assert loader.skips.skips[0].from_step == asked[0][1] + 3


def test_what_comes_too_late_is_refused(made, tmp_path):
    loader = TokenLoader(made.root, "v1", max_skipped="0.1", agree=SkipFolder(tmp_path / "agreed"))
    for _ in range(5):
        next(loader)
    SkipFolder(tmp_path / "agreed", margin=1).propose(web_shard(made, 0), "late", 2)
    with pytest.raises(ShardError, match="skipped from step 3, and this rank has shown step 4"):
        next(loader)


def test_more_than_a_thousandth_stops_the_run(made):
    loader = TokenLoader(made.root, "v1")
    with pytest.raises(ShardError, match=r"hold \d\.\d+% of what phase main draws, more than 0\.100%"):
        loader.skip(web_shard(made, 0), 10, "bad")
    assert not loader.skips
    assert next(loader)["step"] == 0  # who goes on in spite of it goes on as before
    # 1 of 40 shards at weight 0.8 is 2 %
    TokenLoader(made.root, "v1", max_skipped="0.03").skip(web_shard(made, 0), 10, "bad")


def test_a_source_without_a_good_shard_stops_the_run(made):
    loader = TokenLoader(made.root, "v1", max_skipped="1")
    loader.skip(made.manifest["sources"]["code"]["shards"][0]["hash"], 5, "bad")
    with pytest.raises(ShardError, match="source code has no readable shard left at step 5"):
        list(loader)
    assert loader.step == 5


def test_contradictions_and_strangers_are_refused(made):
    loader = TokenLoader(made.root, "v1", max_skipped="0.1")
    loader.skip(web_shard(made, 0), 5, "bad")
    loader.skip(web_shard(made, 0), 5, "bad again")
    with pytest.raises(ShardError, match="one skip set"):
        loader.skip(web_shard(made, 0), 6, "bad")
    with pytest.raises(ShardError, match="does not have"):
        TokenLoader(made.root, "v1").skip("ab" * 32, 5, "bad")


def test_a_reader_among_others_does_not_decide_alone(made):
    damage(made, web_shard(made, 3))
    for agree in (None, lambda shard, reason, step: step + 1):
        loader = TokenLoader(made.root, "v1", max_skipped="0.1", agree=agree)
        loader.agree_with_others()
        with pytest.raises(ShardError, match="agree="):
            list(loader)
        assert not loader.skips


def test_looking_at_a_batch_changes_nothing(made):
    bad = web_shard(made, 3)
    clean = stream(loaders_of(made, 1))
    met = min(k for k, v in clean.items() if v[1] == bad)
    damage(made, bad)
    loader = loaders_of(made, 1)[0]
    with pytest.raises(ShardError):
        loader.batch(met[0])
    assert not loader.skips


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"shard": "a", "from_step": "soon", "reason": "r"}'])
def test_a_file_that_says_nothing_stops_the_run_by_name(tmp_path, text):
    (tmp_path / "a.skip").write_text(text)
    with pytest.raises(ShardError, match=r"a\.skip is not a file that ranks agree by"):
        SkipFolder(tmp_path).known()


def test_a_folder_that_cannot_be_written_is_named(made, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ShardError, match=r"ranks cannot agree on .*it must be a folder"):
        SkipFolder(tmp_path / "file" / "skips").propose("a", "bad", 3)
    with pytest.raises(ShardError, match="ranks cannot agree through"):
        SkipFolder(tmp_path / "file").known()


def test_the_set_goes_to_json_and_back():
    skips = SkipSet([Skip("b", 7, "x"), Skip("a", 9, "y")], [Hole(3, 4, "b"), Hole(3, 4, "a")])
    state = json.loads(json.dumps(skips.state()))
    assert SkipSet.from_state(state).state() == state
    assert SkipSet.from_state(state).holes_at(3, 4) == {"a", "b"}
    with pytest.raises(CheckpointError):
        SkipSet.from_state([{"from_step": 3}])
