"""Hold-outs are written once, opened by hash, and refused when anything about them is not what was frozen."""

import gzip
import hashlib
import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gristmill.acquire import holdout
from gristmill.cli import main
from gristmill.errors import HoldoutError

MMLU = [{"id": "q1", "question": "What is 2+2?", "choices": ["3", "4"], "answer": 1},
        {"id": "q2", "question": "Who?", "choices": ["me", "you"], "answer": 0}]
FIELDS = {"mmlu": {"item": "id", "question": "question", "options": "choices"}}


def frozen(root):
    return holdout.freeze(root, {"mmlu": MMLU, "gsm": [{"problem": " a b ", "solution": "c"}]}, FIELDS)


def test_what_was_frozen_comes_back(tmp_path):
    new = frozen(tmp_path)
    found = holdout.open_holdout(tmp_path, new)
    assert list(found.benchmarks()) == [
        ("gsm", "0", {"problem": "a b", "solution": "c"}),
        ("mmlu", "q1", {"options": "3\n4", "question": "What is 2+2?"}),
        ("mmlu", "q2", {"options": "me\nyou", "question": "Who?"}),
    ]
    assert new == hashlib.sha256((tmp_path / holdout.MANIFEST).read_bytes()).hexdigest()


def test_freezing_the_same_again_changes_nothing_and_other_is_refused(tmp_path):
    new = frozen(tmp_path)
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*") if p.is_file()}
    assert frozen(tmp_path) == new
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*") if p.is_file()} == before
    with pytest.raises(HoldoutError, match=rf"{new}.*written once.*new root"):
        holdout.freeze(tmp_path, {"mmlu": MMLU[:1]}, FIELDS)
    assert holdout.open_holdout(tmp_path).hash == new


def test_one_mapping_may_serve_all(tmp_path):
    flat = {"question": "q"}
    new = holdout.freeze(tmp_path, {"a": [{"q": "x", "r": "y"}], "b": [{"q": "z"}]}, flat)
    assert [s for _, _, s in holdout.open_holdout(tmp_path, new).benchmarks()] == [{"question": "x"}, {"question": "z"}]


@pytest.mark.parametrize("kind", ["jsonl", "jsonl.gz", "json", "csv", "parquet"])
def test_every_form_of_file_gives_the_same_hash(tmp_path, kind):
    rows = [{"q": "one, \"two\"", "a": "drei\u2028vier"}, {"q": "line\nbreak", "a": "x"}]
    path = tmp_path / f"b.{kind}"
    lines = "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows).encode()
    if kind == "jsonl":
        path.write_bytes(lines)
    elif kind == "jsonl.gz":
        path.write_bytes(gzip.compress(lines))
    elif kind == "json":
        path.write_text(json.dumps(rows))
    elif kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_text('q,a\n"one, ""two""",drei\u2028vier\n"line\nbreak",x\n')
    assert holdout.freeze(tmp_path / "x", {"b": path}) == holdout.freeze(tmp_path / "y", {"b": rows})


@pytest.mark.parametrize(("benchmarks", "fields", "message"), [
    ({}, None, "no benchmark"), ({"a/b": MMLU}, None, "cannot name"), ({"a": []}, None, "holds no text"),
    ({"a": [{"n": 1}]}, None, "holds no text"), ({"a": MMLU}, {"a": {"question": "nope"}}, "no field 'nope'"),
    ({"a": [*MMLU, MMLU[0]]}, {"a": {"item": "id", "q": "question"}}, "occurs twice"),
    ({"a": "gone.jsonl"}, None, "cannot be read"), ({"a": "b.txt"}, None, "cannot be read|none of"),
])
def test_what_cannot_be_frozen(tmp_path, benchmarks, fields, message):
    with pytest.raises(HoldoutError, match=message):
        holdout.freeze(tmp_path, benchmarks, fields)
    assert not (tmp_path / holdout.MANIFEST).exists()


def test_extraction_is_told_why_it_cannot_start(tmp_path):
    with pytest.raises(HoldoutError, match=r"extract.holdout_hash is not set"):
        holdout.require(tmp_path, None)
    with pytest.raises(HoldoutError, match="no hold-outs"):
        holdout.require(tmp_path, "0" * 64)
    new = frozen(tmp_path)
    with pytest.raises(HoldoutError, match=rf"have hash {new}, the parameters name 0000"):
        holdout.require(tmp_path, "0" * 64)
    assert holdout.require(tmp_path, new).hash == new


