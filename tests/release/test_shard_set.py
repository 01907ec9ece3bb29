"""Sets of very many shards: what Python's sets and dictionaries say, from columns."""

import hashlib

import numpy as np
import pytest

from gristmill.blobs import LocalBlobs
from gristmill.loader.shards import Shards
from gristmill.release.shard_set import Named, NameSet, ShardSet, Sizes


def shards(numbers, *, odd=()) -> Shards:
    numbers = list(numbers)
    hashes = [hashlib.sha256(b"%d" % n).digest() for n in numbers]
    # Zeros at the end are part of a hash.
    hashes = [h[:-2] + b"\0\0" if n % 5 == 0 else h for h, n in zip(hashes, numbers, strict=True)]
    return Shards(
        np.frombuffer(b"".join(hashes), np.uint8).reshape(-1, 32), np.array([n % 3 for n in numbers], np.int32),
        ("len2", "len0", "len1"), np.array([[n, 7 * n, 0, 0] for n in numbers], np.int64).reshape(-1, 4), {},
        {i: f"elsewhere/{n}" for i, n in enumerate(numbers) if n in odd})


def plain(*sources: Shards) -> dict[str, Named]:
    out: dict[str, Named] = {}
    for s in sources:
        for i in range(len(s)):
            out.setdefault(s.hash(i), Named(s.hash(i), s.path(i), int(s.counts[i, 1])))
    return out


def test_each_shard_once_folder_by_folder():
    sources = shards(range(40), odd=(3,)), shards([]), shards(range(30, 70))
    found = list(ShardSet(sources))
    assert {s.hash: s for s in found} == plain(*sources)
    assert len(found) == len(ShardSet(sources)) == 70
    usual = [s.path for s in found if s.path != "elsewhere/3"]
    assert usual == sorted(usual)
    assert list(ShardSet([])) == []


def test_what_one_set_has_and_another_lacks():
    a, b = shards(range(50)), shards(range(20, 90))
    one, two = ShardSet([a]), ShardSet([b])
    assert one.without(two) == sorted(set(plain(a)) - set(plain(b)))
    assert two.without(one) == sorted(set(plain(b)) - set(plain(a)))
    assert one.without(one) == ShardSet([]).without(one) == []
    assert one.without(ShardSet([])) == sorted(plain(a))


def test_names_that_were_added_are_there_and_no_others():
    names = NameSet()
    assert "x" not in names
    for start in (0, 500):
        names.add(f"shards/a/{i}" for i in range(start, start + 700))
    assert all(f"shards/a/{i}" in names for i in range(1200))
    assert not any(f"shards/b/{i}" in names for i in range(1200))


def test_sizes_are_those_of_the_files_and_a_folder_is_listed_once(tmp_path, monkeypatch):
    blobs = LocalBlobs(tmp_path)
    for i in range(6):
        blobs.put(f"shards/s{i % 2}/{i}/shard_00000.bin", b"x" * i)
    blobs.put("elsewhere/x.bin", b"1234")
    listed = []
    monkeypatch.setattr(LocalBlobs, "list", lambda self, prefix, real=LocalBlobs.list: listed.append(prefix)
                        or real(self, prefix))
    sizes = Sizes(blobs)
    wanted = [f"shards/s{i % 2}/{i}/shard_00000" for i in (0, 2, 4, 6, 1, 3, 5)]
    assert [sizes.of(f"{path}.bin") for path in wanted] == [0, 2, 4, None, 1, 3, 5]
    assert [sizes.of(f"{path}.idx") for path in wanted[-1:]] == [None]
    assert listed == ["shards/s0", "shards/s1"]
    assert (sizes.of("elsewhere/x.bin"), sizes.of("shards/none/0/shard_00000.bin")) == (4, None)


@pytest.mark.parametrize("n", [0, 1, 3])
def test_rows_and_totals_of_few_shards(n):
    assert len(ShardSet([shards(range(n))])) == n
