"""What is broken now: each standing check finds its fault in a real store, and says nothing of a sound one."""

import datetime as dt
import hashlib
import json
import time
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gristmill import schemas
from gristmill.acquire import robots_sweep
from gristmill.cli import main
from gristmill.fingerprint import canonical_json
from gristmill.funnel import BY_NAME, Plan
from gristmill.identity import host_bucket, host_id
from gristmill.observe import history
from gristmill.observe.standing import CHECKS, but_going, render, standing
from gristmill.params import GridParams, PipelineParams, SiteConfig
from gristmill.partition import Partition
from gristmill.registry import Registry
from gristmill.release import tombstones
from gristmill.release.policy import Licence, put_licence
from gristmill.release.standing import register
from gristmill.store import Store

PARAMS = PipelineParams(grid=GridParams(host_buckets=4))
PLAN = Plan(PARAMS)
NOW = dt.datetime.now(dt.UTC)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


def commit(store, asset, crawl, bucket=None, *, ended=0.0, table=None, **counts):
    Registry(store).register(crawl)
    part = Partition(store, PLAN, replace(BY_NAME[asset], inputs=()), crawl, bucket, SiteConfig())
    if table is not None:
        part.write(table, extra=True)
    part.report(**counts)
    part.commit(time.time())
    if ended:
        run = store.run_info(part.key()) | {"ended": ended}
        store.blobs.put(f"{part.key().path}/_run.json", json.dumps(run).encode())
    return part


def report(store, crawl, *, came=1000, aside=5, days_ago=0.0):
    Registry(store).register(crawl)
    part = Partition(store, PLAN, replace(BY_NAME[history.REPORT], inputs=()), crawl, None, SiteConfig())
    cells = {"0": [came, came - aside, 0, 0, 0, 1.0]}
    part.write_bytes(canonical_json({"crawl": crawl, "stages": {
        "crawl_slices": {"buckets": cells, "reasons": {"damaged": aside}}}}), role="data", suffix=".json")
    part.commit(time.time())
    run = store.run_info(part.key()) | {"ended": NOW.timestamp() - days_ago * 86_400}
    store.blobs.put(f"{part.key().path}/_run.json", json.dumps(run).encode())


def look(store, name, now=NOW):
    return CHECKS[name](store, PLAN, now)


def test_an_empty_store_and_a_sound_one_are_fine(store):
    assert [s.name for s in standing(store, PLAN, NOW) if not s.passed] == []
    report(store, "C-1", days_ago=30)
    report(store, "C-2")
    assert [s.name for s in standing(store, PLAN, NOW) if not s.passed] == []


def test_partial_and_stopped_crawls_are_named(store):
    report(store, "C-1")
    for bucket in range(4):
        commit(store, "crawl_slices", "C-2", bucket)
    found = look(store, "partitions")
    assert not found.passed
    assert found.facts["crawls"] == {"C-2": ["stopped after crawl_slices"]}
    assert but_going(found, []).passed, "made a moment ago: nobody is paged while a run goes on elsewhere"
    later = NOW + dt.timedelta(hours=3)
    assert but_going(look(store, "partitions", later), ["C-2"]).passed, "a run is known to take it on"
    assert not but_going(look(store, "partitions", later), ["C-1"]).passed
    for bucket in range(3):
        commit(store, "raw_warc", "C-2", bucket)
    assert look(store, "partitions", later).facts["crawls"] == {"C-2": ["raw_warc 3 of 4"]}
    report(store, "C-2")  # finished
    assert look(store, "partitions", later).passed


def test_a_crawl_that_was_whole_by_other_parameters_is_old_and_not_broken(store):
    """Else every change of a parameter would page for every older crawl, each day until it is made again."""
    for bucket in range(4):
        commit(store, "crawl_slices", "C-1", bucket, ended=NOW.timestamp() - 60)
    report(store, "C-1")
    other = Plan(PARAMS.model_copy(update={"observe": PARAMS.observe.model_copy(update={"trailing": 4})}))
    assert other.fingerprints[history.REPORT] != PLAN.fingerprints[history.REPORT]
    later = NOW + dt.timedelta(hours=3)
    found = CHECKS["partitions"](store, other, later)
    assert found.passed
    assert "made by other parameters than today's: C-1" in found.why
    assert "whole" not in found.why
    assert but_going(found, []).why == found.why
    commit(store, "raw_warc", "C-1", 0, ended=NOW.timestamp() + 60)  # it is begun anew, and stops
    assert CHECKS["partitions"](store, other, later).facts["crawls"] == {"C-1": ["raw_warc 1 of 4"]}


