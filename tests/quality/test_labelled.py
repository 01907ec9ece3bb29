import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gristmill.cli import main
from gristmill.errors import ParameterError
from gristmill.quality.annotate import Label
from gristmill.quality.fasttext_classifier import buckets_for
from gristmill.quality.labelled import Labelled, hold_out, joined, read_texts, sides
from gristmill.quality.perplexity import LanguageModel
from tests.quality.test_fasttext_classifier import BAD, GOOD, texts


def test_texts_are_read_from_json_lines_parquet_and_plain_files(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "one", "id": 7}\n\n{"text": "two \\ud800"}\n')
    pq.write_table(pa.table({"doc_id": [b"\x01\x02"], "text": ["three"]}), tmp_path / "b.parquet")
    (tmp_path / "c.txt").write_text("four")
    assert list(read_texts(tmp_path / "a.jsonl")) == [("7", "one"), ("a.jsonl:3", "two ?")]
    assert list(read_texts(tmp_path / "b.parquet")) == [("0102", "three")]
    assert list(read_texts(tmp_path / "c.txt")) == [("c.txt", "four")]


@pytest.mark.parametrize(("name", "body", "words"), [
    ("a.jsonl", '{"body": "x"}\n', "line 1"), ("a.jsonl", "{", "line 1"), ("a.jsonl", '{"text": 3}', "no string"),
    ("a.csv", "text\n", "read from"),
])
def test_a_row_without_a_text_is_named(tmp_path, name, body, words):
    (tmp_path / name).write_text(body)
    with pytest.raises(ParameterError, match=words):
        list(read_texts(tmp_path / name))


def test_a_text_on_both_sides_is_on_neither(tmp_path):
    (tmp_path / "good.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in ("a", "b", "b", " ")))
    (tmp_path / "bad.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in ("b", "c")))
    assert sides([tmp_path / "good.jsonl"], [tmp_path / "bad.jsonl"]) == Labelled(("a", "c"), (1.0, 0.0))


def test_the_side_of_a_text_is_its_own_and_the_share_is_met():
    data = Labelled(tuple(f"text {i}" for i in range(4000)), (1.0,) * 4000)
    train, held = hold_out(data, 0.1)
    assert 330 < len(held.texts) < 470
    assert set(train.texts).isdisjoint(held.texts)
    again = hold_out(Labelled(data.texts[::2], data.targets[::2]), 0.1)[1]
    assert set(again.texts) == set(held.texts) & set(data.texts[::2])


def test_mean_scores_become_targets_around_the_score_that_is_kept():
    labels = [Label(d, who, "r", "", "", s) for d, who, s in
              (("a", "x", 5), ("a", "y", 5), ("b", "x", 3), ("c", "x", 0), ("d", "x", None))]
    found = joined(labels, [("a", "A"), ("b", "B"), ("c", "C"), ("d", "D"), ("e", "E")])
    assert found == Labelled(("A", "B", "C"), (1.0, 0.5, 0.0))


def write(path, rows):
    path.write_text("".join(json.dumps({"text": t}) + "\n" for t in rows))
    return str(path)


@pytest.mark.parametrize(("texts", "buckets"), [(1, 50_000), (600, 120_000), (10_000, 2_000_000), (10**7, 2_000_000)])
def test_a_classifiers_table_grows_with_its_texts_up_to_the_reference(texts, buckets):
    assert buckets_for(texts) == buckets


def test_the_command_trains_judges_on_texts_held_out_packs_and_registers(tmp_path, capsys):
    good = write(tmp_path / "g.jsonl", texts(GOOD, 80, 1))
    bad = write(tmp_path / "b.jsonl", texts(BAD, 80, 2))
    common = ["--good", good, "--bad", bad, "--models", str(tmp_path / "cache")]
    assert main(["quality", "train", *common, "--small", "--hold-out", "0.2", "--out", str(tmp_path / "m.bin")]) == 0
    told = capsys.readouterr().out
    assert "AUC 1.0000" in told
    pinned = json.loads(told.split("classifier: ")[1])
    assert (tmp_path / "cache" / pinned["sha256"] / "m.bin").read_bytes() == (tmp_path / "m.bin").read_bytes()
    packed = tmp_path / "m.ftz"
    assert main(["quality", "train", *common, "--small", "--pack", "--out", str(packed)]) == 0
    assert packed.stat().st_size < (tmp_path / "m.bin").stat().st_size / 3
    unseen = ["--good", write(tmp_path / "g2.jsonl", texts(GOOD, 60, 3)),
              "--bad", write(tmp_path / "b2.jsonl", texts(BAD, 60, 4))]
    capsys.readouterr()
    assert main(["quality", "evaluate", str(packed), "--json", *unseen]) == 0
    assert json.loads(capsys.readouterr().out)["auc"] > 0.97
    assert main(["quality", "train", "--good", good, "--models", str(tmp_path), "--out", str(packed)]) == 1
    assert "both sides" in capsys.readouterr().err


def test_one_data_set_is_learnt_by_scorers_of_every_kind_and_judged_side_by_side(tmp_path, capsys):
    good, bad = write(tmp_path / "g.jsonl", texts(GOOD, 80, 1)), write(tmp_path / "b.jsonl", texts(BAD, 80, 2))
    common = ["--good", good, "--bad", bad, "--hold-out", "0.3"]
    cache = ["--models", str(tmp_path / "cache")]
    files = {"fasttext": tmp_path / "m.bin", "ngram": tmp_path / "m.arpa"}
    for kind, file in files.items():
        more = ["--small"] if kind == "fasttext" else ["--order", "2"]
        assert main(["quality", "train", "--kind", kind, *common, *cache, *more, "--out", str(file)]) == 0
    told = capsys.readouterr().out
    [scorer] = json.loads(told.split("scorers: ")[1])
    assert (scorer["name"], scorer["kind"]) == ("ngram", "ngram")
    assert LanguageModel.read(tmp_path / "cache" / scorer["model"]["sha256"] / "m.arpa").order == 2
    assert main(["quality", "evaluate", *map(str, files.values()), *common, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [f["model"] for f in found] == [str(f) for f in files.values()]
    assert all(f["good"] + f["bad"] < 80 for f in found)  # of 160: only what no scorer saw
    assert all(f["auc"] > 0.97 for f in found)


@pytest.mark.parametrize(("more", "words"), [
    (["--hold-out", "2"], "between 0 and 1"), (["--labels", "no.jsonl"], "no file of labels"),
    (["--kind", "ngram", "--order", "9"], "order must lie"), (["--keep-from", "9", "--labels", "l.jsonl"], "keep-from"),
    (["--labels", "l.jsonl", "--texts", "g.jsonl"], "joined by id"), (["--labels", "l.jsonl", "--texts", "g.jsonl",
     "h.jsonl"], "two texts have the id"),
])
def test_what_cannot_be_trained_on_is_said(tmp_path, capsys, monkeypatch, more, words):
    monkeypatch.chdir(tmp_path)
    for name, text in (("g.jsonl", "one"), ("h.jsonl", "two"), ("b.jsonl", "three")):
        (tmp_path / name).write_text(json.dumps({"id": 1, "text": text}) + "\n")
    (tmp_path / "l.jsonl").write_text(json.dumps(vars(Label("9", "x", "r", "", "", 4))) + "\n")
    try:
        code = main(["quality", "train", "--good", "g.jsonl", "--bad", "b.jsonl", "--models", "m", "--out", "o", *more])
    except SystemExit as stop:
        code = stop.code
    assert code
    assert words in capsys.readouterr().err
