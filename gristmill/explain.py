"""Explaining one document or URL: the stage that stopped it, its value against the bound, the other document.

Belongs here: walking the side tables of the buckets that a URL or an id names, in the funnel's order. Does not belong
here: tables as a whole (``observe/``), and where training shows a document (``release/lineage.py``).
"""

import datetime as dt
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gristmill.errors import ManifestError
from gristmill.funnel import Plan
from gristmill.identity import canonical_url, url_hash
from gristmill.params import PipelineParams, SiteConfig
from gristmill.registry import Registry
from gristmill.release.left_out import left_out
from gristmill.release.replaced import follow, ordinal_in, replacements, successors
from gristmill.release.standing import read_manifest, registered
from gristmill.release.whereabouts import Finder, as_id
from gristmill.store import Key, Store

SHOWN = 3  # removed lines of a document that are quoted

@dataclass
class Found:
    """The story of one fetch.

    Attributes:
        crawl, bucket, url, record_id: which.
        doc_id: hex, None where there is no text.
        stopped_by: the stage that stopped it, None where it is in a shard.
        reason: that stage's word for it.
        detail: the value against the bound, in words.
        value, bound: as numbers, where they are.
        other: the other document or record, for duplicates: ids, and its URL where it is found.
        steps: what each stage said, in order: (stage, sentence).
        shard, ordinal, stratum: where it went.
        versions: what manifests say of it: version -> sources that select it.
        rule: the policy rule by which the version asked about leaves it out; None where no source selects it.
    """

    crawl: str
    bucket: int
    url: str | None
    record_id: str
    doc_id: str | None = None
    stopped_by: str | None = None
    reason: str | None = None
    detail: str = ""
    value: float | None = None
    bound: float | None = None
    other: dict[str, Any] | None = None
    steps: list[tuple[str, str]] = field(default_factory=list)
    shard: str | None = None
    ordinal: int | None = None
    stratum: str | None = None
    versions: dict[str, list[str]] = field(default_factory=dict)
    rule: str | None = None

    def stop(self, stage: str, reason: str, detail: str, **facts: Any) -> "Found":
        """Note where it ended."""
        self.stopped_by, self.reason, self.detail = stage, reason, detail
        for name, value in facts.items():
            setattr(self, name, value)
        self.steps.append((stage, f"stopped: {reason}" + (f" ({detail})" if detail else "")))
        return self


def explain(
    store: Store, plan: Plan, site: SiteConfig, what: str, crawl: str | None = None, version: str | None = None
) -> list[Found]:
    """What became of a URL (every fetch of it) or an id, in every crawl or in one.

    Args:
        store, plan: where to look, by which parameters.
        site: kept for callers that have one; nothing outside the store is read.
        what: a URL, or a doc_id or record_id in hex.
        crawl: only this one.
        version: the dataset version whose reason for leaving it out is wanted; the newest that stands by default.

    Returns:
        one entry a fetch, in order of crawls and fetch times; empty where nothing is known of it.

    Raises:
        ManifestError: it is neither a URL nor an id, or there is no such version.
        LandingError: no such crawl.
        MissingPartitionError: nothing is found, and a crawl has not been taken in by today's parameters.
    """
    registry = Registry(store)
    crawls = registry.crawls()
    if crawl is not None:
        registry.ordinal(crawl)  # raises, with what there is
        crawls = [crawl]
    if version is not None:
        read_manifest(store, version)  # raises, with what there is
    finder = Finder(store, plan.fingerprints, plan.buckets, registry.crawls())
    out: list[Found] = []
    for name in crawls:
        for bucket, row in _records(finder, name, what):
            out.append(_story(finder, plan.params, name, bucket, row))
    if not out:
        for name in crawls:  # nothing is known of it, or nothing has been made by today's parameters: not the same
            store.require(Key("raw_warc", plan.fingerprints["raw_warc"], name, 0))
    for found in out:
        places = _versions(store, finder, found, version)
        if not places and found.shard is None:
            continue
        told = "; ".join(f"{v}: {', '.join(s) or 'not selected'}" for v, s in found.versions.items())
        found.steps.append(("manifest", told or "no version has been built"))
        chosen = version or next(reversed(found.versions), None)
        if chosen is not None and chosen not in places:
            found.steps.append((f"manifest {chosen}", "the results that it was made from have it in no shard"))
        elif chosen is not None and not found.versions[chosen]:
            own, doc_id = places[chosen]
            found.rule, said = left_out(store, own, chosen, found.crawl, found.bucket, doc_id)
            if found.rule is None and found.reason == "bytes_deleted":
                said = "its bytes had been deleted when the version was built"
            found.steps.append((f"manifest {chosen}", said))
    return out


