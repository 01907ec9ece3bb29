"""The object store when network and server misbehave: nothing lost, nothing half visible, errors that say why."""

import contextlib
import hashlib
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from gristmill.acquire import holdout
from gristmill.blobs import S3Blobs
from gristmill.errors import HoldoutError, StoreError
from gristmill.params import SiteConfig
from gristmill.registry import Registry
from gristmill.store import Key, PartitionManifest, Store, Yield, parquet_bytes
from tests.launch.test_run import mini_demo  # noqa: F401
from tests.services.proxy import Faults, Proxy

pytestmark = [pytest.mark.slow, pytest.mark.service, pytest.mark.timeout(240)]


@pytest.fixture
def proxy(seaweed):
    between = Proxy(seaweed.port)
    yield between
    between.faults = Faults()
    between.stop()


@pytest.fixture
def through(seaweed, proxy):
    """The mill's blobs, reached through the proxy; a prefix of their own."""
    options = seaweed.identity("mill").options(endpoint=proxy.endpoint)
    return S3Blobs(f"s3://mill/{uuid.uuid4().hex}", options)


@pytest.fixture
def direct(seaweed, through):
    """The same place, without the proxy."""
    return S3Blobs(through.root, seaweed.identity("mill").options())


def manifest_of(key: Key, refs) -> PartitionManifest:
    return PartitionManifest(key.asset, key.fingerprint, key.crawl, key.bucket, tuple(refs), {}, {}, Yield(), {})


# -- concurrent writers --------------------------------------------------------------------------------------------


def test_of_many_creators_of_one_name_exactly_one_wins(seaweed):
    root = f"s3://mill/{uuid.uuid4().hex}"
    stores = [S3Blobs(root, seaweed.identity("mill").options()) for _ in range(8)]

    def attempt(writer: int, name: int) -> tuple[int, int] | None:
        try:
            stores[writer].create(f"k/{name}", b"by %d" % writer)
            return writer, name
        except FileExistsError:
            return None

    with ThreadPoolExecutor(8) as pool:
        won = [w for w in pool.map(lambda p: attempt(*p), [(w, n) for n in range(12) for w in range(8)]) if w]
    assert sorted(n for _, n in won) == list(range(12))
    assert all(stores[0].get(f"k/{n}") == b"by %d" % w for w, n in won)


def test_crawls_registered_at_once_get_one_ordinal_each(seaweed):
    root, options = f"s3://mill/{uuid.uuid4().hex}", seaweed.identity("mill").options()
    names = [f"CC-{n}" for n in range(6)]
    with ThreadPoolExecutor(12) as pool:
        given = list(pool.map(lambda n: (n, Registry(Store(root, options)).register(n)), names * 2))
    ordinals = Registry(Store(root, options)).ordinals()
    assert sorted(ordinals.values()) == list(range(6))
    assert dict(given) == ordinals


def test_two_writers_of_one_partition_leave_it_whole(seaweed):
    root, options = f"s3://mill/{uuid.uuid4().hex}", seaweed.identity("mill").options()
    key = Key("a", "f" * 16, "CC-1", 0)
    table = pa.table({"n": list(range(1000))})

    def write(_: int) -> None:
        store = Store(root, options)
        for _ in range(4):
            ref = store.put_part(key, parquet_bytes(table), "data", ".parquet", 1000)
            store.commit(key, manifest_of(key, [ref]))
            assert store.read(key).equals(table)  # at every moment after a commit

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    files = [p for p, _ in Store(root, options).blobs.list(key.path)]
    assert len(files) == 2  # one part file, named by content, and the manifest


# -- a network that drops ------------------------------------------------------------------------------------------


