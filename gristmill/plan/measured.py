"""What this installation says about the assumptions: yields, sizes and rates of its own crawls.

Belongs here: reading them off what partitions committed. Volumes, prices and wishes are not measured: they stay as the
assumptions file has them. Does not belong here: what follows (``model.py``) and judging a yield (``observe``).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gristmill.funnel import FUNNEL, Plan
from gristmill.observe.yields import committed
from gristmill.plan.assumptions import Assumption
from gristmill.store import Key, Store

# Rate -> the stages whose CPU it stands for. What no rate names is overhead.
RATE_STAGES = {
    "intake": ("landing", "crawl_slices", "raw_warc", "unique_records"),
    "extraction": ("text",),
    "language": ("language",),
    "exact": ("exact",),
    "lines": ("line_candidates", "line_counts", "lines"),
    "signatures": ("signatures",),
    "edges": ("band_buckets", "clusters"),
    "index": ("band_matches", "near", "band_index"),
    "heuristics": ("heuristics",),
    "quality": ("quality",),
    "safety": ("safety",),
    "decontamination": ("contamination",),
    "tokens": ("tokens", "shards"),
}
RECORD_TABLES = ("unique_records", "provenance", "catalogue_records")
DOCUMENT_TABLES = ("near", "lines", "heuristics", "quality", "safety", "contamination", "catalogue")
FEW = 100_000  # documents: under this a rate measures how stages start, not how they work
DISAGREE = 1.25  # a measured value this many times the assumed one, or as much under it, is said


@dataclass
class Tally:
    """A stage's counts over crawls."""

    docs_in: int = 0
    docs_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    cpu_s: float = 0.0
    stored: int = 0
    info: Counter[str] = field(default_factory=Counter)
    role_bytes: Counter[str] = field(default_factory=Counter)
    role_rows: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Measured:
    """One assumption as this installation has it, and how many documents it rests on."""

    name: str
    value: float
    support: int


def tally(store: Store, plan: Plan, crawls: Sequence[str]) -> tuple[dict[str, Tally], float]:
    """Stage -> counts over crawls, and the share of the workers' time that was not waiting."""
    out: dict[str, Tally] = {}
    there = waited = 0.0
    for stage in FUNNEL:
        sums = out[stage.name] = Tally()
        for crawl in crawls if stage.by != "site" else ():
            for manifest in committed(store, plan, stage.name, crawl):
                run = store.run_info(Key(stage.name, manifest.fingerprint, manifest.crawl, manifest.bucket))
                counts = manifest.counts
                sums.docs_in += counts.docs_in
                sums.docs_out += counts.docs_out
                sums.bytes_in += counts.bytes_in
                sums.bytes_out += counts.bytes_out
                sums.cpu_s += float(run.get("cpu_s", 0.0))
                wait = float(run.get("wait_s", 0.0))
                waited += wait
                there += wait + sum(float(run.get(f"{k}_s", 0.0)) for k in ("compute", "gpu", "read", "write"))
                for name, value in manifest.info.items():
                    if isinstance(value, int) and not isinstance(value, bool):
                        sums.info[name] += value
                for file in manifest.files:
                    sums.stored += file.bytes
                    sums.role_bytes[file.role] += file.bytes
                    sums.role_rows[file.role] += file.rows
    return out, (1 - waited / there if there else 0.0)


