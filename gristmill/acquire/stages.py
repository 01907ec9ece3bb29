"""Bodies of the intake's stages: what each reads, calls and writes.

Belongs here: thin functions over a ``Partition``, and the checks that outside state (the landing area, the hold-out
root, earlier crawls) is still what was consumed. Does not belong here: anything with a loop over documents.
"""

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa

from gristmill import clumping, schemas, shuffle
from gristmill.acquire import gather as gathering
from gristmill.acquire import holdout, hosts, landing, origin, records, recrawl, robots, slices
from gristmill.acquire import provenance as origins
from gristmill.blobs import Blobs, open_blobs
from gristmill.errors import HoldoutError, LandingError
from gristmill.fingerprint import canonical_json
from gristmill.partition import Partition, state_check
from gristmill.schemas import from_rows
from gristmill.store import PartitionManifest


def _landing_area(part: Partition) -> Blobs:
    assert part.crawl is not None
    place = part.registry.landing(part.crawl) or part.site.landing
    return open_blobs(place, part.store.options if place.startswith("s3://") else None)


# -- eval_holdout ------------------------------------------------------------------------------------------------------


def eval_holdout(part: Partition) -> None:
    """What is frozen in the hold-out root: role "data", JSON."""
    found = holdout.open_holdout(part.site.holdout, part.plan.params.extract.holdout_hash,
                                 options=holdout.access(part.site, part.store.options))
    summary = {"holdout_hash": found.hash, "benchmarks": found.manifest["benchmarks"]}
    items = sum(b["items"] for b in found.manifest["benchmarks"])
    part.write_bytes(canonical_json(summary), role="data", suffix=".json", rows=len(found.manifest["benchmarks"]))
    part.state["holdout_hash"] = found.hash
    part.report(holdout_hash=found.hash, benchmarks=len(found.manifest["benchmarks"]), items=items)


@state_check("eval_holdout")
def _holdout_is(part: Partition, manifest: PartitionManifest) -> bool:
    try:
        found = holdout.open_holdout(part.site.holdout, options=holdout.access(part.site, part.store.options))
    except HoldoutError:
        return False  # the body says why
    return bool(manifest.state.get("holdout_hash") == found.hash)


# -- landing -----------------------------------------------------------------------------------------------------------


def landing_stage(part: Partition) -> None:
    """What the crawl's listing names, dealt to slices: role "data" (LANDING)."""
    assert part.crawl is not None
    listing = landing.read_listing(_landing_area(part), part.crawl)
    part.registry.register(part.crawl)
    pieces = landing.deal(listing.files, part.buckets, part.plan.params.acquire.range_bytes)
    part.write(from_rows([{**p.__dict__, "source_tier": listing.source_tier, "license_id": listing.license_id}
                          for p in pieces], schemas.LANDING), schemas.LANDING)
    part.state["listing"] = listing.digest
    part.state["stamps"] = listing.stamps(pieces)
    refused = sum(f.kind == "refused" for f in listing.files)
    size = sum(f.bytes for f in listing.files if f.kind == "warc")
    part.report(files=len(listing.files), refused_files=refused, landed_bytes=size, pieces=len(pieces),
                source_tier=listing.source_tier)


@state_check("landing")
def _listing_is(part: Partition, manifest: PartitionManifest) -> bool:
    assert part.crawl is not None
    try:
        listing = landing.read_listing(_landing_area(part), part.crawl)
    except LandingError:
        return False  # the body says why
    return bool(manifest.state.get("listing") == listing.digest)


# -- crawl_slices ------------------------------------------------------------------------------------------------------


def crawl_slices(part: Partition) -> None:
    """Records of this slice's files in runs laid out by host bucket: roles "warc", "index" (ranged), "quarantine"."""
    assert part.crawl is not None
    params = part.plan.params.acquire
    table = part.read("landing")
    mine = [r for r in table.to_pylist() if r["slice"] == part.bucket]
    pieces = [landing.Piece(**{n: r[n] for n in landing.Piece.__dataclass_fields__}) for r in mine]

    def write_run(path: Path, index: pa.Table, bucket_of: np.ndarray) -> None:
        part.write_file(path, role="warc", suffix=".warc.zst", rows=index.num_rows)
        part.write_ranged(index, bucket_of, slices.RUN_INDEX, role="index")

    with part.store.scratch() as folder:
        spool = slices.Spool(Path(folder), part.buckets, params.run_bytes, write_run)
        tally = slices.read_pieces(
            _landing_area(part), pieces, params, spool, crawl=part.crawl,
            source_tier=mine[0]["source_tier"] if mine else "", license_id=mine[0]["license_id"] if mine else None,
            progress=part.progress,
        )
        spool.close()
    part.write(from_rows(tally.quarantine, schemas.QUARANTINE), schemas.QUARANTINE, role="quarantine")
    part.state["stamps"] = _stamps(part)
    part.report(docs_in=tally.docs_in, docs_out=tally.docs_out, bytes_in=tally.bytes_in, bytes_out=tally.bytes_out,
                reasons=tally.reasons, other_records=dict(sorted(tally.others.items())),
                tags=dict(sorted(tally.tags.items())), pieces=len(pieces), runs=spool.runs)


def _stamps(part: Partition) -> str | None:
    """The stamps of this slice's files as ``landing`` saw them last: sizes alone miss a file mended in place."""
    found: str | None = part.manifest("landing").state.get("stamps", {}).get(str(part.bucket))
    return found


