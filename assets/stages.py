"""Every stage of ``gristmill.funnel`` as a Dagster asset, with its mappings, metadata and progress.

Belongs here: turning a ``Stage`` into an ``AssetsDefinition``, and the loop over ``context.partition_keys`` that calls
the library's runner. Does not belong here: what a stage computes.

Concepts: https://docs.dagster.io assets, multi-partitions, backfill policies. A range run copies one MaterializeResult
to all its partitions, so per-partition facts go through ``context.add_asset_metadata(partition_key=...)``.
"""

import time
from collections.abc import Mapping
from typing import Any

import dagster as dg
import pyarrow as pa

from gristmill import schemas
from gristmill.funnel import BY_NAME, FUNNEL, Input, Plan, Stage
from gristmill.observe.progress import Reporter
from gristmill.params import SiteConfig
from gristmill.partition import Made
from gristmill.runner import run_stage
from gristmill.store import Key
from gristmill.workers import default_workers
from partitions import grid as grids
from resources.places import Places

OWNERS = ["team:data-engineering"]
LOG_EVERY_S = 5.0
SPENT = ("cpu", "compute", "gpu", "read", "write", "wait")


class Knobs(dg.Config):
    """Run-time knobs: they change speed, never bytes."""

    workers: int = 0  # 0 means one a core
    force: bool = False  # make partitions again though they are current


def column_schema(schema: pa.Schema) -> dg.TableSchema:
    """An Arrow schema as the UI shows it."""
    return dg.TableSchema(columns=[
        dg.TableColumn(name=f.name, type=str(f.type), description=(f.metadata or {}).get(b"description", b"").decode())
        for f in schema
    ])


def facts(made: Made, path: str, run: Mapping[str, Any]) -> dict[str, Any]:
    """A partition's yield, and the seconds of its last run (``_run.json``), as metadata for the UI."""
    counts = made.manifest.counts
    out: dict[str, Any] = {
        "documents_in": counts.docs_in,
        "documents_out": counts.docs_out,
        "bytes_in": counts.bytes_in,
        "bytes_out": counts.bytes_out,
        "retention": round(counts.docs_out / counts.docs_in, 6) if counts.docs_in else 1.0,
        "dagster/partition_row_count": sum(f.rows for f in made.manifest.role("data")),
        "stored_bytes": sum(f.bytes for f in made.manifest.files),
        "reasons": dg.MetadataValue.md(_reasons(counts.reasons)),
        "content_digest": made.manifest.digest,
        "path": dg.MetadataValue.path(path),
        "computed": made.computed,
        "seconds": round(made.seconds, 3),
        **{f"seconds/{kind}": run[f"{kind}_s"] for kind in SPENT if f"{kind}_s" in run},
    }
    for file in made.manifest.files:
        if file.name.endswith(".html"):  # a page to read: audited pairs, the contamination report
            out["report"] = dg.MetadataValue.path(f"{path}/{file.name}")
    for name, value in made.manifest.info.items():
        if isinstance(value, bool | int | float | str):
            out[f"info/{name}"] = value
        else:
            out[f"info/{name}"] = dg.MetadataValue.json({"value": value})
    return out


def _reasons(reasons: Mapping[str, int]) -> str:
    if not reasons:
        return "nothing stopped here"
    rows = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))[:20]
    return "\n".join(["| reason | documents |", "|---|---:|", *[f"| {r} | {n:,} |" for r, n in rows]])


def _dep(source: Input, stage: Stage) -> dg.AssetDep:
    upstream = BY_NAME[source.asset]
    mapping: dg.PartitionMapping | None = None
    if upstream.on_grid and stage.on_grid:
        mapping = grids.all_buckets() if source.scope == "crawl" else None
    elif upstream.on_grid != stage.on_grid and "site" not in (upstream.by, stage.by):
        mapping = grids.crawl_of_grid()
    return dg.AssetDep(dg.AssetKey(source.asset), partition_mapping=mapping)


def placement(stage: Stage, site: SiteConfig) -> tuple[dict[str, Any] | None, str | None]:
    """(op tags, pool) of a stage: where its pod goes, and which limit it counts against. None outside GPU pools."""
    if stage.device != "gpu" or site.gpu is None:
        return None, None
    gpu = site.gpu
    container: dict[str, Any] = {"resources": {"limits": {**gpu.limits, gpu.resource: str(gpu.count)}}}
    if gpu.image:
        container["image"] = gpu.image
    pod: dict[str, Any] = {"node_selector": gpu.node_selector, "tolerations": [dict(t) for t in gpu.tolerations]}
    if gpu.priority_class:
        pod["priority_class_name"] = gpu.priority_class
    return {"dagster-k8s/config": {"container_config": container, "pod_spec_config": pod}}, "gpu"


