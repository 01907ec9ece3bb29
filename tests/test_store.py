"""The store: partitions appear whole or not at all, and a reader refuses what is missing, stale or damaged."""

import errno
import os
import pickle
import subprocess
import sys
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gristmill import blobs as blobs_module
from gristmill.errors import (
    DamagedPartitionError,
    MissingPartitionError,
    PartitionBusyError,
    StalePartitionError,
    StoreError,
)
from gristmill.store import Key, PartitionManifest, Store, Yield, parquet_bytes

KEY = Key("text", "f" * 16, "CC-TEST", 3)
TABLE = pa.table({"x": list(range(1000))})


def commit(store, key=KEY, table=TABLE):
    ref = store.put_part(key, parquet_bytes(table), "data", ".parquet", table.num_rows)
    manifest = PartitionManifest(key.asset, key.fingerprint, key.crawl, key.bucket, (ref,), {}, {}, Yield(3, 2), {})
    store.commit(key, manifest)
    return ref


def test_what_is_committed_reads_back(tmp_path):
    store = Store(tmp_path)
    commit(store)
    assert store.read(KEY).equals(TABLE)
    assert store.read(KEY, ["x"]).num_rows == 1000
    assert pickle.loads(pickle.dumps(store)).read(KEY).equals(TABLE)


def test_nothing_is_visible_before_the_commit(tmp_path):
    store = Store(tmp_path)
    store.put_part(KEY, parquet_bytes(TABLE), "data", ".parquet", 1000)
    assert store.manifest(KEY) is None
    with pytest.raises(MissingPartitionError, match=r"gristmill run --crawl CC-TEST --stage text"):
        store.read(KEY)


def test_a_partition_of_other_parameters_is_stale_not_missing(tmp_path):
    store = Store(tmp_path)
    commit(store)
    with pytest.raises(StalePartitionError, match="other parameters"):
        store.read(Key("text", "0" * 16, "CC-TEST", 3))


@pytest.mark.parametrize("harm", ["flip", "cut", "gone"])
def test_damaged_bytes_are_refused(tmp_path, harm):
    store = Store(tmp_path)
    ref = commit(store)
    path = tmp_path / KEY.path / ref.name
    data = bytearray(path.read_bytes())
    if harm == "flip":
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    elif harm == "cut":
        path.write_bytes(data[:-10])
    else:
        path.unlink()
    with pytest.raises(DamagedPartitionError, match="--force") as told:
        store.read(KEY)
    assert {"flip": "its checksum differs", "cut": f"{ref.bytes - 10} of {ref.bytes} bytes", "gone": "is gone"}[
        harm] in str(told.value)


def test_damage_that_only_reading_a_part_finds_is_named_too(tmp_path):
    store = Store(tmp_path)
    ref = commit(store)
    path = tmp_path / KEY.path / ref.name
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    says = rf"{ref.name}: .*gristmill run .*--stage text --force"
    with pytest.raises(DamagedPartitionError, match=says), store.open_file(KEY, ref) as source:
        pq.ParquetFile(source, page_checksum_verification=True).read()
    path.write_bytes(bytes(len(data)))  # not even a footer
    with pytest.raises(DamagedPartitionError, match="--force"), store.open_file(KEY, ref) as source:
        pq.ParquetFile(source)
    with pytest.raises(OSError, match="full"), store.open_file(KEY, ref):
        raise OSError(errno.ENOSPC, "full")


def test_a_damaged_manifest_is_named(tmp_path):
    store = Store(tmp_path)
    commit(store)
    (tmp_path / KEY.path / "_manifest.json").write_text("{")
    with pytest.raises(DamagedPartitionError, match=r"_manifest\.json"):
        store.manifest(KEY)


def test_the_same_table_is_the_same_bytes():
    chunked = pa.concat_tables([TABLE.slice(0, 10), TABLE.slice(10)])
    assert parquet_bytes(chunked) == parquet_bytes(TABLE)


def test_a_store_of_another_version_is_refused(tmp_path):
    Store(tmp_path)
    (tmp_path / "store.json").write_text('{"format":99,"kind":"gristmill-store"}')
    with pytest.raises(StoreError, match="format 99"):
        Store(tmp_path)


def test_a_full_disk_is_a_sentence_and_leaves_no_trace(tmp_path, monkeypatch):
    store = Store(tmp_path)
    commit(store)
    real = os.replace

    def full(src, dst):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(blobs_module.os, "replace", full)
    with pytest.raises(StoreError, match="no space left"):
        commit(store, Key("text", "f" * 16, "CC-TEST", 4))
    monkeypatch.setattr(blobs_module.os, "replace", real)
    assert store.read(KEY).equals(TABLE)
    assert list(tmp_path.rglob(".tmp-*")) == []


def test_create_is_exclusive(tmp_path):
    store = Store(tmp_path)
    store.blobs.create("registry/a", b"1")
    with pytest.raises(FileExistsError):
        store.blobs.create("registry/a", b"2")
    assert store.blobs.get("registry/a") == b"1"


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a/../../x"])
def test_no_path_leaves_the_store(tmp_path, path):
    with pytest.raises(StoreError, match="leaves the store"):
        Store(tmp_path).blobs.put(path, b"")


def test_two_writers_of_one_partition_one_is_told_who_holds_it(tmp_path):
    code = (
        "import sys, time\nfrom gristmill.store import Store, Key\n"
        f"s = Store({str(tmp_path)!r})\n"
        "with s.lock(Key('text', 'f'*16, 'CC-TEST', 3)):\n    print('held', flush=True)\n    time.sleep(60)\n"
    )
    Store(tmp_path)
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline().strip() == "held"
    try:
        with pytest.raises(PartitionBusyError, match=str(holder.pid)), Store(tmp_path).lock(KEY):
            pass
    finally:
        holder.kill()
        holder.wait()
    time.sleep(0.05)
    with Store(tmp_path).lock(KEY):  # the kernel freed it with its holder
        pass


def test_yields_add_up():
    a = Yield(3, 1, 30, 10, {"short": 2}, {"lang": {"eng": [3, 1]}})
    b = Yield(2, 1, 20, 10, {"short": 1}, {"lang": {"deu": [1, 0], "eng": [1, 1]}})
    assert a + b == Yield(5, 2, 50, 20, {"short": 3}, {"lang": {"eng": [4, 2], "deu": [1, 0]}})
