"""The dashboard of a crawl: one page that shows itself anywhere, and its parts as Markdown for the UI.

Belongs here: laying a report out. Does not belong here: counting (``crawl_report.py``), judging (``judge.py``), drawing
(``release/svg.py``). Everything that may come from a crawled page (hosts, languages) is escaped.
"""

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import Any

from gristmill.observe.bands import BY_RULES, END_TO_END, Band, bands
from gristmill.observe.causes import causes
from gristmill.observe.history import Report
from gristmill.observe.judge import Judged, Past, Verdict, judge
from gristmill.observe.measure import LOOKS_BACK, Count
from gristmill.observe.yields import MAIN_PATH
from gristmill.params import ObserveParams
from gristmill.release import svg

STYLE = """
body{font:15px/1.5 system-ui,sans-serif;color:#1b1f24;max-width:1000px;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem;margin-bottom:0}h2{font-size:1.15rem;margin-top:2.2rem;border-bottom:1px solid #d9e2ef}
table{border-collapse:collapse;width:100%;font-size:13px}
td,th{text-align:left;padding:3px 10px 3px 6px;border-bottom:1px solid #eef2f7;vertical-align:top}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}.soft{color:#6a737d}
tr.out td{background:#fde2e0}tr.near td{background:#fff4d6}tr.in td:first-child{border-left:4px solid #2e9e5b}
tr.out td:first-child{border-left:4px solid #c93a32}tr.near td:first-child{border-left:4px solid #d99a1c}
tr.none td:first-child{border-left:4px solid #c8d0d9}
"""
NEAR = 0.25  # of the way to the edge of its band: shown in another colour


def ordered(data: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """A report's stages in the order in which a document meets them: canonical JSON keeps them by name."""
    place = {stage: n for n, stage in enumerate((*MAIN_PATH, END_TO_END))}
    return sorted(data["stages"].items(), key=lambda item: place.get(item[0], len(place)))


def judged(data: Mapping[str, Any], reports: Sequence[Report], params: ObserveParams) -> dict[str, Judged]:
    """Every stage of a report, judged as the checks judge it."""
    table = bands(params)
    out = {}
    for stage, held in ordered(data):
        past: list[Past] = []
        for report in reports:
            before, earlier = report.data["stages"].get(stage), report.past(stage)
            if before and earlier and (stage not in LOOKS_BACK or before["looks_back"] == held["looks_back"]) \
                    and _made_alike(stage, data, report):
                past.append(earlier)
        now = {int(b): Count(*c) for b, c in held["buckets"].items()}
        band = table.get(stage, Band())
        if stage == END_TO_END and held["settings"]["digest"] == BY_RULES and stage not in params.bands:
            band = replace(band, low=None, high=None)  # the baseline's is of a scored crawl
        out[stage] = judge(now, past, band, params.min_docs)
    return out


def _made_alike(stage: str, data: Mapping[str, Any], report: Report) -> bool:
    """No change between the two was acknowledged: of the stage; end to end, of any, and both were scored or neither."""
    counted = (report.settings(stage), data["stages"][stage]["settings"]["digest"])
    if stage == END_TO_END and counted[0] != counted[1] and BY_RULES in counted:
        return False
    meant = [s for s in data.get("acknowledged", ()) if s in data["stages"] and stage in (s, END_TO_END)]
    return all(report.settings(s) == data["stages"][s]["settings"]["digest"] for s in meant)


def page(data: Mapping[str, Any], reports: Sequence[Report], params: ObserveParams) -> str:
    """The dashboard as HTML without scripts or outside resources."""
    name = escape(data["crawl"])
    against = escape(", ".join(r.crawl for r in reports)) or "no earlier crawl of its family"
    verdicts = judged(data, reports, params)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Crawl {name}</title><style>{STYLE}</style><h1>Crawl {name}</h1>"
        f"<p class=soft>against {against}; baseline {escape(params.baseline)}</p>"
        + "".join(_sections(data, reports, verdicts)) + "</html>\n"
    )


