"""A small dataset on disk, by the contract of shards and manifests, for tests of whoever reads one.

Every token of a data set made here is different (unless ``token`` says otherwise), so a test can tell which document
and offset it came from: token = ((running number of the document) << 12) + offset for documents under 4,096 tokens.
"""

import hashlib
import json
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.tokens import packing, shard

SHIFT = 12


def canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode("ascii")


@dataclass
class Made:
    """What was written, and the plain truth about it."""

    root: Path
    version: str
    path: Path
    manifest: dict[str, Any]
    # (source, shard hash) -> list of documents' tokens, and the ordinals selected
    documents: dict[tuple[str, str], list[np.ndarray]] = field(default_factory=dict)
    selected: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    doc_ids: dict[tuple[str, str], list[bytes]] = field(default_factory=dict)

    def stream(self, source: str, hash_: str) -> np.ndarray:
        """The selected documents of a shard end to end."""
        docs = self.documents[source, hash_]
        chosen = [docs[i] for i in self.selected[source, hash_]]
        return np.concatenate(chosen) if chosen else np.zeros(0, np.uint32)


def lengths_of(rng: np.random.Generator, documents: int, mean: int = 90) -> list[int]:
    return [int(n) for n in np.clip(rng.lognormal(np.log(mean), 0.9, documents), 1, 4000).astype(int)]


def phase(
    weights: dict[str, str], tokens: int = 200_000, seq_len: int = 64, batch: Any = None, packing: str = "concat",
    name: str = "main",
) -> dict[str, Any]:
    return {"name": name, "tokens": tokens, "seq_len": seq_len, "packing": packing, "batch": batch or [[10, None]],
            "weights": weights}


def make_dataset(
    root: Path,
    sources: dict[str, list[list[int]]],
    phases: list[dict[str, Any]],
    max_epochs: dict[str, str] | None = None,
    seed: int = 7,
    version: str = "v1",
    select: float = 1.0,
    behaviour: list[Any] | None = None,
) -> Made:
    """Write shards, selection and manifest below ``root``.

    Args:
        sources: {source: [token counts of the documents of one shard, ...]}.
        select: share of documents selected; under 1 some shards get ordinals, the others null (every document).
    """
    rng = np.random.default_rng(seed)
    made = Made(root, version, root / "manifests" / version / "manifest.json", {})
    running = 0
    entries: dict[str, Any] = {}
    selection: list[tuple[str, str, list[int] | None]] = []
    for source in sorted(sources):
        listed = []
        for number, lengths in enumerate(sources[source]):
            docs, ids = [], []
            for length in lengths:
                docs.append(((running << SHIFT) + np.arange(length)).astype(np.uint32))
                ids.append(hashlib.md5(str(running).encode()).digest())
                running += 1
            tokens = np.concatenate(docs) if docs else np.zeros(0, np.uint32)
            data, index = shard.encode(tokens, np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint64))
            hash_ = shard.content_hash(data, index)
            stratum = f"test.{source}"
            folder = root / "shards" / stratum / hash_
            folder.mkdir(parents=True, exist_ok=True)
            base = folder / "shard_00000"
            base.with_suffix(".bin").write_bytes(data)
            base.with_suffix(".idx").write_bytes(index)
            base.with_suffix(".meta").write_text(json.dumps({
                "stratum": stratum, "n_docs": len(docs), "sha256_idx": hashlib.sha256(index).hexdigest()}))
            pq.write_table(
                pa.table({
                    "ordinal": pa.array(range(len(docs)), pa.uint32()),
                    "doc_id": pa.array(ids, pa.binary(16)),
                    "record_id": pa.array([i[::-1] for i in ids], pa.binary(16)),
                    "crawl": pa.array(["CC-TEST"] * len(docs), pa.string()),
                    "host_bucket": pa.array([0] * len(docs), pa.uint16()),
                    "row": pa.array(range(len(docs)), pa.uint32()),
                    "n_tokens": pa.array(lengths, pa.uint32()),
                }), base.with_suffix(".docs"))
            whole = select >= 1 or number % 3 == 2
            chosen = list(range(len(docs))) if whole else [i for i in range(len(docs)) if rng.random() < select]
            selection.append((source, hash_, None if whole else chosen))
            made.documents[source, hash_] = docs
            made.selected[source, hash_] = chosen
            made.doc_ids[source, hash_] = ids
            listed.append({
                "stratum": stratum, "hash": hash_, "path": f"shards/{stratum}/{hash_}/shard_00000",
                "n_docs": len(docs), "n_tokens": len(tokens), "selected_docs": len(chosen),
                "selected_tokens": int(sum(lengths[i] for i in chosen)),
            })
        listed.sort(key=lambda e: e["hash"])
        layouts = {}
        for p in phases:
            counts = []
            for e in listed:
                docs = made.documents[source, e["hash"]]
                chosen_lengths = np.array([len(docs[i]) for i in made.selected[source, e["hash"]]], np.uint32)
                counts.append(packing.count(chosen_lengths, p["seq_len"], p["packing"]))
            layouts[packing.layout(p["seq_len"], p["packing"])] = counts
        entries[source] = {"shards": listed, "layouts": layouts}
    folder = made.path.parent
    folder.mkdir(parents=True, exist_ok=True)
    selection.sort(key=lambda row: row[:2])
    pq.write_table(
        pa.table({
            "source": pa.array([r[0] for r in selection], pa.string()),
            "shard": pa.array([r[1] for r in selection], pa.string()),
            "ordinals": pa.array([r[2] for r in selection], pa.list_(pa.uint32())),
        }), folder / "selection.parquet", row_group_size=4)
    probes = behaviour if behaviour is not None else [["ab", [97, 98]], [" ", [32]]]
    recipe = {"phases": phases, "max_epochs": max_epochs or {}, "seed": seed}
    made.manifest = {
        "format": 1, "kind": "gristmill-manifest", "version": version, "recipe": recipe,
        "recipe_hash": hashlib.sha256(canonical(recipe)).hexdigest(), "seed": seed, "phases": phases,
        "max_epochs": max_epochs or {},
        "tokenizer": {"name": "bytes", "sha256": "00" * 32, "vocab_size": 1 << 32, "bos_id": None, "eos_id": 0,
                      "behaviour": {"probes": probes, "sha256": hashlib.sha256(canonical(probes)).hexdigest()}},
        "sources": entries,
        "selection": {"sha256": hashlib.sha256((folder / "selection.parquet").read_bytes()).hexdigest(),
                      "path": f"manifests/{version}/selection.parquet"},
        "exclusions": {}, "contamination": {}, "inputs": {}, "crawls": ["CC-TEST"],
    }
    made.path.write_bytes(canonical(made.manifest))
    return made


