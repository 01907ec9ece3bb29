"""The plan of a whole corpus: every derived quantity, each as a formula over the assumptions.

Belongs here: the formulas. Does not belong here: values (``assumptions.yaml``, ``measured.py``), evaluating
(``sheet.py``) and looks (``page.py``).
"""

from collections.abc import Iterator, Mapping

from gristmill.plan.sheet import Formula, Sheet

# Section of the page -> what it is about, in the order of the page.
SECTIONS = {
    "funnel": "The funnel: documents, text and tokens of one crawl, and of all",
    "work": "CPU of one crawl, by stage",
    "sizes": "Sizes of one crawl",
    "storage": "Storage by tier, all crawls, a month",
    "egress": "Copying a dataset version to where it is trained on",
    "scorers": "Scoring every document that reaches quality, from fastText to 70B",
    "generation": "Synthetic tokens",
    "experiments": "Ablations and mixture search, beside the run that they are for",
    "crawling": "A crawl fleet of one's own",
    "loading": "What the loader must deliver",
}

_STEPS = (  # stage of the funnel, its yield, what went in
    ("unique", "unique", "corpus.pages_per_crawl", "distinct fetches"),
    ("extracted", "extraction", "funnel.unique", "pages with text"),
    ("language", "language", "funnel.extracted", "in a wanted language"),
    ("exact", "exact", "funnel.language", "first with this text"),
    ("near", "near", "funnel.exact", "first of its near-duplicates"),
    ("heuristics", "heuristics", "funnel.near", "pass the heuristics"),
    ("classifier", "classifier", "funnel.heuristics", "pass the classifier"),
    ("safety", "safety", "funnel.classifier", "safe"),
    ("kept", "decontamination", "funnel.safety", "without a benchmark item: what a manifest may select"),
)
# Stage, rate, what it works on.
_WORK = (
    ("intake", "corpus.pages_per_crawl * corpus.page_bytes", "read, split by host, laid out"),
    ("extraction", "funnel.unique * corpus.page_bytes", "HTML to text"),
    ("language", "funnel.extracted", "language identified"),
    ("exact", "funnel.language * corpus.text_bytes", "exact duplicates found"),
    ("lines", "funnel.exact * corpus.text_bytes", "boilerplate lines counted and removed"),
    ("signatures", "funnel.exact * corpus.text_bytes", "MinHash signatures"),
    ("edges", "funnel.exact * dedup.bands", "bands bucketed, components"),
    ("index", "funnel.near * dedup.bands", "looked up in earlier crawls"),
    ("heuristics", "funnel.near * corpus.text_bytes", "all measures"),
    ("quality", "funnel.near", "fastText scores"),
    ("safety", "funnel.near * corpus.text_bytes", "personal data, toxicity"),
    ("decontamination", "funnel.near * corpus.text_bytes", "benchmark items sought"),
    ("tokens", "funnel.near * corpus.text_bytes", "tokenised"),
)
_MODELS = ("encoder_small", "encoder_base", "encoder_large", "llm_small", "llm_middle", "llm_large")


def _funnel() -> Iterator[Formula]:
    for name, rate, before, title in _STEPS:
        yield Formula(f"funnel.{name}", "documents", f"{before} * yields.{rate}", title)
    after_text = " * ".join(f"yields.{rate}" for _, rate, _, _ in _STEPS[2:])
    yield Formula("funnel.end_to_end", "share", f"yields.unique * yields.extraction * {after_text}",
                  "of the pages that landed")
    yield Formula("funnel.end_to_end_bytes", "share", f"{after_text} * yields.length_gain", "of the extracted bytes")
    yield Formula("funnel.landed_bytes", "B", "corpus.pages_per_crawl * corpus.landed_bytes", "landed, compressed")
    yield Formula("funnel.text_bytes", "B", "funnel.extracted * corpus.text_bytes", "text extracted")
    yield Formula("funnel.document_tokens", "tokens",
                  "corpus.text_bytes * yields.length_gain * corpus.tokens_per_byte", "a kept document")
    yield Formula("funnel.tokens", "tokens", "funnel.kept * funnel.document_tokens", "of one crawl")
    yield Formula("funnel.pages_all", "pages", "corpus.pages_per_crawl * corpus.crawls", "pages of all crawls")
    yield Formula("funnel.tokens_all", "tokens", "funnel.tokens * corpus.crawls", "unique tokens of all crawls")
    yield Formula("funnel.epochs", "epochs", "run.tokens / funnel.tokens_all",
                  "of the run, were it from this source alone")


