"""The landing area: Common Crawl's own layout, so that a mirror works as it is.

Belongs here: listings (``crawl-data/{crawl}/warc.paths.gz``), deliveries of other tiers (``sources/{tier}/{name}/
{delivery}/`` with a ``source.yaml``), laying loose files out that way, and dealing files to slices. Does not belong
here: reading records (``warc.py``).
"""

import gzip
import hashlib
import heapq
import io
import re
import shutil
import tempfile
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import yaml

from gristmill.blobs import Blobs, LocalBlobs, open_blobs
from gristmill.errors import LandingError
from gristmill.fingerprint import digest
from gristmill.registry import NAME
from gristmill.strict_json import require_text

LISTING = "warc.paths.gz"
ROBOTS_LISTING = "robotstxt.paths.gz"
TIERS = ("own_crawl", "cc", "licensed", "code", "academic", "synthetic")
MAX_NAMED = 10  # missing files named in a message; the rest is a count
PROBE = 1 << 20  # bytes of a file in which a record must begin
# gzip with deflate, Zstandard and its skippable frame (a dictionary), LZ4, and the first words of plain records.
RECORD_MAGIC = (b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"\x2a\x4d\x18", b"\x04\x22\x4d\x18", b"WARC/", b"filedesc:")
_WARC_NAME = re.compile(r"\.(?:warc|arc)(?:\.(?:gz|zst|zstd|lz4))?$", re.IGNORECASE)
_DERIVED = re.compile(r"(?:\.(?:wet|wat)(?:\.(?:gz|zst|zstd|lz4))?$)|(?:^|/)(?:wet|wat)/", re.IGNORECASE)

Kind = Literal["warc", "refused"]


@dataclass(frozen=True)
class Landed:
    """One file of a crawl's listing."""

    path: str
    bytes: int
    kind: Kind
    why: str = ""
    stamp: str = ""  # modification time or ETag: says that the file was replaced, and never what it holds


@dataclass(frozen=True)
class Listing:
    """What a crawl's listing names, sorted by path, each file once.

    Attributes:
        files: also those that are refused.
        source_tier: of the delivery.
        license_id: of the delivery, or None.
        digest: of all of it; another digest is another landing.
    """

    files: tuple[Landed, ...]
    source_tier: str
    license_id: str | None

    @property
    def digest(self) -> str:
        """sha256 over paths, sizes, stamps, tier and licence, whatever the listing's order."""
        return digest([self.source_tier, self.license_id, [[f.path, f.bytes, f.kind, f.stamp] for f in self.files]])

    def stamps(self, pieces: Iterable["Piece"]) -> dict[str, str]:
        """Slice -> digest of the stamps of the files that it reads: only its slices read a replaced file again."""
        stamp = {f.path: f.stamp for f in self.files}
        by_slice: dict[int, set[str]] = {}
        for piece in pieces:
            by_slice.setdefault(piece.slice, set()).add(piece.path)
        return {str(n): digest([[p, stamp[p]] for p in sorted(paths)]) for n, paths in sorted(by_slice.items())}


@dataclass(frozen=True)
class Piece:
    """A byte range of a file, read by one slice."""

    slice: int
    path: str
    file_bytes: int
    start: int
    end: int
    kind: Kind
    why: str


def folders(landing: Blobs) -> dict[str, str]:
    """Crawl or delivery -> its folder, by name, whether its listing is there yet or not. Nothing deeper is listed."""
    found = {name: f"crawl-data/{name}" for name in landing.children("crawl-data")[0]}
    for tier in landing.children("sources")[0]:
        for source in landing.children(f"sources/{tier}")[0]:
            for name in landing.children(f"sources/{tier}/{source}")[0]:
                found[name] = f"sources/{tier}/{source}/{name}"
    return dict(sorted(found.items()))


def announces(folder: str, name: str) -> bool:
    """Does a file of this name in such a folder say that something has landed."""
    return name == LISTING or (folder.startswith("sources/") and name == "source.yaml")


def crawls(landing: Blobs) -> list[str]:
    """Crawls and deliveries that have landed: those whose listing is there."""
    return [name for name, folder in folders(landing).items()
            if any(announces(folder, file) for file in landing.children(folder)[1])]


