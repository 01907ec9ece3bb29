"""A version's name means one version for good, also after it was dropped."""

from types import SimpleNamespace

import pytest

from gristmill.cli import main
from gristmill.commands import dataset
from gristmill.errors import ManifestError
from gristmill.release.ship import ship
from gristmill.release.standing import DROPPED, dropped, register
from gristmill.release.versions import retain, verify
from gristmill.store import Store
from tests.release.test_versions import build


def test_a_dropped_name_is_never_another_version(world, monkeypatch, capsys):
    one, two = build(world), build(world, "v2", seed=5)
    retain(world.store, 1, dry_run=True)
    assert dropped(world.store) == {}
    retain(world.store, 1)
    assert dropped(world.store) == {"v1": one.hash}
    before = dict(world.store.blobs.list(""))
    for seed in (3, 9):  # the same content again, and another
        with pytest.raises(ManifestError, match=f"{one.hash[:16]} and was dropped.*take v3"):
            build(world, "v1", seed=seed)
    assert dict(world.store.blobs.list("")) == before
    monkeypatch.setattr(dataset, "pipeline_of", lambda args: SimpleNamespace(store=world.store))
    assert main(["manifest", "list"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.split() == ["v1", one.hash, "(dropped)"]
    assert second.split() == ["v2", two.hash]
    world.store.blobs.delete(f"{DROPPED}/v1.json")  # as an earlier release left it
    with pytest.raises(ManifestError, match="by an earlier release and was dropped"):
        build(world, "v1")
    assert main(["manifest", "list"]) == 0
    assert capsys.readouterr().out.splitlines()[0].split() == ["v1", "(dropped)"]


def test_a_build_that_was_stopped_may_be_built_again(world):
    world.store.blobs.put("manifests/v1/statistics.json", b"{}")
    register(world.store, "v1")
    assert dropped(world.store) == {}
    assert build(world).new


def test_where_it_was_dropped_the_same_version_may_be_shipped_again(world, tmp_path):
    target = Store(tmp_path / "other")
    one = build(world)
    build(world, "v2", seed=5)
    ship(world.store, "v1", target)
    ship(world.store, "v2", target)
    retain(target, 1)
    assert dropped(target) == {"v1": one.hash}
    build_again = world.store.blobs.get(one.path)
    world.store.blobs.put(one.path, build_again.replace(b'"seed":3', b'"seed":4'))
    with pytest.raises(ManifestError, match="was dropped"):
        ship(world.store, "v1", target)
    world.store.blobs.put(one.path, build_again)
    ship(world.store, "v1", target)
    assert dropped(target) == {}
    assert verify(target, "v1", deep=True) == []
