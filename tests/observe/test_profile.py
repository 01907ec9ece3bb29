"""Seconds are counted once, workers' too, and the report names what holds a stage back."""

import functools
import hashlib
import math
import time

import pytest

from gristmill.funnel import Plan
from gristmill.observe import profile_meter as meter
from gristmill.observe.profile import profile, render
from gristmill.params import GridParams, PipelineParams
from gristmill.store import Key, PartitionManifest, Store, Yield
from gristmill.workers import run_tasks


@meter.marked("read")
def read_a_bit(seconds: float) -> None:
    time.sleep(seconds)


@meter.marked("write")
def write_through_a_read(seconds: float) -> None:
    time.sleep(seconds)
    read_a_bit(seconds)


def test_only_the_outermost_call_counts():
    with meter.measured() as spent:
        write_through_a_read(0.03)
        read_a_bit(0.02)
    assert 0.06 <= spent.write_s < 0.5
    assert 0.02 <= spent.read_s < 0.06  # not the one inside the write
    assert spent.read_cpu_s + spent.write_cpu_s < 0.05  # sleeping is not work


def test_a_call_that_fails_is_counted_and_ends():
    @meter.marked("read")
    def broken() -> None:
        time.sleep(0.01)
        raise OSError("gone")

    with meter.measured() as spent, pytest.raises(OSError, match="gone"):
        broken()
    assert spent.read_s >= 0.01
    with meter.measured() as later:
        read_a_bit(0.01)
    assert later.read_s >= 0.01  # the mark was taken off


def test_workers_seconds_come_back_to_their_parent():
    burn = functools.partial(hashlib.pbkdf2_hmac, "sha256", b"mill", b"salt")
    started = time.process_time()
    burn(200_000)
    once = time.process_time() - started
    with meter.measured() as spent:
        assert len(list(run_tasks(burn, [200_000] * 4, 2))) == 4
    assert 2 * once <= spent.worker_cpu_s <= spent.cpu_s
    assert spent.worker_cpu_s <= 8 * once + 0.5
    assert spent.worker_wall_s >= spent.worker_cpu_s * 0.9
    assert spent.cpu_s - spent.worker_cpu_s < spent.worker_cpu_s  # the parent only waited


def test_seconds_divide_and_what_is_left_is_waiting():
    alone = meter.account(meter.Spent(cpu_s=4.0, read_s=3.0, read_cpu_s=1.0, write_s=1.0, write_cpu_s=0.5), 10.0)
    assert alone == {"wall_s": 10.0, "cpu_s": 4.0, "compute_s": 2.5, "gpu_s": 0.0, "read_s": 3.0, "write_s": 1.0,
                     "wait_s": 3.5}
    # Two workers, 9 s each at work for 7: the parent's own time beside them is not waiting.
    pooled = meter.account(meter.Spent(cpu_s=15.0, worker_cpu_s=14.0, worker_wall_s=18.0), 9.5)
    assert (pooled["compute_s"], pooled["wait_s"]) == (15.0, 4.0)
    # Threads burn more CPU than wall time: nothing waits.
    assert meter.account(meter.Spent(cpu_s=20.0), 10.0)["wait_s"] == 0.0
    # The thread that drives a GPU spins: that is no work of the CPU.
    gpu = meter.account(meter.Spent(cpu_s=6.0, gpu_s=5.0, gpu_cpu_s=5.0), 7.0)
    assert (gpu["compute_s"], gpu["gpu_s"], gpu["wait_s"]) == (1.0, 5.0, 1.0)


def test_a_block_on_a_cpu_is_no_gpu_time():
    with meter.measured() as spent, meter.gpu("cpu"):
        time.sleep(0.01)
    assert spent.gpu_s == 0.0


@pytest.fixture
def site(tmp_path):
    return Store(tmp_path / "store"), Plan(PipelineParams(grid=GridParams(host_buckets=3)))


def put(site, stage: str, bucket: int, docs: int = 10, info: dict | None = None, **seconds: float) -> None:
    store, plan = site
    key = Key(stage, plan.fingerprints[stage], "C", bucket)
    run = {f"{k}_s": v for k, v in seconds.items()}
    if run:
        run = {"compute_s": 0.0, "cpu_s": run.get("compute_s", 0.0), "wall_s": sum(seconds.values()), **run}
    store.commit(key, PartitionManifest(stage, key.fingerprint, "C", bucket, (), {}, {}, Yield(docs, docs), info or {}),
                 run)


def test_the_bottleneck_is_what_took_most(site):
    put(site, "text", 0, compute=8.0, read=1.0)
    put(site, "text", 1, compute=7.0, wait=1.0)
    put(site, "exact", 0, compute=1.0, read=6.0, write=2.0)
    put(site, "tokens", 0, compute=1.0, wait=9.0)
    by_stage = {p.stage: p for p in profile(*site, "C")}
    assert {s: p.bottleneck for s, p in by_stage.items()} == {"text": "compute", "exact": "read", "tokens": "wait"}
    assert by_stage["text"].seconds["compute"] == 15.0
    assert math.isclose(by_stage["exact"].share("read"), 6 / 9)
    told = render(list(by_stage.values()))
    assert "tokens (10.0 s, most of it wait): fewer workers" in told


def test_gpu_utilisation_and_padding_waste_where_a_gpu_ran(site):
    put(site, "quality", 0, compute=1.0, gpu=8.0, read=1.0, info={"padding_waste": 0.1})
    put(site, "quality", 1, compute=1.0, gpu=4.0, read=5.0, info={"padding_waste": 0.4})
    put(site, "heuristics", 0, compute=1.0)
    scored, plain = sorted(profile(*site, "C"), key=lambda p: p.stage, reverse=True)
    assert (scored.bottleneck, scored.gpu_utilisation) == ("gpu", 0.6)
    assert math.isclose(scored.padding_waste, (8 * 0.1 + 4 * 0.4) / 12)  # by the time that it wasted
    assert (plain.gpu_utilisation, plain.padding_waste) == (None, None)
    assert "GPU at work 60% of the wall time" in render([scored])
    assert "padding: 20.0%" in render([scored])


def test_a_slow_bucket_is_named_and_what_has_no_seconds_is_said(site):
    put(site, "text", 0, compute=1.0)
    put(site, "text", 1, compute=1.0)
    put(site, "text", 2, compute=9.0)
    assert profile(*site, "C")[0].slowest == (2, 9.0)
    assert "bucket 0002 took 9.0 times the median" in render(profile(*site, "C"))
    put(site, "exact", 0)
    told = render(profile(*site, "C"))
    assert "1 partitions made before seconds were recorded" in told


def test_an_empty_crawl_has_no_profile(site):
    assert profile(*site, "C") == []
