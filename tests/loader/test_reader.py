"""Reading: only the blocks a sequence touches, each verified; remote shards by range, within a bound; damage named."""

import errno
import hashlib
import io
import multiprocessing
import os
import struct
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import xxhash

from gristmill.errors import ManifestError, ShardError, StoreError
from gristmill.loader import TokenLoader, open_manifest
from gristmill.loader.places import LocalPlace, open_place
from gristmill.loader.reader import DamagedShardError, Reader
from tests.loader.make import canonical, make_dataset, phase, small

MIB = 1 << 20


class FarPlace:
    """A local folder behind an interface without local paths, which counts what is fetched."""

    def __init__(self, root):
        self.root = f"far://{root}"
        self._near = LocalPlace(root)
        self.ranges = []
        self.whole = []
        self.lock = threading.Lock()

    def read(self, path):
        with self.lock:
            self.whole.append(path)
        return self._near.read(path)

    def read_range(self, path, start, length):
        with self.lock:
            self.ranges.append((path, start, length))
        return self._near.read_range(path, start, length)

    def open(self, path):
        return pa.PythonFile(io.BytesIO(self._near.read(path)), mode="r")

    def local(self, path):
        return None


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Shards of several blocks: 6 of about 1.2 M tokens, half of their documents selected in most."""
    rng = np.random.default_rng(5)
    sources = {"web": [rng.integers(50, 4000, 600).tolist() for _ in range(6)]}
    phases = [phase({"web": "1"}, tokens=256 * 10 * 60, seq_len=256),
              phase({"web": "1"}, tokens=512 * 10 * 30, seq_len=512, packing="best_fit")]
    return make_dataset(tmp_path_factory.mktemp("large"), sources, phases, select=0.5)


def far_loader(made, place, **more):
    return TokenLoader(made.root, open_manifest(made.root, "v1", place=place), **more)


def test_remote_shards_give_the_same_batches_by_range_only(large, tmp_path):
    place = FarPlace(large.root)
    near = TokenLoader(large.root, "v1")
    for cache_dir in (None, str(tmp_path / "cache")):
        far = far_loader(large, place, cache_dir=cache_dir)
        for a, b in zip(near, far, strict=True):
            assert (a["tokens"] == b["tokens"]).all()
            assert (a["cu_seqlens"] == b["cu_seqlens"]).all()
        far.close()
        near.step = 0
    assert not [p for p in place.whole if p.endswith(".bin")]
    assert all(start % MIB == 0 and length <= MIB for _, start, length in place.ranges)


def test_one_sequence_fetches_the_blocks_it_touches_and_no_more(large):
    place = FarPlace(large.root)
    manifest = open_manifest(large.root, "v1", place=place)
    reader = Reader(manifest)
    reader.read("concat:256", np.array([2]), np.array([100]))
    assert 1 <= len(place.ranges) <= 2
    before = len(place.ranges)
    reader.read("concat:256", np.array([2, 2]), np.array([100, 100]))
    assert len(place.ranges) == before


def test_no_block_is_fetched_twice_while_there_is_room(large):
    place = FarPlace(large.root)
    list(far_loader(large, place, prefetch=6))
    assert len(place.ranges) == len(set(place.ranges))


def test_the_cache_keeps_its_bound(large, tmp_path):
    place = FarPlace(large.root)
    bound = 6 * MIB
    loader = far_loader(large, place, cache_dir=str(tmp_path), cache_bytes=bound, prefetch=0)
    near = TokenLoader(large.root, "v1")
    most = 0
    for a, b in zip(near, loader, strict=True):
        assert (a["tokens"] == b["tokens"]).all()
        most = max(most, loader._reader.fetched_bytes)
        # a batch of ten sequences may touch a few blocks more before anything is dropped
        assert loader._reader.fetched_bytes <= bound + 30 * MIB
    assert most > bound / 2
    assert list(tmp_path.iterdir()) == []  # the files have no name: nothing is left behind, whatever happens


def test_dropped_shards_come_back(large):
    place = FarPlace(large.root)
    manifest = open_manifest(large.root, "v1", place=place)
    reader = Reader(manifest, cache_bytes=MIB)
    first = reader.read("concat:256", np.array([0]), np.array([3])).tokens
    for shard in (1, 2, 3, 4, 5):
        reader.read("concat:256", np.array([shard]), np.array([3]))
    assert reader.fetched_bytes <= 4 * MIB
    assert (reader.read("concat:256", np.array([0]), np.array([3])).tokens == first).all()


def test_prefetched_blocks_are_there_when_they_are_read(large):
    place = FarPlace(large.root)
    reader = Reader(open_manifest(large.root, "v1", place=place))
    shards, sequences = np.array([0, 1, 2, 3]), np.array([5, 900, 33, 60])
    reader.prefetch("concat:256", shards, sequences)
    reader._pool.shutdown(wait=True)
    reader._pool = None
    fetched = list(place.ranges)
    reader.read("concat:256", shards, sequences)
    assert place.ranges == fetched
    assert len(fetched) >= 4


@pytest.mark.parametrize("far", [False, True])
def test_a_damaged_block_is_met_only_by_who_touches_it(tmp_path, far):
    rng = np.random.default_rng(1)
    made = make_dataset(tmp_path, {"web": [rng.integers(500, 4000, 600).tolist()]}, [phase({"web": "1"}, seq_len=256)])
    path = next((tmp_path / "shards").rglob("*.bin"))
    raw = bytearray(path.read_bytes())
    raw[2 * MIB + 77] ^= 8
    path.write_bytes(raw)
    place = FarPlace(tmp_path) if far else LocalPlace(tmp_path)
    reader = Reader(open_manifest(made.root, "v1", place=place))
    in_block = MIB // 4 // 256
    reader.read("concat:256", np.array([0]), np.array([2 * in_block - 1]))
    with pytest.raises(DamagedShardError, match=r"block 2 \(bytes 2097152") as caught:
        reader.read("concat:256", np.array([0]), np.array([2 * in_block]))
    assert caught.value.shard == 0
    with pytest.raises(DamagedShardError):  # and again: a failure is not remembered as success
        reader.read("concat:256", np.array([0]), np.array([2 * in_block + 5]))


def remade(made, change):
    """Change the manifest's shard entries in place, and write it."""
    change(made.manifest)
    made.path.write_bytes(canonical(made.manifest))