def read_listing(landing: Blobs, crawl: str) -> Listing:
    """What has landed of a crawl.

    Raises:
        LandingError: no such crawl (the message lists those there are), an empty listing, one that names missing files,
            one that names nothing but WET or WAT.
    """
    folder = f"crawl-data/{crawl}"
    name = f"{folder}/{LISTING}"
    try:
        raw = landing.get(name)
    except FileNotFoundError:
        return _delivery(landing, crawl)
    paths = _paths(name, raw)
    rules = landing.size(f"{folder}/{ROBOTS_LISTING}")  # Common Crawl keeps robots.txt files apart
    if rules is not None:
        paths = sorted({*paths, *_paths(f"{folder}/{ROBOTS_LISTING}", landing.get(f"{folder}/{ROBOTS_LISTING}"))})
    tier, license_id = _source(landing, folder, "cc" if crawl.startswith("CC-") else "own_crawl")
    return _listing(landing, crawl, folder, paths, tier, license_id)


def require_crawl(landing_root: str | Path, crawl: str) -> Listing:
    """The listing of a crawl in a landing area, or an error that says what is wrong with it: for what launches runs.

    Raises:
        LandingError: as ``read_listing``.
    """
    return read_listing(open_blobs(landing_root), crawl)


def _paths(name: str, raw: bytes) -> list[str]:
    try:
        text = gzip.decompress(raw).decode("utf-8") if raw[:2] == b"\x1f\x8b" else raw.decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise LandingError(f"the listing {name} cannot be read ({error}): fetch it again") from error
    paths = sorted({line.strip() for line in text.splitlines() if line.strip()})
    if not paths:
        raise LandingError(f"the listing {name} names no file: it is empty; fetch it again, or land the files first")
    bad = [p for p in paths if p.startswith("/") or "://" in p or ".." in p.split("/") or not p.isprintable()]
    if bad:
        raise LandingError(f"the listing {name} names {bad[0]!r}: paths in a listing are relative to the landing root")
    return paths


def _delivery(landing: Blobs, crawl: str) -> Listing:
    """A delivery of another tier: a listing, or all WARC files below its folder."""
    for path, _ in landing.list("sources"):
        parts = path.split("/")
        if len(parts) == 5 and parts[3] == crawl and parts[4] == "source.yaml":
            folder = "/".join(parts[:4])
            tier, license_id = _source(landing, folder, parts[1])
            try:
                paths = _paths(f"{folder}/{LISTING}", landing.get(f"{folder}/{LISTING}"))
            except FileNotFoundError:
                paths = [p for p, _ in landing.list(folder) if _WARC_NAME.search(p) and not _DERIVED.search(p)]
                if not paths:
                    raise LandingError(f"the delivery {folder} holds no WARC file") from None
            return _listing(landing, crawl, folder, paths, tier, license_id)
    there = crawls(landing)
    raise LandingError(
        f"no crawl {crawl!r} has landed in {landing.root}: there is no crawl-data/{crawl}/{LISTING}. "
        + (f"There are: {', '.join(there[:50])}" if there else "Nothing has landed there")
        + f". `gristmill land FILE.warc.gz... --as {crawl}` lays files out that way"
    )


def require_named(name: str, tier: str | None = None) -> None:
    """Refuse what cannot be a crawl's name, or is no tier: before anything that is to land is read.

    Raises:
        LandingError: naming it.
    """
    if not NAME.match(name):
        raise LandingError(f"{name!r} cannot name a crawl: letters, digits, dot, dash and underscore, at most 100")
    if tier is not None and tier not in TIERS:
        raise LandingError(f"tier {tier!r} is none of {', '.join(TIERS)}")