def measure(store: Store, plan: Plan, crawls: Sequence[str]) -> dict[str, Measured]:
    """Assumption -> what these crawls say of it; nothing where they cannot tell."""
    stages, busy = tally(store, plan, crawls)
    out: dict[str, Measured] = {}

    def put(name: str, over: float, under: float, support: int) -> None:
        if under > 0 and over > 0:
            out[name] = Measured(name, over / under, support)

    def share(name: str, stage: str) -> None:
        put(f"yields.{name}", stages[stage].docs_out, stages[stage].docs_in, stages[stage].docs_in)

    text, tokens, near = stages["text"], stages["tokens"], stages["near"]
    raw, slices = stages["raw_warc"], stages["crawl_slices"]
    put("corpus.page_bytes", text.bytes_in, text.docs_in, text.docs_in)
    put("corpus.landed_bytes", stages["landing"].info["landed_bytes"], slices.docs_in, slices.docs_in)
    put("corpus.raw_bytes", raw.stored, raw.docs_out, raw.docs_out)
    put("corpus.text_bytes", text.bytes_out, text.docs_out, text.docs_out)
    put("corpus.stored_text_share", text.stored, text.bytes_out, text.docs_out)
    put("corpus.tokens_per_byte", tokens.info["tokens"], tokens.bytes_out, tokens.docs_out)
    for name, stage in (("unique", "unique_records"), ("extraction", "text"), ("language", "language"),
                        ("exact", "exact"), ("near", "near")):
        share(name, stage)
    rules = stages["heuristics"]
    put("yields.heuristics", rules.info["would_pass"], rules.docs_in, rules.docs_in)
    scored = stages["quality"].info
    put("yields.classifier", scored["top"], scored["scored"], scored["scored"])
    for name, stage, fact in (("safety", "safety", "hard_removal"), ("decontamination", "contamination", "flagged")):
        put(f"yields.{name}", stages[stage].docs_in - stages[stage].info[fact], stages[stage].docs_in,
            stages[stage].docs_in)
    if text.docs_out and tokens.docs_out:
        put("yields.length_gain", tokens.bytes_out / tokens.docs_out, text.bytes_out / text.docs_out, tokens.docs_out)
    _rates(stages, plan.params.minhash.bands, put)
    if busy:
        out["fleet.utilisation"] = Measured("fleet.utilisation", busy, text.docs_in)
    bands, index, docs = stages["signatures"], stages["band_index"], stages["catalogue"].docs_in
    put("dedup.band_row_bytes", bands.role_bytes["bands"], bands.role_rows["bands"], bands.docs_in)
    put("dedup.exact_row_bytes", stages["language"].role_bytes["by_doc"], stages["language"].role_rows["by_doc"],
        stages["language"].docs_out)
    put("dedup.edge_share", stages["band_buckets"].info["edges"], near.docs_in, near.docs_in)
    put("dedup.entry_bytes", index.role_bytes["data"], index.info["entries"], near.docs_out)
    put("dedup.bloom_bits", index.role_bytes["bloom"] * 8, index.info["entries"], near.docs_out)
    put("tables.record_bytes", sum(stages[s].stored for s in RECORD_TABLES), raw.docs_out, raw.docs_out)
    put("tables.document_bytes", sum(stages[s].stored for s in DOCUMENT_TABLES), docs, docs)
    return out


def _rates(stages: dict[str, Tally], bands: int, put: Any) -> None:
    text, lines, near = stages["text"], stages["lines"], stages["near"]
    page = text.bytes_in / text.docs_in if text.docs_in else 0.0
    done: dict[str, float] = {  # in the unit of the rate: bytes, documents or keys
        "intake": stages["crawl_slices"].docs_in * page,
        "extraction": text.bytes_in,
        "language": stages["language"].docs_in,
        "exact": stages["language"].bytes_out,
        "lines": lines.bytes_in,
        "signatures": lines.bytes_out,
        "edges": stages["signatures"].docs_in * bands,
        "index": near.docs_out * bands,
        "heuristics": stages["heuristics"].bytes_in,
        "quality": stages["quality"].docs_in,
        "safety": stages["safety"].bytes_in,
        "decontamination": stages["contamination"].bytes_in,
        "tokens": stages["tokens"].bytes_in,
    }
    named = 0.0
    for rate, parts in RATE_STAGES.items():
        cpu = sum(stages[s].cpu_s for s in parts)
        named += cpu
        put(f"rates.{rate}", done[rate], cpu, max(near.docs_in, *(stages[s].docs_in for s in parts)))
    put("rates.overhead", sum(s.cpu_s for s in stages.values()), named, text.docs_in)


@dataclass(frozen=True)
class Disagreement:
    """An assumption that this installation contradicts."""

    assumption: Assumption
    measured: Measured

    @property
    def ratio(self) -> float:
        """Measured over assumed."""
        return self.measured.value / self.assumption.value if self.assumption.value else float("inf")


def disagreements(assumptions: dict[str, Assumption], measured: dict[str, Measured]) -> list[Disagreement]:
    """Assumptions off by more than a factor of ``DISAGREE``, the furthest first."""
    found = [Disagreement(assumptions[name], m) for name, m in measured.items()]
    found = [d for d in found if d.ratio > DISAGREE or d.ratio < 1 / DISAGREE]
    return sorted(found, key=lambda d: (-max(d.ratio, 1 / d.ratio), d.assumption.name))