DAMAGES = {
    "gone": (lambda p: p.with_suffix(".bin").unlink(), "missing"),
    "empty": (lambda p: p.with_suffix(".bin").write_bytes(b""), "missing or empty"),
    "short": (lambda p: p.with_suffix(".bin").write_bytes(p.with_suffix(".bin").read_bytes()[:-4]), "its index says"),
    "index gone": (lambda p: p.with_suffix(".idx").unlink(), "missing"),
    "no index": (lambda p: p.with_suffix(".idx").write_bytes(b"x" * 100), "not a shard index"),
    "meta gone": (lambda p: p.with_suffix(".meta").unlink(), "meta is missing"),
    "meta broken": (lambda p: p.with_suffix(".meta").write_bytes(b"{"), "not JSON"),
    "meta a list": (lambda p: p.with_suffix(".meta").write_bytes(b"[]"), "does not have the sha256"),
    "a folder": (lambda p: (p.with_suffix(".bin").unlink(), p.with_suffix(".bin").mkdir()), "cannot be read"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_shard_is_named(tmp_path, damage):
    made = small(tmp_path, sources={"web": [[100, 200, 300]]}, phases=[phase({"web": "1"}, tokens=6400)])
    entry = made.manifest["sources"]["web"]["shards"][0]
    act, message = DAMAGES[damage]
    act(tmp_path / f"{entry['path']}.bin")
    with pytest.raises(ShardError, match=message) as caught:
        TokenLoader(tmp_path, "v1").batch(0)
    assert entry["hash"] in str(caught.value)


def test_a_shifted_offset_in_the_index_is_seen(tmp_path):
    # Still rising, still adding up: only the checksum in .meta can tell.
    made = small(tmp_path, sources={"web": [[100, 200, 300]]}, phases=[phase({"web": "1"}, tokens=6400)])
    path = tmp_path / f"{made.manifest['sources']['web']['shards'][0]['path']}.idx"
    raw = bytearray(path.read_bytes())
    raw[40:48] = struct.pack("<Q", 101)
    path.write_bytes(raw)
    with pytest.raises(ShardError, match="does not have the sha256"):
        TokenLoader(tmp_path, "v1").batch(0)


def test_a_shard_that_is_not_the_manifests_is_named(tmp_path):
    made = small(tmp_path, sources={"web": [[100, 200, 300]]}, phases=[phase({"web": "1"}, tokens=6400)])
    remade(made, lambda m: m["sources"]["web"]["shards"][0].update(n_docs=4, selected_docs=4))
    with pytest.raises(ShardError, match="3 documents and 600 tokens; the manifest says 4 and 600"):
        TokenLoader(tmp_path, "v1").batch(0)


def test_a_selection_that_is_not_the_manifests_is_refused(tmp_path):
    made = small(tmp_path, select=0.5)
    path = tmp_path / "manifests/v1/selection.parquet"
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(ManifestError, match="has sha256"):
        list(TokenLoader(tmp_path, "v1"))
    path.unlink()
    with pytest.raises(ManifestError, match="is missing"):
        list(TokenLoader(tmp_path, "v1"))
    assert made.path.exists()


def test_a_count_of_sequences_that_is_wrong_is_refused(tmp_path):
    made = small(tmp_path, sources={"web": [[100, 200, 300]]}, phases=[phase({"web": "1"}, tokens=6400)])
    remade(made, lambda m: m["sources"]["web"]["layouts"].update({"concat:64": [10]}))
    with pytest.raises(ManifestError, match="gives 9 sequences of concat:64, the manifest counts 10"):
        TokenLoader(tmp_path, "v1").batch(0)


def test_related_documents_come_in_the_selections_order(tmp_path):
    import pyarrow.parquet as pq

    made = small(tmp_path, sources={"web": [[64, 64, 64, 64]]},
                 phases=[phase({"web": "1"}, tokens=256, seq_len=256, packing="related", batch=[[1, None]])])
    hash_ = made.manifest["sources"]["web"]["shards"][0]["hash"]
    table = pa.table({"source": ["web"], "shard": [hash_], "ordinals": pa.array([[2, 0, 3, 1]], pa.list_(pa.uint32()))})
    pq.write_table(table, tmp_path / "manifests/v1/selection.parquet")
    digest = hashlib.sha256((tmp_path / "manifests/v1/selection.parquet").read_bytes()).hexdigest()
    remade(made, lambda m: m["selection"].update(sha256=digest))
    batch = TokenLoader(tmp_path, "v1", provenance=True).batch(0)
    assert batch["ordinals"].tolist() == [2, 0, 3, 1]
    docs = made.documents["web", hash_]
    assert batch["tokens"][0].tolist() == np.concatenate([docs[i] for i in (2, 0, 3, 1)]).tolist()


def test_a_shard_past_two_gibibytes_and_past_two_to_the_31_tokens(tmp_path):
    # A sparse file of 8.6 GB: offsets kept in 32 bits anywhere would read the wrong place, or fail.
    seq_len, last = 1024, 16
    tokens = (1 << 31) + (1 << 20)
    made = small(tmp_path, sources={"web": [[1024] * last]},
                 phases=[phase({"web": "1"}, tokens=seq_len * 2, seq_len=seq_len, batch=[[1, None]])])
    entry = made.manifest["sources"]["web"]["shards"][0]
    base = tmp_path / entry["path"]
    tail = np.arange(seq_len * last, dtype="<u4")
    blocks = tokens * 4 // MIB
    zero = xxhash.xxh3_64_intdigest(bytes(MIB))
    content = bytearray(MIB)
    content[-len(tail) * 4 :] = tail.tobytes()
    sums = np.full(blocks, zero, "<u8")
    sums[-1] = xxhash.xxh3_64_intdigest(bytes(content))
    with base.with_suffix(".bin").open("wb") as file:
        file.truncate(tokens * 4)
        file.seek(tokens * 4 - len(tail) * 4)
        file.write(tail.tobytes())
    if os.stat(base.with_suffix(".bin")).st_blocks * 512 > 1 << 30:
        pytest.skip("this file system has no sparse files")
    offsets = np.array([0, tokens - len(tail), *(tokens - len(tail) + seq_len * np.arange(1, last + 1))], "<u8")
    raw = b"GRISTIDX" + struct.pack("<IIQQ", 1, 20, last + 1, blocks) + offsets.tobytes() + sums.tobytes()
    base.with_suffix(".idx").write_bytes(raw)
    base.with_suffix(".meta").write_bytes(canonical({"sha256_idx": hashlib.sha256(raw).hexdigest()}))

    def change(m):
        m["sources"]["web"]["shards"][0].update(
            n_docs=last + 1, n_tokens=tokens, selected_docs=last + 1, selected_tokens=tokens)
        m["sources"]["web"]["layouts"] = {"concat:1024": [tokens // seq_len]}

    remade(made, change)
    reader = Reader(open_manifest(tmp_path, "v1"))
    n = tokens // seq_len
    rows = reader.read("concat:1024", np.zeros(last + 1, np.int64), np.arange(n - last - 1, n))
    assert (rows.tokens[0] == 0).all()
    assert rows.tokens[1:].reshape(-1).tolist() == tail.tolist()
    assert rows.start[-1] > 1 << 31


def test_plans_of_many_shards_are_bounded(tmp_path, monkeypatch):
    from gristmill.loader import reader as module

    rng = np.random.default_rng(2)
    made = make_dataset(tmp_path, {"web": [rng.integers(20, 90, 30).tolist() for _ in range(150)]},
                        [phase({"web": "1"}, tokens=64 * 40 * 30, batch=[[40, None]])], select=0.6)
    wanted = [b["tokens"] for b in TokenLoader(made.root, "v1")]
    monkeypatch.setattr(module, "OPEN_SHARDS", 20)
    loader = TokenLoader(made.root, "v1")
    for batch, want in zip(loader, wanted, strict=True):
        assert (batch["tokens"] == want).all()
        assert len(loader._reader._plans) <= 20 + 40


FEW_FILES = """
import resource, sys
soft, hard = (int(x) for x in sys.argv[2:4])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
from gristmill.loader import TokenLoader
loader = TokenLoader(sys.argv[1], "v1")
print(sum(int(b["tokens"].sum()) for b in loader), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


@pytest.mark.parametrize(("soft", "hard", "left"), [(192, 192, 192), (64, 512, 512)])
def test_more_shards_than_a_process_may_open_files(tmp_path, soft, hard, left):
    rng = np.random.default_rng(2)
    made = make_dataset(tmp_path, {"web": [rng.integers(20, 90, 30).tolist() for _ in range(150)]},
                        [phase({"web": "1"}, tokens=64 * 8 * 200, batch=[[8, None]])])
    done = subprocess.run([sys.executable, "-c", FEW_FILES, str(made.root), str(soft), str(hard)], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stderr
    wanted = sum(int(b["tokens"].sum()) for b in TokenLoader(made.root, "v1"))
    assert done.stdout.split() == [str(wanted), str(left)]


def test_a_cache_that_cannot_be_written_is_named(large, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    loader = far_loader(large, FarPlace(large.root), cache_dir=str(tmp_path / "file" / "cache"), prefetch=0)
    with pytest.raises(StoreError, match="cannot keep blocks in cache_dir"):
        next(loader)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("gristmill.loader.files.os.pwrite", full)
    loader = far_loader(large, FarPlace(large.root), cache_dir=str(tmp_path), prefetch=0)
    with pytest.raises(StoreError, match="No space left on device; give the loader a smaller cache_bytes"):
        next(loader)


def test_only_folders_and_s3_are_places():
    from gristmill.errors import StoreError

    with pytest.raises(StoreError, match="only local folders and s3"):
        open_place("ftp://x/y")


def _read_on(loader, queue):
    queue.put([next(loader)["tokens"].tobytes() for _ in range(5)])


@pytest.mark.service
def test_an_s3_bucket_gives_the_same_stream(large, s3_server, monkeypatch, tmp_path):
    import boto3

    client = boto3.client("s3", endpoint_url=s3_server.endpoint, aws_access_key_id=s3_server.key,
                          aws_secret_access_key=s3_server.secret, region_name="us-east-1")
    for path in sorted(p for p in Path(large.root).rglob("*") if p.is_file()):
        client.put_object(Bucket="mill", Key=f"loader/{path.relative_to(large.root)}", Body=path.read_bytes())
    for name, value in s3_server.environment().items():
        monkeypatch.setenv(name, value)
    near = TokenLoader(large.root, "v1", provenance=True)
    far = TokenLoader("s3://mill/loader", "v1", provenance=True, cache_dir=str(tmp_path))
    for a, b in zip(near, far, strict=True):
        assert (a["tokens"] == b["tokens"]).all()
        assert (a["doc_ids"] == b["doc_ids"]).all()
    for method in ("spawn", "fork"):  # a forked worker opens its own connections, and reads what the parent would
        far.step = 7
        next(far)
        context = multiprocessing.get_context(method)
        queue = context.Queue()
        worker = context.Process(target=_read_on, args=(far, queue))
        worker.start()
        got = queue.get(timeout=60)
        worker.join()
        assert got == [near.batch(step)["tokens"].tobytes() for step in range(8, 13)]
    with pytest.raises(ManifestError, match="no manifest v9"):
        TokenLoader("s3://mill/loader", "v9")
    entry = large.manifest["sources"]["web"]["shards"][0]
    client.delete_object(Bucket="mill", Key=f"loader/{entry['path']}.bin")
    with pytest.raises(ShardError, match="missing"):
        list(TokenLoader("s3://mill/loader", "v1", max_skipped="0"))