def say_source(landing_root: str | Path, name: str, tier: str | None, license_id: str | None) -> None:
    """Write a crawl's ``source.yaml``, before the crawl lands; written again it must say the same.

    Raises:
        LandingError: no such tier, or the crawl has landed as something else.
    """
    require_named(name, tier)
    path = f"crawl-data/{name}/source.yaml"
    said = {k: v for k, v in (("tier", tier), ("license", license_id)) if v is not None}
    data = yaml.safe_dump(said).encode()
    landing = open_blobs(landing_root)
    try:
        landing.create(path, data)
    except FileExistsError as error:
        if landing.get(path) != data:
            raise LandingError(f"{name} has landed already as {landing.get(path).decode()!r}") from error


def _source(landing: Blobs, folder: str, tier: str) -> tuple[str, str | None]:
    """(tier, licence) of ``source.yaml``, where there is one."""
    try:
        data = require_text(yaml.safe_load(landing.get(f"{folder}/source.yaml"))) or {}
    except FileNotFoundError:
        data = {}
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise LandingError(f"{folder}/source.yaml cannot be read as YAML: {error}") from error
    if not isinstance(data, dict):
        raise LandingError(f"{folder}/source.yaml must hold fields, such as `license: CC-BY-4.0`")
    tier = str(data.get("tier", tier))
    if tier not in TIERS:
        raise LandingError(f"{folder}: tier {tier!r} is none of {', '.join(TIERS)}")
    license_id = data.get("license")
    return tier, None if license_id is None else str(license_id)


def _listing(landing: Blobs, crawl: str, folder: str, paths: list[str], tier: str, license_id: str | None) -> Listing:
    there = landing.stamps(folder)  # one listing instead of a request a file
    for parent in sorted({p.rpartition("/")[0] for p in paths if p not in there}):
        there.update(landing.stamps(parent))
    files: list[Landed] = []
    missing: list[str] = []
    for path in paths:
        why = refusal(path)
        size, stamp = there.get(path, (None, ""))
        if why:
            files.append(Landed(path, size or 0, "refused", why, stamp))
        elif size is None:
            missing.append(path)
        else:
            files.append(Landed(path, size, "warc", "", stamp))
    if missing:
        more = f" and {len(missing) - MAX_NAMED} more" if len(missing) > MAX_NAMED else ""
        raise LandingError(
            f"the listing of {crawl} names {len(missing)} of {len(paths)} files that are not in {landing.root}: "
            f"{', '.join(missing[:MAX_NAMED])}{more}. Fetch them, or take them out of the listing"
        )
    if all(f.kind == "refused" for f in files):
        raise LandingError(
            f"the listing of {crawl} names no file that is read: {files[0].path}"
            f"{f' and {len(files) - 1} more are' if len(files) > 1 else ' is'} {files[0].why}. Land the WARC files "
            "themselves; texts of another tool come in by `gristmill import`"
        )
    return Listing(tuple(files), tier, license_id)


def refusal(path: str) -> str:
    """Why a file is not read, or an empty string."""
    if _DERIVED.search(path):
        return "WET or WAT (made by another extractor, its markup is lost)"
    if not _WARC_NAME.search(path):
        return "not named as a WARC or ARC file"
    return ""


def deal(files: Sequence[Landed], slices: int, range_bytes: int) -> list[Piece]:
    """Byte ranges of files, dealt to slices so that they hold about as many bytes each; the same for any order.

    A file over ``range_bytes`` becomes several ranges, cut at multiples of it (a plain file cannot be cut, and is one).
    Longest first, each to the emptiest slice.
    """
    pieces = []
    for file in sorted(files, key=lambda f: f.path):
        if file.kind == "refused":
            pieces.append((0, file, 0, 0))
            continue
        step = range_bytes if file.path.lower().endswith((".gz", ".zst", ".zstd", ".lz4")) else max(file.bytes, 1)
        for start in range(0, max(file.bytes, 1), step):
            pieces.append((min(step, file.bytes - start), file, start, min(start + step, file.bytes)))
    pieces.sort(key=lambda p: (-p[0], p[1].path, p[2]))
    heap = [(0, number) for number in range(slices)]
    dealt = []
    for size, file, start, end in pieces:
        load, number = heapq.heappop(heap)
        heapq.heappush(heap, (load + size, number))
        dealt.append(Piece(number, file.path, file.bytes, start, end, file.kind, file.why))
    return sorted(dealt, key=lambda p: (p.slice, p.path, p.start))


