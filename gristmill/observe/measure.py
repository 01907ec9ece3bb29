"""What a partition kept, as the bands mean it: the stage's own gate, or what the reference would have gated.

Belongs here: turning a partition's manifest into one ``Count``, and which stage's output another must take in whole.
Does not belong here: whether that is much or little (``judge.py``), and where numbers come from (the stages).

Some stages drop nothing and store values (heuristics, scores, hard removals, contamination). Their retention is what
the reference rule would keep, so that a mistake in a measure shows although nothing is dropped.
"""

from dataclasses import dataclass

from gristmill.funnel import BY_NAME, Plan
from gristmill.store import Key, PartitionManifest, Store, Yield

# Reasons that stand for copies in earlier crawls: none of them can appear before a first crawl.
ACROSS = ("recrawl_earlier", "seen_in_earlier_crawl", "near_copy_in_earlier_crawl")
# Stages that look into earlier crawls, and where the manifest's state says which they saw.
LOOKS_BACK = {"unique_records": "earlier", "exact": "generations", "near": "generations"}
# What must come in: everything that went out of this stage, of the same bucket or of the whole crawl.
CONTINUES: dict[str, tuple[str, bool]] = {
    "raw_warc": ("crawl_slices", False), "unique_records": ("raw_warc", True), "text": ("unique_records", True),
    "language": ("text", True), "exact": ("language", False), "lines": ("exact", False), "near": ("lines", True),
    "heuristics": ("near", True), "quality": ("near", True), "safety": ("near", True), "contamination": ("near", True),
    "tokens": ("near", True), "shards": ("tokens", False),
}  # fmt: skip
BY_RULE = ("heuristics", "quality", "safety", "contamination")  # drop nothing: what a rule would keep is counted
GONE = {"safety": "hard_removal", "contamination": "flagged"}  # stage -> what it says that the reference would drop
TOKEN_BYTES = 4


@dataclass(frozen=True)
class Count:
    """Documents and bytes in and kept.

    Attributes:
        across: documents that an earlier crawl had.
        clump: of a bucket, how many documents share a document's host, on average over documents: 1 where each is
            alone. Sums have none.
        clump_bytes: the same by bytes (``clumping.facts``); 0 where it was not recorded.
    """

    docs_in: int = 0
    docs_kept: int = 0
    bytes_in: int = 0
    bytes_kept: int = 0
    across: int = 0
    clump: float = 1.0
    clump_bytes: float = 0.0

    def __add__(self, other: "Count") -> "Count":
        return Count(self.docs_in + other.docs_in, self.docs_kept + other.docs_kept, self.bytes_in + other.bytes_in,
                     self.bytes_kept + other.bytes_kept, self.across + other.across)

    def ratio(self, unit: str) -> float | None:
        """Kept over in, of ``docs`` or ``bytes``; None where nothing came in."""
        whole, kept = (self.docs_in, self.docs_kept) if unit == "docs" else (self.bytes_in, self.bytes_kept)
        return kept / whole if whole else None


def count(manifest: PartitionManifest, store: Store | None = None, plan: Plan | None = None) -> Count:
    """A partition's count, by documents and bytes.

    Bytes are what both sides have in one unit: stored records, text (of ``text`` HTML in and text out, a share
    as well), tokens of ``shards``. 0 where a partition of an earlier release did not record them.

    Args:
        manifest: the committed partition.
        store, plan: needed for the bytes of ``near`` (its documents' sizes are in ``lines``); without them those are 0.
    """
    c, info = manifest.counts, manifest.info
    across = sum(c.reasons.get(r, 0) for r in ACROSS)
    if manifest.asset == "near":
        return Count(c.docs_in, c.docs_out, *_near_bytes(manifest, store, plan), across)
    if manifest.asset == "quality":  # documents with a percentile, and those of them in the reference's top share
        return Count(*(int(info.get(n, 0)) for n in ("scored", "top", "scored_bytes", "top_bytes")))
    if manifest.asset == "heuristics" and "would_pass" in info:
        return _measured(c, int(info["would_pass"]), info.get("would_pass_bytes"))
    if manifest.asset in GONE:
        name = GONE[manifest.asset]
        gone = info.get(f"{name}_bytes")
        return _measured(c, c.docs_out - int(info.get(name, 0)), None if gone is None else c.bytes_out - int(gone))
    if manifest.asset == "shards":
        tokens = [int(info.get(n, 0)) for n in ("tokens_in", "tokens")]
        return Count(c.docs_in, c.docs_out, *(TOKEN_BYTES * n for n in tokens if tokens[0]))
    if manifest.asset == "crawl_slices" or not c.bytes_in:  # its records come in one compression and go in another
        return Count(c.docs_in, c.docs_out, across=across)
    return Count(c.docs_in, c.docs_out, c.bytes_in, c.bytes_out, across)


def _measured(c: Yield, kept: int, kept_bytes: int | None) -> Count:
    """Of a stage that drops nothing but says what the reference would keep."""
    return Count(c.docs_in, kept) if kept_bytes is None else Count(c.docs_in, kept, c.bytes_in, int(kept_bytes))


def _near_bytes(manifest: PartitionManifest, store: Store | None, plan: Plan | None) -> tuple[int, int]:
    """Bytes of the documents that came in and that survive. ``lines`` has a row for each, in the same order."""
    if store is None or plan is None or not manifest.role("data"):
        return 0, 0
    lines = Key("lines", plan.fingerprints["lines"], manifest.crawl, manifest.bucket)
    if store.manifest(lines) is None:
        return 0, 0
    key = Key(manifest.asset, manifest.fingerprint, manifest.crawl, manifest.bucket)
    size = store.read(lines, ["bytes_after"]).column(0).to_numpy()
    survives = store.read(key, ["survives"]).column(0).to_numpy()
    return (int(size.sum()), int(size[survives].sum())) if len(size) == len(survives) else (0, 0)


def store_columns(store: Store, key: Key) -> list[str]:
    """Names of a committed table's columns, from its footer."""
    import pyarrow.parquet as pq

    refs = store.require(key).role("data")
    if not refs or not refs[0].name.endswith(".parquet"):
        return []
    with store.open_file(key, refs[0]) as source:
        return list(pq.ParquetFile(source).schema_arrow.names)


def looked_back(manifest: PartitionManifest) -> list[str]:
    """Earlier crawls that the partition says it was compared with."""
    seen = manifest.state.get(LOOKS_BACK.get(manifest.asset, ""), [])
    return sorted(seen) if isinstance(seen, dict) else sorted(g["crawl"] for g in seen)


def manifests(store: Store, plan: Plan, stage: str, crawl: str) -> dict[int, PartitionManifest]:
    """Bucket -> committed partition of today's parameters; -1 for a stage without buckets."""
    spec = BY_NAME[stage]
    buckets: list[int | None] = list(range(plan.buckets)) if spec.on_grid else [None]
    found = {-1 if b is None else b: store.manifest(Key(stage, plan.fingerprints[stage], crawl, b)) for b in buckets}
    return {b: m for b, m in found.items() if m is not None}
