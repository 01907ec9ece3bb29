"""datatrove's FineWeb pipeline over a folder of WARC files, to deduplicated, filtered, tokenised files.

The blocks and their settings are those that FineWeb was published with: reader, URL filter, trafilatura (precision),
language (English, 0.65), Gopher repetition, Gopher quality, C4, FineWeb quality, MinHash 14 x 8 in four stages, PII;
then its document tokeniser. Exclusion writers, the hub's token counter and uploads are left out: they only cost it
time; and trafilatura's process-wide duplicate cache is off, as in ours: what it drops depends on the order of pages.
Prints one JSON line: wall seconds of every executor, seconds of every block (summed over tasks, as datatrove itself
accounts), documents and tokens.

    python datatrove_fineweb.py (warcs|texts) FOLDER OUT TOKENIZER_JSON LID_MODEL WORKERS

With ``texts`` the folder holds JSON lines of extracted texts, and the first three blocks are left out.
"""

import json
import os
import shutil
import sys
import time
from pathlib import Path

TIMEOUT_S = 5.0  # a document in trafilatura; its default of 1 s drops pages on a busy machine, and ours allows 5


def main(kind: str, folder: Path, out: Path, tokenizer: str, lid: str, workers: int) -> dict:
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.dedup import MinhashDedupCluster, MinhashDedupFilter, MinhashDedupSignature
    from datatrove.pipeline.dedup.minhash import MinhashConfig, MinhashDedupBuckets
    from datatrove.pipeline.extractors import Trafilatura
    from datatrove.pipeline.filters import (
        C4QualityFilter,
        FineWebQualityFilter,
        GopherQualityFilter,
        GopherRepetitionFilter,
        LanguageFilter,
        URLFilter,
    )
    from datatrove.pipeline.formatters import PIIFormatter
    from datatrove.pipeline.readers import JsonlReader, WarcReader
    from datatrove.pipeline.tokens import DocumentTokenizer
    from datatrove.pipeline.writers.jsonl import JsonlWriter
    from tldextract import TLDExtract

    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    tasks = workers  # one a worker: every task loads the URL lists, spaCy and the models anew
    minhash = MinhashConfig(num_buckets=14, hashes_per_bucket=8, n_grams=5)

    if kind == "warcs":
        urls = URLFilter()
        urls.tldextractor = TLDExtract(suffix_list_urls=(), cache_dir=None)  # the packaged list: no network
        extraction = [
            WarcReader(str(folder), glob_pattern="*.warc.gz"),
            urls,
            Trafilatura(favour_precision=True, timeout=TIMEOUT_S, deduplicate=False),
        ]
    else:
        extraction = [JsonlReader(str(folder))]
    language = LanguageFilter(languages=["en"], language_threshold=0.65)
    language.model.MODEL_URL = lid

    stages = {
        "extract_and_filter": LocalPipelineExecutor(
            pipeline=[
                *extraction,
                language,
                GopherRepetitionFilter(),
                GopherQualityFilter(),
                C4QualityFilter(filter_no_terminal_punct=False),
                FineWebQualityFilter(),
                JsonlWriter(str(out / "filtered")),
            ],
            tasks=tasks, workers=workers, logging_dir=str(out / "logs/1"),
        ),
        "minhash_signatures": LocalPipelineExecutor(
            pipeline=[JsonlReader(str(out / "filtered")), MinhashDedupSignature(str(out / "signatures"), minhash)],
            tasks=tasks, workers=workers, logging_dir=str(out / "logs/2"),
        ),
        "minhash_buckets": LocalPipelineExecutor(
            pipeline=[MinhashDedupBuckets(str(out / "signatures"), str(out / "buckets"), config=minhash)],
            tasks=minhash.num_buckets, workers=workers, logging_dir=str(out / "logs/3"),
        ),
        "minhash_clusters": LocalPipelineExecutor(
            pipeline=[MinhashDedupCluster(str(out / "buckets"), str(out / "remove"), config=minhash)],
            tasks=1, workers=1, logging_dir=str(out / "logs/4"),
        ),
        "minhash_filter_pii": LocalPipelineExecutor(
            pipeline=[
                JsonlReader(str(out / "filtered")),
                MinhashDedupFilter(str(out / "remove")),
                PIIFormatter(),
                JsonlWriter(str(out / "deduplicated")),
            ],
            tasks=tasks, workers=workers, logging_dir=str(out / "logs/5"),
        ),
        "tokenise": LocalPipelineExecutor(
            pipeline=[
                JsonlReader(str(out / "deduplicated")),
                DocumentTokenizer(
                    str(out / "tokens"), tokenizer_name_or_path=tokenizer, eos_token="<|endoftext|>",
                    local_working_dir=str(out / "scratch"), seed=1,
                ),
            ],
            tasks=tasks, workers=workers, logging_dir=str(out / "logs/6"),
        ),
    }
    walls, blocks = {}, {}
    for number, (name, executor) in enumerate(stages.items(), 1):
        start = time.perf_counter()
        executor.run()
        walls[name] = time.perf_counter() - start
        blocks[name] = _blocks(out / f"logs/{number}/stats.json")
    return {"walls": walls, "blocks": blocks, "versions": _versions()}


def _blocks(stats: Path) -> list[dict]:
    """Every block's own seconds and its counts."""
    return [
        {
            "name": block["name"],
            "seconds": (block.get("time_stats") or {}).get("total", 0.0),
            "counts": {k: v["total"] if isinstance(v, dict) else v for k, v in (block.get("stats") or {}).items()},
        }
        for block in json.loads(stats.read_text())
    ]


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    return {name: version(name) for name in ("datatrove", "trafilatura", "spacy", "tokenizers")}


def warm_up() -> None:
    """Unpack the packaged URL lists once, outside the timed part."""
    from datatrove.pipeline.filters import URLFilter

    URLFilter().download_data()


if __name__ == "__main__":
    os.environ.setdefault("DATATROVE_COLORIZE_LOGS", "0")
    what, source, target, tokenizer_file, lid_file, number = sys.argv[1:7]
    if what == "warcs":
        warm_up()
    result = main(what, Path(source), Path(target), tokenizer_file, lid_file, int(number))
    print(json.dumps(result))
