"""Named byte objects in a local folder or an S3 bucket, through one interface.

Belongs here: get, ranged get, atomic put, create-exclusive put, list, delete. Does not belong here: what the objects
mean (``store.py``). Local writes go to a temporary name in the same folder and are renamed; S3 puts are atomic by
themselves, and create-exclusive is ``If-None-Match: *``.
"""

import contextlib
import errno
import hashlib
import io
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from gristmill.errors import AccessRefusedError, StoreError
from gristmill.observe import profile_meter as meter

TMP_PREFIX = ".tmp-"
CREATE_TRIES = 3
PIECE = 8 << 20
READ_AHEAD = 256 << 10  # bytes of a ranged read; a Parquet footer fits in one
_REFUSALS = ("403 Forbidden", "AccessDenied", "SignatureDoesNotMatch", "InvalidAccessKeyId")  # some are plain errors


class Child(NamedTuple):
    """A file in a folder: bytes, the stamp that ``Blobs.stamps`` gives, and when it was modified (seconds, UTC)."""

    bytes: int
    stamp: str
    modified: float


class Blobs(Protocol):
    """What a place for bytes can do. Paths are relative, with ``/``."""

    root: str

    def get(self, path: str) -> bytes:
        """Whole object. Raises FileNotFoundError."""

    def get_range(self, path: str, start: int, length: int) -> bytes:
        """``length`` bytes from ``start`` (fewer at the end of the object)."""

    def put(self, path: str, data: bytes) -> None:
        """Write or replace, atomically."""

    def create(self, path: str, data: bytes) -> None:
        """Write only where nothing is. Raises FileExistsError."""

    def put_file(self, path: str, source: Path) -> None:
        """Move a local file in; ``source`` is gone afterwards."""

    def size(self, path: str) -> int | None:
        """Bytes, or None where there is no such object."""

    def list(self, prefix: str) -> Iterator[tuple[str, int]]:
        """(path, bytes) below a folder, sorted by path."""

    def stamps(self, prefix: str) -> dict[str, tuple[int, str]]:
        """Path -> (bytes, stamp) below a folder. An object that was replaced has another stamp, whatever its size."""

    def children(self, folder: str) -> tuple[tuple[str, ...], dict[str, Child]]:
        """Names of the folders right below a folder, sorted, and of its files. One request, whatever lies deeper."""

    def delete(self, path: str) -> None:
        """Remove; no error where nothing is."""

    def open_input(self, path: str) -> pa.NativeFile:
        """Random access for Arrow readers. Raises FileNotFoundError."""

    def local(self, path: str) -> Path | None:
        """The file on this machine's disk, where there is one."""