def _records(finder: Finder, crawl: str, what: str) -> list[tuple[int, dict[str, Any]]]:
    """(bucket, raw_index row) of the fetches that a URL or id names in a crawl."""
    if "://" in what:
        bucket = finder.bucket_of_url(what)
        rows = finder.rows("raw_warc", crawl, bucket, "url_hash", url_hash(canonical_url(what)))
        return [(bucket, r) for r in sorted(rows, key=lambda r: (r["fetch_ts"], r["record_id"]))]
    wanted = as_id(what)
    if wanted is None:
        raise ManifestError(f"{what!r} is neither a URL nor an id (32 hex digits)")
    found = []
    for row in finder.rows("exact", crawl, finder.range_of(wanted), "doc_id", wanted):
        bucket = row["host_bucket"]
        found += [(bucket, r) for r in finder.rows("raw_warc", crawl, bucket, "record_id", row["record_id"])]
    if found:
        return found
    # A record_id, or a text that a gate stopped: no table is laid out by it, so every bucket is asked.
    for bucket in range(finder.buckets):
        records = {r["record_id"] for r in finder.rows("text", crawl, bucket, "doc_id", wanted)} | {wanted}
        for record in sorted(records):
            found += [(bucket, r) for r in finder.rows("raw_warc", crawl, bucket, "record_id", record)]
    return found


def _story(finder: Finder, params: PipelineParams, crawl: str, bucket: int, raw: dict[str, Any]) -> Found:
    record = raw["record_id"]
    found = Found(crawl, bucket, raw.get("url"), record.hex())
    when = raw.get("fetch_ts")
    day = when.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S") if when else "?"
    found.steps.append(("raw_warc", f"fetched {day}, HTTP {raw.get('http_status')}, {raw.get('content_type')}"))
    unique = finder.rows("unique_records", crawl, bucket, "record_id", record)
    if not unique:
        return _pending(found, "unique_records")
    if not unique[0]["kept"]:
        return _recrawl(finder, found, unique[0])
    if unique[0]["holdout"]:
        found.steps.append(("unique_records", f"held out ({unique[0]['holdout']}): goes on, but into no manifest"))
    aside = finder.rows("quarantine", crawl, bucket, "record_id", record)
    text = finder.rows("text", crawl, bucket, "record_id", record)
    if aside:
        row = min(aside, key=lambda r: (r["stage"] != "text", r["stage"]))
        found.doc_id = text[0]["doc_id"].hex() if text else None
        return found.stop(row["stage"], row["reason"], row["detail"] or "")
    if not text:
        return _pending(found, "text")
    doc_id = text[0]["doc_id"]
    found.doc_id = doc_id.hex()
    named = f", the supplier's {text[0]['source_id']}" if text[0].get("source_id") else ""
    found.steps.append(("text", f"{text[0]['n_chars']:,} characters by {text[0]['extractor']}{named}"))
    language = finder.rows("language", crawl, bucket, "record_id", record)
    if language:
        row = language[0]
        if row["gate"]:
            return found.stop("language", row["gate"], _gate(row, params))
        found.steps.append(("language", f"{row['lang']} ({row['lang_conf']:.3f})"))
    return _duplicates(finder, params, found, crawl, bucket, record, doc_id)


