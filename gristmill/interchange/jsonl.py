"""Documents as JSON lines under zstd, in our shape and in those that datatrove and dolma read.

Belongs here: one document as one line and back, files of about a given size, and reading with what cannot be read
listed.
Does not belong here: which documents are exported (``export.py``), and tokens (``megatron.py``).

A round trip through any shape gives the same ``Document``, and writing it again the same bytes.
"""

import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import zstandard

from gristmill import strict_json
from gristmill.errors import GristmillError

Shape = Literal["gristmill", "datatrove", "dolma"]
SHAPES: tuple[Shape, ...] = ("gristmill", "datatrove", "dolma")
LEVEL = 6
FILE_BYTES = 512_000_000  # compressed: what object stores and readers are comfortable with
_META = ("lang", "lang_conf", "provenance_ref", "extract_meta", "url", "fetch_ts")


class InterchangeError(GristmillError):
    """A file cannot be read at all, or a document cannot be written."""


@dataclass(frozen=True)
class Document:
    """What travels between tools.

    Attributes:
        doc_id: hex, or the other tool's own id.
        text: UTF-8 text; never empty in what we write.
        lang, lang_conf: ISO 639-3 and its probability, where known.
        provenance_ref: ``crawl/bucket/record_id`` of ours.
        extract_meta: JSON object of the extraction.
        url, fetch_ts: where and when it was fetched (ISO 8601, UTC), where known.
        other: fields that are not ours, kept for the way back.
    """

    doc_id: str
    text: str
    lang: str | None = None
    lang_conf: float | None = None
    provenance_ref: str | None = None
    extract_meta: dict[str, Any] = field(default_factory=dict)
    url: str | None = None
    fetch_ts: str | None = None
    other: dict[str, Any] = field(default_factory=dict)


def to_line(doc: Document, shape: Shape = "gristmill") -> bytes:
    """One document as one line of UTF-8 JSON, the line end included."""
    ours = {name: getattr(doc, name) for name in _META}
    record: dict[str, Any]
    if shape == "gristmill":
        record = {"doc_id": doc.doc_id, "text": doc.text, **ours, **doc.other}
    elif shape == "datatrove":
        record = {"text": doc.text, "id": doc.doc_id, "metadata": {**ours, **doc.other}}
    elif shape == "dolma":
        when = doc.fetch_ts
        crawl = (doc.provenance_ref or "").partition("/")[0]
        record = {
            "id": doc.doc_id, "text": doc.text, "source": doc.other.get("source", crawl or "gristmill"),
            "added": doc.other.get("added", when), "created": when,
            "metadata": {**ours, **{k: v for k, v in doc.other.items() if k not in ("source", "added")}},
        }  # fmt: skip
    else:
        raise InterchangeError(f"shape {shape!r} is not one of {', '.join(SHAPES)}")
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8") + b"\n"


