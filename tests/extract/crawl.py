"""A small crawl in a store, taken as far as unique_records by the real stages."""

import gzip
from collections.abc import Mapping
from pathlib import Path

from gristmill.acquire.holdout import freeze
from gristmill.acquire.landing import land
from gristmill.funnel import BY_NAME, Plan
from gristmill.params import ExtractParams, GridParams, LanguageParams, PipelineParams, SiteConfig
from gristmill.partition import Partition
from gristmill.registry import Registry
from gristmill.runner import run_funnel
from gristmill.store import Store

CRAWL = "CC-TEST-2026-01"
UPSTREAM = ["eval_holdout", "landing", "crawl_slices", "raw_warc", "unique_records"]


def warc(pages: Mapping[str, bytes | tuple[bytes, str]]) -> bytes:
    """A gzipped WARC of responses: URL -> body, or (body, Content-Type)."""
    out = []
    for number, (url, page) in enumerate(pages.items()):
        body, kind = page if isinstance(page, tuple) else (page, "text/html")
        block = (f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n").encode() + body
        head = (
            f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:00000000-0000-0000-0000-{number:012d}>\r\n"
            f"WARC-Target-URI: {url}\r\nWARC-Date: 2026-01-02T03:04:{number % 60:02d}Z\r\n"
            f"Content-Type: application/http; msgtype=response\r\nContent-Length: {len(block)}\r\n\r\n"
        ).encode()
        out.append(gzip.compress(head + block + b"\r\n\r\n", mtime=0))
    return b"".join(out)


class Crawl:
    """One crawl of given pages; ``run`` makes stages, ``read`` reads them."""

    def __init__(
        self, root: Path, pages: Mapping[str, bytes | tuple[bytes, str]], *, buckets: int = 2, **extract: object
    ) -> None:
        (root / "in.warc.gz").write_bytes(warc(pages))
        land([root / "in.warc.gz"], CRAWL, root / "landing")
        hold = freeze(root / "holdout", {"quiz": [{"item": "1", "question": "what is the answer"}]})
        self.site = SiteConfig(
            store=str(root / "store"),
            landing=str(root / "landing"),
            holdout=str(root / "holdout"),
            models=str(root / "models"),
        )
        self.plan = Plan(
            PipelineParams(
                grid=GridParams(host_buckets=buckets),
                language=LanguageParams(min_words=20, min_chars=80),
                extract=ExtractParams(**{"holdout_hash": hold, "engine": "resiliparse"} | extract),
                # type: ignore[arg-type]
            )
        )
        self.store = Store(self.site.store)
        Registry(self.store).register(CRAWL)
        self.run(UPSTREAM)

    def run(self, stages: list[str], workers: int = 1) -> dict[str, list[str]]:
        """Digests of the partitions made, by stage."""
        out: dict[str, list[str]] = {}
        for stage, made in run_funnel(self.store, self.plan, self.site, CRAWL, workers=workers, stages=stages):
            out.setdefault(stage.name, []).append(made.manifest.digest)
        return out

    def part(self, stage: str, bucket: int = 0) -> Partition:
        return Partition(self.store, self.plan, BY_NAME[stage], CRAWL, bucket, self.site)

    def rows(self, stage: str, role: str = "data") -> list[dict]:
        part = self.part(stage)
        return [row for b in range(part.buckets) for row in part.read(stage, role=role, bucket=b).to_pylist()]
