import json
import re

from gristmill.decontaminate import report


def match(doc: int, item: str, method: str, run: int, benchmark: str = "quiz") -> dict:
    return {"doc_id": bytes([doc]) * 16, "benchmark": benchmark, "item": item, "span": "question", "method": method,
            "longest_run": run, "containment": 0.7 if method == "fuzzy" else None}


MATCHES = [match(1, "a", "ngram", 40), match(1, "b", "short", 9), match(2, "a", "fuzzy", 60), match(3, "c", "fuzzy",
    33)]


def summary() -> dict:
    return report.summarise({"quiz": 10, "other": 4}, {"quiz": 20, "other": 4}, [("quiz", "z", "question", "short")],
        MATCHES,
                            {bytes([1]) * 16: 100, bytes([2]) * 16: 7}, documents=50)


def test_every_benchmark_is_reported_found_or_not():
    found = summary()
    assert found["flagged"] == 3
    quiz = found["benchmarks"]["quiz"]
    assert (quiz["documents"], quiz["tokens"], quiz["document_rate"]) == (3, 107, 3 / 50)
    assert (quiz["leaked_items"], quiz["item_rate"], quiz["longest_run"]) == (3, 0.3, 40)
    assert quiz["methods"] == {"fuzzy": 2, "ngram": 1, "short": 1}
    assert quiz["not_checkable"] == {"short": 1}
    other = found["benchmarks"]["other"]
    assert (other["documents"], other["leaked_items"], other["longest_run"], other["methods"]) == (0, 0, 0, {})


def test_only_what_no_exact_match_proves_waits_for_review():
    # item a is proven by a run elsewhere; item c by containment alone
    assert summary()["benchmarks"]["quiz"]["pending_review"] == 1


def test_the_page_shows_both_spans_and_nothing_in_them_is_markup():
    hostile = "<script>alert(1)</script> & \"quotes\" '"
    pairs = [{**m, "before": hostile, "matched": hostile, "after": "<b>", "text": hostile} for m in MATCHES]
    page = report.page("CC-<x>", "ab" * 32, summary(), pairs)
    assert "<script" not in page
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt; &amp;") == 3 * len(MATCHES)
    assert "CC-&lt;x&gt;" in page
    assert not re.search(r"(src|href)\s*=", page)  # self-contained
    assert len(re.findall("<mark>", page)) == len(MATCHES)


def test_a_long_page_says_how_many_are_left_out():
    pairs = [{**MATCHES[0], "before": "", "matched": "m", "after": "", "text": "t"}] * (report.MAX_SHOWN + 5)
    page = report.page("c", "h", summary(), pairs)
    assert page.count("<mark>") == report.MAX_SHOWN
    assert re.search(r"<p>5 more of [^<]+ are in the table", page)
    assert json.dumps(summary())
