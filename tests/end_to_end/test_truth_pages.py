"""The output of intake and extraction, held against what was planted in the demo crawl: one test a planted kind.

The stages after them are in ``test_truth.py``. The truth comes from ``gristmill.demo``, which computes it from the
texts it wrote, without the pipeline's code.
"""

import json
import statistics
from collections import Counter

import pytest

from gristmill.demo.shingles import jaccard
from gristmill.funnel import BY_NAME, Plan
from gristmill.identity import container_id
from gristmill.runner import run_stage
from gristmill.store import Key

pytestmark = pytest.mark.timeout(900)  # the first test takes the demo through the funnel


def squeezed(text: str) -> str:
    return " ".join(text.split())


# -- intake ------------------------------------------------------------------------------------------------------------


def test_every_readable_fetch_is_in_the_index_once(taken):
    found = Counter(r["record_id"] for r in taken.rows("raw_warc", columns=["record_id"]))
    expected = {bytes.fromhex(f["record_id"]) for f in taken.truth.fetches if f["readable"]}
    assert set(found) == expected
    assert set(found.values()) == {1}


def test_the_index_says_what_was_fetched(taken):
    for name, row in taken.by_name("raw_warc").items():
        fetch = taken.fetches[name]
        assert (row["crawl"], row["url"], row["host"], row["http_status"], row["content_type"]) == (
            fetch["crawl"],
            fetch["url"],
            fetch["host"],
            fetch["status"],
            fetch["content_type"],
        )
        assert row["fetch_ts"].strftime("%Y-%m-%dT%H:%M:%SZ") == fetch["fetch_ts"]
        assert row["record_type"] == fetch["kind"]
        assert row["digest_ok"] is not False
        assert row["warc_path"] in taken.truth.crawls[fetch["crawl"]]["files"]


def test_a_damaged_member_costs_itself_only_and_is_listed(taken):
    (plant,) = taken.plants("damaged_member")
    rows = [r for r in taken.set_aside[""] if r["stage"] == "crawl_slices" and r["warc_path"] == plant["file"]]
    assert [r["reason"] for r in rows] == ["damaged"]
    assert rows[0]["offset"] > 0
    crawl = taken.fetches[plant["page"]]["crawl"]
    counts = taken.counts("crawl_slices", crawl)
    assert counts.reasons["damaged"] == 1
    assert counts.docs_out == taken.truth.crawls[crawl]["fetches"] - 1


def test_the_wet_file_is_refused_and_the_rest_is_read(taken):
    (plant,) = taken.plants("wet")
    rows = [r for r in taken.rows("landing", plant["crawl"]) if r["path"] == plant["file"]]
    assert [r["kind"] for r in rows] == ["refused"]
    assert "WET" in rows[0]["why"]
    aside = [r for r in taken.set_aside[""] if r["warc_path"] == plant["file"]]
    assert [r["reason"] for r in aside] == ["refused"]
    assert not any(r["record_type"] == "conversion" for r in taken.rows("raw_warc"))


def test_recrawls_within_a_crawl_collapse_to_the_first(taken):
    for plant in taken.plants("recrawl_within"):
        again = taken.by_name("unique_records")[plant["again"]]
        assert (again["kept"], again["reason"]) == (False, "recrawl")
        assert again["of_record_id"] == taken.record(plant["first"])
        assert taken.by_name("unique_records")[plant["first"]]["kept"]


def test_recrawls_across_crawls_name_the_earlier_crawl(taken):
    for plant in taken.plants("recrawl_across"):
        again = taken.by_name("unique_records")[plant["again"]]
        assert (again["kept"], again["reason"]) == (False, "recrawl_earlier")
        assert again["of_crawl"] == taken.fetches[plant["first"]]["crawl"]
        assert again["of_record_id"] == taken.record(plant["first"])


def test_a_page_that_changed_goes_on(taken):
    for plant in taken.plants("changed"):
        assert taken.by_name("unique_records")[plant["again"]]["kept"]
        assert taken.by_name("near")[plant["again"]]["survives"]


