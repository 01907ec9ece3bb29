"""The intake's stages end to end: nothing lost without a record of it, and the same bytes whatever the order."""

import gzip
import hashlib
import json
import os
import random
import resource
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from fastwarc.warc import ArchiveIterator as FastArchive

from gristmill import identity, schemas
from gristmill.acquire import holdout, landing
from gristmill.acquire.records import RawWarc, read_payloads
from gristmill.blobs import open_blobs
from gristmill.errors import DamagedPartitionError, HoldoutError, LandingError
from gristmill.params import AcquireParams, GridParams, PipelineParams, UniqueParams
from gristmill.runner import run_funnel
from gristmill.store import Store
from tests.acquire.test_warc import flipped
from tests.acquire.warcs import World, http, page, record

INTAKE = ["landing", "crawl_slices", "raw_warc", "unique_records"]
SHARED = Path(__file__).parents[2].parent / "shared" / "data"
needs_data = pytest.mark.skipif(not SHARED.is_dir(), reason="the real test data is not at ../shared/data")
BUCKETS = 3


def params(**acquire):
    return PipelineParams(grid=GridParams(host_buckets=BUCKETS), acquire=AcquireParams(**acquire),
                          unique=UniqueParams(web_sample_modulus=1 << 60))


def pages(count, crawl="C", hosts=11, salt=""):
    return [record(f"http://host{n % hosts}.example/{n}", http(page(f"{salt} page {n} " + "word " * (n % 300))))
            for n in range(count)]


def lay(world, crawl, files):
    folder = world.folder / "landing" / "crawl-data" / crawl
    folder.mkdir(parents=True, exist_ok=True)
    listed = []
    for name, data in files:
        path = f"crawl-data/{crawl}/segments/1/{'wet' if '.wet.' in name else 'warc'}/{name}"
        (world.folder / "landing" / path).parent.mkdir(parents=True, exist_ok=True)
        target = world.folder / "landing" / path
        if not target.exists() or target.read_bytes() != data:
            target.write_bytes(data)
        listed.append(path)
    (folder / landing.LISTING).write_bytes(gzip.compress("\n".join(listed).encode()))


def run(world, crawl, workers=1, stages=INTAKE):
    return list(run_funnel(world.store, world.plan, world.site, crawl, workers=workers, stages=stages))


def digests_of(world, crawl, stage):
    return [world.store.require(world.part(stage, crawl, b).key()).digest for b in range(BUCKETS)]


def index_of(world, crawl):
    return pa.concat_tables([world.store.read(world.part("raw_warc", crawl, b).key()) for b in range(BUCKETS)])


def verdicts_of(world, crawl):
    return pa.concat_tables([world.store.read(world.part("unique_records", crawl, b).key()) for b in range(BUCKETS)])


def test_every_record_is_somewhere_and_every_payload_comes_back(tmp_path):
    world = World(tmp_path, params())
    made = pages(60)
    members = [gzip.compress(m, mtime=0) for m in made]
    members[7] = flipped(members[7])
    odd = [record("http://x.example/", b"GET / HTTP/1.1\r\n\r\n", kind="request"), record(None, http(page())),
           record("http://wet.example/", b"text", kind="conversion"),
           record("http://late.example/", http(page()), date="?")]
    lay(world, "C", [("a.warc.gz", b"".join(members[:40])), ("b.warc.gz", b"".join(members[40:])),
                     ("c.warc", b"".join(odd)), ("d.warc.wet.gz", b"never opened")])
    run(world, "C")
    index = index_of(world, "C")
    assert sorted(index["url"].to_pylist()) == sorted(f"http://host{n % 11}.example/{n}" for n in range(60) if n != 7)
    for b in range(BUCKETS):
        rows = list(read_payloads(world.part("text", "C", b)))
        assert [r["record_id"] for r, _ in rows] == sorted(r["record_id"] for r, _ in rows)
        for row, payload in rows:
            assert hashlib.sha1(payload).digest() == row["payload_digest"]
            assert identity.host_bucket(row["host_id"], BUCKETS) == b
    manifests = [world.store.require(world.part("crawl_slices", "C", b).key()) for b in range(BUCKETS)]
    reasons = {}
    for m in manifests:
        for reason, count in m.counts.reasons.items():
            reasons[reason] = reasons.get(reason, 0) + count
    assert reasons == {"damaged": 1, "refused": 2, "no_target_uri": 1, "no_date": 1}
    listed = pa.concat_tables([world.store.read(world.part("crawl_slices", "C", b).key(), role="quarantine")
                               for b in range(BUCKETS)]).to_pylist()
    where = {(r["reason"], Path(r["warc_path"]).name): r for r in listed}
    assert set(where) == {("damaged", "a.warc.gz"), ("refused", "c.warc"), ("refused", "d.warc.wet.gz"),
                          ("no_target_uri", "c.warc"), ("no_date", "c.warc")}
    lost = where["damaged", "a.warc.gz"]
    assert (lost["offset"], lost["length"]) == (sum(map(len, members[:7])), len(members[7]))
    assert where["no_date", "c.warc"]["url"] == "http://late.example/"


