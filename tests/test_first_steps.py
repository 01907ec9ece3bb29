"""What a new user meets first: init with a rank file, lists that are empty yet."""

import base64
import json

import pytest

from gristmill.cli import main
from gristmill.params import read_pipeline


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


@pytest.mark.parametrize(("command", "says"), [
    (["robots", "list"], "no host has opted out"), (["licences", "list"], "the registry is empty"),
    (["pages", "list"], "nobody has been told anything"),
])
def test_an_empty_list_says_that_it_is_empty(tmp_path, capsys, command, says):
    file = tmp_path / "pipeline.yaml"
    file.write_text("site: {paging: {targets: [{kind: webhook, url: 'http://127.0.0.1:9/'}]}}\n"
                    "params: {grid: {host_buckets: 2}}\n")
    assert main([*command, "--pipeline", str(file)]) == 0
    assert says in capsys.readouterr().out