def small(root: Path, **changes: Any) -> Made:
    """Three sources of several shards, one phase, a step of ten."""
    rng = np.random.default_rng(3)
    sources = changes.pop("sources", None) or {
        "books": [lengths_of(rng, 40) for _ in range(3)],
        "code": [lengths_of(rng, 25) for _ in range(4)],
        "web": [lengths_of(rng, 60) for _ in range(9)],
    }
    phases = changes.pop("phases", None) or [phase({"web": "0.6", "code": "0.3", "books": "0.1"})]
    return make_dataset(root, sources, phases, **changes)


def many_shards(root: Path, shards: int = 1_000_000, sources: int = 20, version: str = "v1", fresh: int = 0) -> None:
    """A manifest that names so many shards (there are no files of them) of a run of 30T tokens.

    Args:
        fresh: so many sources, the first ones, name other shards than they do with 0.
    """
    made = small(root, version=version)
    names = [f"source-{s:02}" for s in range(sources)]
    manifest = {**made.manifest, "policy": {}, "registries": {}, "fingerprints": {}, "sources": "@",
                "phases": [{**made.manifest["phases"][0], "tokens": 30 * 10**12, "seq_len": 4096,
                            "weights": dict.fromkeys(names, str(Fraction(1, sources))), "batch": [[4096, None]]}]}
    before, after = canonical(manifest).split(b'"@"')
    with made.path.open("wb") as out:
        out.write(before)
        for s, name in enumerate(names):
            listed = []
            for k in range(shards // sources):
                digest = hashlib.sha256(f"{'fresh' * (s < fresh)}{s}.{k}".encode()).hexdigest()
                stratum = f"cc.eng.q{s}.len{k % 5}"
                listed.append({"stratum": stratum, "hash": digest, "path": f"shards/{stratum}/{digest}/shard_00000",
                               "n_docs": 30_000, "n_tokens": 30_000_000 + k, "selected_docs": 20_000 + k,
                               "selected_tokens": 20_000_000 + k})
            source = {"shards": listed, "layouts": {"concat:4096": [4882 + k % 3 for k in range(len(listed))]}}
            out.write((b"," if s else b"{") + canonical(name) + b":" + canonical(source))
        out.write(b"}" + after)
