"""The deduplication stages over a crawl of N short documents: time a document and memory.

``python -m bench.dedup_growth land FOLDER N`` commits what the stages read; ``... run FOLDER N`` takes it from
``exact`` to ``band_index`` in one process (again, if it has been), after a small crawl that compiles the kernels, and
prints JSON. A rehearsal of ``python -m bench.deduplication --only growth``, whose rows it makes.
"""

import json
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from blake3 import blake3

from bench.texts import paragraphs
from gristmill import schemas, shuffle
from gristmill.deduplicate.normalise import doc_ids
from gristmill.funnel import BY_NAME, Plan
from gristmill.params import PipelineParams, SiteConfig
from gristmill.partition import Partition
from gristmill.registry import Registry
from gristmill.runner import run_stage
from gristmill.store import Store

STAGES = ("exact", "line_candidates", "line_counts", "lines", "signatures", "band_buckets", "clusters", "band_matches",
          "near", "band_index")
BUCKETS = 8
WORDS = 80


PLAN = Plan(PipelineParams.model_validate({"grid": {"host_buckets": BUCKETS}}))


def land(folder: Path, n: int) -> None:
    """``text`` and ``language`` of a crawl: a tenth of the documents repeat another but for a word."""
    store, plan = Store(folder), PLAN
    Registry(store).register("C")
    pool = [w for p in paragraphs() for w in p.split()]
    rng = np.random.default_rng(7)
    for bucket in range(plan.buckets):
        texts: list[str] = []
        for i, row in enumerate(rng.integers(0, len(pool), (n // plan.buckets, WORDS), np.int32).tolist()):
            if i % 10 == 9:
                words = texts[i - 5].split()
                words[row[0] % len(words)] = f"other{row[1]}x{i}"
            else:
                words = [pool[word] for word in row]
            texts.append(" ".join(words))
        records = [blake3(f"{bucket}/{i}".encode()).digest(length=16) for i in range(len(texts))]
        rows = pa.table({
            "crawl": pa.array(["C"] * len(texts)), "record_id": pa.array(records, schemas.ID),
            "doc_id": doc_ids(pa.array(texts, pa.large_string())), "text": pa.array(texts, pa.large_string()),
            "host_bucket": pa.array(np.full(len(texts), bucket, np.uint16)),
            "fetch_ts": pa.array(np.arange(len(texts))).cast(pa.timestamp("us")).cast(schemas.TS),
        })
        rows = shuffle.sort_by(rows, "record_id")
        _commit(store, plan, bucket, "text", schemas.TEXT, rows)
        _commit(store, plan, bucket, "language", schemas.LANGUAGE, rows)


def _commit(store: Store, plan: Plan, bucket: int, asset: str, schema: pa.Schema, rows: pa.Table) -> None:
    part = Partition(store, plan, replace(BY_NAME[asset], inputs=()), "C", bucket, SiteConfig())
    part.write(pa.table({
        f.name: rows[f.name] if f.name in rows.column_names else pa.nulls(rows.num_rows, f.type) for f in schema
    }))
    if asset == "language":
        by_doc = shuffle.sort_by(rows.select(["crawl", "record_id", "doc_id", "host_bucket", "fetch_ts"])
                                 .append_column("n_bytes", pc.binary_length(rows["text"]).cast(pa.int64())),
                                 "doc_id", "fetch_ts", "record_id")
        numbers = shuffle.range_of(shuffle.first_uint64(by_doc["doc_id"]), plan.buckets)
        part.write_ranged(by_doc, numbers, by_doc.schema, role="by_doc")
    part.commit(time.time())


def stages(store: Store, *, force: bool = False) -> dict[str, float]:
    """CPU seconds of each stage; with ``force`` although its partitions are current."""
    by_stage = {}
    for name in STAGES:
        begun = time.process_time()
        for _ in run_stage(store, PLAN, SiteConfig(), BY_NAME[name], "C", force=force):
            pass
        by_stage[name] = time.process_time() - begun
    return by_stage


def run(folder: Path, n: int) -> None:
    with tempfile.TemporaryDirectory() as warm:
        land(Path(warm), 80)
        stages(Store(warm))
    store, plan = Store(folder), PLAN
    by_stage = stages(store, force=True)
    near = [Partition(store, plan, BY_NAME["near"], "C", b, SiteConfig()).manifest("near").counts
            for b in range(plan.buckets)]
    print(json.dumps({
        "us_per_doc": sum(by_stage.values()) / n * 1e6, "buckets": plan.buckets,
        "by_stage": {k: round(v / n * 1e6, 1) for k, v in by_stage.items()},
        "removed": sum(c.reasons.get("near_duplicate", 0) for c in near),
    }))


if __name__ == "__main__":
    {"land": land, "run": run}[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3]))