@state_check("crawl_slices")
def _files_are(part: Partition, manifest: PartitionManifest) -> bool:
    return bool(manifest.state.get("stamps") == _stamps(part))


# -- raw_warc ----------------------------------------------------------------------------------------------------------


def raw_warc(part: Partition) -> None:
    """The bucket's frames of all slices as one WARC: roles "warc", "data" (RAW_INDEX), "quarantine" (duplicates)."""
    with part.store.scratch() as folder:
        target = Path(folder) / "bucket.warc.zst"
        found = gathering.gather(part, target)
        part.write_file(target, role="warc", suffix=".warc.zst", rows=found.index.num_rows)
    part.write(found.index, schemas.RAW_INDEX)
    part.write(from_rows(found.duplicates, schemas.QUARANTINE), schemas.QUARANTINE, role="quarantine")
    n, twice = found.index.num_rows, len(found.duplicates)
    part.report(docs_in=n + twice, docs_out=n, bytes_in=found.bytes_in, bytes_out=found.bytes_out,
                reasons={"duplicate_record": twice}, records=n)


# -- unique_records ----------------------------------------------------------------------------------------------------


def unique_records(part: Partition) -> None:
    """Which records go on: roles "data" (UNIQUE_RECORDS), "seen" (for later crawls), "hosts", "robots"."""
    assert part.crawl is not None
    params = part.plan.params.unique
    index = part.read("raw_warc", [*recrawl.COLUMNS, "url", "host", "host_id", "source_tier"])
    consumed = _earlier_generations(part)
    earlier = [recrawl.Earlier(c, part.read("unique_records", role="seen", crawl=c)) for c in consumed]
    is_rule = robots.is_robots(index["url"])
    table, seen = recrawl.unique(index, part.crawl, earlier, params, is_rule)
    part.write(table, schemas.UNIQUE_RECORDS)
    part.write(seen, schemas.SEEN_PAYLOADS, role="seen")
    evidence = hosts.hosts(index, part.crawl, params)
    part.write(evidence, schemas.HOSTS, role="hosts")
    versions = _robots_versions(part, index.filter(pa.array(is_rule))["record_id"].to_pylist())
    part.write(versions, schemas.ROBOTS, role="robots")
    part.state["earlier"] = consumed
    kept = np.asarray(table["kept"].to_numpy(), bool)
    sizes = np.asarray(index["part_length"].to_numpy(), np.int64)
    tiers: dict[str, list[int]] = {}
    for tier, goes in zip(index["source_tier"].to_pylist(), kept.tolist(), strict=True):
        cell = tiers.setdefault(tier, [0, 0])
        cell[0] += 1
        cell[1] += goes
    held = Counter(h for h in table["holdout"].to_pylist() if h)
    part.report(
        docs_in=len(kept), docs_out=int(kept.sum()), bytes_in=int(sizes.sum()), bytes_out=int(sizes[kept].sum()),
        reasons=dict(Counter(r for r in table["reason"].to_pylist() if r)), by={"source_tier": tiers},
        holdout=dict(sorted(held.items())), hosts=evidence.num_rows, robots=versions.num_rows,
        traps=sorted(r["host"] for r in evidence.to_pylist() if r["trap"]),
        **clumping.facts(index["host_id"].to_numpy(), sizes),
    )


def _robots_versions(part: Partition, wanted: list[bytes]) -> pa.Table:
    if not wanted:
        return schemas.empty(schemas.ROBOTS)
    rows = [robots.version_row(row, payload) for row, payload in records.read_payloads(part, record_ids=set(wanted))
            if row["record_type"] == "response"]
    return shuffle.sort_by(from_rows(rows, schemas.ROBOTS), "authority", "fetch_ts", "record_id")


def _earlier_generations(part: Partition) -> dict[str, str]:
    """Earlier crawls whose bucket has been taken this far -> digest of what they keep there."""
    found = {}
    for crawl in part.earlier_crawls():
        manifest = part.store.manifest(part.key(crawl=crawl))
        if manifest is not None:
            found[crawl] = "".join(f.sha256 for f in manifest.role("seen"))
    return found


@state_check("unique_records")
def _earlier_are(part: Partition, manifest: PartitionManifest) -> bool:
    return bool(manifest.state.get("earlier", {}) == _earlier_generations(part))


# -- provenance --------------------------------------------------------------------------------------------------------


def provenance(part: Partition) -> None:
    """Where every extracted record came from: roles "data" (PROVENANCE), "hosts" (traps by text)."""
    assert part.crawl is not None
    table = origins.provenance(
        part.read("raw_warc", origins.INDEX_COLUMNS), part.read("text", ["record_id", "doc_id", "source_id"]),
        part.read("language", ["record_id", "lang", "lang_conf"]), part.crawl,
        robots.from_table(part.read("unique_records", role="robots")), part.plan.params.unique.robots_agent,
        origin.table(part),
    )
    part.write(table, schemas.PROVENANCE)
    evidence = hosts.text_hosts(table, part.crawl, part.plan.params.unique)
    part.write(evidence, schemas.HOSTS, role="hosts")
    states = Counter(table["robots_state"].to_pylist())
    part.report(records=table.num_rows, traps=sorted(r["host"] for r in evidence.to_pylist() if r["trap"]),
                robots_states=dict(sorted(states.items())))
