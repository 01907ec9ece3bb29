"""Faults planted in real stages: each is caught in its run by the check that should, and told once."""

import dataclasses
import gzip
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pyarrow as pa

import launch
from checks import crawl as crawl_check
from definitions import build_definitions
from gristmill import models, schemas
from gristmill.acquire import stages as acquire
from gristmill.deduplicate import stages as deduplicate
from gristmill.demo.warc import Fetch, listing, warc_file
from gristmill.funnel import BY_NAME, Plan
from gristmill.observe import dashboard
from gristmill.observe.history import acknowledge
from gristmill.observe.judge import Verdict
from gristmill.observe.paging import shapes
from gristmill.observe.paging.problem import clip
from gristmill.partition import Partition
from gristmill.quality.fasttext_classifier import Classifier
from gristmill.registry import Registry
from tests.checks.conftest import NOW, Site, with_params

BUCKETS = [f"{NOW}|{b:04d}" for b in range(4)]


def test_an_ordinary_crawl_is_told_of_nowhere(site: Site):
    assert site.take(["crawl_slices", "raw_warc", "unique_records", "language", "exact", "near", "quality"])
    assert site.out() == set()
    assert site.pages() == []


def test_an_encoding_regression_shows_at_language(site: Site, monkeypatch):
    read = Partition.read

    def garbled(part, asset, columns=None, **where):
        """Every text decoded with a code page of another alphabet."""
        table = read(part, asset, columns, **where)
        if part.stage.name != "language" or asset != "text" or "text" not in table.column_names:
            return table
        texts = [t.encode().decode("cp037") for t in table["text"].to_pylist()]
        at = table.column_names.index("text")
        return table.set_column(at, "text", pa.array(texts, pa.large_string()))

    monkeypatch.setattr(Partition, "read", garbled)
    assert site.take(["language"])
    assert site.out() == {("language", "retention")}
    verdict = site.verdicts()["language", "retention"]
    assert verdict.metadata["direction"].value == "down"
    assert "encoding regression" in verdict.metadata["likely_causes"].data[0]
    assert len(site.pages()) == 1


def test_an_index_that_is_not_loaded_stops_what_follows(site: Site, monkeypatch):
    monkeypatch.setattr(deduplicate, "earlier", lambda part, asset, number: [])
    assert not site.take(["band_matches", "near", "band_index", "heuristics"])
    assert ("near", "index_loaded") in site.out()
    verdict = site.verdicts()["near", "index_loaded"]
    assert verdict.blocking
    assert "band index" in verdict.metadata["likely_causes"].data[0]
    made = {e.asset_key.to_user_string() for e in _materialised(site)}
    assert made == {"band_matches", "near"}, "the next stages ran on documents that earlier crawls have"
    assert len(site.pages()) == 1


def test_a_swapped_classifier_stops_what_follows_until_it_is_acknowledged(site: Site, tmp_path):
    cache = Path(site.pipeline.site.models)
    mine = tmp_path / "models"
    shutil.copytree(cache, mine)
    ref = site.pipeline.params.quality.classifier
    other = tmp_path / "other.bin"
    other.write_bytes(models.resolve(ref, mine).read_bytes() + b"x")
    places = site.pipeline.site.model_copy(update={"models": str(mine)})
    swapped = with_params(site.pipeline, quality={"classifier": models.put(other, mine)}).model_copy(
        update={"site": places})
    assert not site.take(["quality"], swapped)
    assert site.out() == {("quality", "same_scorers")}
    assert "swapped" in site.verdicts()["quality", "same_scorers"].metadata["likely_causes"].data[0]
    assert len(site.pages()) == 1
    acknowledge(site.store, Plan(swapped.params), "quality", "retrained on more languages")
    assert site.take(["quality"], swapped)
    assert site.out() == set()


def test_scores_that_behave_like_another_models_stop_what_follows(site: Site, monkeypatch):
    """The file's name and hash are the old ones; what it says is not."""
    score = Classifier.score
    monkeypatch.setattr(Classifier, "score", lambda self, texts: 1 - 0.2 * score(self, texts))
    assert not site.take(["quality"])
    assert ("quality", "same_scorers") in site.out()
    assert site.verdicts()["quality", "same_scorers"].metadata["direction"].value == "drift"
    assert len(site.pages()) == 1


def test_a_single_partition_run_is_judged_alone_and_shown_on_its_partition(site: Site):
    mistyped = with_params(site.pipeline, language={"min_words": 5000})
    defs = build_definitions(mistyped)
    launch.execute(defs, site.instance, "funnel_job", tags={}, partition=BUCKETS[3], assets=["language"],
                   ops={"language": {"config": {"workers": 1, "force": True}}})
    (verdict,) = site.partitions("language", "retention").values()
    assert (verdict.partition, verdict.passed) == (BUCKETS[3], False)
    facts = verdict.metadata
    assert facts["documents_in"].value > facts["documents_out"].value == 0
    assert 0.9 < facts["median"].value <= 1
    assert "%" in facts["band"].value
    assert "degenerate_short" in facts["top_reasons"].data


def test_the_crawls_report_carries_the_dashboard_and_its_own_checks(site: Site):
    launch.execute(build_definitions(site.pipeline), site.instance, "crawl_report_job", tags={}, partition=NOW,
                   ops={"crawl_report": {"config": {"workers": 1, "force": True}}})
    checks = site.partitions("crawl_report", "dashboard")
    assert set(checks) == {NOW}
    facts = checks[NOW].metadata
    assert checks[NOW].passed
    assert "| language |" in facts["funnel"].value
    assert facts["funnel picture"].value.startswith("![")
    assert Path(facts["report"].value).read_text().startswith("<!doctype html>")
    assert site.partitions("crawl_report", "score_drift")[NOW].passed


