"""What a finding says: the numbers that a partition was judged by."""

import time
from dataclasses import replace

import pytest

from gristmill.fingerprint import canonical_json
from gristmill.funnel import BY_NAME, Plan
from gristmill.observe import assess, crawl_report, history
from gristmill.params import GridParams, ObserveParams, PipelineParams, SiteConfig
from gristmill.partition import Partition
from gristmill.registry import Registry
from gristmill.store import Store

PLAN = Plan(PipelineParams(grid=GridParams(host_buckets=2), observe=ObserveParams(min_docs=150)))


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


def stage(store, name, crawl, bucket=None):
    return Partition(store, PLAN, replace(BY_NAME[name], inputs=()), crawl, bucket, SiteConfig())


def month(store, crawl, kept=95):
    """A crawl whose report says that both buckets kept so many of 100."""
    Registry(store).register(crawl)
    part = stage(store, history.REPORT, crawl)
    cells = {str(b): [100, kept, 0, 0, 0, 1.0] for b in range(2)}
    made = {"language": {"buckets": cells, "looks_back": False, "settings": history.settings(PLAN, "language")}}
    part.write_bytes(canonical_json({"crawl": crawl, "stages": made}), role="data", suffix=".json")
    part.commit(time.time())


@pytest.fixture
def halved(store, monkeypatch):
    """A crawl that kept half, in buckets too small to be judged by themselves."""
    monkeypatch.setattr(crawl_report, "clumps", lambda *_: {})
    for n in range(3):
        month(store, f"C-{n}")
    Registry(store).register("C-3")
    for bucket in range(2):
        part = stage(store, "language", "C-3", bucket)
        part.report(docs_in=100, docs_out=50, reasons={"no_language": 50})
        part.commit(time.time())
    return assess.Past(store, PLAN, "C-3")


def test_a_bucket_that_shares_its_crawls_fault_carries_the_crawls_numbers(halved):
    whole, *buckets = assess.retention(halved, "language", [0, 1])
    assert (whole.passed, whole.metadata["documents_in"], whole.metadata["retention"]) == (False, 200, 0.5)
    for found in buckets:
        facts = found.metadata
        assert (found.passed, facts["judged"], facts["median"]) == (False, "crawl", 0.95)
        assert {k: facts[k] for k in whole.metadata if k != "judged"} == {
            k: v for k, v in whole.metadata.items() if k != "judged"}
        assert (facts["bucket_documents_in"], facts["bucket_documents_out"]) == (100, 50)
        assert facts["top_reasons"] == {"no_language": 100}
        assert "%" in facts["band"]
        assert facts["likely_causes"]


def test_where_there_is_nothing_to_compare_with_no_number_is_made_up(store, monkeypatch):
    monkeypatch.setattr(crawl_report, "clumps", lambda *_: {})
    Registry(store).register("C-3")
    part = stage(store, "language", "C-3", 0)
    part.report(docs_in=100, docs_out=50, reasons={"no_language": 50})
    part.commit(time.time())
    past = assess.Past(store, PLAN, "C-3")
    found = assess.retention(past, "language", [0])
    assert all(f.passed for f in found)
    assert {f.metadata["median"] for f in found} == {assess.volume(past, "language", [0])[0].metadata["expected"]} == {
        "none"}
