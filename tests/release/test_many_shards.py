"""A manifest of very many shards is written and read in columns: memory a shard, and what is said of each."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gristmill.release import selection
from gristmill.release.shard_table import Named, ShardTable
from tests.loader.make import many_shards

RANGES = 16
BUILD = """
import json, sys
from pathlib import Path
from types import SimpleNamespace
import pyarrow.parquet as pq
from gristmill.mixture import recipe as recipes
from gristmill.release import manifest
from gristmill.release.examine import Examined
from gristmill.release.shard_table import ShardTable
from gristmill.store import Store

def mib(which):
    return next(int(r.split()[1]) / 1024 for r in open("/proc/self/status") if r.startswith(which))

folder = Path(sys.argv[1])
recipe = recipes.parse({"sources": {"b": {}, "a": {}}, "phases": [{"name": "p", "tokens": 1, "seq_len": 64,
                        "samples_per_step": 1, "weights": {"a": "0.5", "b": "0.5"}}]})
store, plan = Store(folder / "store"), SimpleNamespace(buckets=int(sys.argv[2]))
before = mib("VmRSS")
examined = Examined(recipe, None, (), {}, {}, {}, ("concat:64",), shards=ShardTable(pq.read_table(folder / "shards")))
counts = manifest._sources(store, plan, examined, str(folder), folder / "selection", folder / "sources")
found = manifest._spliced({"version": "v", "sources": manifest._HERE, "phases": []}, folder / "sources", folder / "out")
print(json.dumps({"counts": counts, "sha256": found, "mib": mib("VmHWM") - before, "peak": mib("VmHWM")}))
"""


def lay(folder: Path, n: int) -> list[str]:
    """``n`` shards, and a selection of all of them in which every third is not whole."""
    hashes = sorted(hashlib.sha256(b"%d" % i).hexdigest() for i in range(n))
    stratum = [f"cc.eng.q{i % 5}.len{i % 4}" for i in range(n)]
    table = pa.table({"hash": hashes, "stratum": stratum,
                      "path": [f"shards/{s}/{h}/shard_{0:05d}" for s, h in zip(stratum, hashes, strict=True)],
                      "n_docs": np.full(n, 2), "n_tokens": np.arange(n)})
    pq.write_table(table.take(pa.array(np.random.default_rng(1).permutation(n))), folder / "shards")
    (folder / "merged").mkdir()
    number = np.array([selection.range_of_shard(h, RANGES) for h in hashes])
    for r in range(RANGES):
        rows = np.flatnonzero(number == r)
        whole = rows % 3 != 0
        pq.write_table(pa.table({
            "part": pa.array(rows % 2, pa.int32()), "shard": [hashes[i] for i in rows],
            "ordinals": pa.array([[0, 1] if w else [1] for w in whole], pa.list_(pa.uint32())),
            "n_docs": np.where(whole, 2, 1), "n_tokens": rows, "sequences": [[int(i)] for i in rows],
        }, schema=selection.MERGED), selection.merged_file(str(folder), r))
    return hashes


def build(folder: Path) -> dict:
    done = subprocess.run([sys.executable, "-c", BUILD, str(folder), str(RANGES)], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_table_finds_every_shard_and_of_two_with_one_hash_the_last():
    hashes = [hashlib.sha256(b"%d" % i).hexdigest() for i in range(50)]
    rows = [{"hash": h, "stratum": f"s{i % 3}", "path": f"p{i}", "n_docs": i, "n_tokens": 10 * i}
            for i, h in enumerate([*hashes, hashes[7]])]
    schema = pa.schema([("hash", pa.string()), ("stratum", pa.string()), ("path", pa.string()), ("n_docs", pa.int64()),
                        ("n_tokens", pa.int64())])
    table = ShardTable(pa.concat_tables([pa.Table.from_pylist(rows[i : i + 9], schema=schema)
                                         for i in range(0, 51, 9)]))
    assert list(table) == sorted(hashes)
    assert dict(table) == {r["hash"]: Named(*(r[f] for f in Named._fields)) for r in rows}
    for stranger in ("0" * 64, "f" * 64, "x"):
        assert stranger not in table
    assert len(ShardTable(schema.empty_table())) == 0
    with pytest.raises(ValueError, match="64"):
        ShardTable(pa.Table.from_pylist([{**rows[0], "hash": "ab"}], schema=schema))


def test_what_is_written_in_pieces_is_canonical_and_takes_little_memory_a_shard(tmp_path):
    n = 60_000
    hashes = lay(tmp_path, n)
    found = build(tmp_path)
    data = (tmp_path / "out").read_bytes()
    assert found["sha256"] == hashlib.sha256(data).hexdigest()
    body = json.loads(data)
    assert data == json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
    for name, at in (("a", 0), ("b", 1)):
        source = body["sources"][name]
        assert found["counts"][name] == n // 2
        assert [s["hash"] for s in source["shards"]] == hashes[at::2]
        assert source["layouts"]["concat:64"] == list(range(at, n, 2)) == [s["n_tokens"] for s in source["shards"]]
    chosen = pq.read_table(tmp_path / "selection").to_pylist()
    assert [r["shard"] for r in chosen] == [*hashes[0::2], *hashes[1::2]]
    at = {h: i for i, h in enumerate(hashes)}
    assert all(r["ordinals"] == ([1] if at[r["shard"]] % 3 == 0 else None) for r in chosen)
    assert found["mib"] < 120, "as objects it was 2.5 KB a shard and more"


COMPARE = """
import json, sys
from gristmill.release.versions import diff, verify
from gristmill.store import Store

def mib(which):
    return next(int(r.split()[1]) / 1024 for r in open("/proc/self/status") if r.startswith(which))

store, before = Store(sys.argv[1]), mib("VmRSS")
found = diff(store, "v1", "v2")
missing = len(verify(store, "v2"))
print(json.dumps({"kept": found["shards"]["kept"], "added": len(found["shards"]["added"]), "missing": missing,
                  "docs": found["sources"], "mib": mib("VmHWM") - before}))
"""


def test_what_compares_versions_reads_them_in_columns_too(tmp_path):
    """At 10^6 shards, all four commands: ``bench.versions``."""
    n = 60_000
    for version, fresh in (("v1", 0), ("v2", 1)):
        many_shards(tmp_path, n, 6, version=version, fresh=fresh)
    done = subprocess.run([sys.executable, "-c", COMPARE, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["kept"], found["added"], found["missing"]) == (5 * n // 6, n // 6, n)
    assert found["docs"] == {}, "other shards, but as many documents and tokens"
    assert found["mib"] < 100, "as objects they were 2.5 KB a shard of each"
