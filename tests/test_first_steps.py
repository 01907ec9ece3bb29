"""What a new user meets first: init with a rank file, lists that are empty yet."""

import base64
import json

import pytest

import definitions
import launch
from gristmill.cli import main
from gristmill.commands import places
from gristmill.errors import GristmillError, ParameterError
from gristmill.params import NAME_A_FILE, Pipeline, SiteConfig, read_pipeline
from gristmill.registry import NO_CRAWL, Registry
from gristmill.store import Store


@pytest.fixture
def ranks(tmp_path):
    (tmp_path / "bench.jsonl").write_text(json.dumps({"question": "how many mills turn"}) + "\n")
    file = tmp_path / "x.tiktoken"
    file.write_text("".join(f"{base64.b64encode(bytes([b])).decode()} {b}\n" for b in range(256)))
    return ["init", str(tmp_path / "site"), "--holdout", str(tmp_path / "bench.jsonl"), "--tokenizer", str(file)]


def test_init_takes_what_a_rank_file_does_not_hold(tmp_path, ranks, capsys):
    assert main(ranks) == 1
    assert "`gristmill init` takes --pattern and --special-token" in capsys.readouterr().err
    assert main([*ranks, "--pattern", r"\S+|\s+"]) == 1  # documents end with a token that it does not have
    assert "<|endoftext|>" in capsys.readouterr().err
    assert main([*ranks, "--pattern", r"\S+|\s+", "--special-token", "<|endoftext|>"]) == 1
    assert "write TOKEN=ID" in capsys.readouterr().err
    assert main([*ranks, "--pattern", r"\S+|\s+", "--special-token", "<|endoftext|>=256"]) == 0
    made = read_pipeline(tmp_path / "site" / "pipeline.yaml").params.tokenize
    assert (made.pattern, made.special_tokens) == (r"\S+|\s+", {"<|endoftext|>": 256})


SPLIT = ["--pattern", r"\S+|\s+", "--special-token", "<|endoftext|>=256"]


@pytest.mark.parametrize("wrong", [
    [], ["--holdout-env", "no name"], ["--buckets", "0"], ["--holdout-fields", "bench", "question=answer"],
    ["--holdout-root", "ftp://elsewhere"], ["--lock-until", "some day"], ["--recipe", "BAD"],
])
def test_a_failed_init_leaves_no_folder_behind(tmp_path, ranks, capsys, wrong):
    (tmp_path / "recipe.yaml").write_text("a recipe\n")
    wrong = [str(tmp_path / "recipe.yaml") if w == "BAD" else w for w in wrong]
    if not wrong:
        (tmp_path / "bench.jsonl").write_text('{"question": ')
    there = sorted(tmp_path.rglob("*"))
    try:
        code = main([*ranks, *SPLIT, *wrong])
    except SystemExit as usage:
        code = usage.code
    assert code, capsys.readouterr()
    assert sorted(tmp_path.rglob("*")) == there


def test_options_are_judged_before_files_are_read(tmp_path, capsys):
    """Else an hour of reading ends with a word that was misspelt, or with a complaint about something else."""
    missing = str(tmp_path / "none.jsonl")
    imported = ["import", missing, "--landing", str(tmp_path / "landing")]
    for command, says in (
        ([*imported, "--as", "C", "--tier", "nope"], "tier 'nope' is none of"),
        ([*imported, "--as", "no name"], "'no name' cannot name a crawl"),
        (["quality", "train", "--kind", "ngram", "--order", "0", "--good", missing, "--bad", missing,
          "--out", str(tmp_path / "m")], "--order must lie between"),
        (["export", str(tmp_path / "out"), "--pipeline", missing], "say what to export"),
        (["restore", "C", "--asset", "txet", "--pipeline", missing], "there is no asset 'txet'"),
    ):
        assert main(command) == 1
        assert says in capsys.readouterr().err


def test_a_stage_that_does_not_exist_registers_no_crawl(tmp_path):
    site = SiteConfig(store=str(tmp_path / "store"))
    with pytest.raises(GristmillError, match="no stage txet"):
        launch.take(Pipeline(site=site), "C", landing=None, workers=1, only=["txet"], buckets=None, force=False)
    assert Registry(Store(site.store)).crawls() == []


@pytest.mark.parametrize(("command", "says"), [
    (["robots", "list"], "no host has opted out"), (["licences", "list"], "the registry is empty"),
    (["pages", "list"], "nobody has been told anything"),
    *((command, NO_CRAWL) for command in (["yields"], ["bill"], ["profile"], ["plan", "stale"], ["plan", "change"],
                                          ["plan", "funnel"], ["status"])),
    (["manifest", "list"], "`gristmill run --manifest v1` builds one"),
])
def test_an_empty_list_says_that_it_is_empty(tmp_path, capsys, command, says):
    file = tmp_path / "pipeline.yaml"
    file.write_text("site: {paging: {targets: [{kind: webhook, url: 'http://127.0.0.1:9/'}]}}\n"
                    "params: {grid: {host_buckets: 2}}\n")
    assert main([*command, "--pipeline", str(file)]) == 0
    shown = capsys.readouterr().out
    assert says in shown
    assert "everything is current" not in shown
    assert "all crawls are whole" not in shown


@pytest.mark.parametrize("command", ["yields", "bill", "profile", "status"])
def test_a_crawl_of_which_nothing_is_made_is_no_empty_table(tmp_path, capsys, command):
    file = tmp_path / "pipeline.yaml"
    file.write_text("site: {store: store}\nparams: {grid: {host_buckets: 2}}\n")
    Registry(Store(tmp_path / "store")).register("C-1")
    assert main([command, "--pipeline", str(file)]) == 0
    shown = capsys.readouterr().out
    assert "C-1" in shown
    assert "by today's parameters" in shown
    assert "all crawls are whole" not in shown
    assert "docs in" not in shown


def test_a_missing_parameter_file_is_told_in_one_way(tmp_path, capsys, monkeypatch):
    missing = tmp_path / "none.yaml"
    told = set()
    for command in (["yields", "--pipeline", str(missing)], ["manifest", "list", "--pipeline", str(missing)]):
        assert main(command) == 1
        told.add(capsys.readouterr().err)
    with pytest.raises(ParameterError) as refused:
        launch.run(["--crawl", "C", "--pipeline", str(missing)])
    assert told == {f"gristmill: {refused.value}\n"} == {f"gristmill: no parameter file {missing}: {NAME_A_FILE}\n"}

    monkeypatch.delenv(places.PIPELINE_VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)  # neither here nor in the project
    monkeypatch.setattr(places, "project_folder", lambda: tmp_path)
    monkeypatch.setattr(definitions, "ROOT", tmp_path)
    assert main(["yields"]) == 1
    with pytest.raises(ParameterError) as refused:
        launch.run(["--crawl", "C"])
    assert capsys.readouterr().err == f"gristmill: {refused.value}\n"
    assert str(refused.value) == f"no parameter file {tmp_path / 'pipeline.yaml'}: {NAME_A_FILE}"