def test_dropped_connections_lose_nothing(through, direct, proxy):
    data = {f"d/{n}": hashlib.sha256(b"%d" % n).digest() * 2000 for n in range(30)}
    proxy.faults = Faults(cut_after=150_000)  # in the middle of every third answer
    for path, value in data.items():
        through.put(path, value)
    for path, value in data.items():
        assert through.get(path) == value
        assert through.get_range(path, 1000, 5000) == value[1000:6000]
    assert dict(through.list("d")) == dict.fromkeys(data, 64_000)
    assert proxy.cuts > 5, "the proxy cut nothing: this test said nothing"
    proxy.faults = Faults()
    assert {p: direct.get(p) for p in data} == data


def test_a_create_whose_answer_was_lost_is_not_taken_for_another_writers(through, direct, proxy):
    """The server made it, the answer is lost, the client tries again and is told that it exists: it is its own."""
    done = []
    proxy.faults = Faults(cut_answers=True)

    def heal() -> None:
        while not proxy.cuts:
            time.sleep(0.005)
        proxy.faults = Faults()

    threading.Thread(target=heal, daemon=True).start()
    through.create("registry/1.json", b"mine")
    done.append(direct.get("registry/1.json"))
    assert done == [b"mine"]
    with pytest.raises(FileExistsError):
        through.create("registry/1.json", b"another's")
    assert direct.get("registry/1.json") == b"mine"


def test_a_put_that_never_arrives_whole_is_never_seen(seaweed, through, direct, proxy):
    """Readers that look all the time see the old object or the new one, each whole."""
    old, new = b"o" * 3_000_000, b"n" * 3_000_000
    direct.put("big", old)
    seen, stop = set(), threading.Event()

    def look() -> None:
        while not stop.is_set():
            seen.add(hashlib.sha256(direct.get("big")).hexdigest())

    reader = threading.Thread(target=look)
    reader.start()
    try:
        proxy.faults = Faults(cut_answers=True, cut_share=0.6)
        for n in range(12):
            through.put("big", new if n % 2 == 0 else old)
        proxy.faults = Faults()
    finally:
        stop.set()
        reader.join()
    assert seen <= {hashlib.sha256(old).hexdigest(), hashlib.sha256(new).hexdigest()}
    assert direct.get("big") == old
    assert proxy.cuts > 3, "the proxy cut nothing: this test said nothing"


def test_slow_reads_end_whole(through, direct, proxy):
    value = b"x" * 400_000
    direct.put("slow", value)
    proxy.faults = Faults(bytes_per_second=200_000)
    began = time.monotonic()
    assert through.get("slow") == value
    assert time.monotonic() - began > 1.5


def test_a_server_that_cannot_be_reached_is_a_sentence(seaweed, monkeypatch):
    monkeypatch.setattr("gristmill.blobs.retry", lambda: {"max_retries": 1})
    nowhere = S3Blobs("s3://mill/x", seaweed.identity("mill").options(endpoint="http://127.0.0.1:9"))
    with pytest.raises(StoreError, match="failed on s3://mill/x/a after retries"):
        nowhere.get("a")


# -- credentials ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [{"secret_access_key": "not the secret"}, {"access_key_id": "nobody"}])
@pytest.mark.parametrize("call", [
    lambda b: b.get("a"), lambda b: b.put("a", b"1"), lambda b: b.create("a", b"1"), lambda b: b.size("a"),
    lambda b: list(b.list("")), lambda b: b.delete("a"), lambda b: b.get_range("a", 0, 1), lambda b: b.stamps(""),
])
def test_wrong_credentials_are_said_at_once(seaweed, change, call):
    blobs = S3Blobs("s3://mill/x", seaweed.identity("mill").options(**change))
    began = time.monotonic()
    with pytest.raises(StoreError, match="check the credentials") as said:
        call(blobs)
    assert time.monotonic() - began < 3
    assert seaweed.identities["mill"][1] not in str(said.value)


