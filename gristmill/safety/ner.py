"""Names and postal addresses in prose, as spans, by a token classifier in ONNX. Off unless a model is named.

Belongs here: windows over a text, words and spans out of token labels, bytes out of characters. Does not belong here:
running the model (``gristmill/embed``), kinds that have a form (``pii.py``), which spans a release replaces (the
stage).

A city, a state or a postcode is no address; a street with a number is, with what adjoins it. Labels of a token come
from the window in which it is further from an edge, so that neither a name nor an address is cut by a window. The
model's products are summed a batch at a time: spans are decided by the texts and their order, like embeddings.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from gristmill.embed.embedding import EmbedStats, ahead, batches, padded
from gristmill.embed.engines import Device, Engine, labels, open_logits
from gristmill.errors import ModelError
from gristmill.params import NerParams
from gristmill.safety.pii import Span

DOCS = 256  # documents tokenised ahead
NAME, ADDRESS = "name", "address"
# Entities of the labels (without B- and I-) -> columns of a word's probabilities: name, address, street.
ENTITIES: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("GIVEN_NAME", "SURNAME", "PER", "PERSON", "NAME", "FIRSTNAME", "LASTNAME"), (0,)),
    **dict.fromkeys(("STREET_NAME", "STREET", "STREET_ADDRESS", "SECONDARY_ADDRESS", "ADDRESS"), (1, 2)),
    **dict.fromkeys(("BUILDING_NUMBER", "ZIP_CODE", "ZIPCODE", "CITY", "STATE"), (1,)),
}
# What may stand between two words of one span: of an address also one word that the model left out ("Suite").
_NAME_GAP = re.compile(r"[ \u00a0.\-'’]{0,3}")
_PUNCTUATION = r"[\s,.;:/#()'’\-–>|]*"
_ADDRESS_GAP = re.compile(rf"{_PUNCTUATION}(?:\w{{1,12}}{_PUNCTUATION})?")
_MOST_GAP = 24  # characters


class Word(NamedTuple):
    """Characters ``start`` to ``end`` of a text, and the mean over its tokens of its probabilities."""

    start: int
    end: int
    name: float
    address: float
    street: float


def scan(texts: Sequence[str] | pa.Array | pa.ChunkedArray, params: NerParams, *, cache_dir: str,
         device: Device = "cpu") -> tuple[list[list[Span]], EmbedStats]:
    """Spans of names and addresses.

    Args:
        texts: documents.
        params: the model, which kinds, and how it looks.
        cache_dir: the site's model cache.
        device: as for ``embed``.

    Returns:
        For each document its spans, as bytes of its UTF-8, in order and without overlaps; and what the pass did
        (``truncated`` are the texts of more than one window).

    Raises:
        ModelError: the model is not on this machine, or labels neither names nor addresses.
    """
    engine, folder = open_logits(params.model, cache_dir, params.window, params.overlap, device)
    columns = _columns(labels(folder), str(folder))
    stats = EmbedStats(texts=len(texts), device=engine.device)
    out: list[list[Span]] = []
    for start, found in ahead(texts, engine, "", DOCS, stats):
        windows = [[f, *f.overflowing] for f in found]
        likely = _run(engine, [w.ids for ws in windows for w in ws], columns, stats)
        row = 0
        for i, ws in enumerate(windows):
            text = texts[start + i]
            text = text.as_py() if isinstance(text, pa.Scalar) else text
            seen = words(ws, likely[row : row + len(ws)], params.overlap)
            out.append(in_bytes(text or "", spans(text or "", seen, params)))
            row += len(ws)
    return out, stats


def _columns(names: Sequence[str], where: str) -> np.ndarray:
    """float32 [labels, 3]: which labels count to name, address, street."""
    out = np.zeros((len(names), 3), np.float32)
    for i, label in enumerate(names):
        for column in ENTITIES.get(re.sub("^[BIESLU]-", "", label.upper()), ()):
            out[i, column] = 1
    if not out.any():
        raise ModelError(f"{where} labels neither names nor addresses but {', '.join(names) or 'nothing'}")
    return out


def _run(engine: Engine, ids: list[list[int]], columns: np.ndarray, stats: EmbedStats) -> list[np.ndarray]:
    """Of each window float32 [tokens, 3]."""
    out: list[np.ndarray] = [np.zeros((0, 3), np.float32)] * len(ids)
    for batch in batches(ids, engine.batch_tokens):
        logits = engine.run(*padded([ids[r] for r in batch], engine.pad_id))
        if logits.ndim != 3 or logits.shape[2] != len(columns):
            raise ModelError(f"the model gives {list(logits.shape)}, not [rows, tokens, {len(columns)} labels]")
        raised = np.exp(logits - logits.max(axis=2, keepdims=True))
        likely = (raised / raised.sum(axis=2, keepdims=True)) @ columns
        for r, values in zip(batch, likely, strict=True):
            out[r] = values[: len(ids[r])]
        stats.batches += 1
        stats.padded += len(batch) * len(ids[batch[-1]])
    stats.tokens += sum(map(len, ids))
    return out


def words(windows: Sequence[Any], likely: Sequence[np.ndarray], overlap: int) -> list[Word]:
    """The words of one text, each token taken from one window.

    Args:
        windows: encodings of the text, in order, each sharing ``overlap`` tokens with the one before.
        likely: of each window float32 [tokens, 3].
        overlap: tokens.
    """
    numbers: list[int] = []  # of the word that each token belongs to
    edges: list[tuple[int, int]] = []
    values: list[np.ndarray] = []
    for w, (window, probabilities) in enumerate(zip(windows, likely, strict=True)):
        rows = [i for i, number in enumerate(window.word_ids) if number is not None]  # none: a special token
        first = overlap // 2 if w else 0
        last = len(rows) - (overlap - overlap // 2) if w + 1 < len(windows) else len(rows)
        for i in rows[first:last]:
            numbers.append(window.word_ids[i])
            edges.append(window.offsets[i])
            values.append(probabilities[i])
    out: list[Word] = []
    begin = 0
    for i in range(1, len(numbers) + 1):
        if i == len(numbers) or numbers[i] != numbers[begin]:
            mean = np.mean(values[begin:i], axis=0)
            out.append(Word(edges[begin][0], edges[i - 1][1], float(mean[0]), float(mean[1]), float(mean[2])))
            begin = i
    return out


def spans(text: str, seen: Sequence[Word], params: NerParams) -> list[Span]:
    """Words joined to spans of characters; an address without a street or without a digit is none."""
    out: list[Span] = []
    kind, start, end, street = "", 0, 0, False

    def close() -> None:
        a, b = start, end
        while a < b and not text[a].isalnum():
            a += 1
        while b > a and not text[b - 1].isalnum():
            b -= 1
        if a < b and kind in params.kinds and (
                kind == NAME or (street and any(c.isdigit() for c in text[a:b]))):
            out.append(Span(a, b, kind))

    for word in seen:
        now = NAME if word.name >= params.threshold else ADDRESS if word.address >= params.threshold else ""
        if not now or word.end <= word.start:
            continue
        if now == kind and _joined(kind, text[end : word.start]):
            end, street = word.end, street or word.street >= params.threshold
            continue
        close()
        kind, start, end, street = now, word.start, word.end, word.street >= params.threshold
    close()
    return out


def _joined(kind: str, gap: str) -> bool:
    if len(gap) > _MOST_GAP or "\n\n" in gap:
        return False
    return (_NAME_GAP if kind == NAME else _ADDRESS_GAP).fullmatch(gap) is not None


def in_bytes(text: str, found: Sequence[Span]) -> list[Span]:
    """The same spans with offsets in the UTF-8 bytes of the text."""
    if text.isascii() or not found:
        return list(found)
    data = np.frombuffer(text.encode("utf-8"), np.uint8)
    at = np.append(np.flatnonzero(data & 0xC0 != 0x80), len(data))  # where each character begins
    return [Span(int(at[s.start]), int(at[s.end]), s.kind) for s in found]


def without(found: Sequence[Span], taken: Sequence[Span]) -> list[Span]:
    """Spans less what the others hold already, in order; both in order and without overlaps in themselves."""
    out: list[Span] = []
    at = 0
    for span in found:
        start = span.start
        while at < len(taken) and taken[at].end <= start:
            at += 1
        while at < len(taken) and taken[at].start < span.end:
            if taken[at].start > start:
                out.append(Span(start, taken[at].start, span.kind))
            start = max(start, taken[at].end)
            if start >= span.end:
                break  # it may reach into the next span too
            at += 1
        if start < span.end:
            out.append(Span(start, span.end, span.kind))
    return out
