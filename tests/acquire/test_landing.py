"""The landing area: Common Crawl's layout, dealt to slices the same way whatever the order, and clear about faults."""

import gzip
import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.acquire import landing
from gristmill.acquire.landing import Landed
from gristmill.blobs import LocalBlobs, S3Blobs
from gristmill.errors import LandingError, StoreError
from tests.acquire.warcs import ten


def lay(root, crawl, files, listing=None):
    base = root / "crawl-data" / crawl
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    base.mkdir(parents=True, exist_ok=True)
    (base / landing.LISTING).write_bytes(landing.listing_bytes(files if listing is None else listing))
    return LocalBlobs(root)


def name(crawl, n, kind="warc", suffix="warc.gz"):
    return f"crawl-data/{crawl}/segments/1/{kind}/part-{n:05d}.{suffix}"


def test_a_listing_is_read_in_any_order_and_each_file_once(tmp_path):
    files = {name("CC-MAIN-2026-26", n): bytes(n + 1) for n in range(5)}
    blobs = lay(tmp_path, "CC-MAIN-2026-26", files, [*files, *files])
    found = landing.read_listing(blobs, "CC-MAIN-2026-26")
    assert [(f.path, f.bytes) for f in found.files] == [(n, len(d)) for n, d in sorted(files.items())]
    assert found.source_tier == "cc"
    shuffled = list(files)
    random.Random(1).shuffle(shuffled)
    path = tmp_path / "crawl-data/CC-MAIN-2026-26" / landing.LISTING
    path.write_bytes(gzip.compress("\n".join(shuffled).encode()))
    assert landing.read_listing(blobs, "CC-MAIN-2026-26").digest == found.digest


def test_no_such_crawl_lists_those_there_are(tmp_path):
    blobs = lay(tmp_path, "OWN-2026-07-15", {name("OWN-2026-07-15", 0): b"x"})
    with pytest.raises(LandingError, match=r"no crawl 'CC-MAIN-2099-01'.*There are: OWN-2026-07-15.*gristmill land"):
        landing.read_listing(blobs, "CC-MAIN-2099-01")
    with pytest.raises(LandingError, match="Nothing has landed there"):
        landing.require_crawl(tmp_path / "empty", "CC-MAIN-2099-01")


@pytest.mark.parametrize("content", [b"", b"\n \n", gzip.compress(b"", mtime=0), gzip.compress(b"\n\n", mtime=0)])
def test_an_empty_listing_is_an_error(tmp_path, content):
    blobs = lay(tmp_path, "C", {})
    (tmp_path / "crawl-data/C" / landing.LISTING).write_bytes(content)
    with pytest.raises(LandingError, match="names no file"):
        landing.read_listing(blobs, "C")


def test_a_damaged_listing_is_an_error(tmp_path):
    blobs = lay(tmp_path, "C", {name("C", 0): b"x"})
    path = tmp_path / "crawl-data/C" / landing.LISTING
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(LandingError, match="cannot be read"):
        landing.read_listing(blobs, "C")


def test_missing_files_are_listed(tmp_path):
    files = {name("C", n): b"x" for n in range(3)}
    blobs = lay(tmp_path, "C", files, [*files, name("C", 7), name("C", 8)])
    with pytest.raises(LandingError, match=r"names 2 of 5 files.*part-00007.*part-00008"):
        landing.read_listing(blobs, "C")


def test_a_listing_cannot_leave_the_landing_area(tmp_path):
    blobs = lay(tmp_path, "C", {name("C", 0): b"x"}, [name("C", 0), "../../secret.warc.gz"])
    with pytest.raises(LandingError, match="relative to the landing root"):
        landing.read_listing(blobs, "C")


