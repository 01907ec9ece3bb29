"""Making room: what goes is what nothing reads, and what stays is whole."""

import os
import time

from gristmill import cli
from gristmill.funnel import FUNNEL, Plan
from gristmill.plan.collect import HISTORY, collect
from gristmill.runner import run_funnel
from gristmill.store import Key


def paths(store):
    return {path: size for path, size in store.blobs.list("") if not path.startswith(".locks")}


def test_results_of_parameters_nobody_uses_go_and_the_rest_is_untouched(small):
    before = paths(small.store)
    assert collect(small.store, [small.plan]).bytes == 0, "a fresh store has nothing to collect"
    other = Plan(small.changed(quality={"first_chars": 900}).params)
    small.take(other.params)
    added = {p: s for p, s in paths(small.store).items() if p not in before}
    found = collect(small.store, [small.plan, other])
    assert not found.superseded
    assert not found.orphans
    found = collect(small.store, [small.plan])
    assert {s.asset for s in found.superseded} == {"quality", *other.downstream("quality")} - set(HISTORY)
    assert all(s.fingerprint == other.fingerprints[s.asset] for s in found.superseded)
    assert paths(small.store) == {**before, **added}, "asking deletes nothing"
    collect(small.store, [small.plan], delete=True)
    left = {p for p in paths(small.store) if p not in before}
    assert {p.split("/")[0] for p in left} <= {*HISTORY, "shards"}, "reports are the past that crawls are held against"
    assert not {p for p in before if p not in paths(small.store)}
    assert not small.take(), "what was current is current"
    assert collect(small.store, [small.plan]).bytes == 0


def test_deleted_results_are_made_again(small):
    other = small.changed(quality={"first_chars": 900}).params
    small.take(other)
    digest = small.store.require(Key("quality", Plan(other).fingerprints["quality"], small.crawl, 0)).digest
    collect(small.store, [small.plan], delete=True)
    assert ("quality", 0) in small.take(other)
    assert small.store.require(Key("quality", Plan(other).fingerprints["quality"], small.crawl, 0)).digest == digest


def test_files_that_no_commit_names_and_what_killed_processes_left(small):
    folder = small.key("text", 0).path
    small.store.blobs.put(f"{folder}/{'0' * 40}.parquet", b"x" * 100)
    half = f"text/{small.plan.fingerprints['text']}/crawl=NEVER/host_bucket=0000"
    small.store.blobs.put(f"{half}/{'1' * 40}.parquet", b"y" * 50)
    root = os.path.join(small.store.root, folder)
    for name, age in ((".tmp-old", 2 * 86_400), (".tmp-new", 0)):
        with open(os.path.join(root, name), "wb") as file:
            file.write(b"z" * 10)
        os.utime(os.path.join(root, name), (time.time() - age,) * 2)
    found = collect(small.store, [small.plan], delete=True)
    assert sum(found.orphans.values()) == 150
    assert sum(found.temporary.values()) == 10
    assert os.path.exists(os.path.join(root, ".tmp-new")), "it may be a process at work"
    assert not collect(small.store, [small.plan]).bytes
    made = run_funnel(small.store, small.plan, small.site, small.crawl, workers=1)
    assert not [m for _, m in made if m.computed]
    assert {s.name for s in FUNNEL} >= {s.asset for s in found.superseded}


def test_the_command_says_and_then_does(small, tmp_path, capsys, monkeypatch):
    import yaml

    small.take(small.changed(quality={"first_chars": 900}).params)
    file = tmp_path / "pipeline.yaml"
    site = {k: v for k, v in small.site.model_dump(mode="json").items() if isinstance(v, str)}
    file.write_text(yaml.safe_dump({"site": site, "params": small.pipeline.params.model_dump(mode="json")}))
    assert cli.main(["collect", "--pipeline", str(file)]) == 0
    assert "could go: --delete" in capsys.readouterr().out
    assert cli.main(["collect", "--delete", "--pipeline", str(file)]) == 0
    assert "MB deleted" in capsys.readouterr().out
    assert cli.main(["collect", "--pipeline", str(file)]) == 0
    assert "nothing to collect" in capsys.readouterr().out