def _recrawl(finder: Finder, found: Found, row: dict[str, Any]) -> Found:
    other = None
    detail = ""
    if row.get("of_record_id") is not None:
        of_crawl = row.get("of_crawl") or found.crawl
        other = {"record_id": row["of_record_id"].hex(), "crawl": of_crawl}
        for match in finder.rows("raw_warc", of_crawl, found.bucket, "record_id", row["of_record_id"]):
            other["url"] = match["url"]
            other["fetch_ts"] = str(match["fetch_ts"])
        detail = f"repeats record {other['record_id']} of {of_crawl}"
    return found.stop("unique_records", row["reason"], detail, other=other)


def _gate(row: dict[str, Any], params: PipelineParams) -> str:
    """The language row's value against its bound."""
    p = params.language
    told = {
        "no_language": f"{row['lang']} at {row['lang_conf']:.3f}, under {p.threshold} (small languages "
                       f"{p.small_threshold})",
        "script_mismatch": f"{row['script_share'] or 0:.3f} of the letters are in a script of {row['lang']}",
        "degenerate_short": f"{row['n_words']} words (at least {p.min_words}), {row['n_chars']} characters (at least "
                            f"{p.min_chars})",
        "degenerate_line": f"one line is {row['longest_line_share'] or 0:.3f} of the text, over {p.max_line_share}",
        "degenerate_letters": f"{row['letter_share'] or 0:.3f} letters, under {p.min_letter_share}",
    }  # fmt: skip
    return told.get(row["gate"], "")


def _duplicates(
    finder: Finder, params: PipelineParams, found: Found, crawl: str, bucket: int, record: bytes, doc_id: bytes
) -> Found:
    group = finder.rows("exact", crawl, finder.range_of(doc_id), "doc_id", doc_id)
    mine = [r for r in group if r["record_id"] == record]
    if not mine:
        return _pending(found, "exact")
    row = mine[0]
    if not row["first"]:
        top = next((r for r in group if r["record_id"] == row["dup_of"]), None)
        other = {"record_id": row["dup_of"].hex(), "doc_id": doc_id.hex(), "crawl": crawl}
        if top is not None:
            other |= _url(finder, crawl, top["host_bucket"], row["dup_of"])
        return found.stop("exact", "exact_duplicate", f"one of {row['dup_count']} records with this text", other=other)
    if row["seen_crawl"]:
        seen = row.get("seen_record_id")
        other = {"record_id": seen.hex() if seen else None, "doc_id": doc_id.hex(), "crawl": row["seen_crawl"]}
        for earlier, home, first in finder.home(doc_id):
            if earlier == row["seen_crawl"]:
                other |= _url(finder, earlier, home, first)
        return found.stop("exact", "seen_in_earlier_crawl", f"the same text is in {row['seen_crawl']}", other=other)
    _lines(finder, found, crawl, bucket, doc_id)
    near = finder.rows("near", crawl, bucket, "doc_id", doc_id)
    if not near:
        return _pending(found, "near")
    row = near[0]
    if not row["survives"]:
        return _near(finder, params, found, row)
    found.steps.append(("near", f"first of {row['dup_cluster_size'] or 1} in its cluster"))
    return _semantic(finder, params, found, crawl, doc_id) or _tokenised(finder, found, crawl, bucket, doc_id)


