"""The list of stages: a graph in order, and fingerprints that change exactly downstream of a changed parameter."""

import importlib

import pytest

from gristmill.funnel import BY_NAME, FUNNEL, Plan
from gristmill.params import PipelineParams


def test_stages_stand_in_topological_order():
    seen = set()
    for stage in FUNNEL:
        assert all(i.asset in seen for i in stage.inputs), stage.name
        seen.add(stage.name)


def test_every_body_exists():
    for stage in FUNNEL:
        assert callable(stage.load()), stage.body
        importlib.import_module(stage.body.partition(":")[0])


@pytest.mark.parametrize("field", ["language", "minhash", "quality", "decontaminate", "tokenize", "extract"])
def test_a_parameter_changes_its_stages_and_those_below_and_no_others(field):
    base = PipelineParams()
    changes = {
        "language": {"threshold": 0.5}, "minhash": {"seed": 7}, "quality": {"first_chars": 99},
        "decontaminate": {"n": 12}, "tokenize": {"bos": True}, "extract": {"engine": "resiliparse"},
    }
    changed = base.model_copy(update={field: getattr(base, field).model_copy(update=changes[field])})
    before, after = Plan(base), Plan(changed)
    moved = {n for n in BY_NAME if before.fingerprints[n] != after.fingerprints[n]}
    own = {s.name for s in FUNNEL if field in s.params}
    below = {d for name in own for d in before.downstream(name)}
    assert moved == own | below
    assert moved != set(BY_NAME)


def test_shuffles_read_all_buckets_and_nothing_on_the_grid_reads_a_report():
    for stage in FUNNEL:
        for source in stage.inputs:
            upstream = BY_NAME[source.asset]
            if stage.on_grid:
                assert upstream.on_grid or source.scope in ("landing", "site")
            if upstream.by == "range" and stage.by == "bucket":
                assert source.scope == "crawl", f"{stage.name} reads {upstream.name}, whose partitions are ranges"
