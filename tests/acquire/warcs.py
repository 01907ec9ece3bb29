"""WARC bytes made in tests, and a place to read them from."""

import base64
import gzip
import hashlib
from pathlib import Path
from typing import Any

import lz4.frame
import zstandard

from gristmill.acquire.heads import Loss, RawRecord
from gristmill.acquire.source import Source
from gristmill.acquire.warc import read_records
from gristmill.blobs import LocalBlobs
from gristmill.funnel import BY_NAME, Plan
from gristmill.params import PipelineParams, SiteConfig
from gristmill.partition import Partition
from gristmill.registry import Registry
from gristmill.store import Store

DATE = "2026-06-01T10:00:00Z"


def page(text: str = "Hello") -> bytes:
    return f"<!doctype html><html><body><p>{text}</p></body></html>".encode()


def http(body: bytes, *headers: str, status: str = "HTTP/1.1 200 OK", content_type: str | None = "text/html") -> bytes:
    lines = [status, *([f"Content-Type: {content_type}"] if content_type else []), *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def sha1(data: bytes) -> str:
    return "sha1:" + base64.b32encode(hashlib.sha1(data).digest()).decode()


def record(uri: str | bytes | None, block: bytes, *, kind: str = "response", date: str | None = DATE,
           headers: dict[str, str] | None = None, length: int | None = None, record_id: bool = True,
           content_type: str = "application/http; msgtype=response") -> bytes:
    lines = [b"WARC/1.0", f"WARC-Type: {kind}".encode()]
    if record_id:
        lines.append(f"WARC-Record-ID: <urn:uuid:{hashlib.md5(block + repr(uri).encode()).hexdigest()}>".encode())
    if uri is not None:
        lines.append(b"WARC-Target-URI: " + (uri.encode() if isinstance(uri, str) else uri))
    if date is not None:
        lines.append(f"WARC-Date: {date}".encode())
    lines += [f"{n}: {v}".encode() for n, v in (headers or {}).items()]
    lines += [f"Content-Type: {content_type}".encode(),
              f"Content-Length: {len(block) if length is None else length}".encode()]
    return b"\r\n".join(lines) + b"\r\n\r\n" + block + b"\r\n\r\n"


def ten(size: int = 400) -> list[bytes]:
    """Ten records with incompressible-ish pages, each with its block digest."""
    out = []
    for i in range(10):
        noise = hashlib.shake_256(str(i).encode()).hexdigest(size)
        block = http(page(f"page {i} {noise}"))
        out.append(record(f"http://host{i % 3}.example/{i}", block, headers={"WARC-Block-Digest": sha1(block)}))
    return out


ZSTD = zstandard.ZstdCompressor(write_checksum=True)
PACK = {
    "gz": lambda raw: gzip.compress(raw, mtime=0),
    "zst": ZSTD.compress,
    "lz4": lambda raw: lz4.frame.compress(raw, content_checksum=True),
    "plain": lambda raw: raw,
}
SUFFIX = {"gz": ".warc.gz", "zst": ".warc.zst", "lz4": ".warc.lz4", "plain": ".warc"}


def source(folder: Path, data: bytes, name: str = "file.warc.gz", block: int = 0) -> Source:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return Source(LocalBlobs(folder), name, len(data), block)


def read(folder: Path, data: bytes, name: str = "file.warc.gz", **how: Any) -> tuple[list[RawRecord], list[Loss]]:
    found = list(read_records(source(folder, data, name), **how))
    return [f for f in found if isinstance(f, RawRecord)], [f for f in found if isinstance(f, Loss)]


def uris(records: list[RawRecord]) -> list[str]:
    return [(r.get(b"warc-target-uri") or b"").decode("utf-8", "replace") for r in records]


class World:
    """A landing area and a store in a folder."""

    def __init__(self, folder: Path, params: PipelineParams) -> None:
        self.folder, self.params, self.plan = folder, params, Plan(params)
        self.site = SiteConfig(store=str(folder / "store"), landing=str(folder / "landing"),
                               holdout=str(folder / "holdout"), models=str(folder / "models"))
        self.store = Store(folder / "store")

    def part(self, stage: str, crawl: str | None, bucket: int | None = None) -> Partition:
        return Partition(self.store, self.plan, BY_NAME[stage], crawl, bucket, self.site)

    def register(self, *crawls: str) -> None:
        for crawl in crawls:
            Registry(self.store).register(crawl)
