"""Versions of very many shards and of very many documents: what commands on them hold, and how a rebuild grows.

Belongs here: the peak memory of ``manifest verify``, ``diff``, ``ship`` and ``retain`` on manifests of 10^6 shards, and
the CPU time of a new manifest after a threshold and an opt-out, by rows of the catalogue. Does not belong here: reading
and sampling (``bench/loader.py``), correctness (``tests/release``).

    python -m bench.versions

The shards of the first part exist in name only: four million files would measure the disk. Each command is a process of
its own, over a listing that gives every file its right size. The catalogues of the second part are made from columns.
"""

import itertools
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import numpy as np

from bench.peer import run_own
from bench.report import Report
from gristmill.blobs import Child, LocalBlobs

SHARDS, SOURCES, LENGTHS = 1_000_000, 20, 5
FRESH = 2  # sources of the second version that name other shards: a tenth of all
COMMANDS = ("verify", "diff", "ship", "retain")
ROWS = (10_000, 100_000, 1_000_000)
BUCKETS, A_SHARD = 16, 1000
SUFFIXES = (".bin", ".docs", ".idx", ".meta")


def main() -> None:
    """All of it."""
    report = Report("versions")
    with tempfile.TemporaryDirectory(prefix="bench-versions-") as scratch:
        run_own("bench.versions", ["--lay", scratch])
        for command in COMMANDS:
            found = run_own("bench.versions", ["--run", scratch, command])
            report.add(f"peak GB of manifest {command}, 10^6 shards", found["peak_gb"], None, found["peak_gb"], "< 1",
                       found["peak_gb"] < 1, f"{found['seconds']:.0f} s of CPU; {found['said']}")
    seconds = {}
    for rows in ROWS:
        found = run_own("bench.versions", ["--rebuild", str(rows)])
        seconds[rows] = found["seconds"]
        report.add(f"manifest rebuild after a threshold and an opt-out, CPU s: {rows:,} rows of catalogue",
                   found["seconds"], None, None, "", None, f"peak {found['peak_gb']:.2f} GB, one process")
        report.add(f"shards written by it, {rows:,} rows", found["written"], 0, None, "0", found["written"] == 0)
    for small, large in itertools.pairwise(ROWS):
        ratio = seconds[large] / seconds[small]
        report.add(f"manifest rebuild, CPU s: {large:,} rows / {small:,}", seconds[large], seconds[small], ratio,
                   f"<= {large // small} x", ratio <= large / small)
    report.write()


def _peak_gb() -> float:
    # Not ru_maxrss, which counts what this process was forked from.
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(peak.split()[1]) / 2**20


