"""The yield table says of stages that drop nothing what the dashboard says."""

import time
from dataclasses import replace

from gristmill.funnel import BY_NAME, Plan
from gristmill.observe import yields
from gristmill.observe.measure import count
from gristmill.params import GridParams, PipelineParams, SiteConfig
from gristmill.partition import Partition
from gristmill.registry import Registry
from gristmill.store import Store

PLAN = Plan(PipelineParams(grid=GridParams(host_buckets=2)))


def test_what_the_rules_would_keep_stands_beside_what_went_on(tmp_path):
    store = Store(tmp_path)
    Registry(store).register("C-1")
    facts = {"near": {}, "heuristics": {"would_pass": 30}, "quality": {"scored": 0, "top": 0},
             "safety": {"hard_removal": 1}}
    for name, more in facts.items():
        for bucket in range(2):
            part = Partition(store, PLAN, replace(BY_NAME[name], inputs=()), "C-1", bucket, SiteConfig())
            part.report(docs_in=100, docs_out=100, **more)
            part.commit(time.time())
    found = {y.stage: y for y in yields.stage_yields(store, PLAN, "C-1")}
    assert {s: y.ruled for s, y in found.items()} == {
        "near": None, "heuristics": (200, 60), "quality": None, "safety": (200, 198)}
    assert sum(count(m).docs_kept for m in yields.committed(store, PLAN, "heuristics", "C-1")) == 60
    told = yields.render(list(found.values()))
    (line,) = [one for one in told.splitlines() if one.startswith("heuristics ")]
    assert line.split()[1:4] == ["200", "200", "100.0%"]
    assert line.endswith("none; the rules would keep 60 of 200 (30.0%)")
    assert "gristmill dashboard" in told
    assert "gristmill dashboard" not in yields.render([found["near"]])
