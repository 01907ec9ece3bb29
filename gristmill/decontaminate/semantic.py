"""The semantic pass: passages of documents that mean what a benchmark's span says, in other words.

Belongs here: cutting passages, comparing their vectors with the spans'. Does not belong here: the encoder
(``gristmill/embed``) and matches by words (``ngrams.py``). What it finds waits for a person or a judge: two questions
of one kind are alike in meaning too. It costs an encoder pass over every document, so it is off unless a model is
named, and then only for the source tiers that are (synthetic text is where paraphrases come from).
"""

from collections.abc import Sequence

import numpy as np

from gristmill.decontaminate.index import Index
from gristmill.decontaminate.ngrams import Match
from gristmill.embed.embedding import embed
from gristmill.embed.engines import Device
from gristmill.params import EmbedderParams

SEMANTIC = "semantic"
MIN_WORDS = 12  # of a span: shorter ones are alike by chance
WINDOWS = (24, 64)  # words of a passage; each overlaps the next by half
CHUNK = 4096  # passages compared at a time


def passages(text: str, width: int) -> list[tuple[int, int]]:
    """Stretches of ``width`` words, half a stretch apart, as byte ranges of the UTF-8; one of all words if shorter."""
    data = text.encode("utf-8", "replace")
    edges: list[tuple[int, int]] = []
    start = -1
    for i, byte in enumerate(data + b" "):
        if byte in b" \t\r\n\x0b\x0c":
            if start >= 0:
                edges.append((start, i))
                start = -1
        elif start < 0:
            start = i
    if not edges:
        return []
    starts = range(0, max(1, len(edges) - width // 2), max(1, width // 2))
    return [(edges[a][0], edges[min(a + width, len(edges)) - 1][1]) for a in starts]


def probe(index: Index, texts: Sequence[str], embedder: EmbedderParams, cosine: float, *, cache: str,
          device: Device = "cpu") -> list[Match]:
    """The best passage of each document for each span that reaches ``cosine``; in order of (document, span).

    Args:
        index: of the hold-outs.
        texts: documents.
        embedder, cache, device: as for ``embed``.
        cosine: least similarity; ``containment`` of a match holds it.
    """
    spans, wanted = _spans(index, embedder, cache, device)
    best: dict[tuple[int, int], tuple[float, int, int, int]] = {}
    for width in WINDOWS if len(spans) else ():
        where = [(d, a, b) for d, text in enumerate(texts) for a, b in passages(text, width)]
        encoded = [t.encode("utf-8", "replace") for t in texts]
        found, _ = embed([encoded[d][a:b].decode("utf-8", "replace") for d, a, b in where], embedder, device,
                         cache_dir=cache)
        for start in range(0, len(where), CHUNK):
            alike = found[start : start + CHUNK] @ wanted.T
            for row, column in np.argwhere(alike >= cosine).tolist():
                d, a, b = where[start + row]
                key, value = (d, int(spans[column])), float(alike[row, column])
                if value > best.get(key, (-1.0,))[0]:
                    best[key] = (value, a, b, width)
    return [Match(d, s, SEMANTIC, width, round(value, 4), a, b, False)
            for (d, s), (value, a, b, width) in sorted(best.items())]


_LAST: list[tuple[Index, EmbedderParams, np.ndarray, np.ndarray]] = []  # the spans embedded last: one index a process


def _spans(index: Index, embedder: EmbedderParams, cache: str, device: Device) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of spans long enough, and their vectors; made once a process for an index."""
    if not _LAST or _LAST[0][0] is not index or _LAST[0][1] != embedder:
        chosen = np.flatnonzero(np.diff(index.offsets) >= MIN_WORDS)
        found, _ = embed([index.text[s] for s in chosen], embedder, device, cache_dir=cache)
        _LAST[:] = [(index, embedder, chosen, found)]
    return _LAST[0][2], _LAST[0][3]
