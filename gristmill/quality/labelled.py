"""Labelled texts for training and judging classifiers: reading them, and the split that is held out.

Belongs here: files of texts (JSON lines, Parquet, plain), labels joined to them, and the hold-out by hash of the text.
Does not belong here: classifiers. A text's side of the split is decided by its own hash, so it never moves between
runs, and equal texts never stand on both sides.
"""

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.errors import ParameterError
from gristmill.fingerprint import digest
from gristmill.quality.annotate import MAX_SCORE, Label

KINDS = (".jsonl", ".jsonl.gz", ".parquet", ".txt")


@dataclass(frozen=True)
class Labelled:
    """Texts with targets in [0, 1], each text once."""

    texts: tuple[str, ...]
    targets: tuple[float, ...]

    @property
    def good(self) -> list[str]:
        """Those to keep."""
        return [t for t, y in zip(self.texts, self.targets, strict=True) if y >= 0.5]

    @property
    def bad(self) -> list[str]:
        """The others."""
        return [t for t, y in zip(self.texts, self.targets, strict=True) if y < 0.5]


def read_texts(path: Path, field: str = "text") -> Iterator[tuple[str, str]]:
    """(id, text) of a file. Ids are ``doc_id``, ``id``, or the file's name and the number of the row; bytes in hex.

    ``.jsonl`` and ``.jsonl.gz`` hold an object a line, ``.parquet`` a column, ``.txt`` one text.

    Raises:
        ParameterError: another kind of file, a damaged one, or a row without the field, named by its number.
    """
    for name, text, _ in read_rows(path, field):
        yield name, text


def read_rows(path: Path, field: str = "text", beside: str = "lang") -> Iterator[tuple[str, str, str | None]]:
    """The same with one more field of each row where it has that one, such as its language."""
    try:
        yield from _read(path, field, beside)
    except (UnicodeDecodeError, EOFError, zlib.error, gzip.BadGzipFile, pa.ArrowException) as error:
        raise ParameterError(f"{path} cannot be read: {error}") from error


def distinct(rows: Iterable[tuple[str, str, str | None]]) -> list[tuple[str, str, str | None]]:
    """Each row once; what has an id is known by it alone.

    Raises:
        ParameterError: two texts have one id.
    """
    out: dict[str, tuple[str, str, str | None]] = {}
    for row in rows:
        if out.setdefault(row[0], row)[1] != row[1]:
            raise ParameterError(f"two texts have the id {row[0]}: labels are joined to texts by it")
    return list(out.values())


def _read(path: Path, field: str, beside: str) -> Iterator[tuple[str, str, str | None]]:
    if path.suffix == ".txt":
        yield path.name, path.read_text("utf-8", "replace"), None
        return
    if path.suffix == ".parquet":
        with pq.ParquetFile(path) as file:
            wanted = sorted({"doc_id", "id", field, beside} & set(file.schema_arrow.names))
            if field not in wanted:
                raise ParameterError(f"{path} has no column {field}: {', '.join(file.schema_arrow.names)}")
            number = 0
            for batch in file.iter_batches(1024, columns=wanted):
                for row in batch.to_pylist():
                    text = row[field]
                    if not isinstance(text, str | None):
                        raise ParameterError(f"{path}: the column {field} holds no strings; --field names another one")
                    yield _id(path, row, number), text or "", _beside(row, beside)
                    number += 1
        return
    if not path.name.endswith((".jsonl", ".jsonl.gz")):
        raise ParameterError(f"{path}: texts are read from {', '.join(KINDS)}")
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        for number, line in enumerate(file):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise TypeError("the line is no JSON object")
                text = row[field]
                if not isinstance(text, str):
                    raise TypeError(f"{field} is no string")
            except KeyError as error:
                there = ", ".join(map(str, row)) or "no field at all"
                raise ParameterError(f"{path}, line {number + 1}: no field {field!r}, only {there}: name the field of "
                                     "the text with --field") from error
            except (ValueError, TypeError, RecursionError) as error:
                raise ParameterError(f"{path}, line {number + 1}: no text in {field!r} ({error}); --field names "
                                     "another field") from error
            # a lone surrogate is valid JSON and no text: UTF-8 cannot hold it
            yield _text(_id(path, row, number)), _text(text), _beside(row, beside)


def _beside(row: dict[str, object], name: str) -> str | None:
    found = row.get(name)
    return found if isinstance(found, str) else None


def _text(value: str) -> str:
    return value.encode("utf-8", "replace").decode("utf-8")


def _id(path: Path, row: dict[str, object], number: int) -> str:
    found = row.get("doc_id", row.get("id"))
    return found.hex() if isinstance(found, bytes) else f"{path.name}:{number + 1}" if found is None else str(found)


def sides(good: Iterable[Path], bad: Iterable[Path], field: str = "text") -> Labelled:
    """Texts of two sets of files; a text in both is in neither (its label is unknown)."""
    high = {t for path in good for _, t in read_texts(path, field) if t.strip()}
    low = {t for path in bad for _, t in read_texts(path, field) if t.strip()}
    rows = sorted([(t, 1.0) for t in high - low] + [(t, 0.0) for t in low - high])
    return Labelled(tuple(t for t, _ in rows), tuple(y for _, y in rows))


def joined(labels: Sequence[Label], texts: Iterable[tuple[str, str]], keep_from: float = 3) -> Labelled:
    """A label bootstrap's labels with their texts: the mean score of the labellers, over the scale's maximum.

    Scores are moved so that ``keep_from`` lies at 0.5: what counts as good is the caller's. Texts without a valid score
    are left out.

    Raises:
        ParameterError: no text has a label with a score.
    """
    scores: dict[str, list[int]] = {}
    for label in labels:
        if label.score is not None:
            scores.setdefault(label.doc_id, []).append(label.score)
    rows: dict[str, float] = {}
    for name, text in texts:
        if name in scores and text.strip():
            mean = sum(scores[name]) / len(scores[name])
            low, span = (0.0, keep_from) if mean < keep_from else (keep_from, max(MAX_SCORE - keep_from, 1e-9))
            rows[text] = min(1.0, (mean - low) / span / 2 + (0.5 if mean >= keep_from else 0))
    if not rows:
        raise ParameterError(f"of {len(labels)} labels none with a score is of these texts: they are joined by id "
                             "(doc_id, id, or the file's name and row)")
    return Labelled(tuple(sorted(rows)), tuple(rows[t] for t in sorted(rows)))


def hold_out(data: Labelled, share: float) -> tuple[Labelled, Labelled]:
    """(for training, held out): by the hash of each text."""
    bound = int(share * 2**32)
    held = [int(digest(t)[:8], 16) < bound for t in data.texts]

    def part(which: bool) -> Labelled:
        rows = [(t, y) for t, y, h in zip(data.texts, data.targets, held, strict=True) if h is which]
        return Labelled(tuple(t for t, _ in rows), tuple(y for _, y in rows))

    return part(False), part(True)