def _work() -> Iterator[Formula]:
    for name, amount, title in _WORK:
        yield Formula(f"work.{name}", "core-h", f"{amount} / rates.{name} * rates.overhead / 3600", title)
    yield Formula("work.core_hours", "core-h", " + ".join(f"work.{n}" for n, _, _ in _WORK), "a crawl")
    yield Formula("work.money", "$", "work.core_hours * prices.core_hour", "a crawl")
    yield Formula("work.wall", "h", "work.core_hours / (fleet.cores * fleet.utilisation)", "a crawl on the fleet")
    yield Formula("work.money_all", "$", "work.money * corpus.crawls", "all crawls")
    yield Formula("work.per_billion", "$", "work.money / (funnel.tokens / 1e9)", "a billion kept tokens")
    yield Formula("work.after_extraction", "share", "1 - (work.intake + work.extraction) / work.core_hours",
                  "of the CPU is spent after extraction")


def _sizes() -> Iterator[Formula]:
    exact, near = "funnel.exact", "funnel.near"
    yield Formula("sizes.raw", "B", "corpus.pages_per_crawl * corpus.raw_bytes", "raw WARC, by host bucket")
    yield Formula("sizes.text", "B", "funnel.text_bytes * corpus.stored_text_share", "extracted text, stored")
    yield Formula("sizes.tables", "B", f"funnel.unique * tables.record_bytes + {exact} * tables.document_bytes",
                  "provenance, measures, scores, catalogue")
    yield Formula("sizes.signatures", "B", f"{exact} * dedup.bands * dedup.rows * dedup.value_bytes", "signatures")
    yield Formula("sizes.exact_shuffle", "B", "funnel.language * dedup.exact_row_bytes", "shuffled for exact copies")
    yield Formula("sizes.band_shuffle", "B", f"{exact} * dedup.bands * dedup.band_row_bytes", "shuffled by band key")
    yield Formula("sizes.edge_shuffle", "B", f"{exact} * dedup.edge_share * dedup.edge_bytes", "edges")
    yield Formula("sizes.union_find", "B", f"{exact} * dedup.union_find_bytes", "memory of the components")
    yield Formula("sizes.index", "B", f"{near} * dedup.bands * dedup.entry_bytes", "this crawl's index generation")
    yield Formula("sizes.bloom", "B", f"{near} * dedup.bands * dedup.bloom_bits / 8", "and its bloom filter")
    yield Formula("sizes.index_all", "B", "sizes.index * corpus.crawls", "the index of all crawls")
    yield Formula("sizes.bloom_all", "B", "sizes.bloom * corpus.crawls", "and its bloom filters")
    yield Formula("sizes.tokenised", "tokens",
                  f"{near} * corpus.text_bytes * corpus.tokens_per_byte", "tokenised: all survivors, of any quality")
    yield Formula("sizes.shards", "B", "sizes.tokenised * shards.token_bytes", "shards")
    yield Formula("sizes.shard_files", "shards", "sizes.tokenised / shards.shard_tokens", "files of them, at least")
    yield Formula("sizes.shuffles", "B", "sizes.exact_shuffle + sizes.band_shuffle + sizes.edge_shuffle + sizes.shards",
                  "moved between buckets")


