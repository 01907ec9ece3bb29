"""Which earlier crawls a crawl is compared with."""

import json
import time
from dataclasses import replace

import pytest

from gristmill.errors import GristmillError
from gristmill.fingerprint import canonical_json
from gristmill.funnel import BY_NAME, Plan
from gristmill.observe import history
from gristmill.params import GridParams, LanguageParams, ModelRef, PipelineParams, QualityParams, SiteConfig
from gristmill.partition import Partition
from gristmill.registry import Registry
from gristmill.store import Store

PARAMS = PipelineParams(grid=GridParams(host_buckets=2))


def put(store, params, crawl, **stages):
    """Commit a report of a crawl as a plan of these parameters would."""
    plan = Plan(params)
    Registry(store).register(crawl)
    part = Partition(store, plan, replace(BY_NAME[history.REPORT], inputs=()), crawl, None, SiteConfig())
    made = {name: {"buckets": {"0": [100, kept, 0, 0, 0, 1.0]}, "looks_back": back,
                   "settings": history.settings(plan, name)} for name, (kept, back) in stages.items()}
    part.write_bytes(canonical_json({"crawl": crawl, "stages": made}), role="data", suffix=".json")
    part.commit(time.time())


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


def test_the_last_crawls_of_the_same_family_in_order(store):
    for name in ("CC-MAIN-2026-05", "OWN-1", "CC-MAIN-2026-09", "CC-MAIN-2026-13", "CC-MAIN-2026-18"):
        put(store, PARAMS, name, language=(60, False))
    found = history.trailing(store, Plan(PARAMS), "CC-MAIN-2026-18", 2)
    assert [r.crawl for r in found] == ["CC-MAIN-2026-09", "CC-MAIN-2026-13"]
    assert history.trailing(store, Plan(PARAMS), "OWN-1", 5) == []
    assert history.trailing(store, Plan(PARAMS), "never-registered", 5) == []


def test_a_changed_parameter_does_not_hide_the_past_until_it_is_acknowledged(store):
    put(store, PARAMS, "C-1", language=(60, False), text=(99, False))
    Registry(store).register("C-2")
    changed = Plan(PARAMS.model_copy(update={"language": LanguageParams(min_words=500)}))
    assert changed.fingerprints[history.REPORT] != Plan(PARAMS).fingerprints[history.REPORT]
    reports = history.trailing(store, changed, "C-2", 5)

    def kept(stage):
        return [p.total().docs_kept for p in history.comparable(store, changed, stage, reports, False)]

    assert (kept("language"), kept("text")) == ([60], [99])
    path = history.acknowledge(store, changed, "language", "short texts go")
    assert json.loads(store.blobs.get(path))["reason"] == "short texts go"
    assert (kept("language"), kept("text")) == ([], [99])  # only the acknowledged stage begins anew
    put(store, changed.params, "C-2", language=(20, False))
    Registry(store).register("C-3")
    reports = history.trailing(store, changed, "C-3", 5)
    assert kept("language") == [20]


def test_of_several_reports_of_a_crawl_todays_counts_else_the_last_made(store):
    other = PARAMS.model_copy(update={"language": LanguageParams(min_words=60)})
    third = PARAMS.model_copy(update={"language": LanguageParams(min_words=70)})
    put(store, PARAMS, "C-1", language=(1, False))
    put(store, other, "C-1", language=(2, False))
    Registry(store).register("C-2")

    def seen(params):
        (one,) = history.trailing(store, Plan(params), "C-2", 5)
        return one.past("language").total().docs_kept

    assert (seen(PARAMS), seen(other), seen(third)) == (1, 2, 2)


def test_a_sites_first_crawl_is_not_compared_where_later_ones_drop_copies(store):
    put(store, PARAMS, "C-1", near=(90, False), text=(99, False))
    put(store, PARAMS, "C-2", near=(50, True), text=(99, False))
    Registry(store).register("C-3")
    plan = Plan(PARAMS)
    reports = history.trailing(store, plan, "C-3", 5)
    assert [p.crawl for p in history.comparable(store, plan, "near", reports, True)] == ["C-2"]
    assert [p.crawl for p in history.comparable(store, plan, "text", reports, False)] == ["C-1", "C-2"]


def test_settings_are_a_stages_own():
    deeper = PARAMS.model_copy(update={"language": LanguageParams(min_words=60)})
    assert history.settings(Plan(PARAMS), "language") != history.settings(Plan(deeper), "language")
    assert history.settings(Plan(PARAMS), "quality") == history.settings(Plan(deeper), "quality")
    model = ModelRef(name="m", sha256="a" * 64)
    quality = PARAMS.model_copy(update={"quality": QualityParams(classifier=model)})
    assert history.settings(Plan(quality), "quality")["models"]["quality.classifier"] == "a" * 64


def test_only_a_stage_can_be_acknowledged(store):
    with pytest.raises(GristmillError, match="no stage 'classifier'"):
        history.acknowledge(store, Plan(PARAMS), "classifier", "")
