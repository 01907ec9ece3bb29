"""Every stage's output, held against what was planted in the demo crawl: one test a planted kind.

The truth comes from ``gristmill.demo``, which computes it from the texts it wrote, without the pipeline's code.
"""

import itertools
import json
import statistics
import unicodedata
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


# -- deduplication -----------------------------------------------------------------------------------------------------


def test_exact_copies_name_the_first(taken):
    copies = Counter(p["first"] for p in taken.plants("exact_copy"))
    for plant in taken.plants("exact_copy"):
        first, copy = (taken.by_name("exact")[plant[k]] for k in ("first", "copy"))
        assert first["doc_id"] == copy["doc_id"]
        assert first["first"]
        assert not copy["first"]
        assert copy["dup_of"] == taken.record(plant["first"])
        assert first["dup_count"] == 1 + copies[plant["first"]]
        assert plant["copy"] not in taken.selected


def test_exact_copies_across_crawls_name_the_earlier_one(taken):
    for plant in taken.plants("exact_copy_across"):
        copy = taken.by_name("exact")[plant["copy"]]
        assert copy["seen_crawl"] == taken.fetches[plant["first"]]["crawl"]
        assert copy["seen_record_id"] == taken.record(plant["first"])
        assert plant["copy"] not in taken.by_name("near")
        assert plant["copy"] not in taken.selected


def test_nothing_else_is_called_an_exact_copy(taken):
    texts = {n: squeezed(f["text"]).casefold() for n, f in taken.fetches.items() if f["text"]}
    for name, row in taken.by_name("exact").items():
        if row["dup_of"] is not None:
            assert texts[name] == texts[taken.name_of[row["dup_of"]]], name


def test_repeated_lines_are_removed_over_the_bound_only(taken):
    from gristmill.deduplicate.lines import clean

    rows, texts = taken.by_name("lines"), taken.by_name("text")
    for plant in taken.plants("repeated_line"):
        there = [p for p in plant["pages"] if p in rows]
        holding = [p for p in there if plant["line"] in texts[p]["text"]]
        # Extraction may drop the line on a page; the bound counts pages that still have it.
        assert len(holding) >= 0.8 * len(there) > 0, plant
        if plant["removed"]:
            assert len(holding) > plant["bound"]
        for page in holding:
            cleaned = clean(texts[page]["text"], set(rows[page]["removed"]))
            assert (plant["line"] in cleaned) is not plant["removed"], (page, plant)
            assert len(cleaned.encode()) == rows[page]["bytes_after"]


def outcome(taken, plant: dict) -> bool:
    """Do the two ends of a pair share a cluster."""
    first, copy = (taken.by_name("near")[plant[k]] for k in ("first", "copy"))
    return first["dup_cluster_id"] == copy["dup_cluster_id"]


def test_near_copies_are_found_from_090_on(taken):
    pairs = [p for p in taken.plants("near_copy") if p["target"] >= 0.9]
    assert len(pairs) >= 8
    for plant in pairs:
        copy = taken.by_name("near")[plant["copy"]]
        assert outcome(taken, plant), plant
        assert not copy["survives"]
        assert taken.documents[(copy["crawl"], copy["dup_of"])] == plant["first"]
        assert taken.by_name("near")[plant["first"]]["survives"]
        # K = 112 permutations: three standard deviations at 0.9 are 0.085
        assert abs(copy["similarity"] - plant["jaccard"]) < 0.09


def test_texts_that_are_alike_but_no_copies_stay(taken):
    found = {}
    for plant in taken.plants("near_copy"):
        hits, n = found.setdefault(plant["target"], [0, 0])
        found[plant["target"]] = [hits + outcome(taken, plant), n + 1]
    print("merged, of, by Jaccard:", found)
    # verify_at is 0.8: at 0.7 an estimate passes it once in a hundred pairs, at 0.6 never
    assert found[0.5][0] == found[0.6][0] == 0
    assert found[0.7][0] <= 1
    (farm,) = taken.plants("template_farm")
    assert farm["max_jaccard"] <= 0.7
    assert all(taken.by_name("near")[p]["survives"] for p in farm["pages"])


def test_every_merged_pair_is_alike(taken):
    known = {frozenset((a, b)): j for _, a, b, j in taken.truth.similar}
    wrong, merged = [], 0
    for name, row in taken.by_name("near").items():
        if row["dup_of"] is None:
            continue
        merged += 1
        other = taken.documents[(row["crawl"], row["dup_of"])]
        a, b = (taken.by_name("text")[n]["text"] for n in (name, other))
        true = max(known.get(frozenset((name, other)), 0.0), jaccard(a, b))
        if true < 0.7:  # verify_at less three standard deviations
            wrong.append((name, other, true))
    assert merged >= 12
    assert not wrong