def sentence(error: OSError, root: str, path: str) -> Exception:
    """What a person is told where the disk is full or may not be written to: a StoreError; any other error as it is."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreError(f"no space left for {path} in {root}: free some, or point the store elsewhere, and run "
                          "again; what was committed before is whole")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return StoreError(f"cannot write {path} in {root}: {error.strerror}")
    return error


class LocalBlobs:
    """A folder on a local (or POSIX network) file system."""

    def __init__(self, root: str | Path) -> None:
        self.root = str(root)
        self._root = Path(root)

    def _path(self, path: str) -> Path:
        if path.startswith("/") or ".." in path.split("/"):
            raise StoreError(f"path {path!r} leaves the store {self.root}")
        return self._root / path

    @meter.marked("read")
    def get(self, path: str) -> bytes:
        return self._path(path).read_bytes()

    @meter.marked("read")
    def get_range(self, path: str, start: int, length: int) -> bytes:
        with self._path(path).open("rb") as file:
            file.seek(start)
            return file.read(length)

    @contextlib.contextmanager
    def _staged(self, path: str) -> Iterator[tuple[Path, Path]]:
        target = self._path(path)
        temporary: str | None = None
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(prefix=TMP_PREFIX, dir=target.parent)
            os.close(handle)
            yield Path(temporary), target
        except OSError as error:
            raise sentence(error, self.root, path) from error
        finally:
            if temporary is not None:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temporary)

    @meter.marked("write")
    def put(self, path: str, data: bytes) -> None:
        with self._staged(path) as (temporary, target):
            temporary.write_bytes(data)
            temporary.chmod(0o644)
            os.replace(temporary, target)

    @meter.marked("write")
    def create(self, path: str, data: bytes) -> None:
        with self._staged(path) as (temporary, target):
            temporary.write_bytes(data)
            temporary.chmod(0o644)
            os.link(temporary, target)  # fails where the target exists, unlike rename

    @meter.marked("write")
    def put_file(self, path: str, source: Path) -> None:
        with self._staged(path) as (temporary, target):
            try:
                os.replace(source, temporary)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                shutil.copyfile(source, temporary)
                source.unlink()
            temporary.chmod(0o644)
            os.replace(temporary, target)

    def size(self, path: str) -> int | None:
        try:
            return self._path(path).stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            return None

    def list(self, prefix: str) -> Iterator[tuple[str, int]]:
        base = self._path(prefix) if prefix else self._root
        found = []
        for folder, _, names in os.walk(base):
            for name in names:
                if name.startswith(TMP_PREFIX):
                    continue
                full = Path(folder) / name
                with contextlib.suppress(FileNotFoundError):
                    found.append((full.relative_to(self._root).as_posix(), full.stat().st_size))
        yield from sorted(found)

    def stamps(self, prefix: str) -> dict[str, tuple[int, str]]:
        out = {}
        for path, _ in self.list(prefix):
            with contextlib.suppress(FileNotFoundError):
                found = self._path(path).stat()
                out[path] = (found.st_size, str(found.st_mtime_ns))
        return out

    def children(self, folder: str) -> tuple[tuple[str, ...], dict[str, Child]]:
        folders, files = [], {}
        with contextlib.suppress(FileNotFoundError), os.scandir(self._path(folder) if folder else self._root) as found:
            for entry in found:
                if entry.is_dir():
                    folders.append(entry.name)
                elif not entry.name.startswith(TMP_PREFIX):
                    with contextlib.suppress(FileNotFoundError):
                        stat = entry.stat()
                        files[entry.name] = Child(stat.st_size, str(stat.st_mtime_ns), stat.st_mtime)
        return tuple(sorted(folders)), files

    def delete(self, path: str) -> None:
        self._path(path).unlink(missing_ok=True)

    def open_input(self, path: str) -> pa.NativeFile:
        full = self._path(path)
        if full.stat().st_size == 0:
            return pa.BufferReader(b"")
        return pa.memory_map(str(full), "r")

    def local(self, path: str) -> Path | None:
        return self._path(path)


class S3Blobs:
    """A prefix of an S3 bucket (any server that speaks S3), through obstore.

    Args:
        root: ``s3://bucket/prefix``.
        options: obstore's S3 configuration (endpoint, region, credentials); what is not given comes from the
            standard AWS environment variables and instance roles.
    """

    def __init__(self, root: str, options: Mapping[str, Any] | None = None) -> None:
        from obstore.store import S3Store

        self.root = root.rstrip("/")
        bucket, _, prefix = self.root.removeprefix("s3://").partition("/")
        config = dict(options or {})
        client: Any = {"timeout": "60s", "connect_timeout": "10s"}
        if {"access_key_id", "secret_access_key"} <= set(config):
            # Given keys are a whole: as plain options, a session token of the environment would be sent beside them.
            given: Any = {"access_key_id": config.pop("access_key_id"), "token": config.pop("session_token", None),
                          "secret_access_key": config.pop("secret_access_key"), "expires_at": None}
            config["credential_provider"] = lambda: given
        endpoint = config.get("endpoint") or os.environ.get("AWS_ENDPOINT_URL", "")
        if endpoint.startswith("http://"):
            client["allow_http"] = True
        self._store = S3Store(bucket, prefix=prefix or None, client_options=client, retry_config=retry(), **config)

    @contextlib.contextmanager
    def _errors(self, path: str) -> Iterator[None]:
        from obstore.exceptions import (
            AlreadyExistsError,
            BaseError,
            NotFoundError,
            PermissionDeniedError,
            UnauthenticatedError,
        )

        try:
            yield
        except (FileNotFoundError, NotFoundError) as error:
            raise FileNotFoundError(f"{self.root}/{path}") from error
        except (AlreadyExistsError, FileExistsError) as error:
            raise FileExistsError(f"{self.root}/{path}") from error
        except (PermissionDeniedError, UnauthenticatedError) as error:
            raise AccessRefusedError(f"{self.root}/{path}: access is refused: check the credentials") from error
        except BaseError as error:
            text = str(error).partition("Debug source")[0].strip()  # what follows is a dump of the client's own types
            if any(word in text for word in _REFUSALS):
                raise AccessRefusedError(f"{self.root}/{path}: access is refused: check the credentials") from error
            raise StoreError(f"the object store failed on {self.root}/{path} after retries: {text[:400]}") from error

    @meter.marked("read")
    def get(self, path: str) -> bytes:
        with self._errors(path):
            return bytes(self._store.get(path).bytes())

    @meter.marked("read")
    def get_range(self, path: str, start: int, length: int) -> bytes:
        with self._errors(path):
            return bytes(self._store.get_range(path, start=start, length=length))

    @meter.marked("write")
    def put(self, path: str, data: bytes) -> None:
        with self._errors(path):
            self._store.put(path, data)

    @meter.marked("write")
    def create(self, path: str, data: bytes) -> None:
        writer = uuid.uuid4().hex
        for attempt in range(CREATE_TRIES):
            try:
                with self._errors(path):
                    self._store.put(path, data, mode="create", attributes={"writer": writer})
                return
            except (FileExistsError, StoreError) as error:
                # Where the answer of an earlier try was lost, what is there may be our own.
                found = self._writer(path)
                if found == writer:
                    return
                if found is not None:
                    raise FileExistsError(f"{self.root}/{path}") from error
                if attempt == CREATE_TRIES - 1 or isinstance(error, AccessRefusedError):
                    raise
                time.sleep(0.1 * 2**attempt)

    def _writer(self, path: str) -> str | None:
        """Who created what is there; empty where that is not known, None where nothing is."""
        try:
            with self._errors(path):
                found = self._store.get(path, options={"head": True})
                return str(found.attributes.get("writer", ""))
        except FileNotFoundError:
            return None

    @meter.marked("write")
    def put_file(self, path: str, source: Path) -> None:
        with self._errors(path):
            self._store.put(path, source)  # multipart above obstore's chunk size
        source.unlink()

    def size(self, path: str) -> int | None:
        try:
            with self._errors(path):
                return int(self._store.head(path)["size"])
        except FileNotFoundError:
            return None

    def list(self, prefix: str) -> Iterator[tuple[str, int]]:
        with self._errors(prefix):
            found = [(m["path"], int(m["size"])) for chunk in self._store.list(prefix or None) for m in chunk]
        yield from sorted(found)

    def stamps(self, prefix: str) -> dict[str, tuple[int, str]]:
        with self._errors(prefix):
            return {m["path"]: (int(m["size"]), str(m["e_tag"] or m["last_modified"]))
                    for chunk in self._store.list(prefix or None) for m in chunk}

    def children(self, folder: str) -> tuple[tuple[str, ...], dict[str, Child]]:
        with self._errors(folder):
            found = self._store.list_with_delimiter(folder or None)
        return tuple(sorted(p.rstrip("/").rpartition("/")[2] for p in found["common_prefixes"])), {
            m["path"].rpartition("/")[2]: Child(int(m["size"]), str(m["e_tag"] or m["last_modified"]),
                                                m["last_modified"].timestamp())
            for m in found["objects"]
        }

    def delete(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError), self._errors(path):
            self._store.delete(path)

    def open_input(self, path: str) -> pa.NativeFile:
        size = self.size(path)
        if size is None:
            raise FileNotFoundError(f"{self.root}/{path}")
        return pa.PythonFile(io.BufferedReader(_RangedObject(self, path, size), READ_AHEAD), mode="r")

    def local(self, path: str) -> Path | None:
        return None


def retry() -> Any:
    """How long an object store may be away before a call fails: a server's restart is waited for."""
    # The time decides, not the number: a refused connection fails at once, and pauses are drawn at random.
    return {"max_retries": 1000, "retry_timeout": timedelta(minutes=2),
            "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=10), "base": 2.0}}


class _RangedObject(io.RawIOBase):
    """An object as a seekable file; every read is a ranged get, buffered by the caller."""

    def __init__(self, blobs: S3Blobs, path: str, size: int) -> None:
        self._blobs, self._path, self._size, self._at = blobs, path, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = base + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        wanted = min(len(buffer), self._size - self._at)
        if wanted <= 0:
            return 0
        data = self._blobs.get_range(self._path, self._at, wanted)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def pieces(blobs: Blobs, path: str) -> Iterator[bytes]:
    """An object's bytes, PIECE at a time. Raises FileNotFoundError."""
    size = blobs.size(path)
    if size is None:
        raise FileNotFoundError(f"{blobs.root}/{path}")
    for start in range(0, size, PIECE):
        yield blobs.get_range(path, start, min(PIECE, size - start))


def sha256_of(blobs: Blobs, path: str) -> str:
    """sha256 (hex) of an object of any size. Raises FileNotFoundError."""
    found = hashlib.sha256()
    for piece in pieces(blobs, path):
        found.update(piece)
    return found.hexdigest()


def open_blobs(root: str | Path, options: Mapping[str, Any] | None = None) -> Blobs:
    """A place for bytes: ``s3://bucket/prefix`` or a local folder. StoreError: no name, or another kind of place."""
    text = str(root)
    if not text.strip():  # as an unset variable of a shell leaves it: not the folder one happens to be in
        raise StoreError("a place without a name: give a folder or s3://bucket/prefix (. is the folder you are in)")
    if text.startswith("s3://"):
        return S3Blobs(text, options)
    if "://" in text:
        raise StoreError(f"{text}: only local folders and s3:// are known")
    return LocalBlobs(text)
