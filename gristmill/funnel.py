"""The funnel: which stages there are, in which order, what each reads, and which parameters decide its bytes.

Belongs here: one frozen record a stage, and ``Plan``, which turns parameters into fingerprints. Does not belong here:
what a stage computes (its folder's ``stages.py``) and how Dagster shows it (``assets/``).
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from gristmill.fingerprint import fingerprint
from gristmill.params import PipelineParams

Scope = Literal["bucket", "crawl", "landing", "site"]
# bucket: the same crawl and bucket.      crawl: all buckets of the same crawl.
# landing: the crawl's one partition.     site: the asset's only partition.


@dataclass(frozen=True)
class Input:
    """An asset that a stage reads, and how much of it."""

    asset: str
    scope: Scope = "bucket"


@dataclass(frozen=True)
class Stage:
    """One asset of the funnel.

    Attributes:
        name: the asset and the table.
        group: the folder of the funnel it belongs to; a group in the UI.
        by: what a partition is: a host bucket, a range of a hash (doc_id, band key, keyed doc hash), a slice of the
            landing listing, a whole crawl, or the only one.
        body: ``module:function`` of the library, called with a ``Partition``.
        version: raised when the algorithm changes; part of the fingerprint.
        params: names of the fields of ``PipelineParams`` that decide its bytes.
        inputs: what it reads.
        own_pool: the body runs in the parent and starts its own watched workers.
        first_alone: range 0000 does work that the other ranges read, so it runs before them.
        device: gpu where the body uses one when there is one; a deployment sends it to its GPU pool.
        summary: one sentence for the UI.
        kinds: at most three words for the UI.
    """

    name: str
    group: str
    by: Literal["bucket", "range", "slice", "crawl", "site"]
    body: str
    version: int
    params: tuple[str, ...]
    inputs: tuple[Input, ...]
    summary: str
    own_pool: bool = False
    first_alone: bool = False
    kinds: tuple[str, ...] = ("parquet",)
    device: Literal["cpu", "gpu"] = "cpu"

    @property
    def on_grid(self) -> bool:
        """Is it partitioned by crawl x host_bucket."""
        return self.by in ("bucket", "range", "slice")

    def load(self) -> Callable[..., None]:
        """The body."""
        module, _, name = self.body.partition(":")
        function: Callable[..., None] = getattr(importlib.import_module(module), name)
        return function


def _on(*names: str, scope: Scope = "bucket") -> tuple[Input, ...]:
    return tuple(Input(n, scope) for n in names)


# In topological order; the whole funnel reads top to bottom.
FUNNEL: tuple[Stage, ...] = (
    Stage("eval_holdout", "acquire", "site", "gristmill.acquire.stages:eval_holdout", 1, ("grid",), (),
          "The frozen benchmark hold-outs that extraction is pinned to: manifest hash, benchmarks, items.",
          kinds=("json",)),
    Stage("landing", "acquire", "crawl", "gristmill.acquire.stages:landing_stage", 1, ("grid", "acquire"), (),
          "What a crawl's listing names: every WARC file, its size, and how files are dealt to slices."),
    Stage("crawl_slices", "acquire", "slice", "gristmill.acquire.stages:crawl_slices", 2, ("grid", "acquire"),
          _on("landing", scope="landing"),
          "Records read from a slice of the listing, identified, and laid out by host bucket.", kinds=("warc", "zstd")),
    Stage("raw_warc", "acquire", "bucket", "gristmill.acquire.stages:raw_warc", 1, ("grid",),
          _on("crawl_slices", scope="crawl"),
          "All records of a host bucket as one zstd WARC, and the index into it.", kinds=("warc", "zstd")),
    Stage("unique_records", "acquire", "bucket", "gristmill.acquire.stages:unique_records", 2, ("unique",),
          _on("raw_warc"),
          "Recrawls collapsed (same URL, same payload), revisits resolved, hold-out pages marked."),
    Stage("text", "extract", "bucket", "gristmill.extract.stages:text", 3, ("extract",),
          _on("raw_warc", "unique_records"),
          "Main text of every kept page; what cannot be extracted is set aside with its reason.", own_pool=True),
    Stage("language", "extract", "bucket", "gristmill.extract.stages:language", 3, ("language",), _on("text"),
          "Language, script and confidence of every text, and the gates on language and degenerate text."),
    Stage("quarantine", "extract", "bucket", "gristmill.extract.stages:quarantine", 1, (),
          (*_on("crawl_slices", scope="crawl"), *_on("raw_warc", "text", "language")),
          "Everything set aside so far, with stage, reason and a pointer to its raw bytes."),
    Stage("exact", "deduplicate", "range", "gristmill.deduplicate.stages:exact", 2, (),
          _on("language", scope="crawl"),
          "Documents grouped by doc_id within the crawl and against earlier crawls."),
    Stage("line_candidates", "deduplicate", "bucket", "gristmill.deduplicate.stages:line_candidates", 1, ("lines",),
          (*_on("text", "language"), *_on("exact", scope="crawl")),
          "Lines frequent enough in this bucket that they may be boilerplate of the crawl (pigeonhole)."),
    Stage("line_counts", "deduplicate", "bucket", "gristmill.deduplicate.stages:line_counts", 1, ("lines",),
          (*_on("text"), *_on("exact", "line_candidates", scope="crawl")),
          "Exact counts, in this bucket, of every candidate line of the crawl."),
    Stage("lines", "deduplicate", "bucket", "gristmill.deduplicate.stages:lines", 1, ("lines",),
          (*_on("text"), *_on("exact", "line_counts", scope="crawl")),
          "Boilerplate lines taken out of each document, by hash; the cleaned text is derived."),
    Stage("signatures", "deduplicate", "bucket", "gristmill.deduplicate.stages:signatures", 1, ("minhash",),
          (*_on("text", "lines"), *_on("exact", scope="crawl")),
          "MinHash signatures of first documents, and their band keys laid out by range."),
    Stage("band_buckets", "deduplicate", "range", "gristmill.deduplicate.stages:band_buckets", 2,
          ("minhash", "clusters"),
          (*_on("signatures", scope="crawl"), *_on("text", "lines", scope="crawl")),
          "Documents that share a band: star edges to an anchor, and candidates for their texts to verify."),
    Stage("clusters", "deduplicate", "range", "gristmill.deduplicate.stages:clusters", 2,
          ("minhash", "clusters"),
          (*_on("band_buckets", "exact", scope="crawl"), *_on("text", "lines", scope="crawl")),
          "Candidates verified by exact Jaccard; components of the edges, and the first member of each.",
          first_alone=True),
    Stage("band_matches", "deduplicate", "range", "gristmill.deduplicate.stages:band_matches", 1,
          ("minhash", "clusters", "band_index"), _on("signatures", scope="crawl"),
          "Band keys that earlier crawls hold, and whose: the index is asked range by range, where its keys are."),
    Stage("near", "deduplicate", "bucket", "gristmill.deduplicate.stages:near", 2,
          ("minhash", "band_index"),
          (*_on("signatures", "language"), *_on("clusters", "band_matches", scope="crawl")),
          "The verdict on each document: its cluster, its first member, its copy in an earlier crawl."),
    Stage("band_index", "deduplicate", "range", "gristmill.deduplicate.stages:band_index", 1,
          ("minhash", "band_index"),
          _on("near", "signatures", scope="crawl"),
          "This crawl's generation of the index across crawls: band keys of survivors, with a bloom filter."),
    Stage("provenance", "release", "bucket", "gristmill.acquire.stages:provenance", 2, ("unique",),
          _on("raw_warc", "unique_records", "text", "language", "near"),
          "Where every record came from: URL, time, tier, licence, robots state, language, parent."),
    Stage("heuristics", "quality", "bucket", "gristmill.quality.stages:heuristics", 2, (),
          _on("text", "language", "lines", "near"),
          "Every Gopher, C4, FineWeb and RefinedWeb measure as a column; no verdict."),
    Stage("quality", "quality", "bucket", "gristmill.quality.stages:quality", 2, ("quality",),
          _on("text", "language", "lines", "near", "provenance"),
          "One column a scorer, the ensemble, and its percentile against frozen reference quantiles.", device="gpu"),
    Stage("embeddings", "semantic", "bucket", "gristmill.deduplicate.semantic_stages:embeddings", 1, ("semantic",),
          _on("text", "lines", "near", "provenance"),
          "Sentence embeddings of survivors of the tiers that semantic deduplication is on for (not the web).",
          device="gpu"),
    Stage("semantic", "semantic", "range", "gristmill.deduplicate.semantic_stages:semantic", 1, ("semantic",),
          _on("embeddings", "quality", scope="crawl"),
          "Semantic duplicates: k-means, then best first by quality inside each cluster.", first_alone=True,
          device="gpu"),
    Stage("safety", "safety", "bucket", "gristmill.safety.stages:safety", 2, ("safety",),
          _on("text", "language", "lines", "near"),
          "Personal data as spans, and a score a category of unsafe text."),
    Stage("contamination", "decontaminate", "bucket", "gristmill.decontaminate.stages:contamination", 2,
          ("decontaminate",),
          (*_on("text", "language", "lines", "near", "provenance"), *_on("eval_holdout", scope="site")),
          "Benchmark items found in documents: n-gram runs, short spans, windowed containment."),
    Stage("tokens", "tokens", "bucket", "gristmill.tokens.stages:tokens", 1, ("tokenize",),
          (*_on("text", "language", "lines", "near", "provenance", "quality", "safety"),
           *_on("semantic", scope="crawl")),
          "Released text (boilerplate out, personal data replaced) as token ids, laid out by shard range."),
    Stage("shards", "tokens", "range", "gristmill.tokens.stages:shards", 2, ("tokenize",),
          _on("tokens", scope="crawl"),
          "Content-addressed shards by stratum: flat uint32 tokens, offsets, documents.", kinds=("bin",)),
    Stage("catalogue_records", "release", "bucket", "gristmill.release.stages:catalogue_records", 1, (),
          (*_on("provenance", "unique_records", "near"), *_on("exact", "clusters", scope="crawl")),
          "What record policy and re-election read, one row a record."),
    Stage("catalogue", "release", "bucket", "gristmill.release.stages:catalogue", 2, (),
          (*_on("provenance", "text", "language", "lines", "near", "heuristics", "quality", "safety", "contamination"),
           *_on("exact", "semantic", "shards", scope="crawl")),
          "Everything that a predicate may name, one row a document, with its shard and ordinal."),
    Stage("duplicate_pairs", "deduplicate", "crawl", "gristmill.deduplicate.stages:duplicate_pairs", 2, ("minhash",),
          _on("near", "provenance", "exact", "text", "lines", scope="crawl"),
          "A page to read: documents set aside beside what they repeat, sampled by band of similarity.",
          kinds=("html",)),
    Stage("semantic_pairs", "semantic", "crawl", "gristmill.deduplicate.semantic_stages:semantic_pairs", 1,
          ("semantic",), _on("semantic", "exact", "text", "lines", scope="crawl"),
          "A page to read: pairs of like meaning, removed or not, by tier and band of cosine.", kinds=("html",)),
    Stage("contamination_report", "decontaminate", "crawl", "gristmill.decontaminate.stages:contamination_report", 1,
          (), (*_on("contamination", "tokens", scope="crawl"), *_on("eval_holdout", scope="site")),
          "Per benchmark: documents, tokens, rate, longest run, method; matched spans side by side.", kinds=("html",)),
    Stage("yields", "observe", "crawl", "gristmill.observe.stages:yields", 1, (),
          _on("crawl_slices", "raw_warc", "unique_records", "text", "language", "exact", "lines", "near", "heuristics",
              "quality", "semantic", "safety", "contamination", "tokens", "shards", scope="crawl"),
          "The yield of every stage and bucket: documents and bytes in and out, reasons with counts."),
    Stage("crawl_report", "observe", "crawl", "gristmill.observe.stages:crawl_report", 3, ("quality", "observe"),
          (*_on("yields", scope="landing"), *_on("unique_records", "quality", "catalogue", scope="crawl")),
          "The dashboard: the funnel by band against the last crawls, tokens, lengths, scores and their drift, hosts.",
          kinds=("html", "json")),
)

BY_NAME: dict[str, Stage] = {s.name: s for s in FUNNEL}


@dataclass(frozen=True)
class Plan:
    """Parameters, and the fingerprint that they give every stage."""

    params: PipelineParams

    @cached_property
    def fingerprints(self) -> dict[str, str]:
        """Asset -> fingerprint: name, version, parameters (models' hashes are parameters), inputs' fingerprints."""
        out: dict[str, str] = {}
        for stage in FUNNEL:
            chosen: dict[str, Any] = {f: getattr(self.params, f) for f in stage.params}
            if "grid" in chosen:
                chosen["grid"] = {"host_buckets": self.params.grid.host_buckets}
            out[stage.name] = fingerprint({
                "name": stage.name, "version": stage.version, "params": chosen,
                "inputs": {i.asset: out[i.asset] for i in stage.inputs},
            })
        return out

    @property
    def buckets(self) -> int:
        """Host buckets of the grid."""
        return self.params.grid.host_buckets

    def downstream(self, name: str) -> list[str]:
        """Stages that read ``name``, directly or through others, in order."""
        hit = {name}
        for stage in FUNNEL:
            if any(i.asset in hit for i in stage.inputs):
                hit.add(stage.name)
        return [s.name for s in FUNNEL if s.name in hit and s.name != name]
