"""Places for bytes: one contract, held on a local folder and on a real S3 server."""

import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gristmill.blobs import open_blobs
from gristmill.errors import StoreError
from gristmill.store import Store, parquet_bytes


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.service)])
def blobs(request, tmp_path):
    if request.param == "local":
        return open_blobs(tmp_path / "place")
    server = request.getfixturevalue("s3_server")
    return open_blobs(f"s3://mill/{uuid.uuid4().hex}", server.options())


def test_put_get_range_size_delete(blobs):
    blobs.put("a/b", b"0123456789")
    assert blobs.get("a/b") == b"0123456789"
    assert blobs.get_range("a/b", 2, 3) == b"234"
    assert blobs.size("a/b") == 10
    blobs.put("a/b", b"new")
    assert blobs.get("a/b") == b"new"
    blobs.delete("a/b")
    blobs.delete("a/b")
    assert blobs.size("a/b") is None
    with pytest.raises(FileNotFoundError):
        blobs.get("a/b")


def test_create_is_exclusive_under_a_race(blobs):
    def claim(i):
        try:
            blobs.create("registry/one", str(i).encode())
            return i
        except FileExistsError:
            return None

    with ThreadPoolExecutor(6) as pool:
        winners = [w for w in pool.map(claim, range(6)) if w is not None]
    assert len(winners) == 1
    assert blobs.get("registry/one") == str(winners[0]).encode()


def test_listing_is_sorted_and_below_the_folder_only(blobs):
    for name in ("x/2", "x/10", "x/y/1", "xx/1"):
        blobs.put(name, b"1")
    assert list(blobs.list("x")) == [("x/10", 1), ("x/2", 1), ("x/y/1", 1)]
    assert list(blobs.list("nothing")) == []


def test_children_are_one_level_and_carry_the_stamps_of_what_lies_there(blobs):
    for name in ("x/2", "x/y/1", "x/y/z/3", "x/w/1", "top"):
        blobs.put(name, b"12")
    names, files = blobs.children("x")
    assert names == ("w", "y")
    assert list(files) == ["2"]
    assert files["2"].bytes == 2
    assert (files["2"].bytes, files["2"].stamp) == blobs.stamps("x")["x/2"]
    assert abs(files["2"].modified - time.time()) < 60
    assert blobs.children("") == (("x",), {"top": blobs.children("")[1]["top"]})
    assert blobs.children("nothing") == ((), {})


def test_files_move_in_and_open_for_arrow(blobs, tmp_path):
    table = pa.table({"x": list(range(5000))})
    source = tmp_path / "scratch.parquet"
    source.write_bytes(parquet_bytes(table))
    blobs.put_file("t.parquet", source)
    assert not source.exists()
    with blobs.open_input("t.parquet") as file:
        assert pq.read_table(file).equals(table)
    with pytest.raises(FileNotFoundError):
        blobs.open_input("none.parquet")


@pytest.mark.service
def test_wrong_credentials_are_a_sentence(s3_server):
    with pytest.raises(StoreError, match="credentials"):
        Store("s3://mill/refused", s3_server.options(secret_access_key="wrong"))


@pytest.mark.service
def test_a_store_on_s3_commits_and_reads(s3_server):
    from tests.test_store import KEY, TABLE, commit

    store = Store(f"s3://mill/{uuid.uuid4().hex}", s3_server.options())
    commit(store)
    assert store.read(KEY).equals(TABLE)
    assert Store(store.root, s3_server.options()).read(KEY).equals(TABLE)


def test_other_schemes_are_refused():
    with pytest.raises(StoreError, match="gs://"):
        open_blobs("gs://bucket/x")
