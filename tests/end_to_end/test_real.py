"""Real input: the WARC files and page sets of ``../shared/data`` go through to a manifest.

Nothing here is about the quality of a page's text (that is ``bench/extraction``): only that every record is read or
listed, every page has a text or a reason, and the rest of the funnel takes what comes.
"""

import gzip
import json
from pathlib import Path

import pytest
import yaml

from gristmill.acquire.landing import land, refusal
from gristmill.demo.make import make_demo
from gristmill.errors import LandingError
from gristmill.funnel import Plan
from gristmill.params import Pipeline, read_pipeline
from gristmill.release.manifest import build_manifest
from gristmill.release.standing import read_manifest
from gristmill.runner import run_funnel
from gristmill.store import Key, Store, Yield

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
RECORDS, PAGES = "REAL-WARC", "REAL-PAGES"
SETS = ("daniel_pub", "traf_pub", "wcxb_pub", "zyte_pub")
LOST_AT_MOST = 0.02  # of the pages: no text for any reason

pytestmark = [
    pytest.mark.shared, pytest.mark.slow, pytest.mark.timeout(1200),
    pytest.mark.skipif(not SHARED.is_dir(), reason="the real test data (../shared/data) is not on this machine"),
]  # fmt: skip


class Real:
    """Both crawls taken to a manifest."""

    def __init__(self, folder: Path) -> None:
        make_demo(folder / "demo", 60)
        demo = read_pipeline(folder / "demo" / "pipeline.yaml")
        places = {"store": str(folder / "store"), "landing": str(folder / "landing")}
        params = demo.params.model_copy(
            update={"unique": demo.params.unique.model_copy(update={"time_forward_after": None})}
        )
        self.pipeline = Pipeline(site=demo.site.model_copy(update=places), params=params)
        self.plan, self.store = Plan(params), Store(places["store"])
        files = [p for p in sorted((SHARED / "01_warc").rglob("*")) if p.is_file() and not refusal(p.name)]
        self.landed = land(files, RECORDS, places["landing"])
        land([SHARED / "02_extraction" / f"{name}.warc.gz" for name in SETS], PAGES, places["landing"])
        for crawl in (RECORDS, PAGES):
            for _ in run_funnel(self.store, self.plan, self.pipeline.site, crawl, workers=2):
                pass
        recipe = folder / "recipe.yaml"
        phase = {"name": "all", "tokens": 100_000, "seq_len": 256, "samples_per_step": 4, "weights": {"web": 1}}
        recipe.write_text(
            yaml.safe_dump({"name": "real", "seed": 1, "sources": {"web": {"where": "TRUE"}}, "phases": [phase]})
        )
        self.built = build_manifest(self.store, self.plan, self.pipeline.site, str(recipe), "real")

    def rows(self, asset: str, crawl: str, role: str = "data") -> list[dict]:
        keys = [Key(asset, self.plan.fingerprints[asset], crawl, b) for b in range(self.plan.buckets)]
        return [row for key in keys for row in self.store.read(key, role=role).to_pylist()]

    def counts(self, asset: str, crawl: str) -> Yield:
        total = Yield()
        for bucket in range(self.plan.buckets):
            total += self.store.require(Key(asset, self.plan.fingerprints[asset], crawl, bucket)).counts
        return total


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Real:
    return Real(tmp_path_factory.mktemp("real"))


def test_every_gold_page_is_read(real: Real):
    urls = {row["url"] for row in real.rows("raw_warc", PAGES)}
    for name in SETS:
        with gzip.open(SHARED / "02_extraction" / f"{name}.gold.jsonl.gz", "rt", encoding="utf-8") as lines:
            golds = [json.loads(line)["url"].strip() for line in lines]  # a header's value has no spaces around it
        missing = [url for url in golds if url not in urls]
        assert not missing, (name, missing[:5])


def test_every_page_has_a_text_or_a_reason(real: Real):
    kept = {row["record_id"] for row in real.rows("unique_records", PAGES) if row["kept"]}
    text = {row["record_id"] for row in real.rows("text", PAGES)}
    aside = {row["record_id"]: row["reason"] for row in real.rows("quarantine", PAGES) if row["stage"] == "text"}
    assert text | set(aside) == kept
    assert len(aside) < LOST_AT_MOST * len(kept), aside


def test_damaged_files_are_listed_and_the_rest_is_read(real: Real):
    counts = real.counts("crawl_slices", RECORDS)
    assert counts.docs_in == counts.docs_out + sum(counts.reasons.values())
    assert counts.docs_out > 100
    listed = {row["warc_path"].rsplit("/", 1)[-1] for row in real.rows("quarantine", RECORDS)}
    assert "clipped.warc.gz" in listed  # ends in the middle of a member
    read = {row["warc_path"].rsplit("/", 1)[-1] for row in real.rows("raw_warc", RECORDS)}
    assert {"whirlwind.warc.gz", "cc-main-2020-34.warc.zst", "example.arc.gz", "cc.warc.gz"} <= read
    # the same records, packed in another way or not at all: known again, not read twice
    assert {"warcfile.warc.lz4", "example.warc"} <= read | listed


def test_stages_account_for_every_document(real: Real):
    for crawl in (RECORDS, PAGES):
        for asset in ("raw_warc", "unique_records", "text", "language", "exact", "near", "tokens"):
            counts = real.counts(asset, crawl)
            assert counts.docs_in == counts.docs_out + sum(counts.reasons.values()), (asset, crawl)


def test_the_manifest_holds_most_of_what_survived(real: Real):
    manifest, found = read_manifest(real.store, "real")
    assert found == real.built.hash
    docs = sum(int(shards.counts[:, 2].sum()) for shards in manifest["sources"].values())
    survivors = sum(real.counts("near", crawl).docs_out for crawl in (RECORDS, PAGES))
    assert 0.9 * survivors < docs <= survivors
    assert survivors > 600


def test_wet_files_are_not_landed(tmp_path: Path):
    with pytest.raises(LandingError, match="WET"):
        land([SHARED / "01_warc/commoncrawl/whirlwind.warc.wet.gz"], "REAL-WET", tmp_path)
