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


def toy_body(part):
    part.write(pa.table({"bucket": pa.array([part.bucket or 0], pa.int64())}), ROWS)
    lost = 5 if part.bucket == 3 and part.stage.name == "near" else 1
    part.report(docs_in=1000, docs_out=1000 - 100 * lost, bytes_in=5000, bytes_out=4000, reasons={"toy": 100 * lost})


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
