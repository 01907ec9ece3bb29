"""Which shard stands for which: what a purge left of one, what was compacted of it, where its documents lie now.

Belongs here: reading ``registry/replaced`` and ``registry/compacted``, and following them. Does not belong here:
writing them (``purge.py``, ``compaction.py``).
"""

import io
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from gristmill.store import Store

REPLACED = "registry/replaced"
COMPACTED = "registry/compacted"


def replacements(store: Store) -> dict[str, dict[str, Any]]:
    """Old content hash -> {"by": new hash or None, "path", "stratum", "n_docs", "n_tokens", "dropped": [ordinals]}."""
    return {
        path.rpartition("/")[2].removesuffix(".json"): json.loads(store.blobs.get(path))
        for path, _ in store.blobs.list(REPLACED)
    }


def follow(
    shards: list[str | None], ordinals: np.ndarray, replaced: Mapping[str, Mapping[str, Any]]
) -> tuple[list[str | None], np.ndarray]:
    """Where documents lie now: (shard, ordinal) of each after all replacements; None where its bytes were deleted."""
    out, at = list(shards), ordinals.astype(np.int64).copy()
    for i, name in enumerate(out):
        while name is not None and name in replaced:
            entry = replaced[name]
            dropped = entry["dropped"]
            if int(at[i]) in dropped:
                name = None
            else:
                at[i] -= sum(d < at[i] for d in dropped)
                name = entry["by"]
        out[i] = name
    return out, at


def compacted(store: Store) -> dict[str, dict[str, Any]]:
    """Hash -> {"from": hashes it was made of, "stratum", "path", "n_docs", "n_tokens"}; purged ones included."""
    return {
        path.rpartition("/")[2].removesuffix(".json"): json.loads(store.blobs.get(path))
        for path, _ in store.blobs.list(COMPACTED)
    }


def successors(store: Store, name: str) -> dict[str, str]:
    """Every shard in which a document of shard ``name`` may lie besides: what replaced it, what was compacted of it.

    Returns:
        hash -> path, of shards that purges have not replaced themselves.
    """
    replaced, made = replacements(store), compacted(store)
    found: dict[str, str | None] = {name: None}
    todo = [name]
    while todo:
        at = todo.pop()
        after = [(k, e["path"]) for k, e in made.items() if at in e["from"]]
        if at in replaced and replaced[at]["by"] is not None:
            after.append((replaced[at]["by"], replaced[at]["path"]))
        for key, path in after:
            if key not in found:
                found[key] = path
                todo.append(key)
    return {key: path for key, path in found.items() if path is not None and key not in replaced}


def ordinal_in(store: Store, path: str, doc_id: bytes) -> int | None:
    """Where a document stands in a shard; None where it does not, or the shard is gone."""
    try:
        data = store.blobs.get(f"{path}.docs")
    except FileNotFoundError:
        return None
    ids = pq.read_table(io.BytesIO(data), columns=["doc_id"]).column("doc_id").to_pylist()
    return ids.index(doc_id) if doc_id in ids else None