def stage_asset(stage: Stage, plan: Plan, reporter: Reporter, site: SiteConfig) -> dg.AssetsDefinition:
    """One stage as an asset."""
    partitions: dg.PartitionsDefinition | None = None
    if stage.on_grid:
        partitions = grids.grid(plan.buckets)
    elif stage.by == "crawl":
        partitions = grids.crawls()
    schema = getattr(schemas, stage.name.upper(), None)
    metadata: dict[str, Any] = {
        "partition is": stage.by, "body": stage.body, "fingerprint": plan.fingerprints[stage.name],
    }
    if schema is not None:
        metadata["dagster/column_schema"] = column_schema(schema)
    op_tags, pool = placement(stage, site)

    @dg.asset(
        name=stage.name, group_name=stage.group, partitions_def=partitions, description=stage.summary,
        deps=[_dep(i, stage) for i in stage.inputs], code_version=plan.fingerprints[stage.name], owners=OWNERS,
        kinds=set(stage.kinds), metadata=metadata,
        # One machine: one run takes the whole range. A deployment in pods chooses multi_run for expensive stages.
        backfill_policy=dg.BackfillPolicy.single_run() if partitions is not None else None,
        tags={"gristmill/by": stage.by}, op_tags=op_tags, pool=pool,
    )
    def _asset(context: dg.AssetExecutionContext, config: Knobs, places: Places) -> None:
        run_partitions(context, config, places, stage, plan, reporter)

    return _asset


def run_partitions(context: dg.AssetExecutionContext, config: Knobs, places: Places, stage: Stage, plan: Plan,
                   reporter: Reporter) -> None:
    """Make the run's partitions of a stage, crawl by crawl, and report each one's yield."""
    store, site = places.open_store(), places.site()
    workers = config.workers or default_workers()
    for crawl, buckets in chosen(context, stage).items():
        reporter.start(stage.name, crawl or "", len(buckets) if buckets else 1)
        log = _Log(context, stage.name, len(buckets) if buckets else 1, reporter)
        for made in run_stage(store, plan, site, stage, crawl, buckets=buckets, workers=workers, force=config.force,
                              progress=log.documents):
            key = f"{crawl}|{grids.bucket_key(made.bucket)}" if made.bucket is not None else crawl
            where = Key(stage.name, plan.fingerprints[stage.name], crawl, made.bucket)
            told = facts(made, f"{store.root}/{where.path}", store.run_info(where))
            if key is None:
                context.add_asset_metadata(told)
            else:
                context.add_asset_metadata(told, partition_key=key)
            reporter.partition(stage.name, made)
            log.partition(made)
        reporter.end(stage.name)
        log.end()


def chosen(context: dg.AssetExecutionContext, stage: Stage) -> dict[str | None, list[int] | None]:
    """Crawl -> buckets of this run, both in order."""
    if stage.by == "site":
        return {None: None}
    if stage.by == "crawl":
        return dict.fromkeys(sorted(context.partition_keys))
    out: dict[str | None, list[int] | None] = {}
    for key in context.partition_keys:
        assert isinstance(key, dg.MultiPartitionKey)
        dims = key.keys_by_dimension
        buckets = out.setdefault(dims[grids.CRAWL], [])
        assert buckets is not None
        buckets.append(int(dims[grids.HOST_BUCKET]))
    return {crawl: sorted(b or []) for crawl, b in out.items()}


class _Log:
    """A log line every few seconds, and one at the end: stage, buckets done, documents in and out, rate, time left."""

    def __init__(self, context: dg.AssetExecutionContext, stage: str, total: int, reporter: Reporter) -> None:
        self.context, self.stage, self.total, self.reporter = context, stage, total, reporter
        self.begun = self.last = time.monotonic()
        self.done = self.computed = self.docs_in = self.docs_out = 0

    def documents(self, docs_in: int, docs_out: int) -> None:
        self.reporter.documents(self.stage, docs_in, docs_out)
        if time.monotonic() - self.last >= LOG_EVERY_S:
            self._line(docs_in, docs_out)

    def partition(self, made: Made) -> None:
        self.done += 1
        self.computed += made.computed
        self.docs_in += made.manifest.counts.docs_in
        self.docs_out += made.manifest.counts.docs_out
        if time.monotonic() - self.last >= LOG_EVERY_S:
            self._line(0, 0)

    def end(self) -> None:
        self._line(0, 0)

    def _line(self, more_in: int, more_out: int) -> None:
        self.last = time.monotonic()
        seconds = max(self.last - self.begun, 1e-3)
        left = (self.total - self.done) * seconds / self.done if self.done else float("nan")
        docs = self.docs_in + more_in
        self.context.log.info(
            f"{self.stage}: {self.done}/{self.total} partitions ({self.computed} computed), {docs:,} documents in, "
            f"{self.docs_out + more_out:,} out, {docs / seconds:,.0f}/s"
            + (f", about {left:.0f} s left" if self.done < self.total and self.done else "")
        )


def stage_assets(plan: Plan, reporter: Reporter, site: SiteConfig | None = None) -> list[dg.AssetsDefinition]:
    """All stages, in the funnel's order."""
    return [stage_asset(s, plan, reporter, site or SiteConfig()) for s in FUNNEL]