def _storage() -> Iterator[Formula]:
    yield Formula("storage.archivable", "B", "sizes.raw + sizes.text + sizes.signatures + sizes.shuffles",
                  "of a crawl, read again only when a stage is redone")
    yield Formula("storage.lasting", "B", "sizes.tables + sizes.index + sizes.bloom + sizes.shards",
                  "of a crawl, read by manifests, runs and later crawls")
    yield Formula("storage.cold_crawls", "crawls", "max(0, corpus.crawls - storage.hot_crawls)", "archived")
    yield Formula("storage.hot", "B",
                  "storage.lasting * corpus.crawls + storage.archivable * (corpus.crawls - storage.cold_crawls)", "hot")
    yield Formula("storage.cold", "B", "storage.archivable * storage.cold_crawls", "cold")
    yield Formula("storage.hot_money", "$", "storage.hot / 1e12 * prices.hot_tb_month", "hot, a month")
    yield Formula("storage.cold_money", "$", "storage.cold / 1e12 * prices.cold_tb_month", "cold, a month")
    yield Formula("storage.restore_money", "$",
                  "storage.archivable * storage.restores / 12 / 1e12 * prices.retrieval_tb", "restored, a month")
    yield Formula("storage.money", "$", "storage.hot_money + storage.cold_money + storage.restore_money", "a month")
    yield Formula("storage.all_hot_money", "$",
                  "(storage.lasting + storage.archivable) * corpus.crawls / 1e12 * prices.hot_tb_month",
                  "a month, were everything hot")
    yield Formula("storage.saving", "$", "storage.all_hot_money - storage.money", "saved by the cold tier, a month")


def _egress() -> Iterator[Formula]:
    yield Formula("egress.version", "B", "run.tokens * shards.token_bytes", "a version, every token presented shipped")
    yield Formula("egress.naive_money", "$", "egress.version / 1e12 * prices.egress_tb * shipping.sites",
                  "copied whole")
    yield Formula("egress.delta", "B", "egress.version * shipping.new_share", "shards that the target lacks")
    yield Formula("egress.delta_money", "$", "egress.delta / 1e12 * prices.egress_tb * shipping.sites",
                  "copied by delta")
    yield Formula("egress.saving", "$", "egress.naive_money - egress.delta_money", "saved a version")


def _seconds(model: str) -> str:
    """GPU seconds that one document costs a scorer: 2 FLOPs a parameter and token."""
    if model.startswith("encoder"):
        return f"2 * scorers.{model} * scorers.read_tokens / fleet.mfu_reading / fleet.gpu_flops"
    return (f"2 * scorers.{model} * (scorers.prompt_tokens / fleet.mfu_reading + scorers.answer_tokens / "
            "fleet.mfu_writing) / fleet.gpu_flops")


def _scorers() -> Iterator[Formula]:
    yield Formula("scorers.documents", "documents", "funnel.near * corpus.crawls", "scored")
    yield Formula("scorers.fasttext_hours", "core-h", "scorers.documents / rates.quality / 3600", "fastText")
    yield Formula("scorers.fasttext_money", "$", "scorers.fasttext_hours * prices.core_hour", "fastText")
    for model in _MODELS:
        title = model.replace("_", " ")
        yield Formula(f"scorers.{model}_hours", "GPU-h", f"scorers.documents * {_seconds(model)} / 3600", title)
        yield Formula(f"scorers.{model}_money", "$", f"scorers.{model}_hours * prices.gpu_hour", title)
    yield Formula("scorers.labels_money", "$",
                  f"scorers.sample * {_seconds('llm_large')} / 3600 * prices.gpu_hour",
                  "a sample labelled by the largest, to distil from")


def _generation() -> Iterator[Formula]:
    yield Formula("generation.written", "tokens", "generator.tokens / generator.kept", "written, before control")
    yield Formula("generation.token_seconds", "s",
                  "2 * generator.parameters * (generator.read_per_token / fleet.mfu_reading + 1 / fleet.mfu_writing)"
                  " / fleet.gpu_flops", "of a GPU, a token written")
    yield Formula("generation.hours", "GPU-h", "generation.written * generation.token_seconds / 3600",
                  "reading prompts and writing")
    yield Formula("generation.money", "$", "generation.hours * prices.gpu_hour", "all of it")
    yield Formula("generation.wall", "h", "generation.hours / fleet.gpus", "on the fleet's GPUs")
    yield Formula("generation.per_billion", "$",
                  "1e9 / generator.kept * generation.token_seconds / 3600 * prices.gpu_hour",
                  "a billion tokens that pass")


