"""Thresholds by the size of a language, the slice below them, and hard removal, as a manifest applies them."""

import json
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from gristmill.errors import RecipeError
from gristmill.quality import ensemble, rules
from gristmill.release import language_tiers
from gristmill.release.examine import check, explain
from gristmill.release.language_tiers import LanguageTiers, Threshold, TierRule
from gristmill.release.policy import parse
from tests.release.conftest import DEMO
from tests.release.test_manifest import build, changed, selected
from tests.release.world import Doc, World, some_text

WHOLE = {"sources": {"all": {"where": "TRUE"}}, "phases": [{**DEMO["phases"][0], "weights": {"all": 1}}]}
TABLE = {"tiers": [{"min_tokens": 6000, "keep": 0.35}, {"min_tokens": 2500, "keep": 0.6}, {"min_tokens": 0}],
         "rule_sets": []}


@pytest.fixture(scope="module")
def languages(tmp_path_factory) -> World:
    """A large language, a middling and a small one, percentiles spread evenly; one document that a hash list names."""
    world = World.make(tmp_path_factory.mktemp("tiers") / "store")
    docs = []
    for lang, count in (("eng", 200), ("deu", 40), ("ltz", 8)):
        docs += [Doc(f"https://{lang}{i % 7}.org/{i}", f"{lang} " + some_text(i * 3 + len(lang)), lang=lang,
                     percentile=(i + 0.5) / count) for i in range(count)]
    docs.append(Doc("https://book.org/1", some_text(99_001), tier="books", percentile=0.01))
    docs.append(Doc("https://never.org/1", some_text(99_002), percentile=0.99, hard_removal="never"))
    world.add("A", docs)
    world.run("A")
    world.report("A")
    return world


def kept(world: World, built: object, lang: str) -> list[float]:
    of = {d.url: d for docs in world.docs.values() for d in docs}
    return sorted(of[u].percentile for u in selected(world, built)["all"] if of[u].lang == lang and of[u].tier == "cc")


def test_each_language_keeps_what_its_size_allows_and_a_slice_from_below(languages):
    built = build(languages, changed(**WHOLE), policy=parse({"language_tiers": {**TABLE, "below_threshold": 0.16}}))
    eng, deu, ltz = (kept(languages, built, lang) for lang in ("eng", "deu", "ltz"))
    assert sum(p >= 0.65 for p in eng) == 70
    assert sum(p >= 0.4 for p in deu) == 24
    assert len(ltz) == 8  # too small for a classifier to decide
    under = sum(p < 0.65 for p in eng)
    assert 0.08 < under / len(eng) < 0.26  # 16 % of the pool, sampled
    told = json.loads(languages.store.blobs.get(built.manifest["statistics"]["path"]))["language_tiers"]
    assert {lang: t["least"] for lang, t in told.items()} == {"deu": "0.4", "eng": "0.65", "ltz": None}
    gone = built.manifest["exclusions"]["quality_tier"]["all"]["docs"]
    assert gone == 248 - len(eng) - len(deu) - len(ltz)
    assert "https://book.org/1" in selected(languages, built)["all"]  # not the web: not judged by it
    again = build(languages, changed(**WHOLE), policy=parse({"language_tiers": {**TABLE, "below_threshold": 0.16}}),
                  workers=2)
    assert again.hash == built.hash


def test_without_a_slice_nothing_from_below_is_kept_and_check_says_what_each_language_keeps(languages, tmp_path):
    policy = {"language_tiers": {**TABLE, "below_threshold": 0}}
    built = build(languages, changed(**WHOLE), "v2", policy=parse(policy))
    assert min(kept(languages, built, "eng")) >= 0.65
    file = Path(tmp_path) / "recipe.yaml"
    file.write_text(json.dumps({**DEMO, **WHOLE, "policy": policy}))
    lines = explain(check(languages.store, languages.plan, languages.site, file))
    assert any(line.startswith("language eng: ") and "percentile >= 0.65" in line for line in lines)
    assert any(line.startswith("language ltz: ") and "rule sets decide" in line for line in lines)


def test_what_a_hash_list_names_is_out_by_default_and_counted_under_its_own_rule(languages):
    built = build(languages, changed(**WHOLE), "v3")
    assert "https://never.org/1" not in selected(languages, built)["all"]
    assert built.manifest["exclusions"]["hard_removal"]["all"]["docs"] == 1
    shown = build(languages, changed(**WHOLE), "v4", policy=parse({"hard_removal": False}))
    assert "https://never.org/1" in selected(languages, shown)["all"]


def test_the_reference_table_is_the_published_one():
    table = parse({"language_tiers": {}}).language_tiers
    assert [(t.min_tokens, t.keep) for t in table.tiers] == [
        (t.min_tokens, None if t.keep is None else Decimal(str(t.keep))) for t in ensemble.TIERS]
    assert table.below_threshold == Decimal("0.16")


def rows(n_words: list[int]) -> pa.Table:
    columns = {m: np.full(len(n_words), 0.5, np.float32) for m in language_tiers.columns(LanguageTiers())[4:]}
    good = {r.measure: r.bound for name in rules.REFERENCE for r in rules.RULE_SETS[name]}
    columns = {m: np.full(len(n_words), good[m], np.float32) for m in columns}
    columns["n_words"] = np.array(n_words, np.float32)
    return pa.table({"lang": ["ltz"] * len(n_words), "source_tier": ["cc"] * len(n_words),
                     "ensemble_percentile": pa.array([0.01] * len(n_words), pa.float32()), **columns})


def test_a_small_language_is_judged_by_rule_sets_alone():
    never = lambda keep, lang: pytest.fail("no sampling")
    found = {"ltz": Threshold(10, None, Decimal(0))}
    out = language_tiers.falls(LanguageTiers(rule_sets=("gopher_quality",)), found, rows([60, 10]), never)
    assert out.tolist() == [False, True]


def test_what_the_catalogue_cannot_answer_is_refused():
    with pytest.raises(RecipeError, match="no rule set nope"):
        language_tiers.check(LanguageTiers(rule_sets=("nope",)), pa.schema([]))
    with pytest.raises(RecipeError, match="no column"):
        language_tiers.check(LanguageTiers(tiers=(TierRule(min_tokens=0),)), pa.schema([("lang", pa.string())]))
