"""A small store with everything that the token and release stages read, made by hand, for tests of those stages.

Texts are words drawn from a fixed list, so they pass admission; every other fact of a document can be set.
"""

import datetime as dt
import functools
import json
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash
from blake3 import blake3

from gristmill import identity, models, schemas, shuffle
from gristmill.funnel import BY_NAME, Plan
from gristmill.params import GridParams, PipelineParams, SiteConfig, TokenizeParams
from gristmill.partition import Partition
from gristmill.registry import Registry
from gristmill.runner import run_stage
from gristmill.store import PartitionManifest, Store
from gristmill.tokens.train import train_bpe

WORDS = """
the river runs past an old mill where grain was ground by hand before wheels turned stones and people carried sacks of
flour home along narrow roads between fields of barley wheat oats rye while children counted carts horses dogs birds
clouds and every evening someone lit lamps told stories wrote letters mended nets baked bread sang songs
""".split()  # noqa: SIM905


def doc_id(text: str) -> bytes:
    return blake3(text.encode()).digest(16)


def some_text(seed: int, words: int = 120) -> str:
    rng = np.random.default_rng(seed)
    out = [WORDS[i] for i in rng.integers(0, len(WORDS), words)]
    return "\n".join(" ".join(out[i : i + 12]) for i in range(0, len(out), 12)) + f"\nnumber {seed}\n"


