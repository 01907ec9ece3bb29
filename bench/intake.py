"""Reading WARC files: speed and recall after damage beside FastWARC and warcio, and the intake's stages with 2 workers.

Belongs here: readers on the same real pages. Does not belong here: extraction and everything after it. FastWARC and
warcio are libraries that this project installs too, so they run here and not in an environment of their own.

    python -m bench.intake [TIMES]     TIMES: how often the 760 pages are taken for the stages
"""

import contextlib
import gzip
import io
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import crawl, gold
from bench.peer import run_own
from bench.report import Report

TIMES = 4
BUCKETS = 4
ROUNDS = 3
RECORDS = 10
CRAWL = "BENCH-1"
DAMAGES = ("bad member header", "flipped bytes", "truncated member", "missing blank lines")
Blocks = list[bytes]


def main(times: int = TIMES) -> None:
    report = Report("intake")
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        folder = Path(scratch)
        crawl.write(folder / "one", 1, files=1)
        _speed(report, folder / "one" / "bench-00000.warc.gz")
        _recall(report, folder)
        _, pages = crawl.write(folder / "warcs", times)
        _stages(report, folder, pages)
    report.write()


# -- readers: all blocks of a file, as far as the reader gets ----------------------------------------------------------


def ours(path: Path) -> Blocks:
    from gristmill.acquire.heads import RawRecord
    from gristmill.acquire.source import Source
    from gristmill.acquire.warc import read_records
    from gristmill.blobs import LocalBlobs

    source = Source(LocalBlobs(path.parent), path.name, path.stat().st_size)
    return [r.block for r in read_records(source) if isinstance(r, RawRecord)]


def fastwarc(path: Path) -> Blocks:
    from fastwarc.warc import ArchiveIterator

    out: Blocks = []
    with path.open("rb") as file:
        try:
            for record in ArchiveIterator(file, parse_http=False):
                out.append(record.reader.read())
        except Exception:  # noqa: BLE001 - a loop over it ends here, whatever it raises
            return out
    return out


def warcio(path: Path) -> Blocks:
    from warcio.archiveiterator import ArchiveIterator

    out: Blocks = []
    with path.open("rb") as file, contextlib.redirect_stderr(io.StringIO()):  # it prints what it finds damaged
        try:
            for record in ArchiveIterator(file, no_record_parse=True):
                out.append(record.raw_stream.read())
        except Exception:  # noqa: BLE001 - likewise
            return out
    return out


PEERS: dict[str, Callable[[Path], Blocks]] = {"FastWARC": fastwarc, "warcio": warcio}


def _speed(report: Report, path: Path) -> None:
    """CPU seconds of the fastest of some rounds, in turn, so that a busy moment hits nobody alone."""
    best: dict[str, float] = {}
    blocks: dict[str, Blocks] = {}
    for _ in range(ROUNDS):
        for name, read in {"ours": ours, **PEERS}.items():
            start = time.process_time()
            blocks[name] = read(path)
            best[name] = min(best.get(name, float("inf")), time.process_time() - start)
    size = sum(map(len, blocks["ours"])) / 1e6
    for name in PEERS:
        assert blocks[name] == blocks["ours"], f"{name} reads other bytes than ours"
        report.add(
            f"reading a .warc.gz, one core: MB/s of blocks, beside {name}",
            size / best["ours"],
            size / best[name],
            best[name] / best["ours"],
            note="CPU time; ours keeps every record's place and goes on after damage",
        )


# -- damage ------------------------------------------------------------------------------------------------------------


