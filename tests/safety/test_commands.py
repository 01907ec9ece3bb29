"""The command on texts: hashes that the lists take, and spans as the stage finds them."""

import json

import pyarrow as pa
import pytest

from gristmill.cli import main
from gristmill.deduplicate.normalise import doc_ids
from gristmill.safety import hash_lists
from gristmill.text_units import text_buffers

TEXTS = ["Write to jane@example.org or 192.168.0.1.", "A text of several words, no more.", "", "two words"]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps({"id": i, "body": t}) + "\n" for i, t in enumerate(TEXTS)))
    return ["--texts", str(path), "--field", "body"]


@pytest.mark.parametrize("kind", ["exact", "near"])
def test_a_list_of_printed_hashes_holds_those_texts(file, kind, capsys):
    assert main(["safety", "hash", "--kind", kind, *file]) == 0
    out = capsys.readouterr()
    column = pa.array([*TEXTS, "Another text, of other words than those."], pa.large_string())
    listed = hash_lists.HashList("x", kind, out.out.splitlines())
    held = listed.holds(doc_ids(column).to_pylist(), hash_lists.simhashes(*text_buffers(column)))
    assert held.tolist() == [True, True, False, kind == "exact", False]
    assert not any(word in out.out for word in ("jane", "words"))
    assert ("1 texts of fewer than three words" in out.err) == (kind == "near")


def test_spans_are_those_of_the_parameters_rules(file, tmp_path, capsys):
    pipeline = tmp_path / "pipeline.yaml"
    for private, kinds in ((False, ["email"]), (True, ["email", "ip"])):
        pipeline.write_text(json.dumps({"site": {"store": "s"}, "params": {"safety": {"private_ips": private}}}))
        assert main(["safety", "scan", "--json", *file, "--pipeline", str(pipeline)]) == 0
        rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [r["id"] for r in rows] == ["0", "1", "2", "3"]
        assert [s["kind"] for s in rows[0]["spans"]] == kinds
        assert not any(r["spans"] for r in rows[1:])
    assert main(["safety", "scan", *file, "--pipeline", str(pipeline)]) == 0
    assert "1 of 4 texts" in capsys.readouterr().out