def test_order_of_files_workers_pieces_and_runs_change_nothing(tmp_path):
    made = [gzip.compress(m, mtime=0) for m in pages(200)]
    files = [(f"f{i}.warc.gz", b"".join(made[i * 40 : i * 40 + 40])) for i in range(5)]
    shapes = [({}, 1), ({"range_bytes": 5000}, 3), ({"run_bytes": 4096}, 1),
              ({"range_bytes": 4097, "run_bytes": 10_000}, 1)]
    seen = set()
    for number, (knobs, workers) in enumerate(shapes):
        world = World(tmp_path / str(number), params(**knobs))
        random.Random(number).shuffle(files)
        lay(world, "C", files)
        run(world, "C", workers)
        manifests = [world.store.require(world.part("raw_warc", "C", b).key()) for b in range(BUCKETS)]
        seen.add(tuple(f.sha256 for m in manifests for f in m.files))
    assert len(seen) == 1


def test_a_record_that_comes_twice_is_one_and_counted(tmp_path):
    world = World(tmp_path, params())
    data = b"".join(gzip.compress(m, mtime=0) for m in pages(10))
    lay(world, "C", [("b.warc.gz", data), ("a.warc.gz", data)])
    run(world, "C")
    index = index_of(world, "C")
    assert index.num_rows == 10
    assert {Path(p).name for p in index["warc_path"].to_pylist()} == {"a.warc.gz"}
    counts = [world.store.require(world.part("raw_warc", "C", b).key()).counts for b in range(BUCKETS)]
    assert sum(c.reasons.get("duplicate_record", 0) for c in counts) == 10
    listed = pa.concat_tables([world.store.read(world.part("raw_warc", "C", b).key(), role="quarantine")
                               for b in range(BUCKETS)])
    assert {Path(p).name for p in listed["warc_path"].to_pylist()} == {"b.warc.gz"}


def test_a_partition_is_a_warc_that_fastwarc_reads(tmp_path):
    world = World(tmp_path, params())
    lay(world, "C", [("a.warc.gz", b"".join(gzip.compress(m) for m in pages(40)))])
    run(world, "C")
    urls = []
    for b in range(BUCKETS):
        raw = RawWarc(world.store, world.part("raw_warc", "C", b).key())
        path = world.folder / "store" / raw.path
        for r in FastArchive(str(path), parse_http=True):
            assert r.verify_payload_digest()
            urls.append(r.headers["WARC-Target-URI"])
    assert sorted(urls) == sorted(index_of(world, "C")["url"].to_pylist())


def test_an_empty_bucket_writes_its_files(tmp_path):
    world = World(tmp_path, params())
    lay(world, "C", [("a.warc.gz", gzip.compress(pages(1)[0]))])
    run(world, "C")
    rows = [world.store.read(world.part("unique_records", "C", b).key()).num_rows for b in range(BUCKETS)]
    assert sorted(rows) == [0, 0, 1]
    assert sum(len(list(read_payloads(world.part("text", "C", b)))) for b in range(BUCKETS)) == 1


