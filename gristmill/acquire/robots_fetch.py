"""Fetching one robots.txt, politely and from nowhere that it should not be fetched.

Belongs here: one request with its redirects, bounded in time and size; which addresses may be asked; and the pause
between two requests to one address. Does not belong here: which hosts are asked and what follows (``robots_sweep.py``).

Names in crawled URLs are anybody's: a name may resolve to a private address, or to another one a moment later. So every
address is checked, redirects' too, and the connection goes to the address that was checked.
"""

import http.client
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urljoin, urlsplit, urlunsplit

from gristmill.acquire.http import content_decode
from gristmill.acquire.robots import MAX_BODY

MAX_REDIRECTS = 5  # RFC 9309 section 2.3.1.2: at least five are followed
MAX_INFLATE = 100
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_PORTS = {"http": 80, "https": 443}

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Resolve = Callable[[str, int], Sequence[str]]


@dataclass(frozen=True)
class Answer:
    """What asking for a robots.txt gave: a status and at most 500 KiB, or why there was no answer (status 0)."""

    status: int
    body: bytes = b""
    error: str = ""

    @property
    def reachable(self) -> bool:
        """Did the host say something. RFC 9309: a 5xx is no answer; 429 asks to come again, and is none either."""
        return 200 <= self.status < 500 and self.status != 429


class Fetcher(Protocol):
    """How a sweep asks. ``read`` never raises for what a host does."""

    def addresses(self, authority: str) -> tuple[str, ...]:
        """Addresses of an authority that may be asked; raises ``Refused`` where there is none."""

    def read(self, authority: str, addresses: Sequence[str]) -> Answer:
        """Its robots.txt."""


class Refused(Exception):  # noqa: N818 - no error of a person's: an outcome that is counted
    """An authority is not asked, and why."""


