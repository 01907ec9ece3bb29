"""Files of other tools that are not what they should be: named by file and line, counted, and never a traceback."""

import gzip
import json

import pytest

from gristmill import strict_json
from gristmill.acquire.holdout import freeze
from gristmill.cli import main
from gristmill.errors import HoldoutError, ParameterError, RecipeError
from gristmill.interchange import jsonl
from gristmill.interchange.importing import import_jsonl, member
from gristmill.interchange.jsonl import Document, InterchangeError
from gristmill.mixture import recipe
from gristmill.params import read_pipeline
from gristmill.quality import annotate
from gristmill.quality.endpoint import AnnotationError
from gristmill.quality.labelled import read_texts

LONE = ['{"text": "\\ud800"}', '{"text": "a", "id": "\\uDFFF"}', '{"text": "a", "url": "http://a.example/\\uD800"}',
        '{"text": "a", "\\ud800": 1}']
DEEP = '{"text": "a", "x": ' + "[" * 200_000 + "]" * 200_000 + "}"


@pytest.mark.parametrize("line", [*LONE, DEEP])
def test_a_line_that_is_no_text_is_counted_and_named(tmp_path, capsys, line):
    file = tmp_path / "x.jsonl"
    file.write_text('{"text": "good", "id": "1"}\n' + line + "\n")
    assert main(["import", str(file), "--as", "IMP", "--landing", str(tmp_path / "landing")]) == 1
    out = capsys.readouterr().out
    assert f"not read: {file}, line 2: it " in out
    assert "BadLine" not in out
    assert "1 documents landed, 1 lines could not be read" in out


def test_surrogates_in_pairs_are_text_and_bytes_of_lone_ones_are_not():
    assert strict_json.loads(b'"\\ud83d\\ude00"') == "\U0001f600"
    assert strict_json.loads(b'"\\\\ud800"') == "\\ud800"  # six characters, no surrogate
    assert strict_json.loads(b"\xef\xbb\xbf1") == 1
    with pytest.raises(ValueError, match="utf-8"):
        strict_json.loads(b'"\xed\xa0\x80"')
    with pytest.raises(ValueError, match="lone surrogate"):
        strict_json.loads('"\ud800"')


@pytest.mark.parametrize("body", ["", "\n\n", '{"text": "\\ud800"}\n'])
def test_a_file_without_a_document_is_an_error_and_lands_nothing(tmp_path, capsys, body):
    file = tmp_path / "x.jsonl"
    file.write_text(body)
    landing = tmp_path / "landing"
    assert main(["import", str(file), "--as", "IMP", "--landing", str(landing)]) == 1
    assert f"nothing was landed: {file} holds no document" in capsys.readouterr().err
    assert not landing.exists()


def test_a_line_end_in_a_url_begins_no_field_of_the_record():
    record = gzip.decompress(member(Document("1", "text", url="http://a.example/\r\nWARC-Type: response\r\n\r\nx")))
    head = record.split(b"\r\n\r\n")[0]
    assert b"WARC-Target-URI: http://a.example/%0D%0AWARC-Type:%20response%0D%0A%0D%0Ax\r\n" in head
    assert head.count(b"WARC-Type") == 2


@pytest.mark.parametrize("when", [1_700_000_000, "0001-01-01T00:00:00+14:00", ["x"], "soon"])
def test_a_time_that_cannot_be_read_counts_as_none(tmp_path, when):
    file = tmp_path / "x.jsonl"
    file.write_text(json.dumps({"text": "a", "id": "1", "created": when}) + "\n")
    assert import_jsonl([file], "IMP", tmp_path / "landing").documents == 1
    doc = next(iter(jsonl.read([file])))
    assert b"WARC-Date: 1970-01-01T00:00:00Z" in gzip.decompress(member(doc))


def test_a_benchmark_with_a_lone_surrogate_names_file_and_line(tmp_path):
    file = tmp_path / "sur.jsonl"
    file.write_text('{"q": "fine"}\n{"q": "\\ud800"}\n')
    with pytest.raises(HoldoutError, match=r"sur\.jsonl cannot be read: line 2: it holds a lone surrogate"):
        freeze(tmp_path / "held", {"sur": file})
    (tmp_path / "sur.json").write_text('[{"q": "\\ud800"}]')
    with pytest.raises(HoldoutError, match=r"sur\.json cannot be read: it holds a lone surrogate"):
        freeze(tmp_path / "held", {"sur": tmp_path / "sur.json"})
    with pytest.raises(HoldoutError, match=r"benchmark rows: .*lone surrogate"):
        freeze(tmp_path / "held", {"rows": [{"q": "\ud800"}]})


def test_a_text_without_its_field_says_how_to_name_the_field(tmp_path):
    file = tmp_path / "x.jsonl"
    file.write_text('{"body": "x"}\n')
    with pytest.raises(ParameterError, match=r"line 1: no field 'text', only body: name the field .* --field"):
        list(read_texts(file))
    file.write_text(DEEP.replace("text", "body") + "\n")
    with pytest.raises(ParameterError, match="line 1: no text"):
        list(read_texts(file))
    file.write_text('{"text": "a", "id": "\\ud800"}\n')
    assert list(read_texts(file)) == [("?", "a")]


@pytest.mark.parametrize(("name", "data"), [
    ("x.jsonl", b'{"text": "\xff"}\n'),
    ("x.jsonl.gz", gzip.compress(b'{"text": "a"}\n' * 999, mtime=0)[:-9]), ("x.jsonl.gz", b"no"),
    ("x.parquet", b"no"),
])
def test_a_damaged_file_of_texts_is_named(tmp_path, name, data):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ParameterError, match=f"{name} cannot be read"):
        list(read_texts(tmp_path / name))


def test_a_label_that_is_none_is_named_by_its_line(tmp_path):
    for line in ("{", '{"no": 1}', "3", '{"doc_id": "\\ud800"}'):
        (tmp_path / "labels.jsonl").write_text("\n" + line + "\n")
        with pytest.raises(AnnotationError, match="line 2: no label"):
            annotate.read(tmp_path / "labels.jsonl")


def test_a_lone_surrogate_of_a_yaml_file_is_refused_too(tmp_path):
    file = tmp_path / "x.yaml"
    file.write_text('site: {store: "\\ud800"}\n')
    with pytest.raises(ParameterError, match=r"x\.yaml .*lone surrogate"):
        read_pipeline(file)
    file.write_text('sources: {web: {where: "\\ud800"}}\n')
    with pytest.raises(RecipeError, match=r"x\.yaml .*lone surrogate"):
        recipe.read(file)


def test_an_unreadable_line_is_an_error_where_nobody_counts(tmp_path):
    file = tmp_path / "x.jsonl"
    file.write_text(LONE[0] + "\n")
    with pytest.raises(InterchangeError, match="line 1: it holds a lone surrogate"):
        list(jsonl.read([file]))