def test_a_site_without_a_crawl_or_with_one_that_was_never_begun_is_not_called_whole(store):
    assert "no crawl has been taken yet" in look(store, "partitions").why
    Registry(store).register("C-1")
    found = look(store, "partitions")
    assert (found.passed, found.facts["not_made"]) == (True, ["C-1"])
    assert "of C-1" in found.why
    assert {look(store, n).why for n in ("quarantine", "freshness")} == {
        "no crawl has been finished by today's parameters"}
    report(store, "C-1")
    assert look(store, "partitions").why == "all crawls are whole"


def test_growing_quarantine_is_told_and_noise_is_not(store):
    rng = np.random.default_rng(1)
    for n in range(4):
        report(store, f"C-{n}", came=1000, aside=int(rng.poisson(5)))
    assert look(store, "quarantine").passed
    report(store, "C-4", came=1000, aside=60)
    assert not look(store, "quarantine").passed
    assert "C-4" in look(store, "quarantine").why


def test_a_contract_near_its_end_is_told_by_the_day(store):
    put_licence(store, Licence(license_id="acme", expires=(NOW + dt.timedelta(days=50)).date()))
    put_licence(store, Licence(license_id="public"))
    found = look(store, "contracts")
    assert not found.passed
    assert list(found.facts["expiring"]) == ["acme"]
    assert look(store, "contracts", NOW - dt.timedelta(days=30)).passed


def test_a_family_that_stopped_coming_is_old_and_a_single_delivery_is_not(store):
    report(store, "LIC-acme-1", days_ago=400)
    report(store, "CC-1", days_ago=130)
    report(store, "CC-2", days_ago=100)
    found = look(store, "freshness")
    assert not found.passed
    assert "CC-#" in found.why
    assert "LIC" not in found.why
    report(store, "CC-3", days_ago=3)
    assert look(store, "freshness").passed


SHARD = "aa" * 32


def version(store, url="https://shut.example/a", ordinals=(0,)):
    """A version that shows one page, by hand: a catalogue row, its shard, a selection."""
    bucket = host_bucket(host_id(url), 4)
    for number in range(4):
        rows = [{"crawl": "C-1", "doc_id": b"d" * 16, "record_id": b"r" * 16, "url": url, "host": url.split("/")[2],
                 "shard": SHARD, "ordinal": 0}] if number == bucket else []
        commit(store, "catalogue", "C-1", number, table=schemas.from_rows(rows, schemas.CATALOGUE))
        commit(store, "shards", "C-1", number, table=schemas.from_rows([], schemas.SHARDS))
    chosen = pa.table({"source": ["web"], "shard": [SHARD],
                       "ordinals": pa.array([list(ordinals)], pa.list_(pa.uint32()))})
    sink = pa.BufferOutputStream()
    pq.write_table(chosen, sink)
    data = sink.getvalue().to_pybytes()
    store.blobs.put("manifests/v1/selection.parquet", data)
    store.blobs.put(f"shards/s/{SHARD}/shard_00000.bin", b"\0" * 40)
    for suffix in ("idx", "docs", "meta"):
        store.blobs.put(f"shards/s/{SHARD}/shard_00000.{suffix}", b"")
    entry = {"stratum": "s", "hash": SHARD, "path": f"shards/s/{SHARD}/shard_00000", "n_docs": 1, "n_tokens": 10,
             "selected_docs": 1, "selected_tokens": 10}
    manifest = {"format": 1, "kind": "gristmill-manifest", "version": "v1", "crawls": ["C-1"],
                "policy": {"robots_agents": ["CCBot"]}, "registries": {"tombstones": tombstones.read(store).digest},
                "selection": {"path": "manifests/v1/selection.parquet", "sha256": hashlib.sha256(data).hexdigest()},
                "sources": {"web": {"layouts": {}, "shards": [entry]}}}
    store.blobs.put("manifests/v1/manifest.json", canonical_json(manifest))
    register(store, "v1")
    return bucket


def closes(store, bucket, authority, body):
    """What a sweep that found this robots.txt leaves behind."""
    row = {"crawl": robots_sweep.SWEEP, "authority": authority, "host_id": host_id(authority + "/"), "fetch_ts": NOW,
           "http_status": 200, "record_id": b"v" * 16, "body": body}
    for path, rows, schema in (
        (robots_sweep.versions_path(bucket), [row], schemas.ROBOTS),
        (f"{robots_sweep.FOLDER}/checked/{bucket:04d}.parquet", [
            {"authority": authority, "checked_ts": NOW, "status": 200, "pages": 1, "closed": 1, "closed_since": NOW}],
         robots_sweep.CHECKED),
    ):
        sink = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), sink)
        store.blobs.put(path, sink.getvalue().to_pybytes())


