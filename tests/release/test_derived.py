"""What is made from a leak is a leak."""


import pytest

from gristmill.mixture import recipe as recipes
from gristmill.release.manifest import build_manifest
from gristmill.release.policy import Policy, parse
from tests.release.test_manifest import selected
from tests.release.world import Doc, World, many, some_text

RECIPE = recipes.parse({
    "sources": {"all": {"max_epochs": 9}},
    "phases": [{"name": "p", "tokens": 3000, "seq_len": 64, "samples_per_step": 2, "weights": {"all": 1}}],
})


def synthetic(name: str, parent: str) -> Doc:
    return Doc(f"https://made.org/{name}", some_text(sum(map(ord, name)) + 5000), tier="synthetic", derived_from=parent)


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> World:
    world = World.make(tmp_path_factory.mktemp("derived"))
    leak = Doc("https://leak.org/1", some_text(6001), benchmark="gsm8k")
    other = Doc("https://leak.org/2", some_text(6002), benchmark="mmlu")
    held = Doc("https://held.org/1", some_text(6003), holdout="web_sample")
    fine = Doc("https://fine.org/1", some_text(6004))
    world.ready("A", [*many(60), leak, other, held, fine, synthetic("child", leak.url)])
    world.ready("B", [
        synthetic("grandchild", "https://made.org/child"), synthetic("of-other", other.url),
        synthetic("of-held", held.url), synthetic("of-fine", fine.url),
    ])  # fmt: skip
    return world


def shown(world, version, policy=None, crawls=None, workers=1):
    built = build_manifest(world.store, world.plan, world.site, RECIPE, version, crawls, policy, workers=workers)
    made = {u.rsplit("/", 1)[1] for u in selected(world, built)["all"] if "//made.org/" in u}
    rules = {rule: sum(c["docs"] for c in by.values()) for rule, by in built.manifest["exclusions"].items()}
    return made, rules, built


def test_contamination_and_holdouts_go_down_to_all_descendants_in_any_crawl(world):
    made, rules, built = shown(world, "v1")
    assert made == {"of-fine"}
    assert rules == {"contamination": 2, "derived": 4, "holdout": 1}
    assert shown(world, "v1", workers=2)[2].hash == built.hash


def test_only_from_the_benchmarks_that_the_policy_names(world):
    made, rules, _ = shown(world, "v2", parse({"contamination_benchmarks": ["mmlu"]}))
    assert made == {"child", "grandchild", "of-fine"}
    assert rules == {"contamination": 1, "derived": 2, "holdout": 1}


def test_not_where_contamination_is_let_in(world):
    made, rules, _ = shown(world, "v3", Policy(contamination=False))
    assert made == {"child", "grandchild", "of-other", "of-held", "of-fine"}
    assert "derived" not in rules


