"""Decontamination of what a run is really shown: the documents of a manifest's shards, decoded and probed again.

Belongs here: walking a version's selected documents, decoding tokens, counting how often a run shows a match. Does not
belong here: matching (``ngrams.py``), the page (``report.py``). It catches what the stage cannot: benchmarks frozen
after the version was built, text that only matches once boilerplate is out, and shards from elsewhere.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gristmill.decontaminate import ngrams, report
from gristmill.decontaminate.index import Index
from gristmill.errors import ManifestError
from gristmill.loader.manifest import Manifest
from gristmill.params import DecontaminateParams, EmbedderParams, TokenizeParams
from gristmill.tokens import shard

BATCH = 512
AROUND, SHOWN = 80, 600  # characters kept around a match, and of it

Decode = Callable[[Sequence[np.ndarray]], list[str]]
Probe = Callable[[list[str]], list[ngrams.Match]]


@dataclass
class Scan:
    """What a pass found. ``matches`` are rows as of the table ``contamination``, with source, shard and ordinal."""

    documents: int = 0
    tokens: int = 0
    matches: list[dict[str, Any]] = field(default_factory=list)
    sizes: dict[bytes, int] = field(default_factory=dict)  # tokens of each flagged document

    def summary(self, index: Index) -> dict[str, Any]:
        """As of a crawl's report."""
        items: dict[str, set[str]] = {}
        spans: dict[str, int] = {}
        for benchmark, item in zip(index.benchmark, index.item, strict=True):
            items.setdefault(benchmark, set()).add(item)
            spans[benchmark] = spans.get(benchmark, 0) + 1
        return report.summarise({b: len(i) for b, i in items.items()}, spans, index.not_checkable, self.matches,
                                self.sizes, self.documents)


def decoder(params: TokenizeParams, models_dir: str | Path) -> Decode:
    """Token ids back to text, control tokens left out.

    Raises:
        ModelError: the pinned tokenizer is not on this machine.
    """
    from gristmill import models
    from gristmill.tokens.stages import load_pinned

    loaded = load_pinned(params, models_dir)  # checks hash and kind, with its own words
    control = [i for i in (loaded.bos_id, loaded.eos_id) if i is not None]
    assert params.tokenizer is not None
    path = models.resolve(params.tokenizer, models_dir)
    if path.read_bytes().lstrip()[:1] == b"{":
        import tokenizers

        model = tokenizers.Tokenizer.from_file(str(path))
        return lambda rows: model.decode_batch([_without(r, control) for r in rows], skip_special_tokens=False)
    import base64

    import tiktoken

    ranks = {base64.b64decode(t): int(r) for t, r in (x.split() for x in path.read_bytes().splitlines() if x)}
    encoding = tiktoken.Encoding(loaded.name, pat_str=str(params.pattern), mergeable_ranks=ranks,
                                 special_tokens=dict(params.special_tokens or {}))
    return lambda rows: [encoding.decode(_without(r, control)) for r in rows]


def _without(ids: np.ndarray, control: Sequence[int]) -> list[int]:
    found: list[int] = ids[~np.isin(ids, control)].tolist()
    return found


def prober(index: Index, params: DecontaminateParams, embedder: EmbedderParams | None, cache: str | Path) -> Probe:
    """Matches of texts by words, and by meaning where an encoder is named.

    Args:
        index: of the hold-outs.
        params: bounds.
        embedder: for the semantic pass; None: no such pass.
        cache: of models.
    """
    def probe(texts: list[str]) -> list[ngrams.Match]:
        found = ngrams.probe(index, pa.array(texts, pa.large_string()))
        if embedder is not None:
            from gristmill.decontaminate import semantic
            from gristmill.embed.engines import chosen_device

            known = {(m.doc, m.span) for m in found}
            alike = semantic.probe(index, texts, embedder, params.semantic_cosine, cache=str(cache),
                                   device=chosen_device())
            found += [m for m in alike if (m.doc, m.span) not in known]
        return found

    return probe


