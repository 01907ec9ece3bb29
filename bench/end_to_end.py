"""The same real WARC files to deduplicated, filtered, tokenised output: through ours, and through datatrove's FineWeb.

Belongs here: running both and comparing wall time, overall and after extraction. Does not belong here: single stages
(modules of their own), datatrove's pipeline (``peers/datatrove_fineweb.py``) and the pages (``crawl.py``).

Ours is every stage of the funnel and a manifest whose predicate is the published Gopher and FineWeb rules: more than
the other side does (hold-outs, all languages, contamination, provenance, catalogue), and nothing is left out.

    python -m bench.end_to_end [TIMES]     TIMES: how often the 760 pages are taken, once as they are, then varied
"""

import json
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from bench import crawl, gold
from bench.peer import PEERS, PeerUnavailable, run_own, run_peer
from bench.report import Report

TIMES = 4
WORKERS = 2
BUCKETS = 4  # a crawl of some thousand pages; 64 are for millions
CRAWL = "BENCH-1"
ENGINES = ("trafilatura", "two_pass")
MIN_OVERALL, MIN_AFTER = 2.0, 10.0
TOKENIZER = gold.SHARED / "05_tokenizers/smollm2/tokenizer.json"
LID = gold.SHARED / "03_langid/lid.176.ftz"


def main(times: int = TIMES) -> None:
    report = Report("end_to_end")
    with tempfile.TemporaryDirectory(prefix="bench-", dir=_cache()) as scratch:
        folder = Path(scratch)
        _, pages = crawl.write(folder / "warcs", times)
        sides: dict[str, dict[str, Any] | str] = {}
        for engine in ENGINES:
            sides[engine] = run_own("bench.end_to_end", ["--ours", engine, str(folder / "warcs"), str(folder / engine)])
            shutil.rmtree(folder / engine)
        try:
            theirs = _datatrove(folder)
        except PeerUnavailable as error:
            theirs = None
            why = str(error)
        what = f"{pages:,} pages: the four page sets and {times - 1} variations of each page"
        for engine in ENGINES:
            ours = sides[engine]
            assert isinstance(ours, dict)
            if theirs is None:
                report.add(f"overall, {engine}: s", ours["total_s"], note=f"datatrove could not be run: {why}")
            else:
                _compare(report, engine, ours, theirs, what)
        _facts(report, sides, theirs)
    report.write()


def _compare(report: Report, engine: str, ours: dict[str, Any], theirs: dict[str, Any], what: str) -> None:
    pinned = engine == "trafilatura"
    versions = f"trafilatura {ours['trafilatura']} against {theirs['versions']['trafilatura']}"
    ratio = theirs["total_s"] / ours["total_s"]
    report.add(
        f"overall, {engine}, {WORKERS} workers: wall s",
        ours["total_s"],
        theirs["total_s"],
        ratio,
        f">= {MIN_OVERALL:g} x" if pinned else "",
        ratio >= MIN_OVERALL if pinned else None,
        f"{what}; {versions}; without the {theirs['url_lists_s']:.1f} s that datatrove loads its URL lists",
    )
    report.add(
        f"overall, {engine}: CPU s of all processes, start-up included",
        ours["_cpu_s"],
        theirs["_cpu_s"],
        theirs["_cpu_s"] / ours["_cpu_s"],
        note="with the URL lists",
    )
    if pinned:
        ratio = theirs["after_s"] / ours["after_s"]
        report.add(
            f"the stages after extraction, {WORKERS} workers: wall s",
            ours["after_s"],
            theirs["after_s"],
            ratio,
            f">= {MIN_AFTER:g} x",
            ratio >= MIN_AFTER,
            "ours: from language to the manifest; theirs: its blocks' own seconds over the workers, then its executors",
        )


def _facts(report: Report, sides: dict[str, Any], theirs: dict[str, Any] | None) -> None:
    for engine, ours in sides.items():
        stages = ", ".join(f"{k} {v:.1f}" for k, v in sorted(ours["stages"].items(), key=lambda i: -i[1])[:8])
        report.add(f"{engine}: longest stages, s", ours["total_s"], note=stages)
    ours = sides["trafilatura"]
    report.add(
        "documents extracted, in any language", ours["extracted"], theirs and theirs["extracted"], note="for comparison"
    )
    report.add(
        "English documents after all filters and near-duplicates",
        ours["selected"],
        theirs and theirs["kept"],
        note="ours without C4's rules, which edit lines",
    )
    report.add(
        "tokens written",
        ours["tokens"],
        theirs and theirs["tokens"],
        note="ours: of every language and quality, which the manifest selects from; theirs: of what is kept",
    )
    report.add(
        "peak memory of one process, MB", ours["_peak_rss_mb"], theirs and theirs["_peak_rss_mb"], note="largest of all"
    )


# -- theirs ------------------------------------------------------------------------------------------------------------


def _datatrove(folder: Path) -> dict[str, Any]:
    found = run_peer(
        "datatrove",
        "datatrove_fineweb.py",
        [str(folder / "warcs"), str(folder / "datatrove"), str(TOKENIZER), str(LID), str(WORKERS)],
        env={"HF_ASSETS_CACHE": str(_cache() / "hf")},
    )
    first = found["blocks"]["extract_and_filter"]
    seconds = [b["seconds"] for b in first]
    names = [b["name"] for b in first]
    url = next(i for i, n in enumerate(names) if "Url-filter" in n)
    extractor = next(i for i, n in enumerate(names) if "Trafilatura" in n)
    found["url_lists_s"] = seconds[url] / WORKERS
    found["total_s"] = sum(found["walls"].values()) - found["url_lists_s"]
    later = sum(wall for name, wall in found["walls"].items() if name != "extract_and_filter")
    found["after_s"] = sum(seconds[extractor + 1 :]) / WORKERS + later
    found["extracted"] = first[extractor]["counts"].get("forwarded", 0)
    found["kept"] = _count(found["blocks"]["minhash_filter_pii"], "PII", "total")
    found["tokens"] = _count(found["blocks"]["tokenise"], "Writer", "tokens")
    return found


def _count(blocks: list[dict[str, Any]], name: str, field: str) -> int:
    return int(next(b["counts"][field] for b in blocks if name in b["name"]))


# -- ours --------------------------------------------------------------------------------------------------------------


def ours(engine: str, warcs: Path, out: Path) -> dict[str, Any]:
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
    stages: dict[str, float] = defaultdict(float)
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
    names = [s.name for s in FUNNEL]
    return {
        "stages": stages,
        "total_s": sum(stages.values()),
        "after_s": sum(s for n, s in stages.items() if n == "manifest" or names.index(n) > names.index("text")),
        "extracted": yields["text"],
        "selected": built.facts["documents"],
        "tokens": tokens,
        "yields": yields,
        "trafilatura": version("trafilatura"),
    }


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
        main(*(int(a) for a in sys.argv[1:2]))
