"""Stage bodies of quality: heuristics and scores of every document that survived deduplication.

Belongs here: reading, calling, writing, reporting. Does not belong here: any measure.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill import models
from gristmill.deduplicate.documents import clumps, documents, with_language
from gristmill.params import EmbedderParams, ModelRef, QualityParams, ScorerParams
from gristmill.partition import Partition
from gristmill.quality import ensemble, quantiles, rules
from gristmill.quality import heuristics as measures
from gristmill.quality.fasttext_classifier import Classifier
from gristmill.quality.perplexity import LanguageModel
from gristmill.quality.quantiles import Reference

ENCODED = ("encoder", "transformer")  # one pass of a transformer a model, batched by length
BATCH = 512  # documents scored at a time, in a fixed order


def heuristics(part: Partition) -> None:
    """Every measure as a column; the yield counts what the reference rule set would pass, and drops nothing."""
    docs = with_language(part, documents(part, after="near"))
    table = measures.measure(docs["text"], docs["lang"].to_pylist())
    _write(part, docs, table)
    langs = docs["lang"].to_pylist()
    kept = rules.passes(table, rules.reference(), langs)
    failed = [str(rule) for rule in rules.first_failed(table, rules.reference(), langs) if rule is not None]
    size = _sizes(docs)
    _report(
        part, docs, **clumps(part, docs, size), would_pass=int(kept.sum()),
        would_pass_bytes=int(size[np.asarray(kept, bool)].sum()), would_pass_by_lang=_passed_by(docs["lang"], kept),
        rule_sets={name: int(rules.passes(table, chosen, langs).sum()) for name, chosen in rules.RULE_SETS.items()},
        would_fail={name: failed.count(name) for name in sorted(set(failed))},
    )


def quality(part: Partition) -> None:
    """One column a scorer and one for its percentile, the ensemble, and the ensemble's percentile."""
    params = part.plan.params.quality
    docs = with_language(part, documents(part, after="near"))
    langs = np.array([lang or "und" for lang in docs["lang"].to_pylist()], object)
    scores = _scores(part, params, docs, langs)
    encoded, facts = _encoded(part, params, docs, langs)
    scores |= encoded
    frozen = quantiles.read(models.resolve(params.quantiles, _cache(part))) if params.quantiles else Reference({})
    combined = ensemble.combine(scores, langs, _tiers(part, docs), frozen)
    columns = {
        "ensemble_max": _floats(combined.maximum), "ensemble_mean": _floats(combined.mean),
        "ensemble_percentile": _floats(combined.percentile),
    }
    for name, values in sorted(scores.items()):
        columns[f"score_{name}"] = _floats(values)
        columns[f"percentile_{name}"] = _floats(combined.members[name])
    _write(part, docs, pa.table(columns), extra=True)
    size, scored = _sizes(docs), ~np.isnan(combined.percentile)
    top = scored & (np.float32(combined.percentile) >= np.float32(rules.TOP_SHARE))
    yields = {"scored": int(scored.sum()), "scored_bytes": int(size[scored].sum()), "top": int(top.sum()),
              "top_bytes": int(size[top].sum())}
    _report(part, docs, scorers=sorted(scores), **facts, **yields, drift={
        # a crawl's own quantiles measure drift only; percentiles never use them
        name: [round(float(q), 4) for q in np.quantile(v[~np.isnan(v)], (0.1, 0.5, 0.9))]
        for name, v in sorted(scores.items()) if (~np.isnan(v)).any()
    })


def _tiers(part: Partition, docs: pa.Table) -> np.ndarray:
    """Source tier of each document: str (n)."""
    held = part.read("provenance", ["record_id", "source_tier"])
    where = pc.index_in(docs["record_id"], value_set=held["record_id"].combine_chunks()).combine_chunks()
    return np.array([t or "unknown" for t in held["source_tier"].combine_chunks().take(where).to_pylist()], object)


