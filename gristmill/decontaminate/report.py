"""The contamination report of a crawl: per benchmark how much of it stands in documents, and where, side by side.

Belongs here: the summary (JSON) and the page (HTML, self-contained, everything escaped). Does not belong here: finding
matches (``ngrams.py``) and the decision to leave documents out (the manifest's policy).
"""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

MAX_SHOWN = 400  # pairs of spans on the page, shared by the benchmarks, longest first; the table holds all of them
LEAST_SHOWN = 10  # of each benchmark, however many there are
PENDING = frozenset({"fuzzy", "semantic"})  # matches of these methods wait for a person or a judge


def summarise(items: Mapping[str, int], spans: Mapping[str, int], unchecked: Iterable[tuple[str, str, str, str]],
              matches: Sequence[Mapping[str, Any]], tokens: Mapping[bytes, int], documents: int) -> dict[str, Any]:
    """What is reported of each benchmark.

    Args:
        items, spans: how many each benchmark has.
        unchecked: benchmark, item, span, why: spans that n-grams cannot check.
        matches: rows of the table ``contamination``.
        tokens: tokens of each document that has any; a flagged one that was not tokenised counts none.
        documents: documents that were probed.
    """
    why: dict[str, dict[str, int]] = {}
    for benchmark, _, _, reason in unchecked:
        row = why.setdefault(benchmark, {})
        row[reason] = row.get(reason, 0) + 1
    out: dict[str, Any] = {"documents": documents, "flagged": len({m["doc_id"] for m in matches}), "benchmarks": {}}
    for benchmark in sorted(items):
        mine = [m for m in matches if m["benchmark"] == benchmark]
        docs = {m["doc_id"] for m in mine}
        certain = {m["item"] for m in mine if m["method"] not in PENDING}
        methods: dict[str, int] = {}
        for m in mine:
            methods[m["method"]] = methods.get(m["method"], 0) + 1
        out["benchmarks"][benchmark] = {
            "items": items[benchmark], "spans": spans[benchmark],
            "not_checkable": dict(sorted(why.get(benchmark, {}).items())),
            "documents": len(docs), "tokens": sum(tokens.get(d, 0) for d in docs),
            "document_rate": len(docs) / documents if documents else 0.0,
            "leaked_items": len({m["item"] for m in mine}),
            "item_rate": len({m["item"] for m in mine}) / items[benchmark],
            "longest_run": max((m["longest_run"] for m in mine if m["method"] not in PENDING), default=0),
            "methods": dict(sorted(methods.items())),
            "pending_review": len({(m["doc_id"], m["item"]) for m in mine if m["item"] not in certain}),
        }
    return out


_STYLE = """body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:72em;padding:0 1em;color:#222}
table{border-collapse:collapse;width:100%;margin:1em 0}td,th{border:1px solid #ccc;padding:.3em .6em;text-align:left;
vertical-align:top}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}mark{background:#ffe08a}
pre{white-space:pre-wrap;margin:0;font:13px/1.45 ui-monospace,monospace}.c{color:#777}"""


def page(crawl: str, holdout_hash: str, summary: Mapping[str, Any], pairs: Iterable[Mapping[str, Any]]) -> str:
    """The report as HTML.

    Args:
        crawl: its key.
        holdout_hash: what was probed for.
        summary: of ``summarise``.
        pairs: matches with ``before``, ``matched``, ``after`` of the document and ``text`` of the benchmark's span, in
            the order they are shown, and ``verdict`` where a judge gave one; the first of each benchmark are.
    """
    head = ("benchmark", "items", "leaked items", "share of items", "documents", "share of documents", "tokens",
            "longest run", "methods", "pending review", "spans not checkable")
    rows = []
    for name, b in summary["benchmarks"].items():
        cells = (b["items"], b["leaked_items"], f"{100 * b['item_rate']:.2f} %", b["documents"],
                 f"{100 * b['document_rate']:.3g} %", b["tokens"], b["longest_run"])
        rows.append(
            f"<tr><td>{escape(name)}</td>" + "".join(f'<td class="n">{c}</td>' for c in cells)
            + f"<td>{escape(_counted(b['methods']))}</td><td class=\"n\">{b['pending_review']}</td>"
            + f"<td>{escape(_counted(b['not_checkable']))}</td></tr>")
    held: dict[str, list[Mapping[str, Any]]] = {}
    for pair in pairs:
        held.setdefault(pair["benchmark"], []).append(pair)
    share = max(LEAST_SHOWN, MAX_SHOWN // max(len(held), 1))
    blocks = []
    for name, mine in held.items():
        blocks += [_pair(p) for p in mine[:share]]
        if len(mine) > share:
            blocks.append(f"<p>{len(mine) - share} more of {escape(name)} are in the table.</p>")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Contamination of {escape(crawl)}</title>'
        f"<style>{_STYLE}</style></head><body><h1>Contamination of {escape(crawl)}</h1>"
        f"<p>{summary['flagged']} of {summary['documents']} documents hold a benchmark item. Hold-outs "
        f"<code>{escape(holdout_hash)}</code>.</p>"
        "<p>Methods: <b>ngram</b>, a run of 13-grams (22 words; 28 characters in scripts without spaces) or "
        "the whole span; <b>short</b>, a whole span of 8 to 21 words; <b>fuzzy</b>, 60 % of its 5-grams in a window of "
        "1.5 times the span, pending review; <b>semantic</b>, a passage of like "
        "meaning, pending review. Spans not checkable are too short or only templates.</p>"
        f"<table><tr>{''.join(f'<th>{h}</th>' for h in head)}</tr>{''.join(rows)}</table>"
        f"<h2>Matched spans</h2>{''.join(blocks) or '<p>None.</p>'}</body></html>\n"
    )


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{k} {v}" for k, v in counts.items())


def _pair(p: Mapping[str, Any]) -> str:
    detail = f"{p['longest_run']} words in a row" if p["containment"] is None else f"containment {p['containment']:.2f}"
    head = f"{p['benchmark']}, item {p['item']}, {p['span']}: {p['method']}, {detail}"
    head += f"; the judge says {p['verdict']}" if p.get("verdict") else ""
    name = p["doc_id"].hex() if isinstance(p["doc_id"], bytes) else str(p["doc_id"])
    return (
        f"<table><tr><th>document {escape(name)}</th><th>{escape(head)}</th></tr>"
        f"<tr><td width=\"50%\"><pre>"
        f"<span class=\"c\">{escape(p['before'])}</span><mark>{escape(p['matched'])}</mark>"
        f"<span class=\"c\">{escape(p['after'])}</span></pre></td><td><pre>{escape(p['text'])}</pre></td></tr></table>"
    )
