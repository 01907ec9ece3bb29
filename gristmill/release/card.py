"""The data set card: ``manifests/{version}/report.html``, one file that shows itself anywhere.

Belongs here: what a person should know of a version, as a page without scripts or outside resources. Does not belong
here: counting (``selection.py``, ``observe/yields.py``) and drawing (``svg.py``). Text from crawled pages (languages,
hosts, predicates) is escaped everywhere.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from gristmill.funnel import Plan
from gristmill.mixture.recipe import show
from gristmill.observe.yields import MAIN_PATH, StageYield, stage_yields
from gristmill.params import SiteConfig
from gristmill.release import svg
from gristmill.release.verdicts import SCORE_BINS
from gristmill.store import Store, Yield

STYLE = """
body{font:15px/1.5 system-ui,sans-serif;color:#1b1f24;max-width:900px;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem;margin-bottom:0}h2{font-size:1.15rem;margin-top:2.2rem;border-bottom:1px solid #d9e2ef}
h3{font-size:1rem;margin-bottom:.3rem}table{border-collapse:collapse;width:100%;font-size:13px}
td,th{text-align:left;padding:3px 10px 3px 0;border-bottom:1px solid #eef2f7;vertical-align:top}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}code{font-size:12px;word-break:break-all}
.soft{color:#6a737d}
"""


def write(
    store: Store, plan: Plan, site: SiteConfig, manifest: dict[str, Any], manifest_hash: str, stats: dict[str, Any],
    shards: Mapping[str, int], distinct: int,
) -> str:  # fmt: skip
    """Write the card of a version, and return its path.

    Args:
        store, plan, site: where the crawls' yields are.
        manifest, manifest_hash: the version's; ``sources`` is not read.
        stats: its ``statistics.json``.
        shards, distinct: how many shards each source names, and how many there are.
    """
    yields = {crawl: stage_yields(store, plan, crawl) for crawl in manifest["crawls"]}
    path = f"manifests/{manifest['version']}/report.html"
    store.blobs.put(path, page(manifest, manifest_hash, stats, yields, shards, distinct).encode("utf-8"))
    return path


def page(
    manifest: dict[str, Any], manifest_hash: str, stats: dict[str, Any], yields: dict[str, list[StageYield]],
    shards: Mapping[str, int], distinct: int,
) -> str:  # fmt: skip
    """The card as HTML."""
    version = escape(manifest["version"])
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Data set {version}</title><style>{STYLE}</style>"
        f"<h1>Data set {version}</h1><p class=soft><code>{escape(manifest_hash)}</code></p>"
        + "".join(section for section in _sections(manifest, stats, yields, shards, distinct) if section)
        + "</html>\n"
    )


def _sections(
    manifest: dict[str, Any], stats: dict[str, Any], yields: dict[str, list[StageYield]], shards: Mapping[str, int],
    distinct: int,
) -> Iterable[str]:  # fmt: skip
    yield _summary(manifest, stats, distinct)
    yield _funnel(yields)
    yield _sources(manifest, stats, shards)
    yield _languages(stats)
    yield _histograms(stats)
    yield _mixture(stats)
    yield _removals(yields)
    yield _exclusions(manifest, stats)
    yield _contamination(manifest)
    yield _made_of(manifest)


def _table(heads: Sequence[str], rows: Iterable[Sequence[Any]], numbers: Sequence[int] = ()) -> str:
    def cell(tag: str, i: int, value: Any) -> str:
        kind = " class=n" if i in numbers else ""
        text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
        return f"<{tag}{kind}>{escape(text)}</{tag}>"

    head = "".join(cell("th", i, h) for i, h in enumerate(heads))
    body = "".join("<tr>" + "".join(cell("td", i, v) for i, v in enumerate(r)) + "</tr>" for r in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _summary(manifest: dict[str, Any], stats: dict[str, Any], distinct: int) -> str:
    docs = sum(p["docs"] for p in stats["parts"].values())
    tokens = sum(p["tokens"] for p in stats["parts"].values())
    asked = sum(p["tokens"] for p in manifest["phases"])
    rows = [
        ("crawls", ", ".join(manifest["crawls"])),
        ("documents selected", docs),
        ("unique tokens", f"{show(tokens)} ({tokens:,})"),
        ("tokens to present", f"{show(asked)} in {len(manifest['phases'])} phases"),
        ("shards", distinct),
        ("recipe", f"{manifest['recipe']['name']} ({manifest['recipe_hash'][:16]})"),
        ("tokenizer", f"{manifest['tokenizer']['name']} ({manifest['tokenizer']['sha256'][:16]})"),
    ]
    return _table(("", ""), rows)


def _added(yields: dict[str, list[StageYield]]) -> list[tuple[str, Yield]]:
    total: dict[str, Yield] = {}
    for per_crawl in yields.values():
        for one in per_crawl:
            total[one.stage] = total.get(one.stage, Yield()) + one.counts
    return [(stage, total[stage]) for stage in MAIN_PATH if stage in total]


def _funnel(yields: dict[str, list[StageYield]]) -> str:
    rows = [(stage, counts.docs_in, counts.docs_out) for stage, counts in _added(yields)]
    if not rows:
        return ""
    return "<h2>Funnel</h2>" + svg.funnel(rows, "Documents in and out of every stage, all crawls together")


def _sources(manifest: dict[str, Any], stats: dict[str, Any], shards: Mapping[str, int]) -> str:
    rows = [(n, float(p["tokens"]), f"{show(p['tokens'])} tokens") for n, p in sorted(stats["parts"].items())]
    table = _table(
        ("source", "documents", "tokens", "shards", "max epochs"),
        [
            (n, p["docs"], p["tokens"], shards.get(n, 0), manifest["max_epochs"].get(n, ""))
            for n, p in sorted(stats["parts"].items())
        ],
        (1, 2, 3, 4),
    )  # fmt: skip
    where = _table(("source", "predicate"), [(n, s["where"]) for n, s in sorted(manifest["recipe"]["sources"].items())])
    return "<h2>Tokens by source</h2>" + svg.bars(rows, "Unique tokens by source") + table + where


def _languages(stats: dict[str, Any]) -> str:
    total: dict[str, list[int]] = {}
    for part in stats["parts"].values():
        for lang, (docs, tokens) in part["by_lang"].items():
            cell = total.setdefault(lang, [0, 0])
            cell[0] += docs
            cell[1] += tokens
    ranked = sorted(total.items(), key=lambda item: (-item[1][1], item[0]))
    top = [(lang, float(t), f"{show(t)} tokens, {d:,} documents") for lang, (d, t) in ranked[:30]]
    rest = f"<p class=soft>and {len(ranked) - 30} more</p>" if len(ranked) > 30 else ""
    return "<h2>Tokens by language</h2>" + svg.bars(top, "Unique tokens by language") + rest


def _histograms(stats: dict[str, Any]) -> str:
    lengths: dict[int, int] = {}
    scores: dict[int, int] = {}
    for part in stats["parts"].values():
        for k, v in part["lengths"].items():
            lengths[int(k)] = lengths.get(int(k), 0) + v
        for k, v in part["scores"].items():
            scores[int(k)] = scores.get(int(k), 0) + v
    out = "<h2>Lengths and scores</h2>"
    if lengths:
        span = range(min(lengths), max(lengths) + 1)
        counts = [(show(2**k), lengths.get(k, 0)) for k in span]
        out += "<h3>Documents by length in tokens (from this power of two)</h3>"
        out += svg.histogram(counts, "Documents by length in tokens")
    if scores:
        counts = [(f"{k / SCORE_BINS:.2f}", scores.get(k, 0)) for k in range(SCORE_BINS)]
        out += "<h3>Documents by percentile of the quality ensemble</h3>"
        out += svg.histogram(counts, "Documents by quality percentile")
    return out


def _mixture(stats: dict[str, Any]) -> str:
    rows = [(r["phase"], r["part"], r["asked"], r["given"], r["epochs"]) for r in stats["realised"]]
    heads = ("phase", "source", "weight asked", "share given", "epochs by its end")
    return "<h2>Mixture</h2><p>Exact counts of the schedule, not an estimate.</p>" + _table(heads, rows, (2, 3, 4))


def _removals(yields: dict[str, list[StageYield]]) -> str:
    rows = [
        (stage, reason, n)
        for stage, counts in _added(yields)
        for reason, n in sorted(counts.reasons.items(), key=lambda item: (-item[1], item[0]))
    ]
    return (
        "<h2>Removals by stage and reason</h2>" + _table(("stage", "reason", "documents"), rows, (2,)) if rows else ""
    )


def _exclusions(manifest: dict[str, Any], stats: dict[str, Any]) -> str:
    rows = [
        (rule, source, cell["docs"], cell["tokens"])
        for rule, by in sorted(manifest["exclusions"].items())
        for source, cell in sorted(by.items())
    ]
    out = "<h2>Exclusions by policy</h2>"
    out += _table(("rule", "source", "documents", "tokens"), rows, (2, 3)) if rows else "<p>None.</p>"
    if manifest["reelected"]["documents"]:
        elected = manifest["reelected"]["documents"]
        out += f"<p>{elected:,} clusters have another eligible member that is not tokenised yet.</p>"
    return out


def _contamination(manifest: dict[str, Any]) -> str:
    held = manifest["contamination"]
    found = [(crawl, r["report"][:16], r["facts"]) for crawl, r in held["reports"].items()]
    crawls = [(crawl, report, facts.get("documents", ""), facts.get("flagged", "")) for crawl, report, facts in found]
    rows = []
    for crawl, _, facts in found:
        for name, b in facts.get("benchmarks", {}).items():
            methods = ", ".join(f"{k} {v}" for k, v in b.get("methods", {}).items())
            rate = f"{100 * b['document_rate']:.3g} %" if "document_rate" in b else ""
            rows.append((crawl, name, b["leaked_items"], b.get("items", ""), b["documents"], rate, b["tokens"],
                         b["longest_run"], methods, b["pending_review"]))
    heads = ("crawl", "benchmark", "leaked items", "of", "documents", "share of documents", "tokens", "longest run",
             "methods", "pending review")
    told = f"<p>Hold-outs: <code>{escape(str(held['holdout']))}</code>. What was flagged is left out unless policy " \
           "says otherwise; <code>gristmill decontaminate --crawl CRAWL --out FILE</code> shows the spans side by " \
           "side.</p>"
    return ("<h2>Contamination</h2>" + told + _table(("crawl", "report", "documents probed", "flagged"), crawls, (2, 3))
            + _table(heads, rows, (2, 3, 4, 5, 6, 7, 9)))


def _made_of(manifest: dict[str, Any]) -> str:
    rows = [(asset, crawl, d[:16]) for asset, by in manifest["inputs"].items() for crawl, d in by.items()]
    policy = escape(json.dumps(manifest["policy"], indent=1, sort_keys=True))
    return (
        "<h2>Made of</h2>"
        + _table(("table", "crawl", "digest"), rows)
        + f"<h3>Policy</h3><pre><code>{policy}</code></pre>"
    )
