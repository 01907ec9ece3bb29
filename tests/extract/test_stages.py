"""The stages text, language and quarantine on a small crawl: nothing is lost, and everything set aside has its
reason."""

import json
from pathlib import Path

import pytest

from gristmill import shuffle
from gristmill.errors import HoldoutError
from gristmill.extract import slow
from gristmill.extract.watch import close_pools
from gristmill.funnel import BY_NAME, Plan
from gristmill.runner import run_stage
from tests.extract.crawl import CRAWL, Crawl

PARAGRAPHS = [
    "The lighthouse on the northern cape was built in 1871 and is still lit every evening by a volunteer keeper.",
    "Visitors can climb its 214 steps between May and September, when the sea is calm enough for the ferry to land.",
    "In winter the island belongs to the seals, the gulls, and a family of hares that nobody remembers bringing over.",
]


def html(*paragraphs: str, head: str = "") -> bytes:
    body = "".join(f"<p>{p}</p>" for p in paragraphs)
    page = f"<html><head><title>Cape</title>{head}</head><body><article><h1>Cape</h1>{body}</article></body></html>"
    return page.encode()


def pages() -> dict[str, bytes | tuple[bytes, str]]:
    out: dict[str, bytes | tuple[bytes, str]] = {
        f"https://host{i}.example/{i}": html(*PARAGRAPHS, f"This page is number {i} of many, and says so.")
        for i in range(30)
    }
    german = ["Der Leuchtturm am Kap wurde im Jahr 1871 gebaut und wird noch jeden Abend von Hand entzündet."] * 3
    out |= {
        "https://de.example/": html(
            *german, "Im Winter gehört die Insel den Robben, den Möwen und einer Familie von Hasen."
        ),
        "https://pdf.example/": b"%PDF-1.7\n" + bytes(range(256)) * 20,
        "https://bad.example/": (b"\xef\xbb\xbf<p>" + b"\xff\xfe\xfd word " * 300, "text/html; charset=utf-8"),
        "https://empty.example/": b"<html><body><script>render()</script></body></html>",
        "https://poison.example/": html(*PARAGRAPHS, f'</p><p style="display:none">{PARAGRAPHS[0] * 2}</p><p>'),
        "https://short.example/": html("A short page."),
        "https://long.example/": html(*PARAGRAPHS) + b"<!--" + b"x" * (9 << 20) + b"-->",
        "https://plain.example/": ("\n".join(PARAGRAPHS).encode(), "text/plain; charset=utf-8"),
        "https://moji.example/": html(
            *PARAGRAPHS, "A schÃ¶n cafÃ© on the pier sells fish soup to whoever waits for the ferry."
        ),
        "https://deep.example/": b"<div>" * 200_000 + PARAGRAPHS[0].encode(),
    }
    return out


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Crawl:
    found = Crawl(tmp_path_factory.mktemp("crawl"), pages(), cpu_seconds=2.0)
    found.run(["text", "language", "quarantine"])
    return found


def by_url(rows: list[dict]) -> dict[str, dict]:
    return {row["url"].removeprefix("https://").split(".example")[0]: row for row in rows}


def test_every_page_is_text_or_has_its_reason(crawl: Crawl) -> None:
    texts, aside = by_url(crawl.rows("text")), by_url(crawl.rows("text", "quarantine"))
    assert len(texts) + len(aside) == len(pages())
    assert {k: v["reason"] for k, v in aside.items()} == {
        "pdf": "binary",
        "bad": "undecodable",
        "empty": "empty",
        "poison": "hidden_text",
        "deep": "slow",
    }
    assert all(v["stage"] == "text" and v["warc_path"] and v["length"] > 0 for v in aside.values())
    assert all(PARAGRAPHS[0] in texts[f"host{i}"]["text"] for i in range(30))
    assert texts["plain"]["text"] == "\n".join(PARAGRAPHS)
    assert "A schön café" in texts["moji"]["text"]
    assert json.loads(texts["moji"]["extract_meta"])["tags"] == ["mojibake_fixed"]
    assert "truncated_extract" in json.loads(texts["long"]["extract_meta"])["tags"]
    assert texts["host3"]["title"] == "Cape"
    assert texts["host3"]["n_bytes"] == len(texts["host3"]["text"].encode())