def test_wet_and_wat_are_refused_and_the_crawl_goes_on(tmp_path):
    files = {name("C", 0): b"x", name("C", 0, "wet", "warc.wet.gz"): b"y", name("C", 0, "wat", "warc.wat.gz"): b"z",
             "crawl-data/C/segments/1/warc/index.cdx": b"c"}
    found = landing.read_listing(lay(tmp_path, "C", files), "C")
    assert {f.path: f.kind for f in found.files} == {
        n: "warc" if n.endswith("/warc/part-00000.warc.gz") else "refused" for n in files
    }
    assert all(f.why for f in found.files if f.kind == "refused")


def test_a_missing_wet_file_does_not_stop_a_crawl(tmp_path):
    files = {name("C", 0): b"x"}
    found = landing.read_listing(lay(tmp_path, "C", files, [*files, name("C", 0, "wet", "warc.wet.gz")]), "C")
    assert [f.kind for f in found.files] == ["warc", "refused"]


def test_a_listing_of_wet_alone_is_an_error(tmp_path):
    blobs = lay(tmp_path, "C", {name("C", n, "wet", "warc.wet.gz"): b"y" for n in range(3)})
    with pytest.raises(LandingError, match=r"no file that is read: .*and 2 more are WET"):
        landing.read_listing(blobs, "C")


def test_source_yaml_names_licence_and_tier(tmp_path):
    blobs = lay(tmp_path, "C", {name("C", 0): b"x"})
    before = landing.read_listing(blobs, "C")
    (tmp_path / "crawl-data/C/source.yaml").write_text("license: CC-BY-4.0\ntier: academic\n")
    found = landing.read_listing(blobs, "C")
    assert (found.source_tier, found.license_id) == ("academic", "CC-BY-4.0")
    assert (before.source_tier, before.license_id) == ("own_crawl", None)
    assert found.digest != before.digest
    (tmp_path / "crawl-data/C/source.yaml").write_text("tier: pirated\n")
    with pytest.raises(LandingError, match="pirated"):
        landing.read_listing(blobs, "C")


def test_a_delivery_of_another_tier(tmp_path):
    folder = tmp_path / "sources/licensed/acme/LIC-acme-A-2024-11"
    folder.mkdir(parents=True)
    (folder / "source.yaml").write_text("license: LicenseRef-acme\n")
    (folder / "b.warc.gz").write_bytes(b"x")
    (folder / "a.warc").write_bytes(b"xx")
    found = landing.read_listing(LocalBlobs(tmp_path), "LIC-acme-A-2024-11")
    assert [f.path.rsplit("/", 1)[1] for f in found.files] == ["a.warc", "b.warc.gz"]
    assert (found.source_tier, found.license_id) == ("licensed", "LicenseRef-acme")
    assert landing.crawls(LocalBlobs(tmp_path)) == ["LIC-acme-A-2024-11"]


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=30), st.integers(1, 8), st.randoms())
def test_pieces_cover_every_file_once_and_do_not_depend_on_order(sizes, slices, rng):
    files = [Landed(f"f{i:02d}.warc.gz", s, "warc") for i, s in enumerate(sizes)]
    pieces = landing.deal(files, slices, 1000)
    for file in files:
        mine = sorted((p.start, p.end) for p in pieces if p.path == file.path)
        assert mine[0][0] == 0
        assert mine[-1][1] == file.bytes
        assert all(a[1] == b[0] for a, b in itertools.pairwise(mine))
    rng.shuffle(files)
    assert landing.deal(files, slices, 1000) == pieces
    loads = [sum(p.end - p.start for p in pieces if p.slice == n) for n in range(slices)]
    assert max(loads) <= sum(sizes) / slices + 1000  # longest first: off by one piece at most


def test_a_30_gb_file_is_many_slices_and_a_plain_one_is_not_cut():
    big = Landed("big.warc.gz", 30 << 30, "warc")
    pieces = landing.deal([big], 64, 1 << 30)
    assert len({p.slice for p in pieces}) == 30
    assert len(landing.deal([Landed("big.warc", 30 << 30, "warc")], 64, 1 << 30)) == 1


def files_in(folder, n=2):
    folder.mkdir(parents=True, exist_ok=True)
    out = []
    for i in range(n):
        out.append(folder / f"f{i}.warc.gz")
        out[-1].write_bytes(gzip.compress(ten()[i], mtime=0))
    return out