def _lines(finder: Finder, found: Found, crawl: str, bucket: int, doc_id: bytes) -> None:
    """Say which lines were taken out of the document as boilerplate, where any were."""
    for row in finder.rows("lines", crawl, bucket, "doc_id", doc_id):
        if not row["n_removed"]:
            continue
        shown = [r for line in row["removed"][:SHOWN]
                 for r in finder.rows("lines", crawl, bucket, "line", line, role="removed")]
        said = "; ".join(f"{_short(r['sample'])!r} in {r['docs']} documents, over {r['bound']}" for r in shown)
        more = len(row["removed"]) - len(shown)
        emptied = "; nothing is left" if row["empty_after"] else ""
        found.steps.append(("lines", f"{row['n_removed']} of {row['n_lines']} lines taken out: {said}"
                            + (f"; and {more} more" if more else "") + emptied))


def _short(line: str) -> str:
    return line if len(line) <= 60 else f"{line[:57]}..."


def _near(finder: Finder, params: PipelineParams, found: Found, row: dict[str, Any]) -> Found:
    if row["dup_of"] is not None:
        other = {"doc_id": row["dup_of"].hex(), "crawl": found.crawl}
        for crawl, bucket, record in finder.home(row["dup_of"]):
            if crawl == found.crawl:
                other |= {"record_id": record.hex(), **_url(finder, crawl, bucket, record)}
        like = row["similarity"]
        said = f"similarity {like:.3f}, at least {params.clusters.verify_at}" if like is not None else "by shared bands"
        return found.stop("near", "near_duplicate", f"{said}; cluster of {row['dup_cluster_size']}", other=other,
                          value=like, bound=params.clusters.verify_at)  # fmt: skip
    other = {"crawl": row["matched_crawl"], "doc_id": row["matched_doc_id"].hex() if row["matched_doc_id"] else None}
    if row["matched_doc_id"]:
        for crawl, bucket, record in finder.home(row["matched_doc_id"]):
            if crawl == row["matched_crawl"]:
                other |= {"record_id": record.hex(), **_url(finder, crawl, bucket, record)}
    bound = params.band_index.min_band_matches
    said = f"{row['matched_bands']} of {params.minhash.bands} band keys are held by it, at least {bound}"
    return found.stop("near", "copy_in_earlier_crawl", said, other=other, value=row["matched_bands"], bound=bound)


def _semantic(finder: Finder, params: PipelineParams, found: Found, crawl: str, doc_id: bytes) -> Found | None:
    """The end of a semantic duplicate; None for every other document."""
    bound = 1 - params.semantic.epsilon
    for number in range(finder.buckets):
        if not finder.has("semantic", crawl, number):
            return _pending(found, "semantic")
        for row in finder.rows("semantic", crawl, number, "doc_id", doc_id):
            if not row["removed"]:
                like = f"the better one most like it has {row['cosine']:.3f}" if row["nearest"] else "the best there"
                found.steps.append(("semantic", f"kept in cluster {row['cluster']}: {like}, under {bound:.3f}"))
                return None
            other = {"doc_id": row["nearest"].hex(), "crawl": crawl}
            for earlier, home, record in finder.home(row["nearest"]):
                if earlier == crawl:
                    other |= {"record_id": record.hex(), **_url(finder, crawl, home, record)}
            said = f"cosine {row['cosine']:.3f} with a better document, at least {bound:.3f}"
            return found.stop("semantic", "semantic_duplicate", said, other=other, value=row["cosine"], bound=bound)
    return None


