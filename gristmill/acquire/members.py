"""Compressed members of a WARC file: where one begins, how it is inflated in bounded steps, and where the next is.

Belongs here: gzip, zstd (also with a dictionary in a leading skippable frame) and lz4 members, plain bytes, and the
search for the next member after damage. Does not belong here: WARC records inside them (``warc.py``).
"""

import re
import zlib
from collections.abc import Callable
from typing import IO, Protocol, cast

import lz4.frame
import zstandard

from gristmill.acquire.source import Source

STEP = 16 << 10  # compressed bytes fed at a time: small members are the rule, and what is over is copied back
GZIP_MAGIC = b"\x1f\x8b\x08"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
LZ4_MAGIC = b"\x04\x22\x4d\x18"
SKIPPABLE = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18", re.DOTALL)
DICTIONARY_FRAME = b"\x5d\x2a\x4d\x18"  # as warc-zstd writes it
WINDOW_LIMIT = 1 << 27  # zstd frames that want a larger window than 128 MiB are refused as damage

# What a member's first decoded bytes look like; enough that random bytes never pass.
WARC_START = re.compile(rb"[\r\n]*WARC/[01]\.\d{1,2}[ \t]*\r*\n")
ARC_START = re.compile(rb"[\r\n]*[A-Za-z][A-Za-z0-9+.\-]{1,20}:[^\r\n]{0,8000} \d{14} [^\r\n]{1,500} \d{1,18}\r?\n")


class DamageError(Exception):
    """A member cannot be decoded; stays inside ``acquire``, where it becomes a counted loss."""


class Member(Protocol):
    """One member being inflated."""

    end: int | None  # offset after the member in the file, once all of it was read

    def read(self, limit: int) -> bytes:
        """Up to ``limit`` decoded bytes; empty at the member's verified end. Raises DamageError."""


class Codec(Protocol):
    """A way of compressing members."""

    name: str
    magic: bytes
    source: Source

    def open(self, offset: int) -> Member:
        """The member that begins at ``offset``."""

    def peek(self, offset: int) -> Member:
        """The member at ``offset``, to read its first bytes: what follows them may be damaged."""

    def skip(self, offset: int) -> int:
        """The offset after what is no member at ``offset`` (padding, skippable frames)."""


class _GzipMember:
    def __init__(self, source: Source, offset: int) -> None:
        self.end: int | None = None
        self._source, self._offset = source, offset
        self._inflate = zlib.decompressobj(31)

    def read(self, limit: int) -> bytes:
        inflate = self._inflate
        while not inflate.eof:
            data = inflate.unconsumed_tail
            if not data:
                data = self._source.read(self._offset, STEP)
                self._offset += len(data)
            try:
                out = inflate.decompress(data, limit)
            except zlib.error as error:
                raise DamageError(f"gzip: {error}") from error
            if inflate.eof:
                self.end = self._offset - len(inflate.unused_data)
            elif not out and not data:
                raise DamageError("gzip: the file ends inside the member")
            if out:
                return out
        return b""


class Gzip:
    """RFC 1952 members, one after the other."""

    name, magic = "gzip", GZIP_MAGIC

    def __init__(self, source: Source) -> None:
        self.source = source

    def open(self, offset: int) -> Member:
        """The member at ``offset``. Raises DamageError."""
        if self.source.read(offset, 3) != GZIP_MAGIC:
            raise DamageError("gzip: no member begins here")
        return _GzipMember(self.source, offset)

    peek = open

    def skip(self, offset: int) -> int:
        """Pass zero padding."""
        return _skip_zeros(self.source, offset, GZIP_MAGIC)


class _FrameBytes:
    """The bytes of one zstd frame as a file, so that a reader cannot run into the next frame."""

    def __init__(self, source: Source, start: int, end: int) -> None:
        self._source, self._at, self._end = source, start, end

    def read(self, size: int = -1) -> bytes:
        left = self._end - self._at
        data = self._source.read(self._at, left if size < 0 else min(size, left))
        self._at += len(data)
        return data


