"""A real S3 server on loopback (SeaweedFS from its package) that tests can kill and start again on the same data.

Belongs here: its command line, readiness, and who may do what. Does not belong here: faults of the network
(``proxy.py``).
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PORTS = 14


@dataclass(frozen=True)
class S3Server:
    """Where a server is, and one of its identities."""

    endpoint: str
    key: str = "testkey"
    secret: str = "testsecret"

    def options(self, **changes: str) -> dict[str, str]:
        return {"endpoint": self.endpoint, "access_key_id": self.key, "secret_access_key": self.secret,
                "region": "us-east-1", **changes}

    def environment(self, prefix: str = "") -> dict[str, str]:
        return {f"{prefix}AWS_ENDPOINT_URL": self.endpoint, f"{prefix}AWS_ACCESS_KEY_ID": self.key,
                f"{prefix}AWS_SECRET_ACCESS_KEY": self.secret, f"{prefix}AWS_REGION": "us-east-1",
                f"{prefix}AWS_ALLOW_HTTP": "true"}

    def client(self) -> Any:
        import boto3  # comes with dagster-aws
        from botocore.config import Config

        return boto3.client("s3", endpoint_url=self.endpoint, aws_access_key_id=self.key,
                            aws_secret_access_key=self.secret, region_name="us-east-1",
                            config=Config(retries={"max_attempts": 1}, connect_timeout=2, read_timeout=10))


@dataclass
class Seaweed:
    """The server's process.

    Attributes:
        identities: name -> (access key, secret, actions). ``Admin`` may all; ``Read:bucket`` only that.
    """

    folder: Path
    identities: dict[str, tuple[str, str, list[str]]] = field(
        default_factory=lambda: {"t": ("testkey", "testsecret", ["Admin"])})
    process: subprocess.Popen | None = None

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = free_ports(PORTS)
        entries = [{"name": n, "credentials": [{"accessKey": k, "secretKey": s}], "actions": a}
                   for n, (k, s, a) in self.identities.items()]
        (self.folder / "s3.json").write_text(json.dumps({"identities": entries}))

    def identity(self, name: str) -> S3Server:
        key, secret, _ = self.identities[name]
        return S3Server(f"http://127.0.0.1:{self.port}", key, secret)

    def start(self, *buckets: str) -> None:
        """Start, or start again, and wait until a write succeeds."""
        weed = executable()
        assert weed is not None
        folder, port = self.folder, self.port
        with (folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [weed, f"-logdir={folder}", "server", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1",
                 "-master.telemetry=false", f"-master.port={port + 1}", f"-volume.port={port + 2}",
                 f"-filer.port={port + 3}", "-filer", "-s3", f"-s3.port={port}", "-s3.port.iceberg=0",
                 "-s3.port.lance=0", f"-master.port.grpc={port + 5}", f"-volume.port.grpc={port + 6}",
                 f"-filer.port.grpc={port + 7}", f"-s3.port.grpc={port + 8}", f"-s3.config={folder / 's3.json'}",
                 "-volume.max=200", "-master.volumeSizeLimitMB=64", f"-s3.localSocket={folder / 's3.sock'}",
                 f"-filer.localSocket={folder / 'filer.sock'}"],
                stdout=log, stderr=log, start_new_session=True,
            )
        for bucket in buckets:
            self._ready(bucket)

    def kill(self) -> None:
        """SIGKILL: what was acknowledged must survive it. (TERM takes this server half a minute.)"""
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None

    def _ready(self, bucket: str) -> None:
        client = self.identity("t").client()
        deadline = time.time() + 60
        while True:
            try:
                if bucket not in {b["Name"] for b in client.list_buckets()["Buckets"]}:
                    client.create_bucket(Bucket=bucket)
                client.put_object(Bucket=bucket, Key="ready", Body=b"1")
                client.get_object(Bucket=bucket, Key="ready")["Body"].read()
                return
            except Exception as error:
                if self.process is None or self.process.poll() is not None or time.time() > deadline:
                    log = (self.folder / "log").read_text(errors="replace")
                    raise RuntimeError(f"SeaweedFS did not start: {log[-2000:]}") from error
                time.sleep(0.3)


def executable() -> str | None:
    """``weed``, where it is installed."""
    return shutil.which("weed", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")


def free_ports(n: int) -> int:
    """First of ``n`` consecutive free ports; processes side by side begin to look in places of their own."""
    places = list(range(21000, 29000, 17))
    first = os.getpid() % len(places)
    for base in places[first:] + places[:first]:
        try:
            for port in range(base, base + n):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
            return base
        except OSError:
            continue
    raise RuntimeError("no free ports")