def test_near_copies_across_crawls(taken):
    for plant in taken.plants("near_copy_across"):
        copy = taken.by_name("near")[plant["copy"]]
        if plant["target"] >= 0.95:
            assert copy["matched_crawl"] == taken.fetches[plant["first"]]["crawl"], plant
            assert taken.documents[(copy["matched_crawl"], copy["matched_doc_id"])] == plant["first"]
            assert not copy["survives"]
        else:
            assert copy["matched_crawl"] is None
            assert copy["survives"]


# -- quality, safety, contamination ----------------------------------------------------------------------


@pytest.mark.parametrize("asset", ["heuristics", "quality"])
def test_every_survivor_is_scored_and_nothing_else(taken, asset: str):
    survivors = {n for n, r in taken.by_name("near").items() if r["survives"]}
    assert set(taken.by_name(asset)) == survivors


def test_percentiles_are_shares(taken):
    values = [r["ensemble_percentile"] for r in taken.rows("quality") if r["ensemble_percentile"] is not None]
    assert len(values) > 0.9 * len(taken.rows("quality"))
    assert all(0 <= v <= 1 for v in values)
    assert 0.3 < statistics.median(values) < 0.7  # the reference is the same pages


def spans_of(taken, name: str, kind: str) -> list[str]:
    row = taken.by_name("safety")[name]
    text = taken.by_name("text")[name]["text"].encode()
    return [text[s["start"] : s["end"]].decode() for s in row["pii_spans"] if kind in s["kind"]]


def test_personal_data_is_found_where_it_was_planted(taken):
    for plant in taken.plants("pii"):
        assert any(plant["value"] in s or s in plant["value"] for s in spans_of(taken, plant["page"], plant["kind"])), (
            plant
        )


def test_no_address_is_found_where_none_was_planted(taken):
    carriers = {p["page"] for p in taken.plants("pii")}
    for name in taken.by_name("safety"):
        if name not in carriers:
            assert not [s for s in spans_of(taken, name, "email") if "example." not in s], name


def test_leaked_items_are_found_in_every_form_and_nothing_else_is(taken):
    expected = {(p["page"], p["benchmark"], p["item"]) for p in taken.plants("leak") if p["flagged"]}
    found = {(taken.name_of[r["record_id"]], r["benchmark"], r["item"]) for r in taken.rows("contamination")}
    by_form: dict[str, list[int]] = {}
    for plant in taken.plants("leak"):
        if plant["flagged"]:
            hit = (plant["page"], plant["benchmark"], plant["item"]) in found
            cell = by_form.setdefault(plant["form"], [0, 0])
            cell[0] += hit
            cell[1] += 1
    print("found, of, by form:", by_form)
    assert expected <= found, expected - found
    assert found <= expected, found - expected


def test_leaked_spans_lie_where_the_item_is(taken):
    items = {(b["benchmark"], b["id"]): b for b in taken.truth.benchmarks}
    for row in taken.rows("contamination"):
        text = taken.by_name("text")[taken.name_of[row["record_id"]]]["text"].encode()
        matched = text[row["start"] : row["end"]].decode()
        question = items[(row["benchmark"], row["item"])]["question"]
        assert jaccard(matched, question) > 0.6, (row, matched)


# -- what is released ----------------------------------------------------------------------


def test_the_manifest_shows_survivors_that_may_be_shown(taken):
    survivors = {n for n, r in taken.by_name("near").items() if r["survives"]}
    leaked = {p["page"] for p in taken.plants("leak") if p["flagged"]}
    held = {p["page"] for kind in ("web_sample", "time_forward") for p in taken.plants(kind)}
    held |= {page for p in taken.plants("trap") for page in p["pages"]}
    assert set(taken.selected) <= survivors - leaked - held
    missing = survivors - leaked - held - set(taken.selected)
    catalogue = taken.by_name("catalogue")
    assert all(catalogue[name]["shard"] is None for name in missing), sorted(missing)[:5]
    assert len(missing) < 0.03 * len(survivors)


def test_sources_are_what_their_predicates_say(taken):
    for name, source in taken.selected.items():
        assert (source == "english") == (taken.by_name("language")[name]["lang"] == "eng"), name


