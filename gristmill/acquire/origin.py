"""What a supplier says of a document beside its bytes: its own id, and what synthetic text was made from and by.

Belongs here: these statements as fields of a WARC head, which intake carries into our own records and extraction reads.
Does not belong here: what is made of them (``provenance.py``, ``release/derived.py``, ``release/policy.py``). A page
cannot write them: they stand in the head that the crawler or ``gristmill import`` wrote.
"""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote

import pyarrow as pa

from gristmill import schemas
from gristmill.partition import Partition

# Name of the column -> the field of the head. Values are percent-encoded UTF-8.
FIELDS = {
    "source_id": b"WARC-Gristmill-Source-Id",
    "derived_from": b"WARC-Gristmill-Derived-From",
    "generator_model_id": b"WARC-Gristmill-Generator-Model-Id",
    "prompt_template_id": b"WARC-Gristmill-Prompt-Template-Id",
}
MARK = b"\r\nWARC-Gristmill-"
_VALUE = re.compile(rb"[\x21-\x7e]{1,8192}")
_DOC = re.compile(r"[0-9a-f]{32}")


def lines(values: Mapping[str, Any]) -> bytes:
    """Fields of a head, in order, for what is said; other keys are passed over.

    Raises:
        ValueError: ``derived_from`` is no doc_id of ours, or a value is over 8 KiB.
    """
    out = []
    for name, field in FIELDS.items():
        said = values.get(name)
        if said is None or said == "":
            continue
        value = quote(str(said), safe="/:._-").encode("ascii")
        if name == "derived_from" and not _DOC.fullmatch(str(said)):
            raise ValueError(f"derived_from is {str(said)[:60]!r}, not a doc_id (32 hexadecimal digits)")
        if not _VALUE.fullmatch(value):
            raise ValueError(f"{name} is over 8 KiB")
        out.append(b"%s: %s\r\n" % (field, value))
    return b"".join(out)


def carried(headers: list[tuple[bytes, bytes]]) -> tuple[bytes, bool]:
    """(the fields among headers of a foreign record as ours, is each of them readable)."""
    said = {n: v for n, v in headers if n.startswith(b"warc-gristmill-")}
    values = {name: unquote(said[f.lower()].decode("latin-1")) for name, f in FIELDS.items() if f.lower() in said}
    kept, readable = [], len(values) == len(said)
    for name, value in values.items():
        try:
            kept.append(lines({name: value}))
        except ValueError:
            readable = False
    return b"".join(kept), readable


def read(head: bytes) -> dict[str, str]:
    """What a WARC head of ours says, by column; empty for a page of the web."""
    if MARK not in head:
        return {}
    fields = dict(line.partition(b": ")[::2] for line in head.split(b"\r\n"))
    return {name: unquote(fields[f].decode("ascii")) for name, f in FIELDS.items() if f in fields}


def table(part: Partition) -> pa.Table:
    """ORIGINS of the text of a partition's bucket; a bucket in which nothing is said has no such file."""
    if not part.store.require(part.key("text")).role("origins"):
        return schemas.empty(schemas.ORIGINS)
    return part.read("text", role="origins")