def _experiments() -> Iterator[Formula]:
    hours = "/ (fleet.gpu_flops * fleet.mfu_training) / 3600"
    yield Formula("experiments.ablations_flops", "FLOP", "6 * experiments.ablation_parameters * "
                  "experiments.ablation_tokens * experiments.ablations", "ablations of data")
    yield Formula("experiments.proxies_flops", "FLOP", "6 * experiments.proxy_parameters * experiments.proxy_tokens * "
                  "experiments.proxies", "small models of the mixture search")
    yield Formula("experiments.run_flops", "FLOP", "6 * run.model_parameters * run.tokens", "the run itself")
    for name, title in (("ablations", "ablations of data"), ("proxies", "mixture search"), ("run", "the run itself")):
        yield Formula(f"experiments.{name}_hours", "GPU-h", f"experiments.{name}_flops {hours}", title)
        yield Formula(f"experiments.{name}_money", "$", f"experiments.{name}_hours * prices.gpu_hour", title)
    yield Formula("experiments.share", "share",
                  "(experiments.ablations_flops + experiments.proxies_flops) / experiments.run_flops",
                  "of the run's FLOPs, spent on experiments")


def _crawling() -> Iterator[Formula]:
    yield Formula("crawling.fetches", "fetches/s", "crawler.pages_per_day * crawler.attempts / 86400", "fetches")
    yield Formula("crawling.hosts", "hosts", "crawling.fetches * crawler.delay", "fetched from at any moment, at least")
    yield Formula("crawling.connections", "connections", "crawling.fetches * crawler.latency", "open")
    yield Formula("crawling.bandwidth", "B/s", "crawling.fetches * crawler.wire_bytes", "over the wire")
    yield Formula("crawling.by_connections", "machines", "crawling.connections / crawler.machine_connections",
                  "to hold the connections")
    yield Formula("crawling.by_bandwidth", "machines", "crawling.bandwidth * 8 / 1e9 / crawler.machine_gbits",
                  "to carry the bytes")
    yield Formula("crawling.machines", "machines", "ceil(max(crawling.by_connections, crawling.by_bandwidth))",
                  "needed")
    yield Formula("crawling.money", "$", "crawling.machines * crawler.machine_cores * prices.core_hour * 24 * 30",
                  "a month")
    yield Formula("crawling.days_per_crawl", "days", "corpus.pages_per_crawl / crawler.pages_per_day",
                  "for as many pages as a crawl has")


def _loading() -> Iterator[Formula]:
    yield Formula("loading.tokens", "tokens/s", "run.tokens / (run.days * 86400)", "presented")
    yield Formula("loading.bandwidth", "B/s", "loading.tokens * shards.token_bytes", "read by ranges, all ranks")
    yield Formula("loading.per_rank", "B/s", "loading.bandwidth / run.ranks", "of them a rank")
    yield Formula("loading.sequences", "sequences/s", "loading.tokens / run.seq_len", "all ranks")
    yield Formula("loading.whole_shards", "B/s",
                  "loading.sequences * shards.shard_tokens * shards.token_bytes", "were a shard fetched a sequence")
    yield Formula("loading.steps_per_rank", "s", "run.ranks / loading.sequences", "between two sequences of a rank")


def formulas() -> list[Formula]:
    """Every quantity, in the order of the page."""
    parts = (_funnel, _work, _sizes, _storage, _egress, _scorers, _generation, _experiments, _crawling, _loading)
    return [f for part in parts for f in part()]


def sheet(values: Mapping[str, float]) -> Sheet:
    """The plan under these assumptions."""
    return Sheet(values, formulas())


# Bands of the reference funnel that a plan is held against: quantity -> (low, high).
BANDS = {"funnel.end_to_end_bytes": (0.05, 0.07)}