def test_a_second_run_computes_nothing_and_a_changed_listing_everything(tmp_path):
    world = World(tmp_path, params())
    files = [("a.warc.gz", gzip.compress(pages(3)[0])), ("b.warc.gz", gzip.compress(pages(3)[1]))]
    lay(world, "C", files)
    run(world, "C")
    assert not any(m.computed for _, m in run(world, "C"))
    lay(world, "C", files[::-1])
    assert not any(m.computed for _, m in run(world, "C")), "only the order of the listing changed"
    lay(world, "C", [*files, ("c.warc.gz", gzip.compress(pages(3)[2]))])
    assert {s.name for s, m in run(world, "C") if m.computed} >= {"landing", "crawl_slices"}
    assert index_of(world, "C").num_rows == 3


def test_a_file_mended_in_place_is_read_again_and_a_touched_one_changes_nothing_after(tmp_path):
    world = World(tmp_path, params())
    good = b"".join(gzip.compress(m, mtime=0) for m in pages(6))
    bad = bytearray(good)
    bad[-40] ^= 0xFF  # in the last member's compressed text
    lay(world, "C", [("a.warc.gz", bytes(bad)), ("b.warc.gz", gzip.compress(pages(7)[6], mtime=0))])
    run(world, "C")
    assert index_of(world, "C").num_rows == 6, "one of seven is damaged"
    lay(world, "C", [("a.warc.gz", good), ("b.warc.gz", gzip.compress(pages(7)[6], mtime=0))])
    computed = [(s.name, m.bucket) for s, m in run(world, "C") if m.computed]
    assert index_of(world, "C").num_rows == 7, "the mended file has the size of the damaged one"
    assert len([b for s, b in computed if s == "crawl_slices"]) == 1, "only the slice that reads it"
    os.utime(next((world.folder / "landing").rglob("a.warc.gz")), ns=(1, 1))
    assert {s.name for s, m in run(world, "C") if m.computed} == {"landing", "crawl_slices"}
    assert not any(m.computed for _, m in run(world, "C"))


def test_recrawls_over_two_crawls_and_what_goes_stale(tmp_path):
    world = World(tmp_path, params())
    lay(world, "C1", [("a.warc.gz", b"".join(gzip.compress(m) for m in pages(20)))])
    later = [record(f"http://host{n % 11}.example/{n}", http(page(f" page {n} " + "word " * (n % 300))),
                    date="2026-07-01T00:00:00Z") for n in range(10, 30)]
    lay(world, "C2", [("a.warc.gz", b"".join(gzip.compress(m) for m in later))])
    world.register("C1", "C2")
    run(world, "C2")
    alone = digests_of(world, "C2", "unique_records")
    run(world, "C1")
    again = run(world, "C2")
    assert {s.name for s, m in again if m.computed} == {"unique_records"}, "an earlier crawl came after"
    assert digests_of(world, "C2", "unique_records") != alone
    table = verdicts_of(world, "C2")
    assert pc.sum(table["kept"]).as_py() == 10
    assert set(table["reason"].to_pylist()) == {None, "recrawl_earlier"}
    assert set(table["of_crawl"].to_pylist()) == {None, "C1"}
    first = index_of(world, "C1")["record_id"].to_pylist()
    assert all(r in first for r in table["of_record_id"].to_pylist() if r is not None)
    assert not any(m.computed for _, m in run(world, "C2"))


def test_a_file_that_goes_after_the_listing_was_taken(tmp_path):
    world = World(tmp_path, params())
    lay(world, "C", [("a.warc.gz", gzip.compress(pages(1)[0]))])
    run(world, "C", stages=["landing"])
    next((world.folder / "landing").rglob("a.warc.gz")).unlink()
    with pytest.raises(LandingError, match=r"a\.warc\.gz"):
        run(world, "C")


