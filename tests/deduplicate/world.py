"""A crawl for tests: upstream partitions committed straight from texts, so that deduplication is tested alone."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from blake3 import blake3

from gristmill import schemas, shuffle
from gristmill.deduplicate.normalise import doc_ids
from gristmill.funnel import BY_NAME, Plan
from gristmill.params import PipelineParams, SiteConfig
from gristmill.partition import Partition
from gristmill.registry import Registry
from gristmill.runner import run_stage
from gristmill.store import Store

STAGES = ("exact", "line_candidates", "line_counts", "lines", "signatures", "band_buckets", "clusters", "band_matches",
          "near", "band_index", "duplicate_pairs")
DAY = 86_400_000_000


def record_id(crawl: str, number: int) -> bytes:
    return blake3(f"{crawl}/{number}".encode()).digest(length=16)


@dataclass
class World:
    """A store, its plan, and the crawls landed in it."""

    store: Store
    plan: Plan
    site: SiteConfig

    def part(self, asset: str, crawl: str, bucket: int | None = 0) -> Partition:
        return Partition(self.store, self.plan, BY_NAME[asset], crawl, bucket, self.site)

    def upstream(self, asset: str, crawl: str, bucket: int) -> Partition:
        """A partition that commits although what it would read was never made."""
        return Partition(self.store, self.plan, replace(BY_NAME[asset], inputs=()), crawl, bucket, self.site)

    def land(self, crawl: str, texts: Sequence[str], buckets: Iterable[int] | None = None, *,
             days: Sequence[int] | None = None, tier: str = "cc", quality: Sequence[float | None] | None = None
             ) -> list[bytes]:
        """Commit ``text``, ``language``, ``provenance`` and ``quality`` of a crawl. The record ids.

        Record i goes to bucket i % B unless said.
        """
        n = self.plan.buckets
        Registry(self.store).register(crawl)
        of = np.array(list(buckets) if buckets is not None else [i % n for i in range(len(texts))], np.int64)
        records = [record_id(crawl, i) for i in range(len(texts))]
        ids = doc_ids(pa.array(texts, pa.large_string()))
        when = pa.array([DAY * (days[i] if days is not None else i) for i in range(len(texts))], pa.int64()).cast(
            pa.timestamp("us")).cast(schemas.TS)
        everything = pa.table({
            "crawl": pa.array([crawl] * len(texts), pa.string()), "record_id": pa.array(records, schemas.ID),
            "doc_id": ids, "host_bucket": pa.array(of.astype(np.uint16)), "fetch_ts": when,
            "text": pa.array(texts, pa.large_string()),
            "quality": pa.array(quality if quality is not None else [None] * len(texts), pa.float32()),
        })
        for bucket in range(n):
            mine = shuffle.sort_by(everything.filter(pa.array(of == bucket)), "record_id")
            self._commit_text(crawl, bucket, mine)
            self._commit_language(crawl, bucket, mine)
            self._commit_provenance(crawl, bucket, mine, tier)
            self._commit_quality(crawl, bucket, mine)
        return records

    def _commit_text(self, crawl: str, bucket: int, rows: pa.Table) -> None:
        part = self.upstream("text", crawl, bucket)
        size = [len(t.encode()) for t in rows["text"].to_pylist()]
        table = rows.select(["crawl", "record_id", "doc_id", "fetch_ts", "text"])
        for name in ("source_id", "url", "title", "extractor", "extract_meta"):
            table = table.append_column(name, pa.nulls(rows.num_rows, pa.string()))
        for name in ("n_chars", "n_bytes"):
            table = table.append_column(name, pa.array(size, pa.int64()))
        part.write(table)
        part.commit(time.time())

    def _commit_language(self, crawl: str, bucket: int, rows: pa.Table) -> None:
        part = self.upstream("language", crawl, bucket)
        table = rows.select(["crawl", "record_id", "doc_id"])
        for field in schemas.LANGUAGE:
            if field.name not in table.column_names:
                value = "eng" if field.name == "lang" else None
                table = table.append_column(field.name, pa.array([value] * rows.num_rows, field.type))
        part.write(table)
        by_doc = shuffle.sort_by(rows.select(["crawl", "record_id", "doc_id", "host_bucket", "fetch_ts"])
                                 .append_column("n_bytes", pc.binary_length(rows["text"]).cast(pa.int64())),
                                 "doc_id", "fetch_ts", "record_id")
        numbers = shuffle.range_of(shuffle.first_uint64(by_doc["doc_id"]), self.plan.buckets)
        part.write_ranged(by_doc, numbers, by_doc.schema, role="by_doc")
        part.commit(time.time())

    def _commit_provenance(self, crawl: str, bucket: int, rows: pa.Table, tier: str) -> None:
        part = self.upstream("provenance", crawl, bucket)
        table = rows.select(["crawl", "record_id", "doc_id", "fetch_ts"])
        for field in schemas.PROVENANCE:
            if field.name not in table.column_names:
                value = tier if field.name == "source_tier" else None
                table = table.append_column(field.name, pa.array([value] * rows.num_rows, field.type))
        part.write(table)
        part.commit(time.time())

    def _commit_quality(self, crawl: str, bucket: int, rows: pa.Table) -> None:
        part = self.upstream("quality", crawl, bucket)
        best = rows.group_by("doc_id", use_threads=False).aggregate([("quality", "max"), ("record_id", "min")])
        table = shuffle.sort_by(pa.table({
            "crawl": pa.array([crawl] * best.num_rows, pa.string()), "doc_id": best["doc_id"],
            "record_id": best["record_id_min"], "ensemble_max": best["quality_max"],
            "ensemble_mean": best["quality_max"], "ensemble_percentile": best["quality_max"],
        }), "doc_id")
        part.write(table)
        part.commit(time.time())

    def run(self, crawl: str, stages: Sequence[str] = STAGES, *, workers: int = 1, force: bool = False,
            buckets: Sequence[int] | None = None) -> int:
        """Run stages in order; how many partitions were computed."""
        computed = 0
        for name in stages:
            for made in run_stage(self.store, self.plan, self.site, BY_NAME[name], crawl, workers=workers, force=force,
                                  buckets=buckets):
                computed += made.computed
        return computed

    def table(self, asset: str, crawl: str, role: str = "data") -> pa.Table:
        """All partitions of an asset, one under the other."""
        part = self.part(asset, crawl)
        return pa.concat_tables(list(part.read_all(asset, role=role)))

    def rows(self, asset: str, crawl: str, key: str = "doc_id") -> dict[bytes, dict[str, object]]:
        return {row[key]: row for row in self.table(asset, crawl).to_pylist()}

    def digests(self, crawl: str, stages: Sequence[str] = STAGES) -> dict[str, list[str]]:
        """Data versions of every partition."""
        return {s: [self.part(s, crawl).manifest(s, b).digest for b in range(self.plan.buckets)] for s in stages}


def world(folder: Path, **params: object) -> World:
    """A world in a folder; parameters by stage, as in pipeline.yaml. Four buckets unless said."""
    params.setdefault("grid", {"host_buckets": 4})
    return World(Store(folder / "store"), Plan(PipelineParams.model_validate(params)), SiteConfig())
