"""The bytes of a shard, verified block by block as they are first touched.

Belongs here: memory maps of local shards; for shards in an object store a sparse file of the shard's size into which
blocks are fetched by range, each once; the bound on what is kept. Does not belong here: which tokens make a sequence
(``reader.py``).

A block is present when its entry in ``ok`` is 1; kernels read only tokens of present blocks. The sparse files have no
name (they are unlinked at birth), so nothing is left behind by a killed process and nothing blocks the next start.
"""

import errno
import hashlib
import io
import json
import mmap
import os
import tempfile
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gristmill.errors import ShardError, StoreError
from gristmill.loader.places import Place
from gristmill.tokens.shard import BLOCK_LOG2, TOKEN_BYTES, Index, checksum, read_idx

_OURS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)  # of this process or machine, and no fault of the file


class ShardFile:
    """One shard's tokens and index.

    Attributes:
        tokens: uint32 [n]; valid only where ``ok`` says so.
        ok: uint8 [blocks].
        index: the parsed ``.idx``.
        fetched: blocks that came over the network.
    """

    def __init__(self, place: Place, path: str, n_docs: int, n_tokens: int, cache_dir: str | None) -> None:
        self._place, self.path = place, path
        data: Any
        local = place.local(f"{path}.idx")
        data = _map(local, f"{place.root}/{path}.idx") if local is not None else _read(place, f"{path}.idx")
        self.index: Index = read_idx(data, f"{path}.idx")
        if self.index.documents != n_docs or self.index.tokens != n_tokens:
            raise ShardError(
                f"{path}.idx holds {self.index.documents} documents and {self.index.tokens} tokens; the manifest says "
                f"{n_docs} and {n_tokens}")
        if self.index.block_log2 != BLOCK_LOG2:
            raise ShardError(f"{path}.idx has blocks of 2^{self.index.block_log2} bytes, not of 2^{BLOCK_LOG2}")
        self._check_meta(data)
        self.ok = np.zeros(len(self.index.block_checksums), np.uint8)
        self.fetched = 0
        self._block = 1 << self.index.block_log2
        self._lock = threading.Lock()
        self._coming: dict[int, Future[None]] = {}
        local = place.local(f"{path}.bin")
        self._index_bytes = 0 if local is not None else len(data)
        self._sink: io.FileIO | None = None
        self._remote = local is None
        if local is not None:
            mapped = _map(local, f"{place.root}/{path}.bin")
            if len(mapped) != n_tokens * TOKEN_BYTES:
                raise ShardError(f"{path}.bin has {len(mapped)} bytes; its index says {n_tokens * TOKEN_BYTES}")
        else:
            mapped, self._sink = _sparse(n_tokens * TOKEN_BYTES, cache_dir)
        self._bytes = mapped
        self.tokens: npt.NDArray[np.uint32] = np.frombuffer(mapped, "<u4")

    def _check_meta(self, index: Any) -> None:
        """The index has no checksum of its own; ``.meta`` carries one."""
        try:
            meta = json.loads(_read(self._place, f"{self.path}.meta"))
        except ValueError as error:
            raise ShardError(f"{self.path}.meta is not JSON: {error}") from error
        wanted = meta.get("sha256_idx") if isinstance(meta, dict) else None
        if wanted != hashlib.sha256(index).hexdigest():
            raise ShardError(f"{self.path}.idx does not have the sha256 that its .meta gives, {wanted}")

    @property
    def kept(self) -> int:
        """Bytes this shard takes of the cache: blocks, and the index."""
        return self.fetched * self._block + self._index_bytes if self._remote else 0

    def ensure(self, block: int) -> None:
        """Make a block present: verified where it lies, or fetched and verified. Safe to call from many threads.

        Raises:
            ShardError: when its bytes are missing or are not what the index says.
        """
        with self._lock:
            if self.ok[block]:
                return
            waiting = self._coming.get(block)
            if waiting is None:
                mine: Future[None] = Future()
                self._coming[block] = mine
        if waiting is not None:
            waiting.result()
            return
        try:
            self._take(block)
        except BaseException as error:
            mine.set_exception(error)
            raise
        else:
            mine.set_result(None)
        finally:
            with self._lock:
                del self._coming[block]

    def _take(self, block: int) -> None:
        start = block * self._block
        length = min(self._block, len(self._bytes) - start)
        data: Any
        if self._remote:
            try:
                data = self._place.read_range(f"{self.path}.bin", start, length)
            except FileNotFoundError as error:
                raise ShardError(f"{self._place.root}/{self.path}.bin is missing") from error
        else:
            data = memoryview(self._bytes)[start : start + length]
        if len(data) != length or checksum(data) != int(self.index.block_checksums[block]):
            raise ShardError(f"{self.path}.bin: block {block} (bytes {start} to {start + length}) does not match its "
                             "checksum in the index")
        if self._remote:
            if self._sink is None:
                self._bytes[start : start + length] = data
            else:
                _write(self._sink, data, start)
            self.fetched += 1
        self.ok[block] = 1


def _read(place: Place, path: str) -> bytes:
    try:
        return place.read(path)
    except FileNotFoundError as error:
        raise ShardError(f"{place.root}/{path} is missing") from error
    except OSError as error:
        if error.errno in _OURS:
            raise
        raise ShardError(f"{place.root}/{path} cannot be read: {error.strerror or error}") from error


def _map(path: Path, name: str) -> mmap.mmap:
    try:
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (FileNotFoundError, ValueError) as error:
        raise ShardError(f"{name} is missing or empty") from error
    except OSError as error:
        if error.errno in _OURS:
            raise
        raise ShardError(f"{name} cannot be read: {error.strerror}") from error


def _sparse(size: int, cache_dir: str | None) -> tuple[mmap.mmap, io.FileIO | None]:
    """Room for ``size`` bytes that takes space only where it is written: a nameless file to write to, or memory."""
    if cache_dir is None:
        return mmap.mmap(-1, max(size, 1)), None
    try:
        os.makedirs(cache_dir, exist_ok=True)
        file: Any = tempfile.TemporaryFile(dir=cache_dir, buffering=0)  # noqa: SIM115 - open as long as the shard is
        file.truncate(max(size, 1))
        return mmap.mmap(file.fileno(), 0), file
    except OSError as error:
        if error.errno in _OURS:
            raise
        raise StoreError(f"cannot keep blocks in cache_dir {cache_dir}: {error.strerror}") from error


def _write(sink: io.FileIO, data: bytes, start: int) -> None:
    """Into the file and not into its map: on a full disk a map kills the process."""
    rest = memoryview(data)
    try:
        while rest:
            written = os.pwrite(sink.fileno(), rest, start)
            rest, start = rest[written:], start + written
    except OSError as error:
        raise StoreError(f"cannot keep a block in cache_dir: {error.strerror}; give the loader a smaller cache_bytes, "
                         "or a cache_dir with more room") from error