def test_what_a_stage_has_told_is_not_told_again_end_to_end(site: Site, monkeypatch):
    """The crawl's report is another run than the stages': its checks fail only of what no stage's own check showed."""
    judged = dashboard.judged

    def fallen(*stages):
        def _judged(*arguments):
            found = judged(*arguments)
            bad = Verdict(False, "docs", 0.1, 0.6, 0.5, 0.7, "down")
            return found | {s: dataclasses.replace(found[s], crawl=(bad,)) for s in stages}
        return _judged

    def failed(*stages):
        monkeypatch.setattr(dashboard, "judged", fallen(*stages))
        results = crawl_check._results(site.store, Plan(site.pipeline.params), NOW, dg.AssetKey("crawl_report"))
        return {r.check_name for r in results if not r.passed}

    assert failed("end_to_end") == {"dashboard"}
    assert failed("end_to_end", "language") == set()


def test_standing_checks_run_as_a_job_and_tell_of_an_unfinished_crawl(site: Site):
    defs = build_definitions(site.pipeline)
    Registry(site.store).register("CC-DEMO-2026-06")
    part = Partition(site.store, Plan(site.pipeline.params), dataclasses.replace(BY_NAME["raw_warc"], inputs=()),
                     "CC-DEMO-2026-06", 0, site.pipeline.site)
    part.write_bytes(b"", role="warc", suffix=".warc.zst")
    part.commit(0.0)
    site.store.blobs.put(f"{part.key().path}/_run.json", b'{"ended": 1.0}')  # long ago
    assert defs.resolve_job_def("standing_job").execute_in_process(instance=site.instance).success
    assert site.out() == {("site", "partitions")}
    assert "CC-DEMO-2026-06" in site.verdicts()["site", "partitions"].metadata["why"].value
    assert len(site.pages()) == 1


def test_a_mistyped_parameter_shows_though_it_changes_the_fingerprint(site: Site):
    mistyped = with_params(site.pipeline, language={"min_words": 500})  # 50 was meant
    assert site.take(["language"], mistyped)
    assert site.out() == {("language", "retention")}
    verdict = site.verdicts()["language", "retention"]
    assert "mistyped" in " ".join(verdict.metadata["likely_causes"].data)
    assert verdict.metadata["top_reasons"].data["degenerate_short"] > 0
    (page,) = site.pages()
    assert all(re.search(r"retention: [01]\S*, median: [01]\S*, band: \S+% to .*degenerate_short", clip(text, 500))
               for text in shapes.lines(page) if text.startswith("  why: ")), "a page without what it was judged by"


def test_a_lost_bucket_shows_where_it_was_lost(site: Site, monkeypatch):
    whole = acquire.raw_warc

    def lossy(part):
        if part.bucket != 3:
            return whole(part)
        part.write_bytes(b"", role="warc", suffix=".warc.zst")
        part.write(schemas.empty(schemas.RAW_INDEX), schemas.RAW_INDEX)
        part.write(schemas.empty(schemas.QUARANTINE), schemas.QUARANTINE, role="quarantine")
        part.report()
        return None

    monkeypatch.setattr(acquire, "raw_warc", lossy)
    assert site.take(["raw_warc"])
    assert site.out() == {("raw_warc", "volume"), ("raw_warc", "retention")}  # too few; and not all that were read
    volumes = {p[-4:]: e.passed for p, e in site.partitions("raw_warc", "volume").items()}
    assert volumes == {"0000": True, "0001": True, "0002": True, "0003": False}
    assert "lost" in site.verdicts()["raw_warc", "volume"].metadata["likely_causes"].data[0]
    assert len(site.pages()) == 1


def test_a_host_flood_names_the_host(site: Site, tmp_path):
    landing = tmp_path / "landing"
    shutil.copytree(site.pipeline.site.landing, landing)
    when = datetime(2026, 5, 11, tzinfo=UTC)
    pages = [Fetch(f"flood{n}", f"https://flood.example/{n}", when, f"<p>Offer number {n} of many.</p>".encode() * 9)
             for n in range(400)]
    paths = landing / "crawl-data" / NOW / "warc.paths.gz"
    names = gzip.decompress(paths.read_bytes()).decode().split()
    name = names[0].replace("-00000.warc.gz", "-00099.warc.gz")
    (landing / name).write_bytes(warc_file(name, NOW, pages))
    paths.write_bytes(listing([*names, name]))
    flooded = site.pipeline.model_copy(update={"site": site.pipeline.site.model_copy(update={"landing": str(landing)})})
    launch.execute(build_definitions(flooded), site.instance, "landing_job", tags={}, partition=NOW,
                   ops={"landing": {"config": {"workers": 1, "force": True}}})
    assert site.take(["crawl_slices", "raw_warc", "unique_records"], flooded)
    assert ("unique_records", "host_flood") in site.out()
    verdict = site.verdicts()["unique_records", "host_flood"]
    assert "flood.example" in verdict.metadata["why"].value
    assert len(site.partitions("unique_records", "host_flood")) == 4
    assert sum(not e.passed for e in site.partitions("unique_records", "host_flood").values()) == 1
    assert len(site.pages()) == 1


def _materialised(site: Site):
    run = site.instance.get_runs(limit=1)[0]
    for record in site.instance.all_logs(run.run_id):
        if record.is_dagster_event and record.dagster_event.is_step_materialization:
            yield record.dagster_event