def test_hold_outs_need_credentials_of_their_own(seaweed, monkeypatch):
    keeper, mill = seaweed.identity("keeper"), seaweed.identity("mill")
    root = f"s3://holdouts/{uuid.uuid4().hex}"
    frozen = holdout.freeze(root, {"b": [{"q": "what is held out?"}]}, options=keeper.options())
    with pytest.raises(StoreError, match="check the credentials"):  # the store's credentials do not open them
        holdout.open_holdout(root, frozen, options=mill.options())
    site = SiteConfig(store="s3://mill/s", holdout=root, holdout_env="HOLDOUT_")
    for name, value in keeper.environment("HOLDOUT_").items():
        monkeypatch.setenv(name, value)
    assert holdout.open_holdout(root, frozen, options=holdout.access(site, mill.options())).hash == frozen
    with pytest.raises(StoreError, match="check the credentials"):  # and theirs do not open the store
        S3Blobs("s3://mill/s", holdout.access(site, {})).put("a", b"1")
    monkeypatch.delenv("HOLDOUT_AWS_SECRET_ACCESS_KEY")
    with pytest.raises(HoldoutError, match="HOLDOUT_AWS_SECRET_ACCESS_KEY is not set"):
        holdout.access(site, mill.options())


# -- a server that dies --------------------------------------------------------------------------------------------


def test_what_was_acknowledged_survives_kill_9_and_what_was_not_is_absent_or_whole(seaweed):
    options = seaweed.identity("mill").options()
    root = f"s3://mill/{uuid.uuid4().hex}"
    acknowledged: dict[str, bytes] = {}
    blobs = S3Blobs(root, options)
    stop = threading.Event()

    def write(writer: int) -> None:
        for n in range(10_000):
            path, value = f"w/{writer}/{n}", (b"%d-%d;" % (writer, n)) * 3000
            with contextlib.suppress(StoreError):
                blobs.put(path, value)
                acknowledged[path] = value
            if stop.is_set():
                return

    writers = [threading.Thread(target=write, args=(w,)) for w in range(4)]
    for thread in writers:
        thread.start()
    time.sleep(1.5)
    before = len(acknowledged)
    seaweed.kill()
    seaweed.start("mill")  # clients keep trying meanwhile
    stop.set()
    for thread in writers:
        thread.join()
    assert before > 10
    fresh = S3Blobs(root, options)
    assert len(acknowledged) >= before
    for path, value in acknowledged.items():
        assert fresh.get(path) == value
    for path, size in fresh.list("w"):
        assert len(fresh.get(path)) == size


def test_init_freezes_hold_outs_in_a_bucket_of_their_own_and_locks_them(seaweed, tmp_path, monkeypatch, mini_demo):  # noqa: F811
    from gristmill.cli import main
    from gristmill.params import read_pipeline

    keeper, administrator = seaweed.identity("keeper"), seaweed.identity("t")
    bucket = f"locked-{uuid.uuid4().hex[:8]}"
    administrator.client().create_bucket(Bucket=bucket, ObjectLockEnabledForBucket=True)
    for name, value in administrator.environment("HOLDOUT_").items():
        monkeypatch.setenv(name, value)
    (tmp_path / "gsm.jsonl").write_text('{"question": "How many pages are held out of the corpus?"}\n')
    tokenizer = next((mini_demo / "models").rglob("demo-bpe.json"))
    assert main(["init", str(tmp_path / "site"), "--holdout", str(tmp_path / "gsm.jsonl"),
                 "--tokenizer", str(tokenizer), "--holdout-root", f"s3://{bucket}/frozen",
                 "--holdout-env", "HOLDOUT_", "--lock-until", "2099-01-01"]) == 0
    site = read_pipeline(tmp_path / "site" / "pipeline.yaml")
    found = holdout.open_holdout(site.site.holdout, site.params.extract.holdout_hash,
                                 options=holdout.access(site.site, {}))
    assert [b["name"] for b in found.manifest["benchmarks"]] == ["gsm"]
    kept = administrator.client().get_object_retention(Bucket=bucket, Key="frozen/holdout.json")["Retention"]
    assert (kept["Mode"], kept["RetainUntilDate"].year) == ("COMPLIANCE", 2099)
    assert keeper.secret not in (tmp_path / "site" / "pipeline.yaml").read_text()
