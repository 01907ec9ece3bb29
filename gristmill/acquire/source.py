"""Random access to one landed file through a small window, wherever the file lies.

Belongs here: reading bytes at an offset, and searching forward, in bounded memory. Does not belong here: what the bytes
mean (``members.py``, ``warc.py``).
"""

from dataclasses import dataclass, field

from gristmill.blobs import Blobs

LOCAL_BLOCK = 256 << 10
REMOTE_BLOCK = 8 << 20  # a request to an object store costs tens of milliseconds whatever its size


@dataclass
class Source:
    """A file of the landing area. One block of it is held.

    Attributes:
        blobs: the landing area.
        path: the file there.
        size: bytes.
        block: bytes fetched at a time; 0 chooses by the kind of place.
    """

    blobs: Blobs
    path: str
    size: int
    block: int = 0
    _start: int = 0
    _data: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        if not self.block:
            self.block = LOCAL_BLOCK if self.blobs.local(self.path) is not None else REMOTE_BLOCK

    def read(self, offset: int, length: int) -> bytes:
        """Bytes at ``offset``; fewer only at the end of the file."""
        length = min(length, self.size - offset)
        if length <= 0:
            return b""
        inside = offset - self._start
        if inside >= 0 and inside + length <= len(self._data):
            return self._data[inside : inside + length]
        if length >= self.block:
            return self.blobs.get_range(self.path, offset, length)
        self._start, self._data = offset, self.blobs.get_range(self.path, offset, min(self.block, self.size - offset))
        return self._data[:length]

    def find(self, pattern: bytes, start: int, end: int | None = None) -> int:
        """First offset in [start, end) where ``pattern`` begins, or -1."""
        end = self.size if end is None else min(end, self.size)
        overlap = len(pattern) - 1
        while start < end:
            data = self.read(start, self.block)
            hit = data.find(pattern)
            if hit >= 0:
                return start + hit if start + hit < end else -1
            if len(data) <= overlap:
                return -1
            start += len(data) - overlap
        return -1
