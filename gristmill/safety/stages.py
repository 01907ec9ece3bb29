"""Stage body of safety: personal data as spans, scores by category, spam measures, hash lists.

Belongs here: reading, calling, writing, reporting. Does not belong here: any detection. Spans and measures refer to the
extracted text, before boilerplate lines are taken out.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from gristmill import models, schemas
from gristmill.deduplicate.documents import documents, with_language
from gristmill.params import SafetyParams
from gristmill.partition import Partition
from gristmill.safety import hash_lists, pii, spam, toxicity
from gristmill.safety.phrases import read_phrases
from gristmill.text_units import text_buffers

BATCH = 512


def safety(part: Partition) -> None:
    """Spans of personal data and a score a category for every document that survived deduplication."""
    params = part.plan.params.safety
    docs = with_language(part, documents(part, after="near", cleaned=False))
    buf, offsets = text_buffers(docs["text"])
    rules = pii.Rules(private_ips=params.private_ips, countries=params.phone_countries or tuple(pii.PHONE_FORMATS))
    found = pii.scan(buf, offsets, rules)
    found, kept = _named(part, params, docs, found)
    columns = {
        "pii_spans": _spans(found),
        **({} if kept is None else {"kept_spans": _spans(kept)}),
        **spam.measure(buf, offsets),
        "hard_removal": _hard_removal(part, params, docs, buf, offsets),
        **_toxicity(part, params, docs, buf, offsets),
    }
    table = pa.table({n: docs[n] for n in ("crawl", "doc_id", "record_id")} | columns)
    part.write(table, extra=True)
    kinds = Counter(s.kind for spans in found for s in spans)
    size, n = int(offsets[-1] - offsets[0]), docs.num_rows
    removed = columns["hard_removal"]
    told = hash_lists.tell(part.site.report_command, part.crawl, docs["doc_id"].to_pylist(), removed.to_pylist())
    stay: dict[str, Any] = {}
    if kept is not None:
        stay["pii_kept"] = dict(sorted(Counter(s.kind for spans in kept for s in spans or ()).items()))
    part.report(
        docs_in=n, docs_out=n, bytes_in=size, bytes_out=size, pii=dict(sorted(kinds.items())), **stay,
        docs_with_pii=sum(bool(spans) for spans in found), hard_removal=len(removed) - removed.null_count,
        hard_removal_bytes=int(np.diff(offsets)[removed.is_valid().to_numpy(zero_copy_only=False)].sum()),
        hard_removal_told=told,
    )


def _spans(found: Sequence[list[pii.Span] | None]) -> pa.Array:
    return pa.array([None if spans is None else [{"start": s.start, "end": s.end, "kind": s.kind} for s in spans]
                     for spans in found], pa.list_(schemas.PII_SPAN))


def _named(part: Partition, params: SafetyParams, docs: pa.Table,
           found: list[list[pii.Span]]) -> tuple[list[list[pii.Span]], list[list[pii.Span] | None] | None]:
    """What a release replaces, names and addresses too where ``ner.scrub`` says so; what it keeps.

    None for what was kept: no pass, or of a document that is in no language of ``ner.languages``.
    """
    if params.ner is None:
        return found, None
    only = params.ner.languages
    rows = [i for i, lang in enumerate(docs["lang"].to_pylist()) if not only or lang in only]
    if not rows:  # no model is opened for nothing; the column is there all the same
        return found, [None] * len(found)
    from gristmill.embed.engines import chosen_device
    from gristmill.safety import ner

    named, stats = ner.scan(docs["text"].take(pa.array(rows, pa.int64())), params.ner, cache_dir=part.site.models,
                            device=chosen_device())
    part.run["ner_padding_waste"] = round(stats.padding_waste, 4)
    out: list[list[pii.Span]] = list(found)
    kept: list[list[pii.Span] | None] = [None] * len(found)
    for row, spans in zip(rows, named, strict=True):  # what has a form keeps its kind
        rest = ner.without(spans, found[row])
        out[row] = sorted([*found[row], *(s for s in rest if s.kind in params.ner.scrub)])
        kept[row] = [s for s in rest if s.kind not in params.ner.scrub]
    return out, kept


def _hard_removal(part: Partition, params: SafetyParams, docs: pa.Table, buf: np.ndarray,
                  offsets: np.ndarray) -> pa.Array:
    """Name of the first hash list that holds each document, or null. What is logged is the document's hash."""
    names = np.full(docs.num_rows, None, object)
    if params.hash_lists and docs.num_rows:
        ids = docs["doc_id"].to_pylist()
        near = hash_lists.simhashes(buf, offsets)
        for spec in params.hash_lists:
            path = models.resolve(spec.file, part.site.models)
            hit = hash_lists.read_list(spec.name, spec.kind, path, params.near_bits).holds(ids, near)
            names[hit & (names == None)] = spec.name  # noqa: E711 - elementwise
    return pa.array(names.tolist(), pa.string())


def _heads(part: Partition, params: SafetyParams, docs: pa.Table) -> dict[str, np.ndarray]:
    """Columns toxicity_HEAD: one pass of the encoder for all of them."""
    from gristmill.embed.engines import chosen_device
    from gristmill.quality import encoder, heads

    assert params.toxicity_heads is not None
    path = models.resolve(params.toxicity_heads, part.site.models)
    embedder = params.toxicity_embedder
    names = sorted(heads.read(path).heads)
    if not docs.num_rows:  # no model is opened for nothing; the columns are there all the same
        return {f"toxicity_{n}": np.zeros(0) for n in names}
    found, has_text, stats = encoder.vectors(docs["text"], embedder, part.site.models, chosen_device())
    part.run["padding_waste"] = round(stats.padding_waste, 4)
    return {f"toxicity_{n}": v for n, v in encoder.scores(path, names, found, has_text, embedder).items()}


def _toxicity(part: Partition, params: SafetyParams, docs: pa.Table, buf: np.ndarray,
              offsets: np.ndarray) -> dict[str, pa.Array]:
    """Columns words_CATEGORY and toxicity_LABEL, for what is registered."""
    langs = np.array([lang or "und" for lang in docs["lang"].to_pylist()], object)
    lists = [(s.category, s.lang, read_phrases(models.resolve(s.file, part.site.models))) for s in params.word_lists]
    columns = {f"words_{c}": v for c, v in toxicity.word_rates(lists, buf, offsets, langs).items()}
    if params.toxicity is not None:
        classifier = toxicity.ToxicityClassifier(models.resolve(params.toxicity, part.site.models))
        parts: dict[str, list[np.ndarray]] = {c: [np.zeros(0)] for c in classifier.categories}
        for start in range(0, docs.num_rows, BATCH):
            for category, values in classifier.score(docs["text"].slice(start, BATCH).to_pylist()).items():
                parts[category].append(values)
        columns |= {f"toxicity_{c}": np.concatenate(v) for c, v in parts.items()}
    if params.toxicity_heads is not None:
        columns |= _heads(part, params, docs)
    return {name: pa.array(v.astype(np.float32), mask=np.isnan(v)) for name, v in columns.items()}