class Pace:
    """A pause between two requests to one address, over all threads."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds, self.clock = seconds, clock
        self._next: dict[str, float] = {}
        self._lock = threading.Lock()

    def reserve(self, address: str) -> float:
        """When (by the clock) a request to it may begin; nobody else gets that moment."""
        with self._lock:
            now = self.clock()
            if len(self._next) > 100_000:
                self._next = {a: t for a, t in self._next.items() if t > now}
            at = max(self._next.get(address, now), now)
            self._next[address] = at + self.seconds
            return at


def permitted(address: str, allowed: Sequence[Network] = ()) -> bool:
    """May an address be asked: a public one, or one in a network that the site allows.

    An IPv6 address that carries an IPv4 one (mapped, 6to4, Teredo, NAT64) is judged by that one too.
    """
    ip = ipaddress.ip_address(address.partition("%")[0])
    inner: list[ipaddress.IPv4Address] = []
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None:
            return permitted(str(ip.ipv4_mapped), allowed)
        inner += [ip.sixtofour] if ip.sixtofour else []
        inner += list(ip.teredo or ())
        inner += [ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)] if ip in _NAT64 else []
    if any(ip.version == n.version and ip in n for n in allowed):
        return True
    return all(i.is_global and not i.is_multicast for i in (ip, *inner))


def resolve(host: str, port: int) -> list[str]:
    """All addresses of a name, in the resolver's order."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class Http:
    """Reads robots.txt over HTTP.

    Args:
        user_agent: named in requests; a site's operator should be able to find out who asks.
        timeout: seconds for one robots.txt with all of its redirects.
        allowed: networks that may be asked though they are not public.
        pace: for redirects to other addresses.
        names: resolves names.
        context: of TLS.
    """

    def __init__(self, user_agent: str, timeout: float, allowed: Sequence[Network] = (), *, pace: Pace | None = None,
                 names: Resolve = resolve, context: ssl.SSLContext | None = None) -> None:
        self.user_agent, self.timeout, self.allowed, self.names = user_agent, timeout, tuple(allowed), names
        self.pace = pace or Pace(0)
        self.context = context or ssl.create_default_context()

    def addresses(self, authority: str) -> tuple[str, ...]:
        """See ``Fetcher``."""
        parts = urlsplit(authority)
        try:
            if parts.scheme not in _PORTS or not parts.hostname:
                raise Refused("not http or https")
            found = self.names(parts.hostname, parts.port or _PORTS[parts.scheme])
        except (OSError, ValueError) as error:  # ValueError: no such port, a name that cannot be encoded
            raise Refused(f"the name does not resolve: {error}") from error
        good = tuple(a for a in found if permitted(a, self.allowed))
        if not good:
            raise Refused("no public address")
        return good

    def read(self, authority: str, addresses: Sequence[str]) -> Answer:
        """See ``Fetcher``."""
        deadline = time.monotonic() + self.timeout
        url = f"{authority}/robots.txt"
        try:
            for _ in range(MAX_REDIRECTS + 1):
                answer, onward = self._once(url, addresses[0], deadline)
                if onward is None:
                    return answer
                url = onward
                addresses = self.addresses(url)
                wait = self.pace.reserve(addresses[0]) - time.monotonic()
                if wait > deadline - time.monotonic():
                    return Answer(0, error="no time left for a redirect to a busy address")
                time.sleep(max(wait, 0))
            return Answer(answer.status, error=f"more than {MAX_REDIRECTS} redirects")
        except Refused as error:
            return Answer(0, error=f"redirected to {urlsplit(url).hostname}: {error}")
        except (OSError, http.client.HTTPException, ValueError) as error:
            late = time.monotonic() >= deadline
            return Answer(0, error="no answer in time" if late else f"{type(error).__name__}: {error}"[:200])

    def _once(self, url: str, address: str, deadline: float) -> tuple[Answer, str | None]:
        """(answer, where it redirects to)."""
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
        with self._connected(parts.scheme, host, address, port, deadline) as sock:
            connection = http.client.HTTPConnection(host, port)
            connection.default_port = _PORTS[parts.scheme]  # what the Host header leaves out
            connection.sock = sock
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection.request("GET", path, headers={
                "User-Agent": self.user_agent, "Accept": "text/plain, */*;q=0.5", "Accept-Encoding": "identity",
                "Connection": "close",
            })
            with connection.getresponse() as reply:
                if 300 <= reply.status < 400 and reply.status != 304:
                    place = urlsplit(urljoin(url, reply.headers.get("Location", "")))
                    onward = urlunsplit((place.scheme, place.netloc.rpartition("@")[2], place.path, place.query, ""))
                    if place.scheme in _PORTS and place.hostname and onward.isprintable():
                        return Answer(reply.status), onward
                    return Answer(reply.status, error="a redirect to nowhere"), None
                if not 200 <= reply.status < 300:
                    return Answer(reply.status, error=f"HTTP {reply.status}"), None
                return _decoded(reply, _some(reply, deadline)), None

    @contextmanager
    def _connected(self, scheme: str, host: str, address: str, port: int, deadline: float) -> Iterator[Any]:
        """A socket to a checked address that is cut at the deadline, however slowly its other side speaks."""
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("no time left")
        with socket.create_connection((address, port), timeout=left) as raw, raw.dup() as guard:
            timer = threading.Timer(max(deadline - time.monotonic(), 0), _cut, (guard,))
            timer.daemon = True
            timer.start()
            try:
                if scheme == "https":
                    with self.context.wrap_socket(raw, server_hostname=host) as wrapped:
                        yield wrapped
                else:
                    yield raw
            finally:
                timer.cancel()


def _cut(guard: socket.socket) -> None:
    try:
        guard.shutdown(socket.SHUT_RDWR)
    except OSError:  # it has ended meanwhile
        return


def _some(reply: http.client.HTTPResponse, deadline: float) -> bytes:
    """At most 500 KiB of a body; the rest is left."""
    out = b""
    while len(out) < MAX_BODY:
        piece = reply.read1(min(64 << 10, MAX_BODY - len(out)))
        if time.monotonic() >= deadline:  # also where the guard has cut it: half a file is other rules
            raise TimeoutError("no time left")
        if not piece:
            if reply.length:
                raise http.client.IncompleteRead(out, reply.length)
            break
        out += piece
    return out


def _decoded(reply: http.client.HTTPResponse, body: bytes) -> Answer:
    codings = [c.strip().lower().encode() for c in reply.headers.get("Content-Encoding", "").split(",") if c.strip()]
    if not codings or codings == [b"identity"]:
        return Answer(reply.status, body)
    plain, _, tags = content_decode(body, codings, max_bytes=MAX_BODY, max_ratio=MAX_INFLATE)  # it was asked not to
    if "encoding_unknown" in tags:
        return Answer(0, error=f"an unknown coding: {codings}"[:200])
    return Answer(reply.status, plain)
