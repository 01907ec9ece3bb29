"""Damage of a version's shards: what verify says it looked at, and what ship lets travel."""

import contextlib
import re
from types import SimpleNamespace

import pytest

from gristmill.cli import main
from gristmill.commands import dataset
from gristmill.errors import ManifestError, ShardError
from gristmill.funnel import BY_NAME
from gristmill.loader import TokenLoader
from gristmill.release.ship import ship
from gristmill.release.standing import read_manifest
from gristmill.release.versions import examine, mending, verify
from gristmill.runner import run_stage
from gristmill.store import Store
from tests.release.test_versions import build
from tests.release.world import shard_paths


def flip(store: Store, path: str) -> bytes:
    """Damage a file without changing its size; what it held."""
    file = store.blobs.local(path)
    data = file.read_bytes()
    file.write_bytes(data[:5] + bytes([data[5] ^ 1]) + data[6:])
    return data


def test_verify_says_that_it_looked_at_sizes_only(world, monkeypatch, capsys):
    built = build(world)
    monkeypatch.setattr(dataset, "pipeline_of", lambda args: SimpleNamespace(store=world.store))
    flip(world.store, sorted(shard_paths(built.manifest).values())[0] + ".bin")
    assert main(["manifest", "verify", "v1"]) == 0
    assert "--deep reads every shard" in capsys.readouterr().out
    assert main(["manifest", "verify", "v1", "--deep"]) == 1
    said = capsys.readouterr().out
    assert "is damaged" in said
    assert "every shard was read" in said


@pytest.mark.parametrize("suffix", [".bin", ".idx", ".docs", ".meta"])
def test_verify_says_what_is_lost_what_was_read_and_what_brings_it_back(world, monkeypatch, capsys, suffix):
    built = build(world)
    monkeypatch.setattr(dataset, "pipeline_of", lambda args: SimpleNamespace(store=world.store))
    paths = shard_paths(built.manifest)
    lost = sorted(paths)[0]
    world.store.blobs.delete(paths[lost] + suffix)
    assert main(["manifest", "verify", "v1", "--deep"]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"shard {lost[:16]} ({paths[lost]}{suffix}) is missing"
    assert said[2:] == [f"({len(paths) - 1} of {len(paths)} shards were read)"]
    told = re.fullmatch(r"made again, by .* of v1: gristmill run --crawl (\S+) --stage shards --force", said[1])
    with pytest.raises(ShardError, match=r"`gristmill manifest verify v1 --deep` says what") if suffix != ".docs" else (
            contextlib.nullcontext()):
        loader = TokenLoader(world.store.root, "v1")
        for step in range(loader.schedule.steps):
            loader.batch(step)
    list(run_stage(world.store, world.plan, world.site, BY_NAME["shards"], told[1], force=True))
    assert main(["manifest", "verify", "v1", "--deep"]) == 0
    assert capsys.readouterr().out == "v1 is whole (every shard was read)\n"


def test_a_shard_that_no_crawl_makes_comes_from_another_store(world, tmp_path):
    built = build(world)
    target = Store(tmp_path / "other")  # it has a version's shards, and no crawl's partitions
    ship(world.store, "v1", target)
    path = sorted(shard_paths(built.manifest).values())[0]
    target.blobs.delete(f"{path}.bin")
    found = examine(target, "v1")
    (told,) = mending(target, "v1", found.lost)
    assert f"gristmill manifest ship v1 {target.root} --deep" in told
    ship(world.store, "v1", target, deep=True)
    assert verify(target, "v1", deep=True) == []


def test_a_damaged_shard_does_not_travel(world, tmp_path):
    built = build(world)
    path = sorted(shard_paths(built.manifest).values())[1] + ".bin"
    data = flip(world.store, path)
    target = Store(tmp_path / "other")
    with pytest.raises(ManifestError, match=r"damaged and was not copied: run `gristmill manifest verify v1 --deep`"):
        ship(world.store, "v1", target)
    assert target.blobs.size(path) is None
    with pytest.raises(ManifestError, match="no version"):
        read_manifest(target, "v1")
    for crawl in world.docs:
        list(run_stage(world.store, world.plan, world.site, BY_NAME["shards"], crawl, force=True))
    assert world.store.blobs.get(path) == data, "shards made again mend what had rotted"
    ship(world.store, "v1", target)
    assert verify(target, "v1", deep=True) == []


@pytest.mark.parametrize("suffix", [".bin", ".idx", ".docs", ".meta"])
def test_what_rotted_at_the_target_is_replaced(world, tmp_path, suffix):
    built = build(world)
    target = Store(tmp_path / "other")
    ship(world.store, "v1", target)
    path = sorted(shard_paths(built.manifest).values())[0] + suffix
    flip(target, path)
    assert ship(world.store, "v1", target).bytes_copied == 0, "sizes say nothing of it"
    again = ship(world.store, "v1", target, deep=True)
    assert again.shards_copied == 1
    assert target.blobs.get(path) == world.store.blobs.get(path)
    assert verify(target, "v1", deep=True) == []
    data = target.blobs.get(path)
    target.blobs.put(path, data[:-1])
    assert ship(world.store, "v1", target).bytes_copied == len(data), "another size is seen without reading"