def scan(manifest: Manifest, index: Index, decode: Decode, probe: Probe, *, every: int = 1,
         progress: Callable[[int, int], None] | None = None) -> Scan:
    """Probe every selected document of a version.

    Args:
        manifest: the version.
        index: of the hold-outs.
        decode: of ``decoder``.
        probe: of ``prober``.
        every: only each n-th shard of a source, for a sample of a large version.
        progress: called with (shards done, of).

    Raises:
        ManifestError: a shard is damaged or missing.
    """
    out = Scan()
    epochs = _epochs(manifest)
    todo = [(source, row) for source, shards in sorted(manifest.sources.items())
            for row in range(0, len(shards), every)]
    for done, (source, row) in enumerate(todo):
        name = manifest.sources[source].hash(row)
        for start, ids, texts, counts, ordinals in _documents(manifest, source, row, decode):
            for m in probe(texts):
                data = texts[m.doc].encode()
                out.sizes[ids[m.doc]] = int(counts[m.doc])
                out.matches.append({
                    "source": source, "shard": name, "ordinal": int(ordinals[start + m.doc]), "doc_id": ids[m.doc],
                    "benchmark": index.benchmark[m.span], "item": index.item[m.span], "span": index.span[m.span],
                    "method": m.method, "longest_run": m.run, "containment": m.containment,
                    "epochs": epochs.get(source, 0.0), "text": index.text[m.span], **excerpt(data, m.start, m.end),
                })
            out.documents += len(texts)
            out.tokens += int(counts.sum())
        if progress:
            progress(done + 1, len(todo))
    return out


def probe_texts(texts: Iterable[tuple[str, str]], index: Index, probe: Probe) -> Scan:
    """The same for texts that are in no store: synthetic data before it is landed.

    Args:
        texts: (id, text).
        index: of the hold-outs.
        probe: of ``prober``.
    """
    out = Scan()
    rows = list(texts)
    for start in range(0, len(rows), BATCH):
        batch = rows[start : start + BATCH]
        for m in probe([t for _, t in batch]):
            name, text = batch[m.doc]
            out.matches.append({
                "doc_id": name, "benchmark": index.benchmark[m.span], "item": index.item[m.span],
                "span": index.span[m.span], "method": m.method, "longest_run": m.run, "containment": m.containment,
                "text": index.text[m.span], **excerpt(text.encode(), m.start, m.end),
            })
        out.documents += len(batch)
    return out


def _epochs(manifest: Manifest) -> dict[str, float]:
    """How often the run shows each source."""
    schedule = manifest.schedule
    return {s: float(e) for s, e in zip(schedule.sources, schedule.epochs(schedule.steps), strict=True)}


def _documents(manifest: Manifest, source: str, row: int,
               decode: Decode) -> Iterator[tuple[int, list[bytes], list[str], np.ndarray, np.ndarray]]:
    """Batches of a shard's selected documents: start, ids, texts, tokens of each, ordinals of all."""
    import pyarrow.parquet as pq

    shards, place = manifest.sources[source], manifest.place
    path = shards.path(row)
    try:
        with place.open(f"{path}.bin") as file:
            data = file.read()
        with place.open(f"{path}.idx") as file:
            head = file.read()
        with place.open(f"{path}.docs") as file:
            docs = pq.read_table(file, columns=["ordinal", "doc_id"], use_threads=False)
    except FileNotFoundError as error:
        raise ManifestError(f"shard {shards.hash(row)} of source {source} is not there: {path}") from error
    held = shard.verify(data, head, shards.hash(row), path)
    tokens, offsets = np.frombuffer(data, "<u4"), np.asarray(held.offsets).astype(np.int64)
    chosen = manifest.selection.ordinals(source, shards.hash(row))
    ordinals = np.arange(held.documents) if chosen is None else np.sort(chosen)
    ids = dict(zip(docs["ordinal"].to_pylist(), docs["doc_id"].to_pylist(), strict=True))
    for start in range(0, len(ordinals), BATCH):
        own = ordinals[start : start + BATCH]
        pieces = [tokens[offsets[i] : offsets[i + 1]] for i in own]
        counts = np.array([len(p) for p in pieces], np.int64)
        yield start, [ids[i] for i in own.tolist()], decode(pieces), counts, ordinals


def excerpt(data: bytes, start: int, end: int) -> dict[str, str]:
    """A match and what stands around it, for the page."""
    return {
        "before": data[max(0, start - 4 * AROUND) : start].decode("utf-8", "ignore")[-AROUND:],
        "matched": data[start:end].decode("utf-8", "ignore")[:SHOWN],
        "after": data[end : end + 4 * AROUND].decode("utf-8", "ignore")[:AROUND],
    }
