"""Making the demo: twice the same bytes, and a second time nothing to do."""

import gzip
import hashlib
import json
from pathlib import Path

import pytest

from gristmill.acquire.holdout import open_holdout
from gristmill.acquire.landing import crawls
from gristmill.blobs import open_blobs
from gristmill.demo.make import CRAWLS, make_demo, summary
from gristmill.demo.shingles import jaccard
from gristmill.demo.truth import DemoTruth, read_truth
from gristmill.errors import GristmillError
from gristmill.identity import is_web_sample, url_hash
from gristmill.params import read_pipeline

PAGES = 60


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, DemoTruth]:
    folder = tmp_path_factory.mktemp("demo")
    return folder, make_demo(folder, PAGES)


def contents(folder: Path) -> dict[str, str]:
    return {
        p.relative_to(folder).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }


def test_two_makes_give_the_same_bytes(made, tmp_path: Path):
    folder, _ = made
    make_demo(tmp_path, PAGES)
    assert contents(tmp_path) == contents(folder)


def test_a_second_make_writes_nothing_and_says_so(made):
    folder, first = made
    before = {p: p.stat().st_mtime_ns for p in folder.rglob("*") if p.is_file()}
    again = make_demo(folder, PAGES)
    assert again.written == []
    assert set(again.untouched) >= set(first.written)
    assert {p: p.stat().st_mtime_ns for p in folder.rglob("*") if p.is_file()} == before
    assert "nothing changed" in summary(again, folder)


def test_a_spoilt_file_is_mended_and_nothing_else_written(tmp_path: Path):
    make_demo(tmp_path, PAGES)
    whole = contents(tmp_path)
    victim = next(p for p in sorted(tmp_path.rglob("*.warc.gz")))
    victim.write_bytes(b"spoilt")
    again = make_demo(tmp_path, PAGES)
    assert again.written == [victim.relative_to(tmp_path).as_posix()]
    assert contents(tmp_path) == whole


def test_another_size_leaves_no_file_of_the_first_behind(tmp_path: Path):
    make_demo(tmp_path, PAGES)
    make_demo(tmp_path, PAGES + 6)
    listed = set()
    for crawl in CRAWLS:
        with gzip.open(tmp_path / f"landing/crawl-data/{crawl}/warc.paths.gz", "rt") as file:
            listed |= set(file.read().split())
    there = {p.relative_to(tmp_path / "landing").as_posix() for p in (tmp_path / "landing").rglob("*.gz")}
    assert there == listed | {f"crawl-data/{crawl}/warc.paths.gz" for crawl in CRAWLS}


def test_the_parameter_file_pins_what_was_made(made):
    folder, truth = made
    pipeline = read_pipeline(folder / "pipeline.yaml")
    assert crawls(open_blobs(pipeline.site.landing)) == list(CRAWLS) == sorted(truth.crawls)
    holdout = open_holdout(pipeline.site.holdout, pipeline.params.extract.holdout_hash)
    frozen = {(b, i): spans["question"] for b, i, spans in holdout.benchmarks()}
    assert frozen == {(b["benchmark"], b["id"]): b["question"] for b in truth.benchmarks}
    params = pipeline.params
    for ref in (params.quality.classifier, params.tokenize.tokenizer, params.quality.quantiles):
        assert ref is not None
        assert hashlib.sha256(Path(pipeline.site.models, ref.sha256, ref.name).read_bytes()).hexdigest() == ref.sha256


def test_the_truth_is_read_as_it_was_written(made):
    folder, truth = made
    found = read_truth(folder)
    assert found.to_bytes() == truth.to_bytes()
    assert json.loads((folder / "truth.json").read_text())["format"] == 1


def test_a_missing_truth_says_what_to_run(tmp_path: Path):
    with pytest.raises(GristmillError, match="gristmill demo make"):
        read_truth(tmp_path)


def test_the_truths_similarities_hold(made):
    _, truth = made
    text = {f["name"]: f["text"] for f in truth.fetches}
    for kind in ("near_copy", "near_copy_across"):
        for plant in truth.plants[kind]:
            found = jaccard(text[plant["first"]], text[plant["copy"]])
            assert found == pytest.approx(plant["jaccard"], abs=1e-6)
            assert abs(found - plant["target"]) < 0.02
    for _, a, b, j in truth.similar:
        assert jaccard(text[a], text[b]) == pytest.approx(j, abs=1e-6)
    planted = {frozenset((p["first"], p["copy"])) for p in truth.plants["near_copy"]}
    farm = set(truth.plants["template_farm"][0]["pages"])
    natural = [s for s in truth.similar if frozenset(s[1:3]) not in planted and not {s[1], s[2]} <= farm]
    assert all(s[3] < 0.6 for s in natural), natural  # nature adds no copies of its own


def test_only_planted_pages_fall_into_the_web_sample(made):
    _, truth = made
    sampled = {f["name"] for f in truth.fetches if is_web_sample(url_hash(f["url"]), 1000)}
    assert sampled == {p["page"] for p in truth.plants["web_sample"]}


def test_no_benchmark_item_is_on_a_page_by_accident(made):
    _, truth = made
    leaked = {(p["page"], p["item"]) for p in truth.plants["leak"]}
    for item in truth.benchmarks:
        words = " ".join(item["question"].split()[:12])
        for fetch in truth.fetches:
            if fetch["text"] and (fetch["name"], item["id"]) not in leaked:
                assert words not in fetch["text"], (fetch["name"], item["id"])


def test_everything_asked_for_is_planted(made):
    _, truth = made
    kinds = {
        "recrawl_within", "recrawl_across", "changed", "revisit", "exact_copy", "exact_copy_across", "near_copy",
        "near_copy_across", "template_farm", "repeated_line", "language", "mojibake", "replacement", "hidden_removed",
        "hidden_quarantined", "zero_width", "oversized", "damaged_member", "wet", "not_text", "status", "short",
        "no_language", "pii", "leak", "opt_out", "trap", "web_sample", "time_forward",
    }  # fmt: skip
    assert set(truth.plants) == kinds  # from 300 pages on also the slow page


def test_a_persons_parameters_stay_when_the_demo_is_made_again(tmp_path):
    folder = tmp_path / "demo"
    make_demo(folder, pages=60)
    file = folder / "pipeline.yaml"
    mine = file.read_text().replace("min_docs: 12", "min_docs: 13")
    assert mine != file.read_text()
    file.write_text(mine)
    again = make_demo(folder, pages=60)
    assert again.written == []
    assert file.read_text() == mine
    (folder / "truth.json").write_text("{}")  # something else is spoilt and mended: the parameters still stay
    assert make_demo(folder, pages=60).written == ["truth.json"]
    assert file.read_text() == mine
