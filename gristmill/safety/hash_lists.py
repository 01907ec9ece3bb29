"""Lists of what must never be used, as hashes: exact by doc_id, near by a 64-bit simhash. Only hashes are ever logged.

Belongs here: reading lists, the simhash, and looking documents up. Does not belong here: taking a document out
everywhere (a purge walks every place that holds its bytes).
"""

import json
import re
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numba import njit, uint64

from gristmill.errors import GristmillError, ModelError
from gristmill.text_units import mix64, packed, word_hashes


class ReportError(GristmillError):
    """A document on a hash list could not be reported."""


SHINGLE = 3  # words: simhash of Charikar (2002) over word 3-grams, as Manku et al. (2007) use it for near-duplicates


@njit(cache=True, nogil=True)
def _simhashes(buf, offsets, table, out):  # type: ignore[no-untyped-def]
    size = 0
    for d in range(offsets.shape[0] - 1):
        size = max(size, offsets[d + 1] - offsets[d])
    hashes, starts, ends = np.empty(size + 1, np.uint64), np.empty(size + 1, np.int64), np.empty(size + 1, np.int64)
    votes = np.zeros(64, np.int64)
    for d in range(offsets.shape[0] - 1):
        n = word_hashes(buf, offsets[d], offsets[d + 1], table, hashes, starts, ends)
        votes[:] = 0
        for w in range(max(n - 2, 0)):
            x = hashes[w] * uint64(0x9E3779B97F4A7C15) + hashes[w + 1]
            x = mix64(x * uint64(0x9E3779B97F4A7C15) + hashes[w + 2])
            for bit in range(64):
                votes[bit] += 1 if (x >> uint64(bit)) & uint64(1) else -1
        value = uint64(0)
        for bit in range(64):
            if votes[bit] > 0:
                value |= uint64(1) << uint64(bit)
        out[d] = value


def simhashes(buf: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """uint64 (n): simhash over word 3-grams; 0 for a text of fewer than three words."""
    out = np.zeros(len(offsets) - 1, np.uint64)
    _simhashes(buf, offsets, packed(), out)
    return out


class HashList:
    """One list."""

    def __init__(self, name: str, kind: str, hashes: Iterable[str], near_bits: int = 3) -> None:
        """Read hashes in hex.

        Raises:
            ModelError: a line is no hash of the list's kind.
        """
        digits = 32 if kind == "exact" else 16
        values = [h.strip().lower() for h in hashes if h.strip() and not h.startswith("#")]
        for value in values:
            if not re.fullmatch(rf"[0-9a-f]{{{digits}}}", value):
                raise ModelError(f"hash list {name}: {value[:40]!r} is not {digits} hex digits ({kind})")
        self.name, self.kind, self.near_bits = name, kind, near_bits
        self._exact = frozenset(bytes.fromhex(v) for v in values) if kind == "exact" else frozenset()
        near = np.array(sorted(int(v, 16) for v in values), np.uint64) if kind == "near" else np.zeros(0, np.uint64)
        # Two hashes within 3 bits agree in one of four quarters (pigeonhole): look up by each quarter.
        self._near = [(q, near[np.argsort(_quarter(near, q), kind="stable")]) for q in range(near_bits + 1)]

    def holds(self, doc_ids: Sequence[bytes], near: np.ndarray) -> np.ndarray:
        """Bool (n): which documents the list names."""
        if self.kind == "exact":
            return np.fromiter((d in self._exact for d in doc_ids), bool, len(doc_ids))
        out = np.zeros(len(near), bool)
        for q, table in self._near:
            keys = _quarter(table, q)
            low = np.searchsorted(keys, _quarter(near, q), side="left")
            high = np.searchsorted(keys, _quarter(near, q), side="right")
            for row in np.flatnonzero((high > low) & (near != 0)):
                apart = np.bitwise_count(table[low[row] : high[row]] ^ near[row])
                out[row] |= bool((apart <= self.near_bits).any())
        return out


def _quarter(values: np.ndarray, q: int) -> np.ndarray:
    return (values >> np.uint64(16 * q)) & np.uint64(0xFFFF)


def tell(command: Sequence[str], crawl: str | None, doc_ids: Sequence[bytes], lists: Sequence[str | None]) -> int:
    """Call the report command once a list that names a document of this partition; hashes alone, never text or URL.

    Its argument is a file ``{"crawl", "hash_list", "doc_ids": [hex, ...]}``. A partition that is made again reports
    again: whoever receives must take a hash twice.

    Returns:
        documents told of; 0 without a command.

    Raises:
        ReportError: the command failed: what must be reported must not be passed over.
    """
    if not command:
        return 0
    told = 0
    for name in sorted({n for n in lists if n is not None}):
        ids = sorted(d.hex() for d, n in zip(doc_ids, lists, strict=True) if n == name)
        with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="ascii") as file:
            json.dump({"crawl": crawl, "hash_list": name, "doc_ids": ids}, file)
            file.flush()
            try:
                done = subprocess.run([*command, file.name], capture_output=True, text=True, check=False, timeout=60)
            except (OSError, subprocess.TimeoutExpired) as error:
                raise ReportError(f"the report command {command[0]} did not run: {error}") from error
        if done.returncode:
            raise ReportError(f"the report command {command[0]} ended with {done.returncode} for list {name}: "
                              f"{done.stderr.strip()[-200:]}")
        told += len(ids)
    return told


def read_list(name: str, kind: str, path: Path, near_bits: int = 3) -> HashList:
    """Read a registered list, one hash a line; lines that begin with # are comments."""
    try:
        return HashList(name, kind, path.read_text("ascii").splitlines(), near_bits)
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"hash list {path} cannot be read: {error}") from error
