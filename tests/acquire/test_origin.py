"""What a supplier says of a document comes through heads unchanged; what cannot be read is no statement."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.acquire import origin
from gristmill.acquire.heads import parse_head

WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)
SAID = st.fixed_dictionaries({}, optional={
    "source_id": WORDS, "derived_from": st.text("0123456789abcdef", min_size=32, max_size=32),
    "generator_model_id": WORDS, "prompt_template_id": WORDS,
})


@given(SAID)
def test_any_id_comes_through_a_foreign_head_and_ours(said):
    foreign = b"WARC/1.0\r\nWARC-Type: resource\r\n" + origin.lines(said) + b"Content-Length: 0"
    parsed = parse_head(foreign)
    assert parsed is not None
    kept, readable = origin.carried(parsed[0])
    assert readable
    assert origin.read(b"WARC/1.1\r\nWARC-Type: resource\r\n" + kept + b"Content-Length: 0") == said


def test_what_names_no_document_is_refused_or_told():
    for parent in ("x", "AB" * 16, "ab" * 15):
        with pytest.raises(ValueError, match="not a doc_id"):
            origin.lines({"derived_from": parent})
    with pytest.raises(ValueError, match="8 KiB"):
        origin.lines({"source_id": "i" * 9000})
    kept, readable = origin.carried([(b"warc-gristmill-derived-from", b"x"), (b"warc-gristmill-source-id", b"7")])
    assert (kept, readable) == (b"WARC-Gristmill-Source-Id: 7\r\n", False)
    assert origin.carried([(b"warc-gristmill-colour", b"red")]) == (b"", False)
    assert origin.carried([(b"warc-type", b"response")]) == (b"", True)