class Imagined(LocalBlobs):
    """A store whose manifests are files and whose shards are names: the listing gives every file its right size.

    It holds the shards of both versions, source by source, as ``tests.loader.make.many_shards`` names them.
    """

    def children(self, folder: str) -> tuple[tuple[str, ...], dict[str, Child]]:
        """As in ``Blobs``; below ``shards`` the strata."""
        if folder != "shards":
            return super().children(folder)
        return tuple(sorted(f"cc.eng.q{s}.len{k}" for s in range(SOURCES) for k in range(LENGTHS))), {}

    def list(self, prefix: str) -> Iterator[tuple[str, int]]:
        """As in ``Blobs``; of a stratum what both versions name."""
        if not prefix.startswith("shards/"):
            yield from super().list(prefix)
            return
        stratum = prefix.split("/")[1]
        source, length = int(stratum.split(".")[2][1:]), int(stratum[-1])
        salts = ("", "fresh") if source < FRESH else ("",)
        named = sorted((sha256(f"{salt}{source}.{k}".encode()).hexdigest(), k) for salt in salts
                       for k in range(length, SHARDS // SOURCES, LENGTHS))
        for digest, k in named:
            for suffix in SUFFIXES:
                size = 4 * (30_000_000 + k) if suffix == ".bin" else 1
                yield f"shards/{stratum}/{digest}/shard_00000{suffix}", size


def lay(folder: str) -> dict[str, int]:
    """Two versions, the second with other shards in a tenth of its sources."""
    from gristmill.release.standing import register
    from gristmill.store import Store
    from tests.loader.make import many_shards

    store = Store(folder)
    for version, fresh in (("v1", 0), ("v2", FRESH)):
        many_shards(Path(folder), SHARDS, SOURCES, version=version, fresh=fresh)
        register(store, version)
    return {}


def run(folder: str, command: str) -> dict[str, float | str]:
    """One command, in a process of its own; what it holds at most."""
    from gristmill.release.ship import ship
    from gristmill.release.versions import diff, retain, verify
    from gristmill.store import Store

    store = Store(folder)
    store.blobs = Imagined(folder)
    start = time.process_time()
    if command == "verify":
        problems = verify(store, "v1")
        said = f"{len(problems)} problems"
        if problems:
            raise SystemExit(f"a version that is whole has problems: {problems[:3]}")
    elif command == "diff":
        found = diff(store, "v1", "v2")
        text = json.dumps(found)  # as the command prints it
        said = f"{len(found['shards']['added']):,} shards added, {len(text) >> 20} MB of answer"
        if len(found["shards"]["added"]) != SHARDS * FRESH // SOURCES:
            raise SystemExit(f"the difference is wrong: {found['summary']}")
    elif command == "ship":
        with tempfile.TemporaryDirectory() as other:
            shipped = ship(store, "v1", Store(other), dry_run=True)
        said = f"would copy {shipped.shards_copied:,} shards"
        if shipped.shards_copied != SHARDS:
            raise SystemExit(said)
    else:
        done = retain(store, 1, dry_run=True)
        said = f"would delete {done.shards_deleted:,} shards"
        if done.shards_deleted != SHARDS * FRESH // SOURCES:
            raise SystemExit(said)
    return {"peak_gb": _peak_gb(), "seconds": time.process_time() - start, "said": said}


def rebuild(rows: int) -> dict[str, float | int]:
    """CPU seconds of a manifest with another threshold and an opt-out, over a catalogue of so many rows."""
    from gristmill.mixture import recipe as recipes
    from gristmill.release.manifest import build_manifest
    from gristmill.release.tombstones import forget
    from tests.release.world import World, many

    def build(version: str, at: float) -> float:
        recipe = recipes.parse({
            "sources": {n: {"where": f"ensemble_percentile {s} {at}"} for n, s in (("hi", ">="), ("lo", "<"))},
            "phases": [{"name": "p", "tokens": 20_000, "seq_len": 64, "samples_per_step": 8,
                        "weights": {"hi": "0.5", "lo": "0.5"}}],
        })  # fmt: skip
        start = time.process_time()
        build_manifest(world.store, world.plan, world.site, recipe, version)
        return time.process_time() - start

    with tempfile.TemporaryDirectory(prefix="bench-versions-") as folder:
        world = World.make(Path(folder), buckets=BUCKETS)
        world.ready("A", many(8))
        _fill(world, "A", rows)

        def shards() -> dict[str, int]:
            return {p: world.store.blobs.local(p).stat().st_mtime_ns for p, _ in world.store.blobs.list("shards")}

        build("v1", 0.5)
        before = shards()
        forget(world.store, "h3.example.org")
        seconds = min(build(f"v{i}", 0.4 + i / 50) for i in (2, 3))
        after = shards()
        written = sum(after[p] != t for p, t in before.items()) + len(set(after) - set(before))
    return {"seconds": seconds, "written": written, "peak_gb": _peak_gb()}


def _fill(world, crawl: str, rows: int) -> None:
    """Commit catalogue, records and shards of a crawl anew, with so many documents of many hosts, made from columns."""
    import pyarrow as pa

    from gristmill import identity, schemas

    rng = np.random.default_rng(0)
    hosts = [f"h{i}.example.org" for i in range(4000)]
    ids = [identity.container_id(host) for host in hosts]
    home = np.array([identity.host_bucket(i, BUCKETS) for i in ids])
    names = [sha256(b"%d" % i).hexdigest() for i in range(-(-rows // A_SHARD))]
    for bucket in range(BUCKETS):
        n = rows // BUCKETS
        host = rng.choice(np.flatnonzero(home == bucket), n)
        heads = np.sort(rng.integers(0, 2**63, n).astype(np.uint64))
        raw = np.zeros((n, 2), ">u8")
        raw[:, 0], raw[:, 1] = heads, np.arange(n) * BUCKETS + bucket
        keys = pa.FixedSizeBinaryArray.from_buffers(schemas.ID, n, [None, pa.py_buffer(raw.tobytes())])
        number = np.arange(n) * BUCKETS + bucket  # over the whole crawl: its shard, and its place there
        same = {
            "crawl": pa.array([crawl] * n), "doc_id": keys, "record_id": keys, "dup_cluster_id": keys,
            "host": pa.array(hosts).take(pa.array(host)), "host_id": pa.array(np.array(ids, np.uint64)[host]),
            "url": pa.array([f"https://{hosts[h]}/{i}" for h, i in zip(host.tolist(), number.tolist(), strict=True)]),
            "url_hash": pa.array(heads),
            "fetch_ts": pa.array(np.full(n, 1_770_000_000 * 10**6), pa.timestamp("us", "UTC")),
            "source_tier": pa.array(["cc"] * n), "robots_state": pa.array(["allowed"] * n),
        }  # fmt: skip
        of_record = {"first": pa.array(np.ones(n, bool)), "trap": pa.array(np.zeros(n, bool))}
        of_document = {
            "lang": pa.array(["eng"] * n), "survives": pa.array(np.ones(n, bool)),
            "shard": pa.array(names).take(pa.array(number // A_SHARD)),
            "ordinal": pa.array((number % A_SHARD).astype(np.uint32)),
            "stratum": pa.array(["cc.eng.q2.len0"] * n), "n_tokens": pa.array(rng.integers(50, 900, n)),
            "length_bucket": pa.array(np.zeros(n, np.int8)), "contaminated": pa.array(np.zeros(n, bool)),
            "benchmarks": pa.array([[]] * n, pa.list_(pa.string())),
            "ensemble_percentile": pa.array(rng.random(n).astype(np.float32)),
        }  # fmt: skip
        for asset, schema, columns in (("catalogue_records", schemas.CATALOGUE_RECORDS, {**same, **of_record}),
                                       ("catalogue", schemas.CATALOGUE, {**same, **of_document})):
            part = world.part(asset, crawl, bucket)
            known = {f.name: columns[f.name] if f.name in columns else pa.nulls(n, f.type) for f in schema}
            extra = {"ensemble_percentile": columns["ensemble_percentile"]} if asset == "catalogue" else {}
            part.write(pa.table({**known, **extra}), schema, extra=bool(extra))
            world.commit(part)
        own = names[bucket::BUCKETS]
        part = world.part("shards", crawl, bucket)
        part.write(schemas.from_rows([
            {"crawl": crawl, "stratum": "cc.eng.q2.len0", "hash": h, "path": f"shards/cc.eng.q2.len0/{h}/shard_00000",
             "n_docs": A_SHARD, "n_tokens": 900 * A_SHARD, "n_bytes": 3600 * A_SHARD} for h in own], schemas.SHARDS))
        world.commit(part)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--lay"]:
        print(json.dumps(lay(sys.argv[2])))
    elif sys.argv[1:2] == ["--run"]:
        print(json.dumps(run(*sys.argv[2:4])))
    elif sys.argv[1:2] == ["--rebuild"]:
        print(json.dumps(rebuild(int(sys.argv[2]))))
    else:
        main()
