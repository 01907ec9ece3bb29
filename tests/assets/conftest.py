"""Dagster over stages whose bodies are toys: the wiring under test, not the funnel."""

import dagster as dg
import pyarrow as pa
import pytest

from gristmill import partition
from gristmill.funnel import Stage
from gristmill.params import GridParams, Pipeline, PipelineParams, SiteConfig
from gristmill.registry import Registry
from gristmill.store import Store

CRAWL = "CC-TOY-1"
ROWS = pa.schema([("bucket", pa.int64())])


COLUMN = {"lines": "bytes_after", "near": "survives"}
AFTER_NEAR = ("heuristics", "quality", "semantic", "safety", "contamination", "tokens")


def toy_body(part):
    """Only ``near`` drops documents: half of bucket 3, a tenth elsewhere; what it keeps goes on whole."""
    kept = 500 if part.bucket == 3 else 900
    if part.stage.name in COLUMN:  # what the checks read of a stage's rows
        values = [100] * 1000 if part.stage.name == "lines" else [row < kept for row in range(1000)]
        rows = pa.table({"bucket": [part.bucket or 0] * 1000, COLUMN[part.stage.name]: values})
    else:
        rows = pa.table({"bucket": pa.array([part.bucket or 0], pa.int64())}, ROWS)
    part.write(rows, rows.schema)
    came = kept if part.stage.name in AFTER_NEAR else 800 if part.stage.name == "shards" else 1000
    lost = 1000 - kept if part.stage.name == "near" else 0
    part.report(docs_in=came, docs_out=came - lost, bytes_in=5000, bytes_out=4000, reasons={"toy": lost})


@pytest.fixture
def toys(monkeypatch):
    """Every stage's body is a toy; the names of the partitions made are recorded."""
    made = []

    def body(part):
        made.append((part.stage.name, part.bucket))
        toy_body(part)

    monkeypatch.setattr(Stage, "load", lambda self: body)
    # Other tests of this process import the real stages, whose checks of outside state a toy cannot meet.
    monkeypatch.setattr(partition, "_STATE_CHECKS", {})
    return made


@pytest.fixture
def pipeline(tmp_path):
    return Pipeline(
        site=SiteConfig(store=str(tmp_path / "store"), landing=str(tmp_path / "landing"),
                        holdout=str(tmp_path / "holdout"), models=str(tmp_path / "models")),
        params=PipelineParams(grid=GridParams(host_buckets=4)),
    )


@pytest.fixture
def instance(pipeline):
    with dg.DagsterInstance.ephemeral() as instance:  # in memory: an event costs a tenth of one on disk
        instance.add_dynamic_partitions("crawl", [CRAWL])
        Registry(Store(pipeline.site.store)).register(CRAWL)
        yield instance