def test_a_damaged_frame_is_found_where_it_is_copied_and_where_it_is_read(tmp_path):
    world = World(tmp_path, params())
    lay(world, "C", [("a.warc.gz", b"".join(gzip.compress(m) for m in pages(30)))])
    run(world, "C")

    def damage(stage, b):
        key = world.part(stage, "C", b).key()
        path = world.folder / "store" / key.path / world.store.require(key).role("warc")[0].name
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 0xFF
        path.write_bytes(data)

    damage("raw_warc", 1)
    with pytest.raises(DamagedPartitionError, match="--stage raw_warc --force"):
        list(read_payloads(world.part("text", "C", 1)))
    for b in range(BUCKETS):
        if world.store.require(world.part("crawl_slices", "C", b).key()).counts.docs_out:
            damage("crawl_slices", b)
    parts = [world.part("raw_warc", "C", b) for b in range(BUCKETS)]
    with pytest.raises(DamagedPartitionError, match="--stage crawl_slices --force"):
        list(map(parts[0].stage.load(), parts))


def test_read_payloads_takes_rows_ids_and_crawls(tmp_path):
    world = World(tmp_path, params())
    for crawl in ("C1", "C2"):
        lay(world, crawl, [("a.warc.gz", b"".join(gzip.compress(m) for m in pages(30, salt=crawl)))])
        run(world, crawl)
    part = world.part("text", "C2", 0)
    index = part.read("raw_warc")
    wanted = set(index["record_id"].to_pylist()[::3])
    assert {r["record_id"] for r, _ in read_payloads(part, record_ids=wanted)} == wanted
    assert [r["record_id"] for r, _ in read_payloads(part, index.slice(1, 2))] == index["record_id"].to_pylist()[1:3]
    assert all(b"C1" in p for _, p in read_payloads(part, crawl="C1", bucket=1))


def test_holdout_stage_pins_what_extraction_needs(tmp_path):
    world = World(tmp_path, params())
    part = world.part("eval_holdout", None)
    with pytest.raises(HoldoutError, match="freeze the benchmarks first"):
        run(world, "C", stages=["eval_holdout"])
    new = holdout.freeze(world.site.holdout, {"b": [{"q": "text"}]})
    run(world, "C", stages=["eval_holdout"])
    summary = json.loads(world.store.read_file(part.key(), world.store.require(part.key()).role("data")[0]))
    assert summary["holdout_hash"] == new
    assert world.store.require(part.key()).state == {"holdout_hash": new}
    assert not run(world, "C", stages=["eval_holdout"])[0][1].computed
    (world.folder / "holdout" / holdout.MANIFEST).unlink()
    with pytest.raises(HoldoutError):
        run(world, "C", stages=["eval_holdout"])


@pytest.mark.service
def test_landing_and_store_on_s3_give_the_same_bytes(tmp_path, s3_server, monkeypatch):
    local = World(tmp_path, params(run_bytes=10_000))
    lay(local, "C", [("a.warc.gz", b"".join(gzip.compress(m, mtime=0) for m in pages(40))), ("b.warc", pages(41)[40])])
    for key, value in s3_server.environment().items():
        monkeypatch.setenv(key, value)
    remote = World(tmp_path / "none", params(run_bytes=10_000))
    remote.site = remote.site.model_copy(update={"landing": "s3://mill/intake/landing"})
    remote.store = Store("s3://mill/intake/store", s3_server.options())
    place = open_blobs("s3://mill/intake/landing", s3_server.options())
    for path in sorted((local.folder / "landing").rglob("*")):
        if path.is_file():
            place.put(path.relative_to(local.folder / "landing").as_posix(), path.read_bytes())
    run(local, "C")
    run(remote, "C")
    for stage in INTAKE[1:]:
        assert digests_of(local, "C", stage) == digests_of(remote, "C", stage)
    ours = [(r["url"], p) for b in range(BUCKETS) for r, p in read_payloads(local.part("text", "C", b))]
    theirs = [(r["url"], p) for b in range(BUCKETS) for r, p in read_payloads(remote.part("text", "C", b))]
    assert ours == theirs
    assert len(ours) == 41