def _sections(data: Mapping[str, Any], reports: Sequence[Report], verdicts: Mapping[str, Judged]) -> Iterable[str]:
    yield "<h2>Funnel</h2>" + _funnel(data, reports, verdicts)
    bars = [(s, sum(c[0] for c in held["buckets"].values()), sum(c[1] for c in held["buckets"].values()))
            for s, held in ordered(data) if s != END_TO_END]
    yield svg.funnel(bars, "Documents in and kept, by stage")
    yield _totals(data)
    yield "<h2>Tokens by source and language</h2>" + _html(("source", "language", "documents", "tokens"), [
        (s, lang, d, t) for s, langs in data["tokens"].items()
        for lang, (d, t) in sorted(langs.items(), key=lambda i: (-i[1][1], i[0]))[:30]], (2, 3))
    yield "<h2>Scores</h2>" + "".join(_scores(data, reports))
    yield "<h2>Hosts by surviving tokens</h2>" + svg.bars(
        [(h, float(t), f"{t:,} tokens") for h, t in data["top_hosts"][:20]], "Largest hosts by surviving tokens")
    rows = [(n + 1, h, t) for n, (h, t) in enumerate(data["top_hosts"])]
    yield f"<details><summary>{len(rows):,} hosts</summary>{_html(('', 'host', 'tokens'), rows, (0, 2))}</details>"
    heads = ("stage", "reason", "documents", "of what came in")
    yield "<h2>Removals by stage</h2>" + _html(heads, removals(data), (2, 3))
    yield "<h2>Documents by source</h2>" + _html(("source", "where they ended", "documents"), [
        (s, why, n) for s, ends in sorted(data["sources"].items())
        for why, n in sorted(ends.items(), key=lambda i: (-i[1], i[0]))], (2,))


def _funnel(data: Mapping[str, Any], reports: Sequence[Report], verdicts: Mapping[str, Judged]) -> str:
    heads = ("stage", "documents in", "kept", "retention", "bytes", "median", "band",
             *(r.crawl for r in reports), "buckets out", "likely causes")
    body = ""
    for row in funnel_rows(data, reports, verdicts):
        cells = "".join(f"<td{'' if i in (0, len(row['cells']) - 1) else ' class=n'}>{escape(c)}</td>"
                        for i, c in enumerate(row["cells"]))
        body += f"<tr class={row['colour']}>{cells}</tr>"
    head = "".join(f"<th{' class=n' if 0 < i < len(heads) - 1 else ''}>{escape(h)}</th>" for i, h in enumerate(heads))
    return f"<table><tr>{head}</tr>{body}</table>"


def funnel_rows(data: Mapping[str, Any], reports: Sequence[Report], verdicts: Mapping[str, Judged]
                ) -> list[dict[str, Any]]:
    """One row a stage: its colour (in, near, out, none) and its cells as text."""
    rows = []
    for stage, found in verdicts.items():
        total = sum((Count(*c) for c in data["stages"][stage]["buckets"].values()), Count())
        main = next((v for v in found.crawl if v.unit == ("bytes" if stage == END_TO_END else "docs")), found.crawl[0])
        worst = found.worst or main
        bad = sorted(b for b, vs in found.buckets.items() if any(not v.passed for v in vs))
        before = [p.total().ratio("docs") if (p := r.past(stage)) else None for r in reports]
        rows.append({"stage": stage, "colour": "out" if found.worst or bad else colour(main), "cells": [
            stage, f"{total.docs_in:,}", f"{total.docs_kept:,}", percent(total.ratio("docs")),
            percent(total.ratio("bytes")), percent(worst.median), interval(worst), *(percent(b) for b in before),
            ", ".join(f"{b:04d}" for b in bad[:8]) + (", ..." if len(bad) > 8 else ""),
            "; ".join(causes(stage, worst.direction or _direction(found, bad))[:3])]})
    return rows


def _direction(found: Judged, bad: Sequence[int]) -> str:
    return next((v.direction for b in bad for v in found.buckets[b] if not v.passed), "")


def colour(verdict: Verdict) -> str:
    """in, near (close to the band's edge), out, or none (nothing to compare with)."""
    if not verdict.passed:
        return "out"
    if verdict.low is None or verdict.high is None or verdict.median is None or verdict.retention is None:
        return "none"
    edge = verdict.low if verdict.retention < verdict.median else verdict.high
    room = abs(edge - verdict.median)
    return "near" if room and abs(edge - verdict.retention) < NEAR * room and edge < 1 else "in"


def percent(value: float | None) -> str:
    """A share for people; empty where there is none."""
    return "" if value is None else f"{value:.2%}"


def interval(verdict: Verdict) -> str:
    """What passes."""
    return "" if verdict.low is None or verdict.high is None else f"{verdict.low:.1%} to {verdict.high:.1%}"


def removals(data: Mapping[str, Any]) -> list[tuple[str, str, int, str]]:
    """(stage, reason, documents, share of what came in), largest first within a stage."""
    out = []
    for stage, held in ordered(data):
        came = sum(c[0] for c in held["buckets"].values())
        out += [(stage, reason, n, percent(n / came if came else None))
                for reason, n in sorted(held["reasons"].items(), key=lambda i: (-i[1], i[0]))]
    return out


