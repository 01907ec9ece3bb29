"""Identity of records, URLs and hosts: the ids by which every table is joined.

Belongs here: the definitions of ``algorithms.md`` section 1 that concern a fetch (``record_id``, ``url_hash``, the
container of a page). Does not belong here: the identity of a text (``deduplicate/normalise.py``). A change here changes
data already on disk, so it is a new ``version`` of the intake stages.
"""

import re
from datetime import UTC, datetime

import xxhash
from blake3 import blake3

ID_BYTES = 16
DEFAULT_PORTS = {"http": "80", "https": "443", "ftp": "21"}
_URL = re.compile(r"^([A-Za-z][A-Za-z0-9+.\-]*)://([^/?#]*)([^#]*)", re.DOTALL)
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.\-]*):([^#]*)", re.DOTALL)


def record_id(uri: bytes, date: datetime, sha1: bytes) -> bytes:
    """Identity of one fetch: 16 bytes of blake3(URI, 0x00, UTC date in ISO seconds, 0x00, raw SHA-1 of the body).

    Args:
        uri: WARC-Target-URI as the file has it; enclosing ``<>`` do not count.
        date: WARC-Date; aware. Fractions of a second do not count.
        sha1: 20 bytes, of the transfer-decoded body, computed (for a revisit, which has no body: as recorded).
    """
    if len(sha1) != 20:
        raise ValueError(f"a raw SHA-1 has 20 bytes, not {len(sha1)}")
    if uri.startswith(b"<") and uri.endswith(b">"):
        uri = uri[1:-1]
    return blake3(uri + b"\x00" + iso_seconds(date).encode() + b"\x00" + sha1).digest(ID_BYTES)


def iso_seconds(date: datetime) -> str:
    """``2026-07-15T08:30:00Z``: UTC, fractions cut. The date must be aware."""
    if date.tzinfo is None:
        raise ValueError("a date without a zone has no one place in time")
    return date.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def canonical_url(url: str) -> str:
    """Scheme and host lower-cased, default port and fragment removed; user, path and query kept as they are.

    What has no ``//`` (``dns:``, ``urn:``) loses its fragment and gets a lower-case scheme. Applying it twice changes
    nothing.
    """
    match = _URL.match(url)
    if match is None:
        plain = _SCHEME.match(url)
        return f"{plain[1].lower()}:{plain[2]}" if plain else url.partition("#")[0]
    scheme = match[1].lower()
    user, host, port = _authority(match[2])
    if port == DEFAULT_PORTS.get(scheme) or not port:
        port = ""
    return f"{scheme}://{user}{host.lower()}{':' + port if port else ''}{match[3]}"


def _authority(text: str) -> tuple[str, str, str]:
    """(user with its @, host, port). A colon inside brackets is IPv6; a port that is not digits belongs to the host."""
    user, at, rest = text.rpartition("@")
    host, colon, port = rest.rpartition(":")
    if not colon or "]" in port or not (port.isdigit() or port == ""):
        host, port = rest, ""
    return user + at, host, port


def url_hash(url: str) -> int:
    """xxh3-64 of the canonical URL's UTF-8 bytes."""
    return xxhash.xxh3_64_intdigest(canonical_url(url).encode("utf-8", "surrogatepass"))


def host_of(url: str) -> str:
    """The container of a page: its host, lower case, without user and port.

    A URI without a host is its own small container: ``dns:example.org`` -> ``dns:example.org``, ``file:///a/b`` ->
    ``file:``.
    """
    match = _URL.match(url)
    if match is None:
        plain = _SCHEME.match(url)
        return f"{plain[1].lower()}:{re.split('[/?]', plain[2], maxsplit=1)[0].lower()}" if plain else ""
    return _authority(match[2])[1].lower() or f"{match[1].lower()}:"


def container_id(name: str) -> int:
    """xxh3-64 of a container's name: the host of a page, the repository of a file, the work of a chapter."""
    return xxhash.xxh3_64_intdigest(name.encode("utf-8", "surrogatepass"))


def host_id(url: str) -> int:
    """``container_id`` of the URL's host."""
    return container_id(host_of(url))


def host_bucket(container: int, buckets: int) -> int:
    """The grid's second dimension."""
    return container % buckets


def is_web_sample(hashed_url: int, modulus: int) -> bool:
    """Is a URL in the perpetual held-out web sample (``url_hash % modulus == 0``)."""
    return hashed_url % modulus == 0
