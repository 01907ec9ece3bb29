"""The same real WARC files to deduplicated, filtered, tokenised output: through ours, and through datatrove's FineWeb.

Belongs here: running both and comparing wall time, overall and after extraction. Does not belong here: single stages
(modules of their own), datatrove's pipeline (``peers/datatrove_fineweb.py``) and the pages (``crawl.py``).

Ours is every stage of the funnel and a manifest whose predicate is the published Gopher and FineWeb rules: more than
the other side does (hold-outs, all languages, contamination, provenance, catalogue), and nothing is left out.

The stages after extraction are timed in these runs, where starting up decides, and once more on several times as many
documents: the English texts that were extracted, given to both sides as they are (to ours as plain-text pages of a
crawl). English, because datatrove's first block drops the rest, which ours carries to the tokens.

    python -m bench.end_to_end [TIMES [TEXT_TIMES]]     how often the 760 pages, and their texts, are taken
"""

import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench import crawl, gold
from bench.peer import PEERS, PeerUnavailable, run_own, run_peer
from bench.report import Report

TIMES = 2
TEXT_TIMES = 12
WORKERS = 2
BUCKETS = 4  # a crawl of some thousand pages; 64 are for millions
CRAWL = "BENCH-1"
# How each one's settings differ from those of datatrove's extractor; None: it is another engine.
ENGINES = {
    "trafilatura_precision": "the same settings",
    "trafilatura": "ours with recall where precision gives little, and with comments",
    "two_pass": None,
}
MIN_OVERALL, MIN_AFTER = 2.0, 10.0
TOKENIZER = gold.SHARED / "05_tokenizers/smollm2/tokenizer.json"
Side = dict[str, Any]
LID = gold.SHARED / "03_langid/lid.176.ftz"


def main(times: int = TIMES, text_times: int = TEXT_TIMES) -> None:
    report = Report("end_to_end")
    with tempfile.TemporaryDirectory(prefix="bench-", dir=_cache()) as scratch:
        folder = Path(scratch)
        _, pages = crawl.write(folder / "warcs", times)
        mine = {engine: _ours(engine, folder / "warcs", folder / engine) for engine in ENGINES}
        theirs = _datatrove("warcs", folder / "warcs", folder / "datatrove")
        what = f"{pages:,} pages: the four page sets{_variations(times)}"
        for engine in ENGINES:
            _overall(report, engine, mine[engine], theirs, what)
        _after(report, "as in the runs above", mine["trafilatura"], theirs, what, bar=False)
        _facts(report, mine["trafilatura"], theirs)

        texts = [json.loads(line)["text"] for line in (folder / "trafilatura/texts.jsonl").open()]
        for done in (*ENGINES, "datatrove", "warcs"):
            shutil.rmtree(folder / done, ignore_errors=True)
        documents = crawl.write_texts(folder, texts, text_times)
        mine["texts"] = _ours("resiliparse", folder / "warcs", folder / "ours")
        theirs = _datatrove("texts", folder / "texts", folder / "datatrove")
        what = f"{documents:,} documents: the English texts extracted above{_variations(text_times)}"
        _after(report, "on extracted texts", mine["texts"], theirs, what, bar=True)
    report.write()


def _variations(times: int) -> str:
    return f", and {times - 1} variation{'s' * (times > 2)} of each" if times > 1 else ""


def _overall(report: Report, engine: str, ours: Side, theirs: Side | str, what: str) -> None:
    title = f"overall, ours with {engine}, {WORKERS} workers: wall s"
    if isinstance(theirs, str):
        report.add(title, ours["total_s"], note=theirs)
        return
    settings = ENGINES[engine]
    pinned = settings is not None
    versions = f"trafilatura {ours['trafilatura']} beside {theirs['versions']['trafilatura']}"
    versions += f", {settings}" if settings else ""
    ratio = theirs["total_s"] / ours["total_s"]
    report.add(
        title,
        ours["total_s"],
        theirs["total_s"],
        ratio,
        f">= {MIN_OVERALL:g} x" if pinned else "",
        ratio >= MIN_OVERALL if pinned else None,
        f"{what}; {versions}; without the {theirs['url_lists_s']:.1f} s in which datatrove loads its URL lists",
    )
    cpu = theirs["_cpu_s"] - theirs["url_lists_s"] * WORKERS  # each of its workers loads them
    report.add(
        f"overall, ours with {engine}: CPU s of all processes, start-up included",
        ours["_cpu_s"],
        cpu,
        cpu / ours["_cpu_s"],
        f">= {MIN_OVERALL:g} x" if pinned else "",
        cpu / ours["_cpu_s"] >= MIN_OVERALL if pinned else None,
        note=f"{versions}; theirs without its URL lists",
    )