def _no_records(file: Path) -> str | None:
    """Why a file cannot hold a record: it is empty, or nothing a record begins with is near its beginning.

    A damaged file passes, whatever is damaged: what can be read of it is for the reader to find, and to count.
    """
    with file.open("rb") as opened:
        head = opened.read(PROBE)
    if not head:
        return "it is empty"
    return None if any(magic in head for magic in RECORD_MAGIC) else \
        "it holds no WARC or ARC record, compressed or plain (its name is all that says so)"


def land(files: Iterable[str | Path], name: str, landing_root: str | Path) -> list[str]:
    """Lay loose WARC files out as a crawl: copied, with a listing. Doing it again changes nothing.

    Args:
        files: on this machine.
        name: of the crawl.
        landing_root: folder or ``s3://``.

    Returns:
        Paths of the listing.

    Raises:
        LandingError: a file that is missing or is no WARC, a name that cannot be one, or a crawl of that name that has
            other content: a landing is never overwritten.
    """
    require_named(name)
    sources = [Path(f) for f in files]
    if not sources:
        raise LandingError("no file to land was named")
    for source in sources:
        if not source.is_file():
            raise LandingError(f"no file {source}")
        why = refusal(source.name) or _no_records(source)
        if why:
            raise LandingError(f"{source} is not landed: {why}")
    landing = open_blobs(landing_root)
    targets = _targets(sources, name)
    listing = gzip.compress(("\n".join(sorted(targets)) + "\n").encode(), mtime=0)
    listing_path = f"crawl-data/{name}/{LISTING}"
    try:
        there = landing.get(listing_path)
    except FileNotFoundError:
        there = None
    if there is not None and _paths(listing_path, there) != sorted(targets):
        raise LandingError(
            f"{name} has landed already in {landing.root} with other files: a landing is not overwritten; "
            "land these under another name"
        )
    for path, source in sorted(targets.items()):
        size = landing.size(path)
        if size is None:
            _copy(landing, path, source)
        elif size != source.stat().st_size or not _same(landing, path, source):
            raise LandingError(f"{path} has landed already with other content: land {source} under another crawl name")
    if there is None:
        try:
            landing.create(listing_path, listing)  # the crawl has landed when its listing is there: last
        except FileExistsError as error:
            raise LandingError(f"{name} was landed by another process meanwhile: look at it, and run again") from error
    return sorted(targets)


def _targets(sources: list[Path], name: str) -> dict[str, Path]:
    """Path in the landing area -> file. Files of one name go to segments of their own, by content."""
    by_name: dict[str, dict[str, Path]] = {}
    for source in sources:
        by_name.setdefault(source.name, {})[_sha256(source)] = source
    out = {}
    for base, versions in by_name.items():
        for number, content in enumerate(sorted(versions)):
            out[f"crawl-data/{name}/segments/{number:05d}/warc/{base}"] = versions[content]
    return out


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _copy(landing: Blobs, path: str, source: Path) -> None:
    if isinstance(landing, LocalBlobs):
        parent = Path(landing.root)
        parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".tmp-", dir=parent) as folder:
            copy = Path(folder) / "file"
            shutil.copyfile(source, copy)
            landing.put_file(path, copy)
        return
    with tempfile.TemporaryDirectory() as folder:
        link = Path(folder) / "file"
        link.symlink_to(source.resolve())  # put_file takes its file away: the link, not the user's file
        landing.put_file(path, link)


def _same(landing: Blobs, path: str, source: Path) -> bool:
    step, at = 8 << 20, 0
    with source.open("rb") as file:
        while block := file.read(step):
            if landing.get_range(path, at, len(block)) != block:
                return False
            at += len(block)
    return True


def listing_bytes(paths: Iterable[str]) -> bytes:
    """A listing as Common Crawl writes it: one path a line, gzipped; the same bytes for the same paths."""
    sink = io.BytesIO()
    with gzip.GzipFile(fileobj=sink, mode="wb", mtime=0) as file:
        file.write("".join(f"{p}\n" for p in sorted(paths)).encode())
    return sink.getvalue()