def check_land(root, blobs, folder):
    files = files_in(folder)
    listed = landing.land(files, "MINE-1", root)
    assert [f.path for f in landing.read_listing(blobs, "MINE-1").files] == listed
    assert [blobs.get(p) for p in listed] == [f.read_bytes() for f in files]
    before = {p: blobs.get(p) for p, _ in blobs.list("")}
    assert landing.land(files[::-1], "MINE-1", root) == listed
    assert {p: blobs.get(p) for p, _ in blobs.list("")} == before
    assert all(f.is_file() for f in files)


def test_land_lays_files_out_and_doing_it_again_changes_nothing(tmp_path):
    check_land(tmp_path / "landing", LocalBlobs(tmp_path / "landing"), tmp_path / "in")


@pytest.mark.service
def test_land_on_s3(tmp_path, s3_server, monkeypatch):
    for key, value in s3_server.environment().items():
        monkeypatch.setenv(key, value)
    root = "s3://mill/landing"
    check_land(root, S3Blobs(root), tmp_path / "in")


def test_land_refuses_to_overwrite(tmp_path):
    files = files_in(tmp_path / "in", 3)
    root = tmp_path / "landing"
    landing.land(files[:2], "MINE-1", root)
    with pytest.raises(LandingError, match="with other files"):
        landing.land(files, "MINE-1", root)
    files[0].write_bytes(files[2].read_bytes() + b"\x00")
    with pytest.raises(LandingError, match="other content"):
        landing.land(files[:2], "MINE-1", root)


def test_a_damaged_file_is_landed(tmp_path):
    file, other = files_in(tmp_path / "in", 2)
    file.write_bytes(b"\x00" * 20 + file.read_bytes()[20:] + other.read_bytes())
    assert len(landing.land([file], "M", tmp_path / "landing")) == 1


def test_a_place_without_a_name_is_refused(tmp_path):
    with pytest.raises(StoreError, match="without a name"):
        landing.land(files_in(tmp_path / "in", 1), "M", "")


def test_land_takes_two_files_of_one_name(tmp_path):
    one, two = files_in(tmp_path / "a", 1)[0], files_in(tmp_path / "b", 2)[1].rename(tmp_path / "b" / "f0.warc.gz")
    listed = landing.land([one, two], "M", tmp_path / "landing")
    assert len(listed) == 2
    assert landing.land([two, one], "M", tmp_path / "landing") == listed


def test_an_interrupted_landing_is_resumed(tmp_path):
    files = files_in(tmp_path / "in")
    root = tmp_path / "landing"
    listed = landing.land(files, "M", root)
    (root / "crawl-data/M" / landing.LISTING).unlink()
    (root / listed[1]).unlink()
    assert landing.crawls(LocalBlobs(root)) == []
    assert landing.land(files, "M", root) == listed


@pytest.mark.parametrize(("files", "crawl", "message"), [
    (["gone.warc.gz"], "M", "no file"), ([], "M", "no file to land"), (["x.warc.wet.gz"], "M", "WET"),
    (["x.txt"], "M", "not named as a WARC"), (["f0.warc.gz"], "a|b", "cannot name a crawl"),
    (["empty.warc.gz"], "M", "it is empty"), (["hello.warc.gz"], "M", "holds no WARC or ARC record"),
])
def test_what_cannot_be_landed(tmp_path, files, crawl, message):
    files_in(tmp_path, 1)
    for extra in ("x.warc.wet.gz", "x.txt"):
        (tmp_path / extra).write_bytes(b"x")
    (tmp_path / "empty.warc.gz").touch()
    (tmp_path / "hello.warc.gz").write_bytes(b"hello")
    with pytest.raises(LandingError, match=message):
        landing.land([tmp_path / f for f in files], crawl, tmp_path / "landing")
    assert not (tmp_path / "landing" / "crawl-data").exists()