def from_line(line: bytes | str) -> Document:
    """A document from a line of any of the shapes, told apart by its fields.

    Raises:
        ValueError: it is no JSON object, has no text, or holds what is no Unicode text.
    """
    record = strict_json.loads(line)
    if not isinstance(record, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 - one kind of error for a bad line
    text = record.pop("text", None)
    if not isinstance(text, str):
        raise ValueError("no field text")  # noqa: TRY004
    if "doc_id" in record:
        fields = record
        name = str(fields.pop("doc_id"))
    else:
        name = str(record.pop("id", ""))
        metadata = record.pop("metadata", None) or {}
        if not isinstance(metadata, dict):
            raise ValueError("metadata is not an object")
        fields = {**metadata}
        created = record.pop("created", None)
        if created is not None and fields.get("fetch_ts") is None:
            fields["fetch_ts"] = created
        for key, value in record.items():
            fields.setdefault(key, value)
        _forget_what_we_added(fields)
    known = {key: fields.pop(key) for key in _META if key in fields}
    meta = known.pop("extract_meta", None)
    return Document(name, text, extract_meta=meta if isinstance(meta, dict) else {}, other=fields, **known)


def _forget_what_we_added(fields: dict[str, Any]) -> None:
    """Dolma's ``source`` and ``added`` where they say only what our own fields say."""
    crawl = str(fields.get("provenance_ref") or "").partition("/")[0]
    if fields.get("source") == (crawl or "gristmill"):
        del fields["source"]
    if "added" in fields and fields["added"] == fields.get("fetch_ts"):
        del fields["added"]


def write(
    docs: Iterable[Document], folder: str | Path, name: str, shape: Shape = "gristmill", file_bytes: int = FILE_BYTES
) -> list[Path]:
    """Write documents to ``folder/name-00000.jsonl.zst`` and so on; returns the files.

    Args:
        docs: in the order wanted; the same documents give the same bytes.
        folder: made where it is not.
        name: start of the file names.
        shape: of the lines.
        file_bytes: compressed bytes after which the next file begins, about.

    An export that fails leaves the files that were whole; one that ends takes the place of an earlier one of that name,
    whose further files go.
    """  # fmt: skip
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    files: list[Path] = []
    out: _File | None = None
    try:
        for doc in docs:
            line = to_line(doc, shape)
            if out is None:
                out = _File(target / f"{name}-{len(files):05d}.jsonl.zst")
                files.append(out.path)
            out.add(line)
            if out.size >= file_bytes:
                out.close()
                out = None
        if out is not None:
            out.close()
    except BaseException:
        if out is not None:
            out.drop()
        raise
    for path in target.glob(f"{name}-*.jsonl.zst"):
        number = path.name.removeprefix(f"{name}-").removesuffix(".jsonl.zst")
        if len(number) == 5 and number.isdecimal() and int(number) >= len(files):
            path.unlink()
    return files


class _File:
    """One output file; written aside and renamed when whole, so that a killed export leaves no half file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._aside = path.with_name(f".{path.name}.part")
        self._raw = self._aside.open("wb")
        self._zstd = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True).stream_writer(self._raw, closefd=False)
        self._lines = 0

    @property
    def size(self) -> int:
        return self._raw.tell()

    def add(self, line: bytes) -> None:
        self._zstd.write(line)
        self._lines += 1
        if self._lines % 256 == 0:
            self._zstd.flush(zstandard.FLUSH_BLOCK)  # so that ``size`` is nearly what has been written

    def close(self) -> None:
        self._zstd.flush(zstandard.FLUSH_FRAME)
        self._raw.close()
        self._aside.replace(self.path)

    def drop(self) -> None:
        self._raw.close()
        self._aside.unlink(missing_ok=True)


@dataclass(frozen=True)
class BadLine:
    """A line that could not be read: where, and why."""

    file: str
    line: int
    why: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.why}"


def read(files: Iterable[str | Path], bad: list[BadLine] | None = None) -> Iterator[Document]:
    """Documents of JSON-lines files (``.zst``, ``.gz`` or plain), in order.

    Args:
        files: paths.
        bad: takes the lines that cannot be read; without it the first of them is an error.

    Raises:
        InterchangeError: a file is missing, cut short or of another compression; or a line is bad and ``bad`` is None.
    """
    for file in files:
        path = Path(file)
        number = 0
        try:
            with _open(path) as lines:
                for line in lines:
                    number += 1
                    if not line.strip():
                        continue
                    try:
                        yield from_line(line)
                    except (ValueError, TypeError) as error:
                        if bad is None:
                            raise InterchangeError(f"{path}, line {number}: {error}") from error
                        bad.append(BadLine(str(path), number, str(error)[:300]))
        except FileNotFoundError as error:
            raise InterchangeError(f"no file {path}") from error
        except (OSError, EOFError, zstandard.ZstdError) as error:
            raise InterchangeError(f"{path} cannot be read after line {number}: {error}") from error


def _open(path: Path) -> Any:
    if path.suffix == ".zst":
        raw = path.open("rb")
        reader = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True, closefd=True)
        return io.BufferedReader(_Whole(reader, raw), 1 << 20)
    if path.suffix == ".gz":
        import gzip

        return gzip.open(path, "rb")
    return path.open("rb")


class _Whole(io.RawIOBase):
    """A zstd stream that says when its last frame is cut short; the library's own reader just ends there."""

    def __init__(self, reader: Any, raw: Any) -> None:
        self._reader, self._raw = reader, raw
        size = Path(raw.name).stat().st_size
        with Path(raw.name).open("rb") as head:
            self._complete = size == 0 or _frames_end_at(head, size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._reader.read(len(buffer))
        if not data and not self._complete:
            raise EOFError("the last zstd frame is cut short")
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._reader.close()
        super().close()


def _frames_end_at(file: Any, size: int) -> bool:
    """Do whole frames fill the file: walks block headers only (RFC 8878, section 3.1.1), decompressing nothing."""
    at = 0
    while at < size:
        file.seek(at)
        head = file.read(18)
        if len(head) < 5:
            return False
        magic = int.from_bytes(head[:4], "little")
        if 0x184D2A50 <= magic <= 0x184D2A5F:  # a skippable frame
            at += 8 + int.from_bytes(head[4:8], "little")
            continue
        if magic != 0xFD2FB528:
            return False
        flags = head[4]
        single, checksum = flags >> 5 & 1, flags >> 2 & 1
        content = (1 if single else 0, 2, 4, 8)[flags >> 6]
        at += 5 + (0 if single else 1) + (0, 1, 2, 4)[flags & 3] + content
        last = False
        while not last:
            file.seek(at)
            block = file.read(3)
            if len(block) < 3:
                return False
            value = int.from_bytes(block, "little")
            last, kind, length = bool(value & 1), value >> 1 & 3, value >> 3
            at += 3 + (1 if kind == 1 else length)
        at += 4 if checksum else 0
    return at == size
