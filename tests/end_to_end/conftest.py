"""The demo crawl taken through the whole funnel once a session, and views of what each stage left.

Belongs here: making, running, and joining tables with the truth's names. Does not belong here: expectations.
"""

import time
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gristmill.demo.make import make_demo
from gristmill.demo.truth import DemoTruth
from gristmill.funnel import BY_NAME, Plan
from gristmill.params import Pipeline, read_pipeline
from gristmill.release.manifest import Built, build_manifest
from gristmill.release.shard_set import ShardSet
from gristmill.release.standing import read_manifest
from gristmill.runner import run_funnel
from gristmill.store import Key, Store, Yield

Row = dict[str, Any]


@dataclass
class Taken:
    """A demo that has been taken to a manifest."""

    folder: Path
    truth: DemoTruth
    pipeline: Pipeline
    seconds: dict[str, float] = field(default_factory=dict)
    built: Built | None = None

    @property
    def store(self) -> Store:
        return Store(self.pipeline.site.store)

    @cached_property
    def plan(self) -> Plan:
        return Plan(self.pipeline.params)

    @property
    def crawls(self) -> list[str]:
        return sorted(self.truth.crawls)

    def key(self, asset: str, crawl: str | None, bucket: int | None = None) -> Key:
        return Key(asset, self.plan.fingerprints[asset], crawl, bucket)

    def keys(self, asset: str, crawl: str) -> list[Key]:
        if BY_NAME[asset].on_grid:
            return [self.key(asset, crawl, bucket) for bucket in range(self.plan.buckets)]
        return [self.key(asset, None if BY_NAME[asset].by == "site" else crawl)]

    def table(
        self, asset: str, crawl: str | None = None, role: str = "data", columns: list[str] | None = None
    ) -> pa.Table:
        """All partitions of one crawl, or of both, one after the other."""
        store = self.store
        return pa.concat_tables(
            [store.read(key, columns, role) for c in ([crawl] if crawl else self.crawls) for key in self.keys(asset, c)]
        )

    def rows(
        self, asset: str, crawl: str | None = None, role: str = "data", columns: list[str] | None = None
    ) -> list[Row]:
        return self.table(asset, crawl, role, columns).to_pylist()

    def counts(self, asset: str, crawl: str) -> Yield:
        total = Yield()
        for key in self.keys(asset, crawl):
            total += self.store.require(key).counts
        return total

    # -- the truth's names ---------------------------------------------------------------------------------------------

    @cached_property
    def fetches(self) -> dict[str, Row]:
        """name -> fetch."""
        return {f["name"]: f for f in self.truth.fetches}

    @cached_property
    def name_of(self) -> dict[bytes, str]:
        """record_id -> name."""
        return {bytes.fromhex(f["record_id"]): f["name"] for f in self.truth.fetches}

    def record(self, name: str) -> bytes:
        return bytes.fromhex(self.fetches[name]["record_id"])

    def plants(self, kind: str) -> list[Row]:
        found = self.truth.plants.get(kind, [])
        assert found, f"the demo planted no {kind}"
        return found

    def by_name(self, asset: str, role: str = "data") -> dict[str, Row]:
        """name of the fetch -> row, for tables by record (or by a document's first record)."""
        if (asset, role) not in self._views:
            self._views[(asset, role)] = {
                self.name_of[r["record_id"]]: r for r in self.rows(asset, role=role) if r["record_id"]
            }
        return self._views[(asset, role)]

    @cached_property
    def _views(self) -> dict[tuple[str, str], dict[str, Row]]:
        return {}

    @cached_property
    def documents(self) -> dict[tuple[str, bytes], str]:
        """(crawl, doc_id) -> name of the first record."""
        return {(r["crawl"], r["doc_id"]): self.name_of[r["record_id"]] for r in self.rows("exact") if r["first"]}

    @cached_property
    def set_aside(self) -> dict[str, list[Row]]:
        """name -> quarantine rows."""
        out: dict[str, list[Row]] = defaultdict(list)
        for row in self.rows("quarantine"):
            out[self.name_of.get(row["record_id"], "") if row["record_id"] else ""].append(row)
        return out

    @cached_property
    def selected(self) -> dict[str, str]:
        """name of the first record -> source, of every document that the manifest shows a trainer."""
        assert self.built is not None
        return self.selection(self.built.version)

    def selection(self, version: str) -> dict[str, str]:
        """As ``selected``, of any version: resolved through the shards' own document lists."""
        store = self.store
        manifest, _ = read_manifest(store, version)
        paths = {s.hash: s.path for s in ShardSet(manifest["sources"].values())}
        rows = pq.read_table(pa.BufferReader(store.blobs.get(manifest["selection"]["path"]))).to_pylist()
        out: dict[str, str] = {}
        for row in rows:
            docs = pq.read_table(pa.BufferReader(store.blobs.get(f"{paths[row['shard']]}.docs"))).to_pylist()
            for ordinal in range(len(docs)) if row["ordinals"] is None else row["ordinals"]:
                name = self.name_of[docs[ordinal]["record_id"]]
                assert name not in out, f"{name} is selected twice"
                out[name] = row["source"]
        return out


def take(folder: Path, pages: int, workers: int = 2, version: str = "demo") -> Taken:
    """Make a demo, take both crawls through the funnel, build a manifest."""
    truth = make_demo(folder, pages)
    taken = Taken(folder, truth, read_pipeline(folder / "pipeline.yaml"))
    seconds: dict[str, float] = defaultdict(float)
    for crawl in taken.crawls:
        last = time.perf_counter()
        for stage, _ in run_funnel(taken.store, taken.plan, taken.pipeline.site, crawl, workers=workers):
            seconds[stage.name] += time.perf_counter() - last
            last = time.perf_counter()
    last = time.perf_counter()
    taken.built = build_manifest(taken.store, taken.plan, taken.pipeline.site, str(folder / "recipe.yaml"), version)
    seconds["manifest"] = time.perf_counter() - last
    taken.seconds = dict(seconds)
    return taken


@pytest.fixture(scope="session")
def taken(tmp_path_factory: pytest.TempPathFactory) -> Taken:
    """The demo at 300 pages (everything planted in full), taken to a manifest by two workers."""
    return take(tmp_path_factory.mktemp("demo"), 300)