class _ZstdMember:
    def __init__(self, source: Source, offset: int, dictionary: zstandard.ZstdCompressionDict | None,
                 stop: int | None = None) -> None:
        self.end: int | None = None
        self._stop = zstd_frame_end(source, offset) if stop is None else stop
        inflate = zstandard.ZstdDecompressor(dict_data=dictionary, max_window_size=WINDOW_LIMIT)
        self._reader = inflate.stream_reader(cast(IO[bytes], _FrameBytes(source, offset, self._stop)), read_size=STEP)

    def read(self, limit: int) -> bytes:
        try:
            out: bytes = self._reader.read(limit)
        except zstandard.ZstdError as error:
            raise DamageError(f"zstd: {error}") from error
        if not out:
            self.end = self._stop
        return out


class Bytes(Protocol):
    """Bytes that can be read at an offset."""

    size: int

    def read(self, offset: int, length: int) -> bytes:
        """Bytes at ``offset``; fewer only at the end."""


def zstd_frame_end(source: Bytes, offset: int) -> int:
    """Where a zstd frame ends, found by walking its block headers (RFC 8878), without inflating it.

    Raises:
        DamageError: when no frame begins there, or it passes the end of the file.
    """
    head = source.read(offset, 18)
    if head[:4] != ZSTD_MAGIC:
        raise DamageError("zstd: no frame begins here")
    try:
        at = offset + zstandard.frame_header_size(head)
        checksum = zstandard.get_frame_parameters(head).has_checksum
    except zstandard.ZstdError as error:
        raise DamageError(f"zstd: {error}") from error
    last = False
    while not last:
        raw = source.read(at, 3)
        if len(raw) < 3:
            raise DamageError("zstd: the file ends inside the frame")
        block = int.from_bytes(raw, "little")
        last, kind, size = bool(block & 1), (block >> 1) & 3, block >> 3
        if kind == 3:
            raise DamageError("zstd: a reserved block type")
        at += 3 + (1 if kind == 1 else size)
    at += 4 if checksum else 0
    if at > source.size:
        raise DamageError("zstd: the file ends inside the frame")
    return at


class Zstd:
    """RFC 8878 frames, one after the other, with an optional dictionary in a leading skippable frame."""

    name, magic = "zstd", ZSTD_MAGIC

    def __init__(self, source: Source) -> None:
        self.source = source
        self._dictionary = _leading_dictionary(source)

    def open(self, offset: int) -> Member:
        """The frame at ``offset``. Raises DamageError."""
        return _ZstdMember(self.source, offset, self._dictionary)

    def peek(self, offset: int) -> Member:
        """As ``open``, of a frame that may be cut short further on."""
        return _ZstdMember(self.source, offset, self._dictionary, self.source.size)

    def skip(self, offset: int) -> int:
        """Pass skippable frames and zero padding."""
        return _skip_frames(self.source, offset, ZSTD_MAGIC)


def _leading_dictionary(source: Source) -> zstandard.ZstdCompressionDict | None:
    """The dictionary of a .warc.zst: plain, or itself a zstd frame (the warc-zstd draft of IIPC)."""
    head = source.read(0, 8)
    if head[:4] != DICTIONARY_FRAME or len(head) < 8:
        return None
    data = source.read(8, int.from_bytes(head[4:8], "little"))
    if data[:4] == ZSTD_MAGIC:
        try:
            data = zstandard.ZstdDecompressor().decompressobj().decompress(data)
        except zstandard.ZstdError:
            return None  # without its dictionary every frame fails, and is listed as a loss
    return zstandard.ZstdCompressionDict(data)


class _Lz4Member:
    def __init__(self, source: Source, offset: int) -> None:
        self.end: int | None = None
        self._source, self._offset = source, offset
        self._inflate = lz4.frame.LZ4FrameDecompressor()

    def read(self, limit: int) -> bytes:
        inflate = self._inflate
        while not inflate.eof:
            data = b""
            if inflate.needs_input:
                data = self._source.read(self._offset, STEP)
                self._offset += len(data)
                if not data:
                    raise DamageError("lz4: the file ends inside the frame")
            try:
                out: bytes = inflate.decompress(data, limit)
            except (RuntimeError, EOFError) as error:
                raise DamageError(f"lz4: {error}") from error
            if inflate.eof:
                self.end = self._offset - len(inflate.unused_data or b"")
            if out:
                return out
        return b""


