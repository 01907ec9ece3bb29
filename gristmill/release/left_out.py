"""Why a version does not show a document that is in a shard.

Belongs here: the rule that a build noted, or the predicates that the document does not meet. Does not belong here: what
stopped a document before it came to a shard (``explain.py``).
"""

import io
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.release.standing import excluded_path, read_manifest
from gristmill.release.whereabouts import Finder
from gristmill.schemas import ID
from gristmill.store import Store


def left_out(
    store: Store, finder: Finder, version: str, crawl: str, bucket: int, doc_id: bytes
) -> tuple[str | None, str]:
    """(policy rule, why) of a version that does not show a document of a shard.

    The rule stands in the version's own files, so it is the one that held when it was built; what no rule excludes is
    held against every source's predicate.
    """
    body, _ = read_manifest(store, version)
    if crawl not in body["crawls"]:
        return None, f"{crawl} is not one of its crawls ({', '.join(body['crawls'])})"
    try:
        data = store.blobs.get(excluded_path(version, crawl, bucket))
    except FileNotFoundError:
        return None, "it does not say what it left out: it was built by an earlier release"
    rows = pq.read_table(io.BytesIO(data), filters=[("doc_id", "==", doc_id)]).to_pylist()
    table = store.read(finder.key("catalogue", crawl, bucket))
    row = table.filter(pc.equal(table.column("doc_id"), pa.scalar(doc_id, ID)))
    entry = row.to_pylist()[0]
    if rows:
        rule = rows[0]["rule"]
        return rule, f"excluded by {rule}" + _because(rule, entry, body["policy"])
    if not entry["survives"]:
        return None, "another member of its cluster stands for it"
    return None, "; ".join(_unmet(row, body)) or "its shard is not named"


def _because(rule: str, entry: dict[str, Any], policy: dict[str, Any]) -> str:
    """The value that a rule judged, where the catalogue has it."""
    day = entry["fetch_ts"].strftime("%Y-%m-%d") if entry.get("fetch_ts") else "?"
    told = {
        "contamination": f"holds items of {', '.join(entry['benchmarks'] or [])}",
        "robots": f"robots state at fetch: {entry['robots_state']}",
        "crawl_cutoff": f"fetched {day}; knowledge cutoff {policy.get('knowledge_cutoff')}, by tier "
                        f"{policy.get('tier_cutoffs') or 'none'}",
        "generator_cutoff": f"generator {entry['generator_model_id']}",
        "safety": f"policy.safety: {'; '.join(policy.get('safety') or [])}",
        "downweight": "not drawn by policy.downweight",
        "derived": f"made from document {entry['derived_from'].hex()}" if entry.get("derived_from") else "",
        **dict.fromkeys(("host_excluded", "trap", "tombstone_host"), f"host {entry['host']}"),
        **dict.fromkeys(("licence_unknown", "licence_denied", "licence_expired", "licence_scope", "tombstone_contract"),
                        f"licence {entry['license_id'] or 'unknown'}"),
    }.get(rule, "")  # fmt: skip
    return f" ({told})" if told else ""


def _unmet(row: pa.Table, body: dict[str, Any]) -> list[str]:
    """Every source's predicate beside the document's values."""
    from gristmill.mixture.predicates import Predicate

    out = []
    for name, source in body["recipe"]["sources"].items():
        predicate = Predicate(source["where"], f"source {name}", row.schema)
        if not predicate.mask(row)[0]:
            values = ", ".join(f"{c} = {row.column(c)[0].as_py()}" for c in predicate.columns)
            out.append(f"source {name} wants {source['where']}; here {values}")
    return out