@functools.cache
def tokenizer_bytes() -> bytes:
    """One small tokenizer for all worlds of a session."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.json"
        train_bpe([some_text(i) for i in range(200)] + ["[EMAIL] [PHONE] someone@example.org"], 600, path)
        return path.read_bytes()


@dataclass
class Doc:
    """One record and its text. ``of`` names an earlier Doc whose near-duplicate it is (same cluster)."""

    url: str
    text: str
    lang: str = "eng"
    day: str = "2026-03-01"
    tier: str = "cc"
    license_id: str | None = None
    robots: str = "allowed"
    percentile: float | None = 0.5
    holdout: str | None = None
    pii: list[tuple[int, int, str]] = field(default_factory=list)
    removed: list[int] = field(default_factory=list)
    toxicity: float = 0.0
    hard_removal: str | None = None
    benchmark: str | None = None
    of: str | None = None  # url of the representative of its cluster
    means: str | None = None  # url of the better document that it is a semantic duplicate of
    generator: str | None = None
    derived_from: str | None = None  # url of its parent
    source_id: str | None = None

    @functools.cached_property
    def id(self) -> bytes:
        return doc_id(self.text)

    @property
    def host(self) -> str:
        return identity.host_of(self.url)

    @property
    def ts(self) -> dt.datetime:
        return dt.datetime.fromisoformat(self.day).replace(tzinfo=dt.UTC)

    @property
    def record_id(self) -> bytes:
        return blake3(f"{self.url} {self.day}".encode()).digest(16)


TRAP = "trap.example.net"


@dataclass
class World:
    """A store, and the plan and site that go with it."""

    store: Store
    plan: Plan
    site: SiteConfig
    docs: dict[str, list[Doc]] = field(default_factory=dict)
    rules: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # crawl -> rows of ROBOTS

    def robots(self, crawl: str, host: str, body: str, day: str = "2026-01-01") -> None:
        """A robots.txt that a crawl fetches from a host; call it before ``add``."""
        when = dt.datetime.fromisoformat(day).replace(tzinfo=dt.UTC)
        row = {
            "crawl": crawl,
            "authority": f"https://{host}",
            "host_id": identity.container_id(host),
            "fetch_ts": when,
            "http_status": 200,
            "record_id": blake3(f"{crawl}{host}".encode()).digest(16),
            "body": body.encode(),
        }
        self.rules.setdefault(crawl, []).append(row)

    @staticmethod
    def make(root: Path, *, buckets: int = 2, **tokenize: Any) -> "World":
        path = root / "tokenizer.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(tokenizer_bytes())
        ref = models.put(path, root / "models")
        given: dict[str, Any] = {"tokenizer": ref, "shard_tokens": 3000, **tokenize}
        params = PipelineParams(grid=GridParams(host_buckets=buckets), tokenize=TokenizeParams(**given))
        site = SiteConfig(
            store=str(root / "store"),
            landing=str(root / "landing"),
            holdout=str(root / "holdout"),
            models=str(root / "models"),
        )
        return World(Store(site.store), Plan(params), site)

    # -- upstream ------------------------------------------------------------------------------------------------

    def part(self, asset: str, crawl: str | None, bucket: int | None) -> Partition:
        return Partition(self.store, self.plan, BY_NAME[asset], crawl, bucket, self.site)

    def bucket_of(self, doc: Doc) -> int:
        return identity.host_bucket(identity.container_id(doc.host), self.plan.buckets)

    def add(self, crawl: str, docs: list[Doc]) -> None:
        """Commit the upstream partitions of a crawl that holds these documents."""
        Registry(self.store).register(crawl)
        self.docs[crawl] = docs
        earlier = {d.id for c, ds in self.docs.items() if c != crawl for d in ds}
        ordered = sorted(docs, key=lambda d: (d.ts, d.record_id))
        first: dict[bytes, Doc] = {}
        for d in ordered:
            first.setdefault(d.id, d)
        by_url = {d.url: d for d in docs}
        cluster: dict[bytes, bytes] = {}
        for d in docs:
            if d.of is not None:
                top = by_url[d.of]
                cluster[d.id] = cluster[top.id] = min(cluster.get(top.id, top.id), d.id)
        for bucket in range(self.plan.buckets):
            own = sorted((d for d in docs if self.bucket_of(d) == bucket), key=lambda d: d.record_id)
            self._records(crawl, bucket, own)
            self._by_doc(crawl, bucket, own, first, cluster, by_url, earlier)
            self._ranges(crawl, bucket, docs, first, cluster, earlier)

    def commit(self, part: Partition) -> None:
        """Commit a made-up partition, whose own inputs do not exist."""
        self.store.commit(
            part.key(),
            PartitionManifest(
                asset=part.stage.name,
                fingerprint=self.plan.fingerprints[part.stage.name],
                crawl=part.crawl,
                bucket=part.bucket,
                files=tuple(part._files),
                inputs={},
                state=part.state,
                counts=part.counts,
                info=part.info,
            ),
        )

    def _records(self, crawl: str, bucket: int, own: list[Doc]) -> None:
        def rows(**more: Any) -> list[dict[str, Any]]:
            return [
                {"crawl": crawl, "record_id": d.record_id, "doc_id": d.id, "url": d.url, "fetch_ts": d.ts, **more}
                for d in own
            ]

        base = rows()
        text = [
            {
                **r,
                "text": d.text,
                "extractor": "test",
                "extract_meta": "{}",
                "n_chars": len(d.text),
                "n_bytes": len(d.text.encode()),
            }
            for r, d in zip(base, own)
        ]
        self._put(
            "text", crawl, bucket, schemas.TEXT, [{k: v for k, v in r.items() if k in schemas.TEXT.names} for r in text]
        )
        self._put(
            "language",
            crawl,
            bucket,
            schemas.LANGUAGE,
            [
                {
                    "crawl": crawl,
                    "record_id": d.record_id,
                    "doc_id": d.id,
                    "lang": d.lang,
                    "script": "Latn",
                    "lang_conf": 0.9,
                    "n_words": len(d.text.split()),
                }
                for d in own
            ],
        )
        part = self.part("unique_records", crawl, bucket)
        kept = [{"crawl": crawl, "record_id": d.record_id, "kept": True, "holdout": d.holdout} for d in own]
        part.write(schemas.from_rows(kept, schemas.UNIQUE_RECORDS))
        hosts = [{"crawl": crawl, "host": h, "host_id": 1, "trap": h == TRAP} for h in sorted({d.host for d in own})]
        part.write(schemas.from_rows(hosts, schemas.HOSTS), schemas.HOSTS, role="hosts")
        rules = [
            r for r in self.rules.get(crawl, []) if identity.host_bucket(r["host_id"], self.plan.buckets) == bucket
        ]
        part.write(schemas.from_rows(rules, schemas.ROBOTS), schemas.ROBOTS, role="robots")
        self.commit(part)
        rows = [
            {
                **r,
                "url_hash": identity.url_hash(d.url),
                "host": d.host,
                "host_id": identity.container_id(d.host),
                "source_tier": d.tier,
                "license_id": d.license_id,
                "robots_state": d.robots,
                "lang": d.lang,
                "content_type": "text/html",
                "source_id": d.source_id,
                "generator_model_id": d.generator,
                "derived_from": self._parent(d),
                "warc_path": "x.warc.gz",
                "offset": 0,
                "length": 1,
            }
            for r, d in zip(base, own)
        ]
        part = self.part("provenance", crawl, bucket)
        part.write(schemas.from_rows(rows, schemas.PROVENANCE))
        part.write(schemas.from_rows([], schemas.HOSTS), schemas.HOSTS, role="hosts")
        self.commit(part)

    def _parent(self, doc: Doc) -> bytes | None:
        known = {d.url: d.id for docs in self.docs.values() for d in docs}
        return known[doc.derived_from] if doc.derived_from else None

    def _by_doc(
        self,
        crawl: str,
        bucket: int,
        own: list[Doc],
        first: dict[bytes, Doc],
        cluster: dict[bytes, bytes],
        by_url: dict[str, Doc],
        earlier: set[bytes],
    ) -> None:
        docs = sorted((d for d in own if first[d.id] is d and d.id not in earlier), key=lambda d: d.id)
        sizes: dict[bytes, int] = {}
        for c in cluster.values():
            sizes[c] = sizes.get(c, 0) + 1
        self._put(
            "near",
            crawl,
            bucket,
            schemas.NEAR,
            [
                {
                    "crawl": crawl,
                    "doc_id": d.id,
                    "record_id": d.record_id,
                    "dup_cluster_id": cluster.get(d.id, d.id),
                    "dup_cluster_size": sizes.get(cluster.get(d.id, d.id), 1),
                    "dup_of": by_url[d.of].id if d.of else None,
                    "similarity": 0.9 if d.of else None,
                    "survives": d.of is None,
                }
                for d in docs
            ],
        )
        self._put(
            "lines",
            crawl,
            bucket,
            schemas.LINES,
            [
                {
                    "crawl": crawl,
                    "doc_id": d.id,
                    "record_id": d.record_id,
                    "n_lines": d.text.count("\n"),
                    "removed": sorted(d.removed),
                    "n_removed": len(d.removed),
                    "bytes_after": len(d.text),
                    "empty_after": False,
                }
                for d in docs
            ],
        )
        kept = [d for d in docs if d.of is None]
        ids = {
            "crawl": pa.array([crawl] * len(kept), pa.string()),
            "doc_id": pa.array([d.id for d in kept], schemas.ID),
            "record_id": pa.array([d.record_id for d in kept], schemas.ID),
        }
        base = pa.schema([(n, c.type) for n, c in ids.items()])
        for asset, extra in (
            ("heuristics", {"word_count": pa.array([len(d.text.split()) for d in kept], pa.int32())}),
            (
                "quality",
                {
                    "ensemble": pa.array([d.percentile for d in kept], pa.float32()),
                    "ensemble_percentile": pa.array([d.percentile for d in kept], pa.float32()),
                },
            ),
            (
                "safety",
                {
                    "toxicity": pa.array([d.toxicity for d in kept], pa.float32()),
                    "hard_removal": pa.array([d.hard_removal for d in kept], pa.string()),
                    "pii_spans": pa.array(
                        [[{"start": s, "end": e, "kind": k} for s, e, k in d.pii] for d in kept],
                        pa.list_(schemas.PII_SPAN),
                    ),
                },
            ),
        ):
            part = self.part(asset, crawl, bucket)
            part.write(pa.table({**ids, **extra}), base, extra=True)
            self.commit(part)
        self._put(
            "contamination",
            crawl,
            bucket,
            schemas.CONTAMINATION,
            [
                {
                    "crawl": crawl,
                    "doc_id": d.id,
                    "record_id": d.record_id,
                    "benchmark": d.benchmark,
                    "item": "1",
                    "span": "question",
                    "method": "ngram",
                    "longest_run": 30,
                    "start": 0,
                    "end": 9,
                }
                for d in kept
                if d.benchmark
            ],
        )

    def _ranges(
        self,
        crawl: str,
        bucket: int,
        docs: list[Doc],
        first: dict[bytes, Doc],
        cluster: dict[bytes, bytes],
        earlier: set[bytes],
    ) -> None:
        copies = Counter(d.id for d in docs)
        rows = [
            {
                "crawl": crawl,
                "record_id": d.record_id,
                "doc_id": d.id,
                "host_bucket": self.bucket_of(d),
                "fetch_ts": d.ts,
                "first": first[d.id] is d,
                "dup_of": None if first[d.id] is d else first[d.id].record_id,
                "dup_count": copies[d.id],
                "seen_crawl": "earlier" if d.id in earlier else None,
            }
            for d in sorted(docs, key=lambda d: d.record_id)
            if self.range_of(d.id) == bucket
        ]
        part = self.part("exact", crawl, bucket)
        table = schemas.from_rows(rows, schemas.EXACT)
        part.write(table)
        part.write_ranged(table, np.array([r["host_bucket"] for r in rows], np.int64), role="by_bucket")
        self.commit(part)
        self._put(
            "clusters",
            crawl,
            bucket,
            schemas.CLUSTERS,
            [
                {"crawl": crawl, "doc_id": i, "dup_cluster_id": c, "dup_cluster_size": 2}
                for i, c in sorted(cluster.items())
                if self.range_of(i) == bucket
            ],
        )

        by_url = {d.url: d for d in docs}
        part = self.part("semantic", crawl, bucket)
        table = schemas.from_rows([
            {"crawl": crawl, "doc_id": d.id, "host_bucket": self.bucket_of(d), "source_tier": d.tier, "cluster": 0,
             "nearest": by_url[d.means].id, "cosine": 0.96875, "removed": True}
            for d in sorted(docs, key=lambda d: d.id) if d.means and self.range_of(d.id) == bucket
        ], schemas.SEMANTIC)
        part.write(table)
        part.write_ranged(table, table.column("host_bucket").to_numpy().astype(np.int64), role="by_bucket")
        self.commit(part)

    def range_of(self, i: bytes) -> int:
        return int(shuffle.range_of(np.array([int.from_bytes(i[:8], "big")], np.uint64), self.plan.buckets)[0])

    def _put(
        self,
        asset: str,
        crawl: str,
        bucket: int,
        schema: pa.Schema,
        rows: list[dict[str, Any]],
        hosts: list[dict[str, Any]] | None = None,
    ) -> None:
        part = self.part(asset, crawl, bucket)
        part.write(schemas.from_rows(rows, schema), schema)
        if hosts is not None:
            part.write(schemas.from_rows(hosts, schemas.HOSTS), schemas.HOSTS, role="hosts")
        rules = [
            r for r in self.rules.get(crawl, []) if identity.host_bucket(r["host_id"], self.plan.buckets) == bucket
        ]
        part.write(schemas.from_rows(rules, schemas.ROBOTS), schemas.ROBOTS, role="robots")
        self.commit(part)

    # -- the stages under test -------------------------------------------------------------------------------------

    def run(
        self,
        crawl: str,
        stages: tuple[str, ...] = ("tokens", "shards", "catalogue_records", "catalogue"),
        workers: int = 1,
    ) -> list[Any]:
        out = []
        for name in stages:
            out += list(run_stage(self.store, self.plan, self.site, BY_NAME[name], crawl, workers=workers))
        return out

    def report(self, crawl: str) -> None:
        """An empty contamination report, current, and the hold-out's summary that it reads."""
        part = self.part("eval_holdout", None, None)
        if self.store.manifest(part.key()) is None:
            part.state["holdout_hash"] = "0" * 64
            part.write_bytes(b"{}", role="data", suffix=".json")
            self.commit(part)
        part = self.part("contamination_report", crawl, None)
        part.write_bytes(b"<html></html>", role="report", suffix=".html")
        part.commit(time.time())

    def ready(self, crawl: str, docs: list[Doc]) -> None:
        self.add(crawl, docs)
        self.run(crawl)
        self.report(crawl)


def shard_paths(manifest: dict[str, Any]) -> dict[str, str]:
    """Content hash -> path of every shard that a manifest (plain JSON) names."""
    return {s["hash"]: s["path"] for source in manifest["sources"].values() for s in source["shards"]}


def plain_manifest(store: Store, version: str) -> dict[str, Any]:
    """A manifest as it is written."""
    return json.loads(store.blobs.get(f"manifests/{version}/manifest.json"))


def many(n: int, *, start: int = 0, hosts: int = 7, **facts: Any) -> list[Doc]:
    """Different documents over a few hosts, percentiles spread evenly."""
    return [
        Doc(
            url=f"https://h{i % hosts}.example.org/{i}",
            text=some_text(i, 60 + (i * 37) % 200),
            **{"percentile": ((i * 7919) % 1000) / 1000, **facts},
        )
        for i in range(start, start + n)
    ]


def seed_of(name: str) -> int:
    return xxhash.xxh3_64_intdigest(name) % 2**31
