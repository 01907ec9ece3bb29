"""Reading manifests: what is not one is refused, and a million shards fit."""

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from gristmill.errors import ManifestError
from gristmill.loader import open_manifest
from tests.loader.make import canonical, many_shards, small

ROOT = Path(__file__).resolve().parents[2]


def test_a_manifest_is_found_by_version_or_path_and_pinned_by_hash(tmp_path):
    made = small(tmp_path, select=0.5)
    digest = hashlib.sha256(made.path.read_bytes()).hexdigest()
    for name in ("v1", str(made.path), "manifests/v1/manifest.json"):
        manifest = open_manifest(tmp_path, name, expected_hash=digest)
        assert manifest.hash == digest
        assert manifest.pins()["recipe"] == made.manifest["recipe_hash"]
    with pytest.raises(ManifestError, match="pinned is 00"):
        open_manifest(tmp_path, "v1", expected_hash="00")
    with pytest.raises(ManifestError, match="no manifest v2"):
        open_manifest(tmp_path, "v2")


def test_the_stores_own_manifest_comes_before_one_of_the_working_folder(tmp_path, monkeypatch):
    ours, other = small(tmp_path / "ours"), small(tmp_path / "other", seed=9)
    monkeypatch.chdir(tmp_path / "other")
    digest = hashlib.sha256(ours.path.read_bytes()).hexdigest()
    assert open_manifest(tmp_path / "ours", "manifests/v1/manifest.json").hash == digest
    copy = tmp_path / "other" / "copy.json"
    copy.write_bytes(ours.path.read_bytes())
    assert open_manifest(tmp_path / "ours", "copy.json").hash == digest  # only here: the working folder's it is
    assert open_manifest(tmp_path / "ours", other.path).hash != digest


def test_shards_are_read_as_they_are_written(tmp_path):
    made = small(tmp_path, select=0.5)
    manifest = open_manifest(tmp_path, "v1")
    for source, entry in made.manifest["sources"].items():
        shards = manifest.sources[source]
        assert [shards.hash(i) for i in range(len(shards))] == [e["hash"] for e in entry["shards"]]
        assert [shards.path(i) for i in range(len(shards))] == [e["path"] for e in entry["shards"]]
        assert shards.counts.tolist() == [
            [e[k] for k in ("n_docs", "n_tokens", "selected_docs", "selected_tokens")] for e in entry["shards"]]
        for row, e in enumerate(entry["shards"]):
            chosen = manifest.selection.ordinals(source, e["hash"])
            wanted = made.selected[source, e["hash"]]
            assert wanted == (list(range(e["n_docs"])) if chosen is None else chosen.tolist()), row
    with pytest.raises(ManifestError, match="does not list shard"):
        manifest.selection.ordinals("web", "00" * 32)


def test_shards_at_unusual_paths_keep_them(tmp_path):
    made = small(tmp_path)
    entry = made.manifest["sources"]["web"]["shards"][2]
    entry["path"] = "elsewhere/x"
    made.path.write_bytes(canonical(made.manifest))
    shards = open_manifest(tmp_path, "v1").sources["web"]
    assert shards.path(2) == "elsewhere/x"
    assert shards.path(1) != "elsewhere/x"


@pytest.mark.parametrize(("change", "message"), [
    (lambda m: m.pop("kind"), "is not a gristmill-manifest"),
    (lambda m: m.update(format=2), "has format 2"),
    (lambda m: m.pop("seed"), "lacks 'seed'"),
    (lambda m: m.pop("sources"), "lacks 'sources'"),
    (lambda m: m["sources"]["web"]["layouts"].update({"concat:64": [1]}), "has 9 shards, layout concat:64 1"),
])
def test_what_is_not_a_manifest_is_refused(tmp_path, change, message):
    made = small(tmp_path)
    change(made.manifest)
    made.path.write_bytes(canonical(made.manifest))
    with pytest.raises(ManifestError, match=message):
        open_manifest(tmp_path, "v1")


def test_what_is_not_json_is_refused(tmp_path):
    made = small(tmp_path)
    made.path.write_bytes(made.path.read_bytes()[:-40])
    with pytest.raises(ManifestError, match="is not JSON"):
        open_manifest(tmp_path, "v1")


MEASURE = """
import sys, numpy as np
from gristmill.loader import TokenLoader
loader = TokenLoader(sys.argv[1], "v1")
sampler = loader.sampler
sampler.locate_many(np.full(512, 1000), np.arange(512))
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(sampler.shards, int(peak.split()[1]) / 2**20)
"""


@pytest.mark.slow
def test_a_million_shards_take_less_than_a_gigabyte(tmp_path):
    many_shards(tmp_path)
    done = subprocess.run([sys.executable, "-c", MEASURE, str(tmp_path)], capture_output=True, text=True, check=True,
                          cwd=ROOT)
    print(done.stdout)
    shards, gigabytes = done.stdout.split()
    assert int(shards) == 1_000_000
    assert float(gigabytes) < 1.0
