"""Robots rules per path, agent and date (RFC 9309).

Belongs here: the versions of robots.txt that a crawl fetched, and whether one lets an agent fetch a URL. Does not
belong here: what a manifest does with the answer (``release/policy.py``), and fetching.

Every version fetched is kept; a record's state is judged by the newest one fetched not after the record, and names it.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from protego import Protego

from gristmill import identity

MAX_BODY = 500 << 10  # RFC 9309 section 2.5: parsers may stop after 500 KiB
ALLOWED, DISALLOWED, UNKNOWN, RETRO = "allowed", "disallowed_at_fetch", "unknown", "retro_optout"
# The path of the authority's root alone: /blog/robots.txt is a page like any other.
_ROBOTS = r"^(?i:https?)://[^/?#]+/robots\.txt(?:[?#].*)?$"
_AUTHORITY = re.compile(r"^[a-z][a-z0-9+.\-]*://[^/?#]*")


def is_robots(urls: pa.ChunkedArray) -> np.ndarray:
    """Which URLs are robots.txt files (bool)."""
    return np.asarray(pc.fill_null(pc.match_substring_regex(urls, _ROBOTS), False).to_numpy(), bool)


def authority(url: str) -> str:
    """What one robots.txt governs: scheme, host and port of the canonical URL; empty for what has none."""
    match = _AUTHORITY.match(identity.canonical_url(url))
    if match is None:
        return ""
    scheme, _, rest = match[0].partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"


@dataclass(frozen=True)
class Version:
    """One robots.txt as it was fetched."""

    authority: str
    fetch_ts: datetime
    status: int
    record_id: bytes
    body: bytes


class Rules:
    """What one version says.

    RFC 9309 section 2.3.1: a 2xx answer is parsed; a 4xx means that nothing is disallowed; a 5xx that everything is.
    A redirect that was not followed says nothing, and neither does what is no text (a login page is).
    """

    def __init__(self, status: int, body: bytes) -> None:
        self.speaks = 200 <= status < 300 or 400 <= status < 600
        self._all = True if 400 <= status < 500 else False if status >= 500 else None
        self._parsed = Protego.parse(body[:MAX_BODY].decode("utf-8-sig", "replace")) if self._all is None else None

    def allows(self, url: str, agent: str) -> bool:
        """May ``agent`` fetch ``url``."""
        if self._parsed is None:
            return bool(self._all)
        return bool(self._parsed.can_fetch(url, agent))


@lru_cache(maxsize=4096)
def rules(status: int, body: bytes) -> Rules:
    """``Rules``, parsed once for equal bytes."""
    return Rules(status, body)


class Registry:
    """Versions of a bucket's hosts, by authority and date."""

    def __init__(self, versions: Iterable[Version]) -> None:
        self._by_authority: dict[str, list[Version]] = {}
        for one in sorted(versions, key=lambda v: (v.fetch_ts, v.record_id)):
            if rules(one.status, one.body).speaks:
                self._by_authority.setdefault(one.authority, []).append(one)

    @property
    def authorities(self) -> frozenset[str]:
        """Those with at least one version."""
        return frozenset(self._by_authority)

    def at_fetch(self, url: str, when: datetime, agent: str) -> tuple[str, bytes | None]:
        """(state, record_id of the version that applied): allowed, disallowed_at_fetch, or unknown without one."""
        known = [v for v in self._by_authority.get(authority(url), []) if v.fetch_ts <= when]
        if not known:
            return UNKNOWN, None
        one = known[-1]
        return (ALLOWED if rules(one.status, one.body).allows(url, agent) else DISALLOWED), one.record_id

    def current(self, url: str, agent: str) -> tuple[str, bytes | None]:
        """(state by the newest version of all, its record_id): allowed, retro_optout, or unknown without one."""
        known = self._by_authority.get(authority(url), [])
        if not known:
            return UNKNOWN, None
        one = known[-1]
        return (ALLOWED if rules(one.status, one.body).allows(url, agent) else RETRO), one.record_id


def from_table(table: pa.Table) -> Registry:
    """A registry of the rows of ROBOTS."""
    return Registry(Version(r["authority"], r["fetch_ts"], r["http_status"], r["record_id"], r["body"])
                    for r in table.to_pylist())


def version_row(row: Mapping[str, object], payload: bytes) -> dict[str, object]:
    """A row of ROBOTS from a row of ``raw_index`` and its payload."""
    return {"crawl": row["crawl"], "authority": authority(str(row["url"])), "host_id": row["host_id"],
            "fetch_ts": row["fetch_ts"], "http_status": row["http_status"], "record_id": row["record_id"],
            "body": payload[:MAX_BODY]}


def states(urls: list[str], times: list[datetime], registry: Registry, agent: str) -> list[str]:
    """``robots_state`` of each record at its fetch."""
    if not registry.authorities:
        return [UNKNOWN] * len(urls)
    return [registry.at_fetch(u, t, agent)[0] for u, t in zip(urls, times, strict=True)]