def _scores(part: Partition, params: QualityParams, docs: pa.Table, langs: np.ndarray) -> dict[str, np.ndarray]:
    """Every scorer's value for every document; NaN for languages it was not made for."""
    scorers: list[tuple[str, Any, tuple[str, ...]]] = []
    if params.classifier is not None:
        path = models.resolve(params.classifier, _cache(part))
        scorers.append(("classifier", Classifier(path, first_chars=params.first_chars), ()))
    for spec in params.scorers:
        if spec.kind in ENCODED:
            continue
        path = models.resolve(spec.model, _cache(part))
        scorer = (Classifier(path, spec.label, params.first_chars) if spec.kind == "fasttext"
                  else LanguageModel.read(path))
        scorers.append((spec.name, scorer, spec.languages))
    out = {name: np.full(docs.num_rows, np.nan) for name, _, _ in scorers}
    for start in range(0, docs.num_rows if scorers else 0, BATCH):
        texts = docs["text"].slice(start, BATCH).to_pylist()
        for name, scorer, languages in scorers:
            values = scorer.score(texts)
            if languages:
                values = np.where(np.isin(langs[start : start + BATCH], languages), values, np.nan)
            out[name][start : start + BATCH] = values
        part.progress(min(start + BATCH, docs.num_rows), min(start + BATCH, docs.num_rows))
    return out


def _encoded(part: Partition, params: QualityParams, docs: pa.Table,
             langs: np.ndarray) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Every encoder's and transformer's values, one pass a model whatever its number of heads; what the passes did."""
    wanted: dict[EmbedderParams | tuple[ModelRef, int], list[ScorerParams]] = {}
    for spec in params.scorers:
        if spec.kind in ENCODED:
            run = spec.embedder if spec.kind == "encoder" else (spec.model, spec.max_tokens)
            wanted.setdefault(run, []).append(spec)
    if not wanted or not docs.num_rows:
        return {spec.name: np.full(docs.num_rows, np.nan) for specs in wanted.values() for spec in specs}, {}
    from gristmill.embed.engines import chosen_device
    from gristmill.quality import encoder, transformer

    out: dict[str, np.ndarray] = {}
    passes, tokens, padded = [], 0, 0
    for run, specs in wanted.items():
        if isinstance(run, EmbedderParams):
            name = run.model.name
            found, has_text, stats = encoder.vectors(docs["text"], run, _cache(part), chosen_device())
        else:
            name = run[0].name
            found, labels, stats = transformer.logits(docs["text"], *run, _cache(part), chosen_device())
        for spec in specs:
            if isinstance(run, EmbedderParams):
                path = models.resolve(spec.model, _cache(part))
                values = encoder.scores(path, [spec.label], found, has_text, run)[spec.label]
            else:
                values = transformer.score(found, labels, spec.head, spec.label)
            if spec.languages:
                values = np.where(np.isin(langs, spec.languages), values, np.nan)
            out[spec.name] = values
        passes.append({"embedder": name, "heads": [s.name for s in specs], **stats.facts()})
        tokens, padded = tokens + stats.tokens, padded + stats.padded
    return out, {"encoder": passes, "padding_waste": round(1 - tokens / padded, 4) if padded else 0.0}


def _floats(values: np.ndarray) -> pa.Array:
    return pa.array(values.astype(np.float32), mask=np.isnan(values))


def _cache(part: Partition) -> str:
    return part.site.models


def _write(part: Partition, docs: pa.Table, table: pa.Table, extra: bool = False) -> None:
    for i, name in enumerate(("crawl", "doc_id", "record_id")):
        table = table.add_column(i, name, docs[name])
    part.write(table, extra=extra)


def _report(part: Partition, docs: pa.Table, **info: Any) -> None:
    """Nothing is dropped: all documents that come in go on."""
    n_bytes = int(_sizes(docs).sum())
    by = {"lang": {lang: [n, n] for lang, n in sorted(_counts(docs["lang"]).items())}}
    part.report(docs_in=docs.num_rows, docs_out=docs.num_rows, bytes_in=n_bytes, bytes_out=n_bytes, by=by, **info)


def _sizes(docs: pa.Table) -> np.ndarray:
    """Bytes of each document's text: int64 [documents]."""
    return np.asarray(pc.binary_length(docs["text"]).to_numpy(), np.int64)


def _counts(column: pa.ChunkedArray) -> dict[str, int]:
    out: dict[str, int] = {}
    for value in column.to_pylist():
        out[value or "und"] = out.get(value or "und", 0) + 1
    return out


def _passed_by(column: pa.ChunkedArray, kept: np.ndarray) -> dict[str, list[int]]:
    out: dict[str, list[int]] = {}
    for value, passed in zip(column.to_pylist(), kept.tolist()):
        row = out.setdefault(value or "und", [0, 0])
        row[0] += 1
        row[1] += passed
    return dict(sorted(out.items()))
