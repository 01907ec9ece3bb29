import pytest

from gristmill import identity, schemas
from gristmill.errors import LandingError, ManifestError
from gristmill.explain import explain, render
from gristmill.mixture import recipe as recipes
from gristmill.release.manifest import build_manifest
from gristmill.release.policy import Policy
from tests.release.world import Doc, World, many, some_text

TEXT = some_text(1)
DOCS = [
    Doc("https://kept.org/1", some_text(2), percentile=0.9),
    Doc("https://first.org/1", TEXT, day="2026-01-01"),
    Doc("https://copy.org/1", TEXT, day="2026-02-01"),
    Doc("https://near.org/1", some_text(3), of="https://first.org/1"),
    Doc("https://runs.org/1", some_text(4) + "word " * 2500),
    Doc("https://floor.org/1", some_text(5), percentile=0.01),
    Doc("https://leak.org/1", some_text(6), benchmark="gsm8k"),
]

RECIPE = {
    "sources": {"hi": {"where": "ensemble_percentile >= 0.6", "max_epochs": 9}},
    "phases": [{"name": "p", "tokens": 3000, "seq_len": 64, "samples_per_step": 2, "weights": {"hi": 1}}],
}


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> World:
    world = World.make(tmp_path_factory.mktemp("explain"), floor=0.02)
    world.add("A", [*many(60), *DOCS])
    for bucket in range(world.plan.buckets):
        fetched = [d for d in world.docs["A"] if world.bucket_of(d) == bucket]
        raw = [
            {
                "crawl": "A",
                "record_id": d.record_id,
                "url": d.url,
                "url_hash": identity.url_hash(d.url),
                "host": d.host,
                "fetch_ts": d.ts,
                "http_status": 200,
                "content_type": "text/html",
            }
            for d in fetched
        ]
        gone = Doc("https://kept.org/again", "x")
        broken = Doc("https://kept.org/broken", "y")
        here = world.bucket_of(gone) == bucket
        if here:
            raw += [
                {
                    "crawl": "A",
                    "record_id": d.record_id,
                    "url": d.url,
                    "url_hash": identity.url_hash(d.url),
                    "fetch_ts": d.ts,
                    "http_status": 200,
                }
                for d in (gone, broken)
            ]
            part = world.part("unique_records", "A", bucket)
            kept = [{"crawl": "A", "record_id": d.record_id, "kept": True} for d in [*fetched, broken]]
            repeat = {
                "crawl": "A",
                "record_id": gone.record_id,
                "kept": False,
                "reason": "recrawl",
                "of_record_id": DOCS[0].record_id,
                "of_crawl": "A",
            }
            part.write(schemas.from_rows([*kept, repeat], schemas.UNIQUE_RECORDS))
            part.write(schemas.from_rows([], schemas.HOSTS), schemas.HOSTS, role="hosts")
            world.commit(part)
        aside = [
            {
                "crawl": "A",
                "record_id": broken.record_id,
                "stage": "text",
                "reason": "timeout",
                "detail": "5.2 s of 5 s",
            }
        ]
        world._put("quarantine", "A", bucket, schemas.QUARANTINE, aside if here else [])
        world._put("raw_warc", "A", bucket, schemas.RAW_INDEX, raw)
    world.run("A")
    world.report("A")
    build_manifest(world.store, world.plan, world.site, recipes.parse(RECIPE), "v1")
    return world


def one(world: World, what: str):
    found = explain(world.store, world.plan, world.site, what)
    assert len(found) == 1
    assert render(found)
    return found[0]


def test_a_kept_document_went_to_a_shard_and_a_version(world):
    found = one(world, "https://kept.org/1")
    assert found.stopped_by is None
    assert (found.shard is not None, found.ordinal is not None) == (True, True)
    assert found.versions == {"v1": ["hi"]}
    assert one(world, DOCS[0].id.hex()).shard == found.shard
    assert one(world, DOCS[0].record_id.hex()).shard == found.shard


@pytest.mark.parametrize(
    ("url", "stage", "reason", "other"),
    [
        ("https://kept.org/again", "unique_records", "recrawl", "https://kept.org/1"),
        ("https://copy.org/1", "exact", "exact_duplicate", "https://first.org/1"),
        ("https://near.org/1", "near", "near_duplicate", "https://first.org/1"),
    ],
)
def test_duplicates_name_the_other(world, url, stage, reason, other):
    found = one(world, url)
    assert (found.stopped_by, found.reason) == (stage, reason)
    assert found.other["url"] == other


def test_values_stand_against_their_bounds(world):
    found = one(world, "https://near.org/1")
    assert (found.value, found.bound) == (pytest.approx(0.9), 0.8)
    found = one(world, "https://floor.org/1")
    assert (found.stopped_by, found.reason, found.value, found.bound) == (
        "tokens",
        "tokenize_floor",
        pytest.approx(0.01),
        0.02,
    )
    found = one(world, "https://runs.org/1")
    assert (found.reason, found.bound) == ("low_entropy", 2.0)
    assert found.value < 2.0


def test_what_was_set_aside_says_why(world):
    found = one(world, "https://kept.org/broken")
    assert (found.stopped_by, found.reason, found.detail) == ("text", "timeout", "5.2 s of 5 s")


def test_a_leak_is_in_a_shard_but_in_no_version(world):
    found = one(world, "https://leak.org/1")
    assert found.versions == {"v1": []}
    assert any("gsm8k" in said for _, said in found.steps)


def test_the_rule_that_kept_it_out_of_a_version_is_named(world):
    found = one(world, "https://leak.org/1")
    assert found.rule == "contamination"
    assert found.steps[-1] == ("manifest v1", "excluded by contamination (holds items of gsm8k)")
    low = next(d for d in world.docs["A"] if d.percentile is not None and 0.1 < d.percentile < 0.5 and not d.benchmark)
    found = one(world, low.url)
    assert found.rule is None
    said = found.steps[-1][1]
    assert said.startswith("source hi wants ensemble_percentile >= 0.6; here ensemble_percentile = 0.")
    args = (world.store, world.plan, world.site, recipes.parse(RECIPE))
    build_manifest(*args, "bare", policy=Policy(contamination=False))
    assert explain(world.store, world.plan, world.site, "https://leak.org/1")[0].rule is None
    assert explain(world.store, world.plan, world.site, "https://leak.org/1", version="v1")[0].rule == "contamination"
    with pytest.raises(ManifestError, match="no version 'v9'"):
        explain(world.store, world.plan, world.site, "https://leak.org/1", version="v9")


def test_the_unknown(world):
    assert explain(world.store, world.plan, world.site, "https://never.org/") == []
    assert "nothing is known" in render([])
    with pytest.raises(ManifestError, match="neither a URL nor an id"):
        explain(world.store, world.plan, world.site, "hello")
    with pytest.raises(LandingError, match="no crawl"):
        explain(world.store, world.plan, world.site, "https://kept.org/1", crawl="Z")