def _after(report: Report, how: str, ours: Side, theirs: Side | str, what: str, *, bar: bool) -> None:
    """``bar`` holds the ratio to the issue's number: on enough documents that neither side's start-up decides."""
    title = f"the stages after extraction, {how}, {WORKERS} workers: wall s"
    if isinstance(theirs, str):
        report.add(title, ours["after_s"], note=theirs)
        return
    ratio = theirs["after_s"] / ours["after_s"]
    report.add(
        title,
        ours["after_s"],
        theirs["after_s"],
        ratio,
        f">= {MIN_AFTER:g} x" if bar else "",
        ratio >= MIN_AFTER if bar else None,
        f"{what}; ours from language to the manifest; theirs from language to tokens"
        + ("" if bar else "; starting up decides at this size"),
    )
    longest = sorted(((s, n) for n, s in ours["stages"].items() if n in ours["after"]), reverse=True)[:6]
    report.add("  of ours, the longest", ours["after_s"], note=", ".join(f"{n} {s:.2f} s" for s, n in longest))
    if bar:
        report.add(
            "  CPU s of all processes, start-up and reading included",
            ours["_cpu_s"],
            theirs["_cpu_s"],
            theirs["_cpu_s"] / ours["_cpu_s"],
            note="ours with the intake, too",
        )


def _facts(report: Report, ours: Side, theirs: Side | str) -> None:
    other: dict[str, Any] = {} if isinstance(theirs, str) else theirs
    report.add("documents extracted, in any language", ours["extracted"], other.get("extracted"))
    report.add(
        "English documents after all filters and near-duplicates",
        ours["selected"],
        other.get("kept"),
        note="ours without C4's rules, which edit lines",
    )
    report.add(
        "tokens written",
        ours["tokens"],
        other.get("tokens"),
        note="ours: of every language and quality, for manifests to select from; theirs: of what is kept",
    )
    report.add("largest process, MB", ours["_peak_rss_mb"], other.get("_peak_rss_mb"))


# -- theirs ------------------------------------------------------------------------------------------------------------


def _datatrove(kind: str, source: Path, out: Path) -> Side | str:
    """What datatrove's run gave, or why it could not be run."""
    try:
        found = run_peer(
            "datatrove",
            "datatrove_fineweb.py",
            [kind, str(source), str(out), str(TOKENIZER), str(LID), str(WORKERS)],
            env={"HF_ASSETS_CACHE": str(_cache() / "hf")},
        )
    except PeerUnavailable as error:
        return f"datatrove could not be run: {error}"
    first = found["blocks"]["extract_and_filter"]
    walls = found["walls"]
    later = sum(wall for name, wall in walls.items() if name != "extract_and_filter")
    if kind == "warcs":
        names = [b["name"] for b in first]
        extractor = next(i for i, n in enumerate(names) if "Trafilatura" in n)
        url = next(i for i, n in enumerate(names) if "Url-filter" in n)
        found["url_lists_s"] = first[url]["seconds"] / WORKERS
        found["total_s"] = sum(walls.values()) - found["url_lists_s"]
        # Blocks are generators in one process: what follows extraction is the sum of their own seconds.
        found["after_s"] = sum(b["seconds"] for b in first[extractor + 1 :]) / WORKERS + later
        found["extracted"] = first[extractor]["counts"].get("forwarded", 0)
    else:
        found["after_s"] = sum(walls.values())
    found["kept"] = _count(found["blocks"]["minhash_filter_pii"], "PII", "total")
    found["tokens"] = _count(found["blocks"]["tokenise"], "Writer", "tokens")
    return found


def _count(blocks: list[dict[str, Any]], name: str, field: str) -> int:
    return int(next(b["counts"][field] for b in blocks if name in b["name"]))


# -- ours --------------------------------------------------------------------------------------------------------------


def _ours(engine: str, warcs: Path, out: Path) -> Side:
    return run_own("bench.end_to_end", ["--ours", engine, str(warcs), str(out)])


