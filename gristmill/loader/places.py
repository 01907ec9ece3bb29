"""Where shards and manifests lie, as a training host sees it: a local folder, or S3 through pyarrow.

Belongs here: whole and ranged reads, and the local path where there is one. Does not belong here: writing anything
(``blobs.py``, which needs more than the loader's dependencies), caching and checksums (``files.py``).
"""

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.fs as pafs

from gristmill.errors import StoreError

HANDLES = 512


class Place(Protocol):
    """Reads of relative paths below one root."""

    root: str

    def read(self, path: str) -> bytes:
        """A whole object. Raises FileNotFoundError."""

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """``length`` bytes from ``start``, fewer at the object's end. Raises FileNotFoundError."""

    def open(self, path: str) -> pa.NativeFile:
        """Random access for Arrow readers. Raises FileNotFoundError."""

    def local(self, path: str) -> Path | None:
        """The file on this machine's disk, where there is one."""


class LocalPlace:
    """A folder."""

    def __init__(self, root: str | Path) -> None:
        self.root = str(root)
        self._root = Path(root)

    def read(self, path: str) -> bytes:
        """As in ``Place``."""
        return (self._root / path).read_bytes()

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """As in ``Place``."""
        with (self._root / path).open("rb") as file:
            file.seek(start)
            return file.read(length)

    def open(self, path: str) -> pa.NativeFile:
        """As in ``Place``."""
        return pa.memory_map(str(self._root / path), "r")

    def local(self, path: str) -> Path | None:
        """As in ``Place``."""
        return self._root / path


class ArrowPlace:
    """A prefix of any pyarrow file system; made for S3.

    Args:
        root: for messages.
        connect: makes the file system; called once a process, since connections do not survive a fork.
        prefix: bucket and path.
    """

    def __init__(self, root: str, connect: Callable[[], pafs.FileSystem], prefix: str) -> None:
        self.root = root
        self._connect = connect
        self._prefix = prefix.rstrip("/")
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._fs = self._connect()
        # Opening asks for the object's size; an open handle serves ranges of many threads without asking again.
        self._handles: OrderedDict[str, pa.NativeFile] = OrderedDict()

    def read(self, path: str) -> bytes:
        """As in ``Place``."""
        with self.open(path) as file:
            return bytes(file.read())

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """As in ``Place``."""
        if self._pid != os.getpid():
            self._begin()
        with self._lock:
            file = self._handles.pop(path, None)
        if file is None:
            file = self.open(path)
        with self._lock:
            self._handles[path] = file
            while len(self._handles) > HANDLES:
                self._handles.popitem(last=False)
        try:
            return bytes(file.read_at(min(length, max(0, file.size() - start)), start))
        except OSError as error:
            raise StoreError(f"the object store failed on {self.root}/{path}: {str(error)[:400]}") from error

    def open(self, path: str) -> pa.NativeFile:
        """As in ``Place``."""
        if self._pid != os.getpid():
            self._begin()
        try:
            return self._fs.open_input_file(f"{self._prefix}/{path}")
        except FileNotFoundError:
            raise
        except OSError as error:
            text = str(error)
            if "404" in text or "NO_SUCH_KEY" in text or "Path does not exist" in text:
                raise FileNotFoundError(f"{self.root}/{path}") from error
            if "ACCESS_DENIED" in text or "403" in text or "SIGNATURE" in text:
                raise StoreError(f"the store refuses access to {self.root}/{path}: check the credentials") from error
            raise StoreError(f"the object store failed on {self.root}/{path}: {text[:400]}") from error

    def local(self, path: str) -> Path | None:
        """As in ``Place``."""
        return None


def open_place(root: str | Path, options: Mapping[str, Any] | None = None) -> Place:
    """``s3://bucket/prefix`` or a local folder.

    Args:
        root: the store's root.
        options: arguments of ``pyarrow.fs.S3FileSystem`` (``endpoint_override``, ``access_key``, ``region``, ...); what
            is not given comes from the standard AWS environment variables and instance roles.
    """
    text = str(root)
    if not text.startswith("s3://"):
        if "://" in text:
            raise StoreError(f"{text}: only local folders and s3:// are known")
        return LocalPlace(text)
    given = dict(options or {})
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if endpoint and "endpoint_override" not in given:
        given["endpoint_override"] = endpoint
    given.setdefault("retry_strategy", pafs.AwsStandardS3RetryStrategy(max_attempts=8))
    given.setdefault("connect_timeout", 10)
    given.setdefault("request_timeout", 60)
    return ArrowPlace(text.rstrip("/"), lambda: pafs.S3FileSystem(**given), text.removeprefix("s3://"))