MEMORY = """
import resource, sys
from gristmill.params import *
from gristmill.runner import run_funnel
sys.path.insert(0, ".")
from tests.acquire.test_stages import World, params, INTAKE
from pathlib import Path
world = World(Path(sys.argv[1]), params(range_bytes=1 << 20, run_bytes=1 << 20))
base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
list(run_funnel(world.store, world.plan, world.site, "C", workers=1, stages=INTAKE))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base)
"""


@pytest.mark.slow
def test_memory_is_bounded_whatever_the_size_of_a_file(tmp_path):
    """120 MB of incompressible pages in one file and one host: the worker grows by far less than the file."""
    world = World(tmp_path, params())
    with (tmp_path / "big.warc.gz").open("wb") as out:
        for n in range(1200):
            block = http(page() + hashlib.shake_256(str(n).encode()).digest(100_000))
            out.write(gzip.compress(record(f"http://one.example/{n}", block), 1))
    landing.land([tmp_path / "big.warc.gz"], "C", world.folder / "landing")
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", MEMORY, str(tmp_path)], cwd=root, capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) * 1024 < 60 << 20
    assert index_of(World(tmp_path, params(range_bytes=1 << 20, run_bytes=1 << 20)), "C").num_rows == 1200


@pytest.mark.shared
@needs_data
def test_the_real_page_sets_go_through(tmp_path):
    world = World(tmp_path, params())
    files = sorted((SHARED / "02_extraction").glob("*.warc.gz"))
    landing.land(files, "GOLD-1", world.folder / "landing")
    run(world, "GOLD-1", 2)
    gold = {}
    for path in sorted((SHARED / "02_extraction").glob("*.gold.jsonl.gz")):
        for line in gzip.decompress(path.read_bytes()).splitlines():
            one = json.loads(line)
            gold[one["warc"], one["offset"]] = one
    assert len(gold) == 760
    found = 0
    for b in range(BUCKETS):
        for row, payload in read_payloads(world.part("text", "GOLD-1", b)):
            one = gold[Path(row["warc_path"]).name, row["offset"]]
            assert hashlib.sha256(payload).hexdigest() == one["html_sha256"]
            assert (row["url"], row["length"]) == (one["url"].strip(), one["length"])
            found += 1
    assert found == 760


@pytest.mark.shared
@needs_data
def test_every_real_warc_goes_through_and_nothing_is_lost_unseen(tmp_path):
    world = World(tmp_path, params())
    files = [p for p in sorted((SHARED / "01_warc").rglob("*")) if p.is_file() and not landing.refusal(p.name)]
    files += sorted((SHARED / "08_robustness/bombs").glob("*.warc.gz"))
    assert len(files) >= 28
    landing.land(files, "REAL-1", world.folder / "landing")
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss  # of what other tests started in this process
    run(world, "REAL-1", 2)
    index = index_of(world, "REAL-1")
    schemas.check(index, schemas.RAW_INDEX, "raw_index")
    assert index.num_rows > 150
    bomb = index.filter(pc.match_substring(index["warc_path"], "200MiB")).to_pylist()
    assert [t for t in bomb[0]["tags"] if t.startswith("inflate_")]
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    assert peak == before or peak < 1 << 20  # kB: under 1 GB a worker
    reasons = set(verdicts_of(world, "REAL-1")["reason"].to_pylist())
    assert {None, "revisit", "not_text", "status"} <= reasons
    # The same pages lie there as .gz, .lz4 and .zst: intake sees one record, three times.
    counts = [world.store.require(world.part("raw_warc", "REAL-1", b).key()).counts for b in range(BUCKETS)]
    assert sum(c.reasons.get("duplicate_record", 0) for c in counts) >= 32