def released(taken) -> dict[str, str]:
    """name -> what a trainer would read, decoded from the shards."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    from tokenizers import Tokenizer

    from gristmill import models
    from gristmill.tokens.shard import read_idx

    site, params = taken.pipeline.site, taken.pipeline.params
    tokenizer = Tokenizer.from_file(str(models.resolve(params.tokenize.tokenizer, site.models)))
    out = {}
    for source in taken.built.manifest["sources"].values():
        for shard in source["shards"]:
            place = shard["path"]
            tokens = np.frombuffer(taken.store.blobs.get(f"{place}.bin"), "<u4")
            offsets = read_idx(taken.store.blobs.get(f"{place}.idx")).offsets
            docs = pq.read_table(pa.BufferReader(taken.store.blobs.get(f"{place}.docs"))).to_pylist()
            for doc in docs:
                span = tokens[int(offsets[doc["ordinal"]]) : int(offsets[doc["ordinal"] + 1])]
                out[taken.name_of[doc["record_id"]]] = tokenizer.decode(span.tolist(), skip_special_tokens=True)
    return out


def test_what_a_trainer_reads_is_clean(taken):
    texts = released(taken)
    assert set(taken.selected) <= set(texts)
    for plant in taken.plants("pii"):
        if plant["page"] in texts:
            assert plant["value"] not in texts[plant["page"]], plant
    for plant in taken.plants("repeated_line"):
        for page in set(plant["pages"]) & set(texts):
            if plant["removed"]:
                assert plant["line"] not in texts[page], page
    for plant in taken.plants("hidden_removed"):
        assert plant["hidden"] not in texts[plant["page"]]
    for name in list(texts)[::20]:
        if taken.fetches[name]["template"] == "article" and taken.fetches[name]["lang"] == "eng":
            assert jaccard(texts[name], taken.fetches[name]["text"]) > 0.8, name


def test_a_host_that_opts_out_is_gone_from_the_next_manifest(taken):
    from gristmill.release import tombstones
    from gristmill.release.manifest import build_manifest

    (plant,) = taken.plants("opt_out")
    pages = set(plant["pages"]) & set(taken.by_name("near"))
    assert pages <= set(taken.selected)
    before = taken.built.hash
    tombstones.forget(taken.store, plant["host"], reason="the owner asked")
    built = build_manifest(taken.store, taken.plan, taken.pipeline.site, str(taken.folder / "recipe.yaml"), "withdrawn")
    assert built.hash != before
    assert set(taken.selection("withdrawn")) == set(taken.selected) - pages


# -- the books ----------------------------------------------------------------------


def test_every_stage_accounts_for_every_document(taken):
    for crawl in taken.crawls:
        for asset in (
            "crawl_slices",
            "raw_warc",
            "unique_records",
            "text",
            "language",
            "exact",
            "near",
            "tokens",
            "shards",
        ):
            counts = taken.counts(asset, crawl)
            assert counts.docs_in == counts.docs_out + sum(counts.reasons.values()), asset
        chain = ["crawl_slices", "raw_warc", "unique_records", "text", "language"]
        for one, two in itertools.pairwise(chain):
            assert taken.counts(one, crawl).docs_out == taken.counts(two, crawl).docs_in, (one, two)


def test_every_fetch_that_is_not_shown_has_one_reason(taken):
    """Nothing is lost: for each fetch one stage says why it stopped."""
    unique, text, language = taken.by_name("unique_records"), taken.by_name("text"), taken.by_name("language")
    exact, near, catalogue = taken.by_name("exact"), taken.by_name("near"), taken.by_name("catalogue")
    leaked = {p["page"] for p in taken.plants("leak") if p["flagged"]}
    leaked |= {page for p in taken.plants("trap") for page in p["pages"]}  # left out by the policy
    unexplained = []
    for name, fetch in taken.fetches.items():
        if name in taken.selected or not fetch["readable"]:
            continue
        why = (
            not unique[name]["kept"]
            or (name not in text and bool(taken.set_aside[name]))
            or (name in language and language[name]["gate"] is not None)
            or (name in exact and (not exact[name]["first"] or exact[name]["seen_crawl"] is not None))
            or (name in near and not near[name]["survives"])
            or unique[name]["holdout"] is not None
            or name in leaked
            or (name in catalogue and catalogue[name]["shard"] is None)
        )
        if not why:
            unexplained.append(name)
    assert not unexplained


def test_yields_hold_every_stage(taken):
    for crawl in taken.crawls:
        totals: Counter[str] = Counter()
        for row in taken.rows("yields", crawl):
            if row["reason"] is None:
                totals[row["stage"]] += row["docs_in"] or 0
        for asset in ("raw_warc", "text", "language", "exact", "near", "tokens"):
            assert totals[asset] == taken.counts(asset, crawl).docs_in, asset


def test_text_is_in_composed_form_or_as_written(taken):
    texts = [r["text"] for r in taken.rows("text")]
    assert all(unicodedata.is_normalized("NFC", t) or "\u0301" in t for t in texts)