def test_a_changed_or_missing_file_is_found(tmp_path):
    frozen(tmp_path)
    path = next((tmp_path / "benchmarks").glob("mmlu-*"))
    data = path.read_bytes()
    path.write_bytes(data[:-1] + b"x")
    with pytest.raises(HoldoutError, match="mmlu was changed"):
        list(holdout.open_holdout(tmp_path).benchmarks())
    path.unlink()
    with pytest.raises(HoldoutError, match="mmlu is gone"):
        list(holdout.open_holdout(tmp_path).benchmarks())
    (tmp_path / holdout.MANIFEST).write_text("{}")
    with pytest.raises(HoldoutError, match="not a hold-out manifest"):
        holdout.open_holdout(tmp_path)


def test_a_folder_has_no_object_lock(tmp_path):
    frozen(tmp_path)
    assert holdout.lock(tmp_path, "2030-01-01") == 0


@pytest.mark.service
def test_object_lock_where_the_bucket_offers_it(s3_server):
    boto3 = pytest.importorskip("boto3", reason="the extra aws is not installed")
    from botocore.exceptions import ClientError

    options = s3_server.options()
    client = boto3.client("s3", endpoint_url=s3_server.endpoint, region_name="us-east-1",
                          aws_access_key_id=s3_server.key, aws_secret_access_key=s3_server.secret)
    plain = holdout.freeze("s3://mill/holdout", {"b": MMLU}, options=options, lock_until="2099-01-01")
    assert holdout.open_holdout("s3://mill/holdout", plain, options=options).hash == plain
    with pytest.raises(HoldoutError, match="written once"):
        holdout.freeze("s3://mill/holdout", {"b": MMLU[:1]}, options=options)
    client.create_bucket(Bucket="locked", ObjectLockEnabledForBucket=True)
    root = "s3://locked/holdout"
    new = holdout.freeze(root, {"b": MMLU}, options=options)
    assert holdout.lock(root, "2099-01-01", options) == 2
    retention = client.get_object_retention(Bucket="locked", Key="holdout/holdout.json")["Retention"]
    assert (retention["Mode"], retention["RetainUntilDate"].year) == ("COMPLIANCE", 2099)
    versions = client.list_object_versions(Bucket="locked", Prefix="holdout/holdout.json")["Versions"]
    with pytest.raises(ClientError):
        client.delete_object(Bucket="locked", Key="holdout/holdout.json", VersionId=versions[0]["VersionId"])
    assert holdout.open_holdout(root, new, options=options).hash == new


def test_the_command_freezes_each_kind_of_file_under_the_names_that_are_given(tmp_path, capsys):
    (tmp_path / "gsm.jsonl").write_text('{"n": "a", "q": "one and one", "meta": "x"}\n')
    (tmp_path / "quiz.csv").write_text("question,answer\ntwo and two,four\n")
    root = str(tmp_path / "root")
    call = ["holdout", "freeze", root, str(tmp_path / "gsm.jsonl"), str(tmp_path / "quiz.csv")]
    assert main([*call, "--fields", "gsm", "item=n,question=q"]) == 0
    held = holdout.open_holdout(root, re.search("[0-9a-f]{64}", capsys.readouterr().out)[0])
    assert list(held.benchmarks()) == [("gsm", "a", {"question": "one and one"}),
                                       ("quiz", "0", {"answer": "four", "question": "two and two"})]
    (tmp_path / "p.yaml").write_text(f"site: {{store: s, holdout: {root}}}\nparams: {{extract: {{holdout_hash: "
                                     f"{held.hash}}}}}\n")
    assert main(["holdout", "list", "--pipeline", str(tmp_path / "p.yaml")]) == 0
    assert "quiz" in capsys.readouterr().out
    for wrong, words in ((["--fields", "mmlu", "q=q"], "benchmarks are gsm, quiz"), (["--fields", "gsm", "q"], "write"),
                         (["--fields", "gsm", "item=n"], "write"), (["--fields", "gsm", "q=z"], "no field 'z'"),
                         ([str(tmp_path / "gsm.jsonl")], "one name")):
        assert main([*call, *wrong]) == 1
        assert words in capsys.readouterr().err