def _recall(report: Report, folder: Path) -> None:
    """Of ten records with one damaged, how many of the nine others are read, over every place of the damaged one."""
    pages = [page for page in gold.pages("traf") if len(page.body) > 4000][:RECORDS]
    members = [crawl.member(page.id, page.url, page.content_type, page.body, crawl.START) for page in pages]
    whole = [gzip.decompress(m) for m in members]
    path = folder / "damaged.warc.gz"
    path.write_bytes(b"".join(members))
    expected = ours(path)
    assert len(expected) == RECORDS
    for damage in DAMAGES:
        found = dict.fromkeys(("ours", *PEERS), 0)
        for place in range(RECORDS):
            hurt = _hurt(damage, members[place], whole[place])
            path.write_bytes(b"".join([*members[:place], hurt, *members[place + 1 :]]))
            intact = [block for i, block in enumerate(expected) if i != place]
            for name, read in {"ours": ours, **PEERS}.items():
                got = set(read(path))
                found[name] += sum(block in got for block in intact)
        share = {name: count / (RECORDS * (RECORDS - 1)) for name, count in found.items()}
        for name in PEERS:
            report.add(
                f"{damage} in one of ten records: share of the nine others read, beside {name}",
                share["ours"],
                share[name],
                share["ours"] / share[name] if share[name] else None,
                "9 of 9",
                share["ours"] == 1.0,
            )


def _hurt(damage: str, member: bytes, raw: bytes) -> bytes:
    if damage == "bad member header":
        return b"\x00\x00\x00\x00" + member[4:]
    if damage == "flipped bytes":
        middle = len(member) // 2
        return member[:middle] + bytes(b ^ 0x5A for b in member[middle : middle + 16]) + member[middle + 16 :]
    if damage == "truncated member":
        return member[: 2 * len(member) // 3]
    return gzip.compress(raw.removesuffix(b"\r\n\r\n"), mtime=0)


# -- stages ------------------------------------------------------------------------------------------------------------


def _stages(report: Report, folder: Path, pages: int) -> None:
    sides = {n: run_own("bench.intake", ["--stages", str(n), str(folder / "warcs"), str(folder / f"s{n}")])
             for n in (2, 1)}  # fmt: skip
    one, two = sides[1], sides[2]
    assert one["digest"] == two["digest"], "one worker and two make different bytes"
    report.add(
        "intake's stages (slices, raw WARC, unique), 2 workers beside 1: records/s",
        pages / two["seconds"],
        pages / one["seconds"],
        one["seconds"] / two["seconds"],
        note=f"{pages:,} pages, {BUCKETS} buckets; the same bytes from both; starting workers included",
    )
    report.add("  the same, MB/s of blocks", one["mb"] / two["seconds"], one["mb"] / one["seconds"])
    report.add("  peak memory of one process, MB", two["_peak_rss_mb"], one["_peak_rss_mb"])


def stages(workers: int, warcs: Path, out: Path) -> dict[str, Any]:
    """Land the files, take them through the intake, and say how long the stages took and what they made."""
    from gristmill.acquire.landing import land
    from gristmill.fingerprint import digest
    from gristmill.funnel import BY_NAME, Plan
    from gristmill.params import GridParams, PipelineParams, SiteConfig
    from gristmill.registry import Registry
    from gristmill.runner import run_stage
    from gristmill.store import Store

    land(sorted(warcs.glob("*.warc.gz")), CRAWL, out / "landing")
    site = SiteConfig(store=str(out / "store"), landing=str(out / "landing"))
    store, plan = Store(site.store), Plan(PipelineParams(grid=GridParams(host_buckets=BUCKETS)))
    Registry(store).register(CRAWL)
    list(run_stage(store, plan, site, BY_NAME["landing"], CRAWL))
    start = time.perf_counter()
    made = [
        m.manifest
        for name in ("crawl_slices", "raw_warc", "unique_records")
        for m in run_stage(store, plan, site, BY_NAME[name], CRAWL, workers=workers)
    ]
    seconds = time.perf_counter() - start
    read = sum(m.counts.bytes_in for m in made if m.asset == "crawl_slices")
    return {"seconds": seconds, "mb": read / 1e6, "digest": digest(sorted(m.digest for m in made))}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--stages"]:
        print(json.dumps(stages(int(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4]))))
    elif not gold.available():
        sys.exit("bench.intake needs the pages of ../shared/data")
    else:
        main(*(int(a) for a in sys.argv[1:2]))
