"""The shards that a manifest names, in columns, cut out of its text while it is read.

Belongs here: those columns, and reading a manifest's JSON in pieces. Does not belong here: where a manifest lies and
whether it is the pinned one (``loader/manifest.py`` for a trainer, ``release/standing.py`` for the pipeline).

Of a manifest of 10^6 shards (some 300 MB of text) neither all bytes nor a million dictionaries ever exist: 44 bytes a
shard are kept, and 8 for every layout.
"""

import hashlib
import json
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

PIECE = 8 << 20  # bytes of a manifest that a reader hands over at once
_ENTRIES = 4096

# A shard's entry: an object without objects in it that counts its selected tokens.
_SHARD = re.compile(rb'\{[^{}]*"selected_tokens":[^{}]*\}')

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Shards:
    """The shards of one source, as columns; row i is the i-th shard of the manifest.

    Attributes:
        hashes: uint8 [shards, 32], content hashes.
        strata: their strata, as indices into ``stratum_names``.
        stratum_names: distinct strata.
        counts: int64 [shards, 4]: n_docs, n_tokens, selected_docs, selected_tokens.
        layouts: {layout: int64 [shards]}, sequences of each shard.
        odd_paths: {row: path} where a shard does not lie at its usual place.
    """

    hashes: npt.NDArray[np.uint8]
    strata: npt.NDArray[np.int32]
    stratum_names: tuple[str, ...]
    counts: I64
    layouts: Mapping[str, I64]
    odd_paths: Mapping[int, str]

    def __len__(self) -> int:
        return len(self.hashes)

    def hash(self, row: int) -> str:
        """Content hash (hex) of a shard."""
        return self.hashes[row].tobytes().hex()

    def rows(self, name: str) -> list[int]:
        """Rows of the shard with a content hash (hex): one, or none."""
        wanted = np.frombuffer(bytes.fromhex(name), np.uint8)
        found: list[int] = np.flatnonzero((self.hashes == wanted).all(axis=1)).tolist()
        return found

    def path(self, row: int) -> str:
        """Where a shard lies below the root, without the suffix of its four files."""
        usual = _usual_path(self.stratum_names[self.strata[row]], self.hash(row))
        return self.odd_paths.get(row, usual)


def fold(pieces: Iterable[bytes]) -> tuple[Any, str, ValueError | None]:
    """A manifest's JSON with every source's shards folded into ``Shards``; all else as ``json.loads`` gives it.

    Args:
        pieces: its bytes, in order, cut anywhere.

    Returns:
        (the JSON, sha256 of all bytes in hex, why they are no JSON: then the first is None).
    """
    digest = hashlib.sha256()

    def hashed() -> Iterator[bytes]:
        for piece in pieces:
            digest.update(piece)
            yield piece

    reading = hashed()
    body, broken = None, None
    try:
        body = _parse(reading)
    except (ValueError, RecursionError) as error:
        broken = ValueError(str(error))
    for _ in reading:  # what a parser that gave up has left: the hash is of all of it
        pass
    return body, digest.hexdigest(), broken


def _parse(pieces: Iterable[bytes]) -> Any:
    collector = _Collector()
    rest = bytearray()
    entries: list[bytes] = []
    held = b""
    for piece in pieces:
        held += piece
        at = 0
        for match in _SHARD.finditer(held):
            rest += held[at : match.start()]
            rest += b"null"
            entries.append(match.group())
            at = match.end()
            if len(entries) == _ENTRIES:
                collector.take(entries)
        # An entry holds no brace but its own two, so one that is not whole yet begins at the last brace.
        last = held.rfind(b"{", at)
        cut = len(held) if last < 0 else last
        rest += held[at:cut]
        held = held[cut:]
    collector.take(entries)
    return json.loads(rest + held, object_hook=collector.fold)


def _usual_path(stratum: str, hash_: str) -> str:
    return f"shards/{stratum}/{hash_}/shard_00000"


class _Collector:
    """Shard entries as columns, and their place in the sources they belong to; both in the text's order."""

    def __init__(self) -> None:
        self._names: dict[str, int] = {}
        self._hashes = bytearray()
        self._strata = array("i")
        self._counts = array("q")
        self._odd: dict[int, str] = {}
        self._given = 0

    def take(self, entries: list[bytes]) -> None:
        """Append entries to the columns, and empty the list."""
        for entry in json.loads(b"[" + b",".join(entries) + b"]"):
            try:
                counts = entry["n_docs"], entry["n_tokens"], entry["selected_docs"], entry["selected_tokens"]
                stratum, name, path = entry["stratum"], entry["hash"], entry["path"]
                raw = bytes.fromhex(name)
                if len(raw) != 32:
                    raise ValueError(f"a content hash has 64 digits, not {2 * len(raw)}")
                self._hashes += raw
                self._counts.extend(counts)
            except (KeyError, TypeError, ValueError, OverflowError) as error:
                raise ValueError(f"the entry of a shard is damaged ({error!r}): {entry}") from error
            if path != _usual_path(stratum, name):
                self._odd[len(self._strata)] = path
            self._strata.append(self._names.setdefault(stratum, len(self._names)))
        entries.clear()

    def fold(self, entry: dict[str, Any]) -> Any:
        """The ``object_hook``: a source becomes its Shards, everything else stays."""
        if "shards" not in entry or "layouts" not in entry:
            return entry
        first, last = self._given, self._given + len(entry["shards"])
        self._given = last
        return Shards(
            np.frombuffer(bytes(self._hashes[32 * first : 32 * last]), np.uint8).reshape(-1, 32),
            np.array(self._strata[first:last], np.int32), tuple(self._names),
            np.array(self._counts[4 * first : 4 * last], np.int64).reshape(-1, 4),
            {name: np.array(sizes, np.int64) for name, sizes in entry["layouts"].items()},
            {row - first: path for row, path in self._odd.items() if first <= row < last})