class Lz4:
    """LZ4 frames, one after the other."""

    name, magic = "lz4", LZ4_MAGIC

    def __init__(self, source: Source) -> None:
        self.source = source

    def open(self, offset: int) -> Member:
        """The member at ``offset``. Raises DamageError."""
        if self.source.read(offset, 4) != LZ4_MAGIC:
            raise DamageError("lz4: no frame begins here")
        return _Lz4Member(self.source, offset)

    peek = open

    def skip(self, offset: int) -> int:
        """Pass skippable frames and zero padding."""
        return _skip_frames(self.source, offset, LZ4_MAGIC)


def _skip_zeros(source: Source, offset: int, magic: bytes) -> int:
    """Members and tape blocks may be padded with zeros; zeros before anything but a member are damage."""
    at = offset
    while (data := source.read(at, 4096)) and not data.strip(b"\x00"):
        at += len(data)
    at += len(data) - len(data.lstrip(b"\x00"))
    return at if at >= source.size or source.read(at, len(magic)) == magic else offset


def _skip_frames(source: Source, offset: int, magic: bytes) -> int:
    while SKIPPABLE.fullmatch((head := source.read(offset, 8))[:4]) and len(head) == 8:
        after = offset + 8 + int.from_bytes(head[4:8], "little")
        if after > source.size:
            break
        offset = after
    return _skip_zeros(source, offset, magic)


def codec_of(source: Source) -> Codec | None:
    """How a file is compressed; None for a plain file.

    Its first bytes say so, unless they contradict its name and no record begins there: then they are damage.
    """
    if WARC_START.match(source.read(0, 64)) or source.read(0, 11) == b"filedesc://":
        return None
    name = source.path.lower()
    named = next((codec for suffix, codec in _BY_SUFFIX if name.endswith(suffix)), None)
    head = source.read(0, 4)
    seen = _BY_MAGIC.get(head[:3]) or _BY_MAGIC.get(head)
    if seen is None and SKIPPABLE.fullmatch(head):
        seen = Lz4 if named is Lz4 else Zstd
    if seen is None or seen is named:
        return named(source) if named is not None else None
    codec = seen(source)
    if begins_record(codec, codec.skip(0)):
        return codec
    return named(source) if named is not None else None


_BY_SUFFIX: tuple[tuple[str, Callable[[Source], Codec]], ...] = (
    (".gz", Gzip), (".zst", Zstd), (".zstd", Zstd), (".lz4", Lz4),
)
_BY_MAGIC: dict[bytes, Callable[[Source], Codec]] = {GZIP_MAGIC: Gzip, ZSTD_MAGIC: Zstd, LZ4_MAGIC: Lz4}


def begins_record(codec: Codec, offset: int) -> bool:
    """Does a member that decodes to the head of a WARC or ARC record begin at ``offset``."""
    data = b""
    try:
        member = codec.peek(offset)
        while len(data) < 256 and (more := member.read(256)):
            data += more
        if WARC_START.match(data):
            return True
        while b"\n" not in data.lstrip(b"\r\n") and len(data) < 10_000 and (more := member.read(4096)):
            data += more
    except DamageError:
        return False  # a member damaged in its first bytes is no place to go on from
    return bool(ARC_START.match(data))


def count_members(codec: Codec, start: int, end: int) -> int:
    """How many members seem to begin in a stretch that could not be read: by their magic numbers, at least one.

    A small frame that was cut decodes to nothing at all, so its magic number is all there is to count. By chance gzip's
    occurs once in 10 GB (with what RFC 1952 allows in the bytes after it), those of zstd and lz4 once in 4 GB.
    """
    at, count = start, 0
    while (at := codec.source.find(codec.magic, at, end)) >= 0:
        head = codec.source.read(at, 10)
        if codec.magic != GZIP_MAGIC or (
            len(head) == 10 and not head[3] & 0xE0 and head[8] in (0, 2, 4) and (head[9] <= 13 or head[9] == 255)
        ):
            count += 1
        at += 1
    return max(count, 1)


def next_member(codec: Codec, start: int) -> int:
    """Offset of the first member at or after ``start`` that decodes to the head of a record; the size at the end."""
    at = start
    while True:
        at = codec.source.find(codec.magic, at)
        if at < 0:
            return codec.source.size
        if begins_record(codec, at):
            return at
        at += 1
