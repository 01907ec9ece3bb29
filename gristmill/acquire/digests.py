"""Digests as WARC headers write them.

Belongs here: reading ``sha1:BASE32`` and its relatives, and comparing one with bytes. Does not belong here: which bytes
a digest is of (``ingest.py``).
"""

import base64
import binascii
import hashlib

_SIZES = {"sha1": 20, "md5": 16, "sha256": 32, "sha512": 64, "sha-1": 20, "sha-256": 32, "sha-512": 64}


def parse(recorded: bytes) -> tuple[str, bytes] | None:
    """(algorithm, raw digest) of a header value, base32, hex or base64; None when it cannot be understood."""
    name, colon, value = recorded.decode("ascii", "replace").strip().partition(":")
    algorithm = name.lower()
    if not colon:
        algorithm, value = "sha1", name  # some writers leave the label out
    size = _SIZES.get(algorithm)
    if size is None:
        return None
    raw = _decode(value.strip(), size)
    return None if raw is None else (algorithm.replace("sha-", "sha"), raw)


def _decode(value: str, size: int) -> bytes | None:
    try:
        if len(value) == 2 * size:
            return bytes.fromhex(value)
        if len(value.rstrip("=")) == -(-size * 8 // 5):
            bare = value.rstrip("=").upper()
            return base64.b32decode(bare + "=" * (-len(bare) % 8))
        if len(value.rstrip("=")) == -(-size * 4 // 3):
            bare = value.rstrip("=")
            return base64.b64decode(bare + "=" * (-len(bare) % 4), altchars=b"-_" if set("-_") & set(bare) else None)
    except (ValueError, binascii.Error):
        return None
    return None


def agrees(recorded: bytes, data: bytes, sha1: bytes | None = None) -> bool | None:
    """Is the recorded digest that of ``data``; None when it cannot be understood.

    ``sha1`` is the raw SHA-1 of ``data`` where the caller has it.
    """
    found = parse(recorded)
    if found is None:
        return None
    if found[0] == "sha1" and sha1 is not None:
        return found[1] == sha1
    return hashlib.new(found[0], data, usedforsecurity=False).digest() == found[1]