def test_revisits_are_resolved_or_said_not_to_be(taken):
    for plant in taken.plants("revisit"):
        row = taken.by_name("unique_records")[plant["again"]]
        assert not row["kept"]
        if plant["resolved"]:
            assert row["reason"] == "revisit"
            assert row["of_record_id"] == taken.record(plant["first"])
        else:
            assert row["reason"] == "revisit_unresolved"


def test_what_is_no_page_does_not_go_on(taken):
    for plant in taken.plants("not_text"):
        assert taken.by_name("unique_records")[plant["page"]]["reason"] == "not_text"
    for plant in taken.plants("status"):
        assert taken.by_name("unique_records")[plant["page"]]["reason"] == "status"


def test_held_out_pages_are_marked_and_never_shown(taken):
    for kind in ("web_sample", "time_forward"):
        pages = [p["page"] for p in taken.plants(kind)]
        marked = {n for n, r in taken.by_name("unique_records").items() if r["holdout"] == kind}
        assert marked == set(pages)
        assert all(page in taken.by_name("text") for page in pages)
        assert not set(pages) & set(taken.selected)


def test_the_trap_is_found_with_its_evidence(taken):
    (plant,) = taken.plants("trap")
    rows = {r["host"]: r for r in taken.rows("unique_records", role="hosts") if r["trap"]}
    assert list(rows) == [plant["host"]]
    assert rows[plant["host"]]["n_urls"] == len(plant["pages"])
    assert rows[plant["host"]]["n_unique_payloads"] == plant["texts"]
    assert not set(plant["pages"]) & set(taken.selected)  # the demo's policy names the host


# -- extraction --------------------------------------------------------------------------------------------------------


def test_kept_pages_have_a_text_or_a_reason(taken):
    kept = {n for n, r in taken.by_name("unique_records").items() if r["kept"]}
    text = set(taken.by_name("text"))
    aside = {n for n, rows in taken.set_aside.items() if any(r["stage"] == "text" for r in rows)}
    assert text | aside == kept
    assert not text & aside
    expected = {p["page"] for kind in ("hidden_quarantined", "replacement") for p in taken.plants(kind)}
    assert aside - {p["page"] for p in taken.plants("slow")} == expected


def test_the_main_text_is_what_was_written(taken):
    by_template: dict[str, list[float]] = {}
    for name, row in taken.by_name("text").items():
        if name.startswith("page-"):
            fetch = taken.fetches[name]
            by_template.setdefault(fetch["template"], []).append(jaccard(row["text"], fetch["text"]))
    medians = {t: statistics.median(v) for t, v in by_template.items()}
    assert set(medians) == {"article", "docs", "forum", "product", "listing", "wiki"}
    assert all(m > 0.8 for m in medians.values()), medians
    assert min(medians["article"], medians["docs"], medians["wiki"]) > 0.9, medians


def test_the_frame_of_the_site_is_not_main_text(taken):
    framed = [n for n, r in taken.by_name("text").items() if "uses cookies to remember your settings" in r["text"]]
    assert len(framed) < 0.02 * len(taken.by_name("text")), framed


def test_pages_in_old_encodings_read_as_written(taken):
    for plant in taken.plants("language"):
        text = taken.by_name("text")[plant["page"]]["text"]
        assert jaccard(text, taken.fetches[plant["page"]]["text"]) > 0.85, plant
        assert "\ufffd" not in text


def test_mojibake_is_mended(taken):
    for plant in taken.plants("mojibake"):
        text = squeezed(taken.by_name("text")[plant["page"]]["text"])
        assert plant["broken"] not in text
        # ftfy also straightens the apostrophe
        assert squeezed(plant["mended"]).replace("’", "'") in text.replace("’", "'")


def test_what_nobody_can_decode_is_quarantined(taken):
    for plant in taken.plants("replacement"):
        assert plant["share"] > taken.pipeline.params.extract.max_replacement_share
        assert [r["reason"] for r in taken.set_aside[plant["page"]]] == ["undecodable"]