def _totals(data: Mapping[str, Any]) -> str:
    total, new = data["total"], data["new_hosts"]
    return "<h2>Totals</h2>" + _html(("", ""), [
        ("documents in shards", total["documents"]), ("tokens", total["tokens"]),
        ("mean length, tokens", data["mean_tokens"] or ""), ("hosts", new["hosts"]),
        ("of them new", f"{new['new']:,} ({percent(new['rate'])})" if new["rate"] is not None else "no earlier crawl"),
        ("their records", f"{new['new_records']:,} of {new['records']:,}"),
    ])


def _scores(data: Mapping[str, Any], reports: Sequence[Report]) -> Iterable[str]:
    for name, counts in data["scores"].items():
        found = data["drift"][name]
        told = "no earlier crawl" if not found["crawls"] else (
            f"Jensen-Shannon {found['divergence']:.4f} bits (ordinary up to {found['allowed']:.4f}), "
            f"stability index {found['index']:.3f}, against {found['crawls']} crawls")
        state = "" if found["passed"] else " <b>drifted</b>"
        yield f"<h3>{escape(name)}{state}</h3><p class=soft>{escape(told)}</p>"
        yield svg.histogram([(f"{i / len(counts):.2f}", n) for i, n in enumerate(counts)], f"Documents by {name}")
        for report in reports[-1:]:
            if name in report.data["scores"]:
                yield f"<p class=soft>{escape(report.crawl)}</p>" + svg.histogram(
                    [(f"{i / len(counts):.2f}", n) for i, n in enumerate(report.data["scores"][name])],
                    f"Documents by {name} in {report.crawl}")


def _html(heads: Sequence[str], rows: Iterable[Sequence[Any]], numbers: Sequence[int] = ()) -> str:
    def cell(tag: str, i: int, value: Any) -> str:
        text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
        return f"<{tag}{' class=n' if i in numbers else ''}>{escape(text)}</{tag}>"

    head = "".join(cell("th", i, h) for i, h in enumerate(heads)) if any(heads) else ""
    body = "".join("<tr>" + "".join(cell("td", i, v) for i, v in enumerate(r)) + "</tr>" for r in rows)
    return f"<table>{f'<tr>{head}</tr>' if head else ''}{body}</table>"


# -- the same for the UI's metadata ------------------------------------------------------------------------------------


def markdown(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A Markdown table. Cells are escaped: a host's name is text of a crawled page."""
    lines = ["| " + " | ".join(map(_cell, heads)) + " |", "|" + "---|" * len(heads)]
    return "\n".join([*lines, *("| " + " | ".join(map(_cell, r)) + " |" for r in rows)])


def _cell(value: Any) -> str:
    text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    for mark in "\\`*_{}[]<>()#!|~":
        text = text.replace(mark, f"\\{mark}" if mark not in "<>" else {"<": "&lt;", ">": "&gt;"}[mark])
    return " ".join(text.split())


def picture(drawing: str, title: str) -> str:
    """An SVG as a Markdown image that carries its own data."""
    sized = drawing.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    return f"![{_cell(title)}](data:image/svg+xml;base64,{base64.b64encode(sized.encode('utf-8')).decode('ascii')})"


def metadata(data: Mapping[str, Any], reports: Sequence[Report], verdicts: Mapping[str, Judged]) -> dict[str, str]:
    """Name -> Markdown: the funnel with its picture, tokens, hosts, removals, scores."""
    heads = ("stage", "in", "kept", "retention", "bytes", "median", "band", *(r.crawl for r in reports), "buckets out",
             "likely causes")
    mark = {"out": "OUT ", "near": "near ", "in": "", "none": ""}
    rows = [[mark[r["colour"]] + r["cells"][0], *r["cells"][1:]] for r in funnel_rows(data, reports, verdicts)]
    bars = [(s, sum(c[0] for c in held["buckets"].values()), sum(c[1] for c in held["buckets"].values()))
            for s, held in ordered(data) if s != END_TO_END]
    tokens = sorted(((s, lang, d, t) for s, langs in data["tokens"].items() for lang, (d, t) in langs.items()),
                    key=lambda r: (-r[3], r))[:50]
    out = {
        "funnel": markdown(heads, rows), "funnel picture": picture(svg.funnel(bars, "Funnel"), "Funnel"),
        "tokens": markdown(("source", "language", "documents", "tokens"), tokens),
        "top hosts": markdown(("host", "tokens"), data["top_hosts"][:50]),
        "removals": markdown(("stage", "reason", "documents", "of what came in"), removals(data)),
    }
    for name, counts in data["scores"].items():
        drawn = svg.histogram([(f"{i / len(counts):.2f}", n) for i, n in enumerate(counts)], name)
        out[f"histogram of {name}"] = picture(drawn, name)
    return out