def test_a_host_that_opted_out_but_is_still_shown(store):
    bucket = version(store)
    assert look(store, "opt_outs").passed
    closes(store, bucket, "https://shut.example", b"User-agent: *\nDisallow: /b\n")
    assert look(store, "opt_outs").passed  # it closes other pages than the one shown
    closes(store, bucket, "https://shut.example", b"User-agent: *\nDisallow: /\n")
    found = look(store, "opt_outs")
    assert not found.passed
    assert found.facts["hosts"] == {"shut.example": 1}


def test_a_page_that_no_version_shows_is_no_matter(store):
    bucket = version(store, ordinals=(5,))
    closes(store, bucket, "https://shut.example", b"User-agent: *\nDisallow: /\n")
    assert look(store, "opt_outs").passed


def test_a_tombstone_newer_than_the_version_is_told(store):
    version(store)
    tombstones.forget(store, "shut.example")
    assert not look(store, "opt_outs").passed


def test_missing_shards_are_told(store):
    version(store)
    assert look(store, "shards").passed
    store.blobs.delete(f"shards/s/{SHARD}/shard_00000.bin")
    found = look(store, "shards")
    assert not found.passed
    assert "missing" in found.why
    assert found.likely_causes[0] == "files deleted or damaged outside gristmill"
    assert "gristmill manifest ship v1" in found.likely_causes[1], "no crawl here makes it"
    tombstones.mark_purged(store, "registry/tombstones/url-1.json", [f"shards/s/{SHARD}/shard_00000"])
    found = look(store, "shards")
    assert "deleted because of registry/tombstones/url-1.json" in found.why
    assert "outside" not in " ".join(found.likely_causes)  # the tombstone is the only cause that is named


def test_shards_that_no_version_names_are_a_note_that_says_how_they_go(store):
    rows = [{"crawl": "C-0", "hash": "bb"}, {"crawl": "C-0", "hash": "cc"}]
    commit(store, "shards", "C-0", 0, table=schemas.from_rows(rows, schemas.SHARDS))
    version(store)
    found = look(store, "shards")
    assert found.passed
    assert "2 of C-0" in found.why
    assert "manifest retain N" in found.why
    assert found.facts["unadmitted"] == {"C-0": 2}


def test_status_prints_a_line_a_check_and_its_exit_code_says_whether_all_is_well(store, tmp_path, capsys):
    file = tmp_path / "pipeline.yaml"
    file.write_text(f"site: {{store: {store.root}}}\nparams: {{grid: {{host_buckets: 4}}}}\n")
    assert main(["status", "--pipeline", str(file)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(CHECKS)
    commit(store, "crawl_slices", "C-1", 0, ended=1.0)
    assert main(["status", "--pipeline", str(file)]) == 1
    out = capsys.readouterr().out
    assert "BAD  partitions  C-1: crawl_slices 1 of 4" in out
    assert "perhaps: a run failed" in out


def test_dashboard_says_where_the_page_is_or_writes_it(store, tmp_path, capsys):
    file = tmp_path / "pipeline.yaml"
    file.write_text(f"site: {{store: {store.root}}}\nparams: {{grid: {{host_buckets: 4}}}}\n")
    assert main(["dashboard", "--pipeline", str(file)]) == 1
    assert "there is no report" in capsys.readouterr().err
    Registry(store).register("C-1")
    part = Partition(store, PLAN, replace(BY_NAME[history.REPORT], inputs=()), "C-1", None, SiteConfig())
    part.write_bytes(b"{}", role="data", suffix=".json")
    part.write_bytes(b"<p>page</p>", role="report", suffix=".html")
    part.commit(time.time())
    assert main(["dashboard", "--pipeline", str(file)]) == 0
    assert capsys.readouterr().out.strip().endswith(".html")
    assert main(["dashboard", "C-1", "--out", str(tmp_path / "page.html"), "--pipeline", str(file)]) == 0
    assert (tmp_path / "page.html").read_bytes() == b"<p>page</p>"


def test_rendering_tells_what_to_do_only_of_what_is_bad(store):
    lines = render(standing(store, PLAN, NOW)).splitlines()
    assert all(line.startswith("ok ") for line in lines)
