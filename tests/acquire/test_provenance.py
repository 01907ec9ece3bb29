"""Provenance joins what intake, extraction and language know, whatever order their rows have."""

import random
import time
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from gristmill import schemas
from gristmill.acquire import provenance as origins
from gristmill.acquire import robots
from gristmill.errors import DamagedPartitionError
from tests.acquire.test_stages import params
from tests.acquire.warcs import World

T0 = datetime(2026, 6, 1, tzinfo=UTC)


def index_rows(n):
    fixed = {"crawl": "C", "host": "h.example", "host_id": 7, "fetch_ts": T0, "source_tier": "cc",
             "content_type": "text/html", "warc_path": "a", "length": 10, "tags": []}
    return [{**fixed, "record_id": i.to_bytes(16, "big"), "url": f"http://h.example/{i}", "url_hash": i,
             "license_id": "L" if i % 2 else None, "offset": i * 10} for i in range(n)]


def tables(n=40, seed=1):
    rng = random.Random(seed)
    index = pa.Table.from_pylist(index_rows(n), schema=schemas.RAW_INDEX)
    kept = rng.sample(range(n), n // 2)
    text = pa.table({"record_id": pa.array([k.to_bytes(16, "big") for k in kept], schemas.ID),
                     "doc_id": pa.array([(k % 7).to_bytes(16, "big") for k in kept], schemas.ID),
                     "source_id": pa.array([f"own/{k}" if k % 3 else None for k in kept], pa.string())})
    rng.shuffle(kept)
    language = pa.table({"record_id": pa.array([k.to_bytes(16, "big") for k in kept], schemas.ID),
                         "lang": pa.array([f"l{k}" for k in kept]),
                         "lang_conf": pa.array([k / 100 for k in kept], pa.float32())})
    return index, text, language, sorted(kept)


def test_each_text_has_its_own_record():
    index, text, language, kept = tables()
    rule = robots.Version("http://h.example", T0, 200, bytes(16), b"User-agent: *\nDisallow: /1")
    said = pa.Table.from_pylist([{"record_id": kept[0].to_bytes(16, "big"), "derived_from": b"p" * 16,
                                  "generator_model_id": "m"}], schema=schemas.ORIGINS)
    found = origins.provenance(index, text, language, "C", robots.Registry([rule]), "CCBot", said)
    rows = schemas.check(found, schemas.PROVENANCE, "provenance").to_pylist()
    assert [int.from_bytes(r["record_id"], "big") for r in rows] == kept
    for r, k in zip(rows, kept, strict=True):
        assert (r["derived_from"], r["generator_model_id"]) == ((b"p" * 16, "m") if k == kept[0] else (None, None))
        assert (r["url"], r["lang"], r["offset"]) == (f"http://h.example/{k}", f"l{k}", k * 10)
        assert r["source_id"] == (f"own/{k}" if k % 3 else None)
        assert r["doc_id"] == (k % 7).to_bytes(16, "big")
        assert r["license_id"] == ("L" if k % 2 else None)
        assert r["robots_state"] == ("disallowed_at_fetch" if str(k).startswith("1") else "allowed")


def test_a_text_without_a_record_is_damage():
    index, text, language, _ = tables()
    with pytest.raises(DamagedPartitionError, match="no record in raw_index"):
        origins.provenance(index.slice(0, 3), text, language, "C", robots.Registry([]), "CCBot",
                           schemas.empty(schemas.ORIGINS))


def test_the_stage_on_an_empty_and_a_full_bucket(tmp_path):
    world = World(tmp_path, params())
    world.register("C")
    index, text, language, kept = tables()
    for bucket, n in ((0, 0), (1, None)):
        made = [("raw_warc", index, schemas.RAW_INDEX, "data"), ("text", text, None, "data"),
                ("language", language, None, "data"),
                ("unique_records", schemas.empty(schemas.ROBOTS), schemas.ROBOTS, "robots")]
        for stage, table, schema, role in made:
            part = world.part(stage, "C", bucket)
            part.write(table.slice(0, n) if n is not None else table, schema or table.schema, role=role)
            part.stage = replace(part.stage, inputs=())  # its own inputs do not exist here
            part.commit(time.time())
        part = world.part("provenance", "C", bucket)
        part.stage.load()(part)
        assert part.info["records"] == (0 if n == 0 else len(kept))
        assert part.info["robots_states"] == ({} if n == 0 else {"unknown": len(kept)})
