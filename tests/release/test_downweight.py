"""Toxic documents are tagged by their score and kept by share: what ``policy.downweight`` does to a selection."""

import pytest

from gristmill.release.policy import parse
from tests.release.test_manifest import DEMO, build, changed, selected
from tests.release.world import World, many


def test_toxic_documents_are_tagged_kept_by_share_and_counted(tmp_path):
    world = World.make(tmp_path)
    docs = many(120)
    for i, doc in enumerate(docs):
        doc.toxicity = 0.9 if i % 2 else 0.1
    world.ready("A", docs)
    toxic = {d.url for d in docs if d.toxicity > 0.5}
    recipe = changed(sources={"all": {}}, phases=[{**DEMO["phases"][0], "tokens": 6000, "weights": {"all": "1"}}])

    def drawn(version: str, keep: str, seed: int = 0) -> set[str]:
        policy = parse({"seed": seed, "downweight": [{"where": "toxicity > 0.5", "keep": keep}]})
        built = build(world, recipe, version, policy=policy)
        shown = selected(world, built)["all"]
        counted = built.manifest["exclusions"].get("downweight", {}).get("all", {"docs": 0, "tokens": 0})
        assert {d.url for d in docs} - toxic <= shown, "what is not toxic is all there"
        assert counted["docs"] == len(toxic - shown)
        assert (counted["tokens"] > 0) == (counted["docs"] > 0)
        return toxic & shown

    half, quarter = drawn("half", "0.5"), drawn("quarter", "0.25")
    assert drawn("whole", "1") == toxic
    assert quarter < half < toxic, "a smaller share is a part of a larger one"
    assert len(half) == pytest.approx(30, abs=12)  # of 60 draws: three standard deviations
    assert len(quarter) == pytest.approx(15, abs=10)
    assert drawn("again", "0.5") == half
    assert drawn("other", "0.5", seed=1) != half
    rows = [r for b in range(world.plan.buckets) for r in world.part("catalogue", "A", b).read("catalogue").to_pylist()]
    assert {round(r["toxicity"], 1) for r in rows} == {0.1, 0.9}, "the score itself stays, as the tag"