def test_the_yield_counts_what_the_tables_hold(crawl: Crawl) -> None:
    counts = [crawl.store.require(crawl.part("text").key(bucket=b)).counts for b in range(2)]
    assert sum(c.docs_in for c in counts) == len(pages())
    assert sum(c.docs_out for c in counts) == len(crawl.rows("text"))
    assert sum(c.reasons.get("slow", 0) for c in counts) == 1


def test_languages_gates_and_what_goes_on(crawl: Crawl) -> None:
    texts, rows = crawl.rows("text"), crawl.rows("language")
    assert [r["record_id"] for r in rows] == [t["record_id"] for t in texts]
    named = dict(zip((t["url"] for t in texts), rows, strict=True))
    assert named["https://de.example/"]["lang"] == "deu"
    assert named["https://host1.example/1"]["lang"] == "eng"
    assert named["https://host1.example/1"]["script"] == "Latn"
    assert named["https://short.example/"]["gate"] in ("degenerate_short", "no_language")
    part = crawl.part("language")
    passed = {r["record_id"] for r in rows if r["gate"] is None}
    seen = set()
    for number in range(2):
        on = part.read_range("language", "by_doc", number)
        assert (shuffle.range_of(shuffle.first_uint64(on["doc_id"]), 2) == number).all()
        keys = [
            (r["doc_id"], r["fetch_ts"], r["record_id"])
            for b in range(2)
            for r in part.store.read_range(part.key(bucket=b), "by_doc", number).to_pylist()
        ]
        assert len(keys) == on.num_rows
        seen |= {k[2] for k in keys}
    assert seen == passed


def test_the_quarantine_holds_all_that_stopped(crawl: Crawl) -> None:
    rows = crawl.rows("quarantine")
    gated = [r for r in crawl.rows("language") if r["gate"]]
    assert len(rows) == len(crawl.rows("text", "quarantine")) + len(gated)
    assert {r["stage"] for r in rows} == {"text", "language"}
    short = next(r for r in rows if r["url"] == "https://short.example/")
    assert "bound" in short["detail"]


def test_any_number_of_workers_gives_the_same_bytes(crawl: Crawl) -> None:
    first = [
        m.manifest.digest for m in run_stage(crawl.store, crawl.plan, crawl.site, BY_NAME["text"], CRAWL, force=True)
    ]
    many = [
        m.manifest.digest
        for m in run_stage(crawl.store, crawl.plan, crawl.site, BY_NAME["text"], CRAWL, workers=4, force=True)
    ]
    assert first == many
    close_pools()


def test_a_slow_document_stays_slow_until_asked(crawl: Crawl) -> None:
    parts = [crawl.part("text", b) for b in range(2)]
    entries = [(p, r) for p in parts for r in slow.listed(p)]
    assert len(entries) == 1
    part, record = entries[0]
    state = crawl.store.require(part.key()).state
    assert state["slow"] == [record.hex()]
    assert [m.computed for m in run_stage(crawl.store, crawl.plan, crawl.site, BY_NAME["text"], CRAWL)] == [
        False,
        False,
    ]
    kept = dict(part.store.blobs.list("registry/slow"))
    assert slow.forget(part, record) == 1
    assert [m.computed for m in run_stage(crawl.store, crawl.plan, crawl.site, BY_NAME["text"], CRAWL)].count(True) == 1
    assert dict(part.store.blobs.list("registry/slow")) == kept, "it was tried again, and is as slow as before"


def test_extraction_refuses_to_start_without_its_hold_outs(crawl: Crawl) -> None:
    for wrong in (None, "0" * 64):
        extract = crawl.plan.params.extract.model_copy(update={"holdout_hash": wrong})
        plan = Plan(crawl.plan.params.model_copy(update={"extract": extract}))
        with pytest.raises(HoldoutError):
            list(run_stage(crawl.store, plan, crawl.site, BY_NAME["text"], CRAWL))


def test_a_bucket_of_no_documents_writes_empty_tables(tmp_path: Path) -> None:
    one = Crawl(tmp_path, {"https://one.example/": html(*PARAGRAPHS)}, buckets=3)
    one.run(["text", "language", "quarantine"])
    assert len(one.rows("text")) == 1
    assert len(one.rows("language")) == 1
    assert one.rows("quarantine") == []
