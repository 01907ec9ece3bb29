"""What most often lies behind a yield that left its band: one table, stage and direction to causes.

Belongs here: the table, and looking into it. Does not belong here: finding that something moved (``judge.py``), and
telling people (``paging.py``). A check puts what ``causes`` returns into its metadata as ``likely_causes``, most likely
first; a page repeats it.
"""

# Directions: down and up are retention; fewer and more are how much came in; the rest are named faults.
Direction = str

CAUSES: dict[tuple[str, Direction], tuple[str, ...]] = {
    ("crawl_slices", "down"): ("damaged or cut WARC files", "a listing that names files of another kind",
                               "acquire.max_record_bytes too small"),
    ("crawl_slices", "fewer"): ("a listing read before it was complete", "a part of the crawl that never arrived",
                                "a slice lost between listing and reading"),
    ("raw_warc", "fewer"): ("a bucket lost between splitting and merging", "a large host gone from the crawl",
                            "a listing read before it was complete"),
    ("raw_warc", "more"): ("a host flood: see top hosts", "one host's pages fetched twice", "other host bucketing"),
    ("unique_records", "down"): ("the same crawl landed twice under another name", "the fetcher walks old pages again",
                                 "unique.keep_status or content_types mistyped", "many error pages"),
    ("unique_records", "up"): ("earlier crawls' seen payloads not read", "digests no longer comparable"),
    ("unique_records", "flood"): ("a crawler trap (calendar, session ids)", "a site that generates pages",
                                  "a host newly in the seed list"),
    ("text", "down"): ("a change of the extractor or its limits", "extract.max_* mistyped",
                       "workers killed for memory or time", "the fetcher stores other content"),
    ("text", "up"): ("extraction's gates are off or mistyped",),
    ("language", "down"): ("an encoding regression: texts decoded with the wrong charset",
                           "language.threshold or min_words mistyped", "another language model",
                           "extraction yields fragments"),
    ("language", "up"): ("language.threshold too low", "gates on short or degenerate text are off",
                         "a source of one language"),
    ("exact", "down"): ("the same crawl landed twice", "extraction yields boilerplate only (equal texts)",
                        "a template farm"),
    ("exact", "up"): ("earlier generations of exact not loaded", "normalisation of doc_id changed",
                      "extraction adds something different to every page (a clock, an id)"),
    ("exact", "index"): ("earlier generations of exact not loaded", "an earlier crawl was deleted or not finished"),
    ("lines", "down"): ("lines.min_docs or lines.share too low: prose is taken for boilerplate",
                        "one site's template dominates the crawl"),
    ("lines", "up"): ("line counts of some buckets missing", "lines.min_docs too high"),
    ("near", "down"): ("minhash or verification parameters mistyped", "a template farm or host flood",
                       "extraction yields more boilerplate than before"),
    ("near", "up"): ("the band index of earlier crawls was not loaded", "minhash.seed or n changed without a rebuild",
                     "extraction adds something different to every page"),
    ("near", "index"): ("the band index of earlier crawls was not loaded",
                        "its bloom filters or band keys do not fit today's signatures",
                        "an earlier crawl was deleted or not finished"),
    ("heuristics", "down"): ("extraction keeps menus or loses line breaks", "an encoding regression",
                             "word splitting changed"),
    ("heuristics", "up"): ("a rule no longer applies (a measure is zero or null)", "gates before it are tighter"),
    ("quality", "down"): ("the classifier was swapped or retrained", "reference quantiles of another classifier",
                          "extraction yields more boilerplate", "quality.first_chars changed"),
    ("quality", "up"): ("the classifier was swapped or retrained", "reference quantiles of another classifier",
                        "junk is gated before scoring"),
    ("quality", "model"): ("the classifier was swapped: acknowledge it when that is meant",
                           "pipeline.yaml of another site", "a model file registered under the wrong name"),
    ("quality", "drift"): ("the classifier was swapped or retrained", "the mix of sources or languages changed",
                           "extraction changed what the classifier sees"),
    ("safety", "down"): ("a hash list that matches too much", "a word list of another language"),
    ("safety", "up"): ("hash lists not loaded",),
    ("contamination", "down"): ("a benchmark with template items was added", "decontaminate.n or min_run too small",
                                "a host that publishes benchmark items"),
    ("contamination", "up"): ("the hold-out index is empty or another one",),
    ("tokens", "down"): ("tokenize.floor mistyped", "another tokenizer", "released text with runs of one token"),
    ("tokens", "up"): ("tokenize.floor is off", "reference quantiles missing"),
    ("shards", "down"): ("documents lost between tokens and shards",),
    ("end_to_end", "down"): ("see which stage left its band first",),
    ("end_to_end", "up"): ("a filter is off: see which stage left its band first",),
}  # fmt: skip

GENERAL: dict[Direction, tuple[str, ...]] = {
    "continuity": ("a bucket lost or doubled between two stages", "a stage made before its input was made again"),
    "missing": ("the run stopped, or was started for other buckets", "a worker died: see the run's log"),
    "fewer": ("a bucket lost on the way", "a listing read before it was complete"),
    "more": ("a host flood: see top hosts", "the same pages twice"),
    "flood": ("a crawler trap or a generated site", "a host newly in the seed list"),
}


def causes(stage: str, direction: Direction) -> list[str]:
    """Likely causes, most likely first; empty where the table knows none.

    Args:
        stage: the asset whose check failed, or ``end_to_end``.
        direction: down or up (retention), fewer or more (how much came in), or a named fault: index, model, drift,
            flood, continuity, missing.
    """
    return list(CAUSES.get((stage, direction)) or GENERAL.get(direction, ()))