@pytest.mark.parametrize("kind", ["hidden_removed", "hidden_quarantined"])
def test_hidden_text_reaches_nobody(taken, kind: str):
    for plant in taken.plants(kind):
        row = taken.by_name("text").get(plant["page"])
        if kind == "hidden_quarantined":
            assert plant["share"] > taken.pipeline.params.extract.max_hidden_share
            assert row is None, plant["way"]
            assert [r["reason"] for r in taken.set_aside[plant["page"]]] == ["hidden_text"]
        else:
            assert row is not None, plant["way"]
            assert plant["hidden"] not in squeezed(row["text"]), plant["way"]
            assert jaccard(row["text"], taken.fetches[plant["page"]]["text"]) > 0.85


def test_zero_width_marks_are_taken_out_of_words(taken):
    for plant in taken.plants("zero_width"):
        text = taken.by_name("text")[plant["page"]]["text"]
        assert squeezed(plant["clean"]) in squeezed(text)
        assert not any(mark in text for mark in plant["marks"])


def test_an_oversized_page_is_cut_and_says_so(taken):
    (plant,) = taken.plants("oversized")
    assert plant["bytes"] > taken.pipeline.params.extract.max_bytes
    row = taken.by_name("text")[plant["page"]]
    assert squeezed(plant["kept"]) in squeezed(row["text"])
    assert plant["lost"] not in squeezed(row["text"])
    assert "truncated" in json.dumps(json.loads(row["extract_meta"]))


def test_the_slow_page_does_not_hold_up_the_crawl(taken):
    """Whether the default engine asks trafilatura about it is learnt, not planted: it is accounted for either way."""
    (plant,) = taken.plants("slow")
    row = taken.by_name("text").get(plant["page"])
    if row is None:
        assert [r["reason"] for r in taken.set_aside[plant["page"]]] == ["slow"]
    else:
        assert not row["extractor"].startswith("trafilatura")


def test_the_page_that_is_slow_for_trafilatura_is_given_up_and_listed(taken):
    (plant,) = taken.plants("slow")
    fetch = taken.fetches[plant["page"]]
    params = taken.pipeline.params
    plan = Plan(params.model_copy(update={"extract": params.extract.model_copy(update={"engine": "trafilatura"})}))
    bucket = container_id(fetch["host"]) % plan.buckets
    site, stage = taken.pipeline.site, BY_NAME["text"]
    (made,) = run_stage(taken.store, plan, site, stage, fetch["crawl"], buckets=[bucket], workers=2)
    assert made.manifest.counts.reasons["slow"] == 1
    key = Key("text", plan.fingerprints["text"], fetch["crawl"], bucket)
    aside = {r["record_id"].hex(): r["reason"] for r in taken.store.read(key, role="quarantine").to_pylist()}
    assert aside[fetch["record_id"]] == "slow"
    assert made.manifest.counts.docs_out > 30  # its neighbours in the slice have their text
    listed = [path for path, _ in taken.store.blobs.list(f"registry/slow/{plan.fingerprints['text']}")]
    assert [path.rsplit("/", 1)[-1] for path in listed] == [f"{fetch['record_id']}.json"]


def test_languages_are_recognised(taken):
    for plant in taken.plants("language"):
        row = taken.by_name("language")[plant["page"]]
        assert (row["lang"], row["gate"]) == (plant["lang"], None), plant
    english = [r for n, r in taken.by_name("language").items() if n.startswith("page-")]
    # documentation with much code in it is what the identifier is least sure of
    assert sum(r["lang"] == "eng" and r["gate"] is None for r in english) >= 0.92 * len(english)


def test_degenerate_pages_are_gated_with_the_reason(taken):
    for plant in taken.plants("short"):
        assert taken.by_name("language")[plant["page"]]["gate"] == "degenerate_short"
    for plant in taken.plants("no_language"):
        assert taken.by_name("language")[plant["page"]]["gate"] == "no_language"
        assert any(r["reason"] == "no_language" for r in taken.set_aside[plant["page"]])