def _tokenised(finder: Finder, found: Found, crawl: str, bucket: int, doc_id: bytes) -> Found:
    for stage in ("tokens", "catalogue"):
        if not finder.has(stage, crawl, bucket):
            return _pending(found, stage)
    row = finder.rows("tokens", crawl, bucket, "doc_id", doc_id)[0]
    if row["reason"]:
        at = f", in the window at token {row['window']:,}" if row["window"] else ""
        return found.stop("tokens", row["reason"], f"{row['value']:.4g} against {row['bound']:.4g}{at}",
                          value=row["value"], bound=row["bound"])  # fmt: skip
    found.steps.append(("tokens", f"{row['n_tokens']:,} tokens from {row['n_bytes']:,} bytes"))
    entry = finder.rows("catalogue", crawl, bucket, "doc_id", doc_id)[0]
    if entry["contaminated"]:
        names = ", ".join(entry["benchmarks"])
        found.steps.append(("contamination", f"holds items of {names}: no manifest takes it unless its policy says so"))
    found.stratum = entry["stratum"]
    now, ordinals = follow([entry["shard"]], np.array([entry["ordinal"]]), replacements(finder.store))
    if now[0] is None:
        return found.stop("shards", "bytes_deleted", "by `gristmill forget --delete-bytes`: versions that name its "
                          f"shard {entry['shard'][:16]} cannot be read there")
    found.shard, found.ordinal = now[0], int(ordinals[0])
    found.steps.append(("shards", f"document {found.ordinal} of shard {now[0][:16]} ({entry['stratum']})"))
    return found


def _pending(found: Found, stage: str) -> Found:
    return found.stop(stage, "not_run", f"run `gristmill run --crawl {found.crawl} --stage {stage}`")


def _url(finder: Finder, crawl: str, bucket: int, record: bytes) -> dict[str, Any]:
    """URL and time of a record, where its bucket still says."""
    for asset in ("provenance", "raw_warc"):
        for row in finder.rows(asset, crawl, bucket, "record_id", record):
            return {"url": row["url"], "fetch_ts": str(row["fetch_ts"])}
    return {}


def _versions(store: Store, finder: Finder, found: Found, asked: str | None) -> dict[str, tuple[Finder, bytes]]:
    """Fill in what every version that stands (and the one asked for) says of a fetch, by the results it was made from.

    Returns:
        version -> (look-ups in its own results, the document there), where the fetch came to a shard there.
    """
    places: dict[str, tuple[Finder, bytes]] = {}
    for version in dict.fromkeys([*registered(store), *([asked] if asked else [])]):
        try:
            body, _ = read_manifest(store, version)
        except ManifestError:
            continue  # dropped by ``manifest retain``
        own = Finder(store, body["fingerprints"], body["grid"]["host_buckets"], finder.crawls)
        rows = own.rows("catalogue", found.crawl, found.bucket, "record_id", bytes.fromhex(found.record_id))
        entry = next((row for row in rows if row["shard"] is not None), None)
        if entry is not None:
            places[version] = own, entry["doc_id"]
            found.versions[version] = _sources(store, version, body, entry)
        elif found.shard is not None:
            found.versions[version] = []
    return places


def _sources(store: Store, version: str, body: dict[str, Any], entry: dict[str, Any]) -> list[str]:
    """Sources of a version that select a document of its catalogue."""
    from gristmill.loader.manifest import open_manifest
    from gristmill.release.lineage import _options

    places = {str(entry["shard"]): int(entry["ordinal"] or 0)}
    for shard, path in successors(store, str(entry["shard"])).items():
        ordinal = ordinal_in(store, path, entry["doc_id"])
        if ordinal is not None:
            places[shard] = ordinal
    out, opened = [], None
    for name, source in body["sources"].items():
        for shard in (s for s in places if source.rows(s)):
            opened = opened or open_manifest(store.root, version, options=_options(store))
            ordinals = opened.selection.ordinals(name, shard)
            if ordinals is None or (ordinals == places[shard]).any():
                out.append(name)
    return out


def render(found: list[Found]) -> str:
    """For a terminal."""
    if not found:
        return "nothing is known of it: no crawl in this store fetched it"
    lines = []
    for one in found:
        lines.append(f"{one.crawl}  {one.url or ''}  record {one.record_id}")
        if one.doc_id:
            lines.append(f"  document {one.doc_id}")
        lines += [f"  {stage:<16} {sentence}" for stage, sentence in one.steps]
        if one.other:
            lines.append("  the other:       " + ", ".join(f"{k} {v}" for k, v in one.other.items() if v is not None))
        lines.append("")
    return "\n".join(lines).rstrip()