def ours(engine: str, warcs: Path, out: Path) -> Side:
    """Take the files through the funnel and freeze a manifest; seconds of each stage."""
    from importlib.metadata import version

    from gristmill import models
    from gristmill.acquire import holdout, landing
    from gristmill.funnel import FUNNEL, Plan
    from gristmill.params import ExtractParams, GridParams, PipelineParams, SiteConfig, TokenizeParams
    from gristmill.registry import Registry
    from gristmill.release.manifest import build_manifest
    from gristmill.runner import run_stage
    from gristmill.store import Key, Store

    landing.land(sorted(warcs.glob("*.warc.gz")), CRAWL, out / "landing")
    benchmarks = {"gsm8k": gold.SHARED / "06_benchmarks/gsm8k_test.jsonl.gz"}
    frozen = holdout.freeze(out / "holdout", benchmarks)
    params = PipelineParams(
        grid=GridParams(host_buckets=BUCKETS, parts_per_bucket=BUCKETS),
        extract=ExtractParams(engine=engine, holdout_hash=frozen),
        tokenize=TokenizeParams(tokenizer=models.put(TOKENIZER, out / "models")),
    )
    site = SiteConfig(
        store=str(out / "store"), landing=str(out / "landing"), holdout=str(out / "holdout"), models=str(out / "models")
    )
    store, plan = Store(site.store), Plan(params)
    Registry(store).register(CRAWL)
    stages: dict[str, float] = {}
    yields: dict[str, Any] = {}
    for stage in FUNNEL:
        start = time.perf_counter()
        made = list(run_stage(store, plan, site, stage, CRAWL, workers=WORKERS))
        stages[stage.name] = time.perf_counter() - start
        yields[stage.name] = sum(m.manifest.counts.docs_out for m in made)
    start = time.perf_counter()
    built = build_manifest(store, plan, site, _recipe(out), "v1", [CRAWL], workers=WORKERS)
    stages["manifest"] = time.perf_counter() - start
    tokens = 0
    for bucket in range(BUCKETS):
        shards = store.read(Key("shards", plan.fingerprints["shards"], CRAWL, bucket), ["n_tokens"])
        tokens += sum(shards["n_tokens"].to_pylist())
    _write_texts(store, plan, out / "texts.jsonl")
    names = list(stages)
    after = names[names.index("text") + 1 :]
    return {
        "stages": stages,
        "after": after,
        "total_s": sum(stages.values()),
        "after_s": sum(stages[name] for name in after),
        "extracted": yields["text"],
        "selected": built.facts["documents"],
        "tokens": tokens,
        "yields": yields,
        "trafilatura": version("trafilatura"),
    }


def _write_texts(store: Any, plan: Any, path: Path) -> None:
    """English texts of unvaried pages, for the runs that start from texts."""
    from gristmill.store import Key

    with path.open("w", encoding="utf-8") as file:
        for bucket in range(BUCKETS):
            wanted = {"text": ["record_id", "url", "text"], "language": ["record_id", "lang", "gate"]}
            text, language = (
                store.read(Key(name, plan.fingerprints[name], CRAWL, bucket), columns).to_pylist()
                for name, columns in wanted.items()
            )
            for row, found in zip(text, language, strict=True):
                assert row["record_id"] == found["record_id"]
                varied = urlsplit(row["url"]).netloc.startswith(crawl.VARIED)
                if found["lang"] == "eng" and found["gate"] is None and not varied:
                    file.write(json.dumps({"text": row["text"]}) + "\n")


def _recipe(out: Path) -> Path:
    """English, and the published rules as the predicate; a few steps, since only the selection matters here."""
    from gristmill.quality.rules import reference

    where = " AND ".join(["lang = 'eng'", *(str(rule) for rule in reference())])
    phase = {"name": "main", "tokens": 8 * 256, "seq_len": 256, "samples_per_step": 8, "weights": {"web": "1"}}
    path = out / "recipe.yaml"
    path.write_text(json.dumps({"name": "bench", "sources": {"web": {"where": where}}, "phases": [phase]}))
    return path


def _cache() -> Path:
    cache = PEERS.parent / ".cache"
    cache.mkdir(exist_ok=True)
    return cache


if __name__ == "__main__":
    if sys.argv[1:2] == ["--ours"]:
        print(json.dumps(ours(sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))))
    elif not gold.available():
        sys.exit("bench.end_to_end needs the pages of ../shared/data")
    else:
        main(*(int(a) for a in sys.argv[1:3]))
