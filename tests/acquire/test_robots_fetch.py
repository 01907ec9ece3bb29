"""Asking for a robots.txt over real sockets: bounds, redirects, addresses, pace; RFC 9309 for what comes back."""

import gzip
import socket
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_network

import pytest

from gristmill.acquire.robots import MAX_BODY
from gristmill.acquire.robots_fetch import Http, Pace, Refused, permitted

LOOPBACK = [ip_network("127.0.0.0/8")]


@contextmanager
def site(answers):
    """A server on loopback: path -> (status, headers, body) or a function of the handler."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            asked.append((self.path, dict(self.headers)))
            answer = answers.get(self.path, (404, {}, b""))
            if callable(answer):
                answer(self)
                return
            status, headers, body = answer
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()


def ask(authority, **more):
    http = Http("mill-test/1 (+mailto:x@example.test)", more.pop("timeout", 5.0), more.pop("allowed", LOOPBACK), **more)
    return http.read(authority, http.addresses(authority))


def test_a_file_is_read_and_the_asker_is_named():
    with site({"/robots.txt": (200, {}, b"User-agent: *\nDisallow: /")}) as (at, asked):
        answer = ask(at)
    assert (answer.status, answer.body, answer.reachable) == (200, b"User-agent: *\nDisallow: /", True)
    (path, headers), = asked
    assert path == "/robots.txt"
    assert headers["User-Agent"].startswith("mill-test/1")
    assert headers["Host"] == at.removeprefix("http://")


@pytest.mark.parametrize(("status", "reachable"), [(404, True), (401, True), (403, True), (410, True), (429, False),
                                                   (500, False), (503, False)])
def test_a_4xx_is_an_answer_and_a_5xx_is_none(status, reachable):
    with site({"/robots.txt": (status, {}, b"User-agent: *\nDisallow: /")}) as (at, _):
        answer = ask(at)
    assert (answer.status, answer.reachable) == (status, reachable)


def test_five_redirects_are_followed_across_hosts_and_no_more():
    hops = {f"/{n}": (301, {"Location": f"/{n + 1}"}, b"") for n in range(1, 9)}
    with site({"/5": (200, {}, b"User-agent: *\nAllow: /")}) as (other, _):
        chain = {**hops, "/robots.txt": (302, {"Location": "/1"}, b""), "/4": (307, {"Location": other + "/5"}, b"")}
        with site(chain) as (at, asked):
            assert ask(at).body == b"User-agent: *\nAllow: /"
            assert len(asked) == 5
        with site({**hops, "/robots.txt": (302, {"Location": "/1"}, b"")}) as (at, asked):
            answer = ask(at)
            assert "more than 5 redirects" in answer.error
            assert len(asked) == 6


@pytest.mark.parametrize("place", ["file:///etc/passwd", "gopher://127.0.0.1/", "http://"])
def test_a_redirect_to_nowhere_is_not_followed(place):
    with site({"/robots.txt": (302, {"Location": place}, b"")}) as (at, _):
        answer = ask(at)
    assert answer.body == b""
    assert not 200 <= answer.status < 300


def test_at_most_500_kib_are_read_of_an_endless_file():
    def endless(handler):
        handler.send_response(200)
        handler.end_headers()
        try:
            while True:
                handler.wfile.write(b"# nothing\n" * 10_000)
        except OSError:
            return

    with site({"/robots.txt": endless}) as (at, _):
        assert len(ask(at).body) == MAX_BODY == 500 * 1024


def test_a_server_that_speaks_a_letter_a_second_is_cut_in_headers_and_in_body():
    def slow_headers(handler):
        for letter in b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100:
            try:
                handler.wfile.write(bytes([letter]))
                handler.wfile.flush()
            except OSError:
                return
            time.sleep(0.1)

    def slow_body(handler):
        handler.send_response(200)
        handler.end_headers()
        for _ in range(100):
            try:
                handler.wfile.write(b"#\n")
            except OSError:
                return
            time.sleep(0.1)

    for kind in (slow_headers, slow_body):
        with site({"/robots.txt": kind}) as (at, _):
            begun = time.monotonic()
            answer = ask(at, timeout=0.5)
            assert time.monotonic() - begun < 2
            assert answer.status == 0


def test_half_a_file_is_no_answer():
    with site({"/robots.txt": (200, {"Content-Length": "100", "Connection": "close"}, b"User-agent: *\n")}) as (at, _):
        answer = ask(at, timeout=1.0)
    assert (answer.status, answer.body) == (0, b"")


def test_a_coding_that_was_not_asked_for_is_undone_within_bounds():
    plain = b"User-agent: *\nDisallow: /a\n"
    with site({"/robots.txt": (200, {"Content-Encoding": "gzip"}, gzip.compress(plain))}) as (at, _):
        assert ask(at).body == plain
    bomb = gzip.compress(b"\0" * 5_000_000)
    with site({"/robots.txt": (200, {"Content-Encoding": "gzip"}, bomb)}) as (at, _):
        assert len(ask(at).body) <= MAX_BODY
    with site({"/robots.txt": (200, {"Content-Encoding": "rot13"}, plain)}) as (at, _):
        assert ask(at).status == 0


@pytest.mark.parametrize(("address", "good"), [
    ("93.184.216.34", True), ("2606:2800:220:1::1", True),
    ("127.0.0.1", False), ("10.1.2.3", False), ("172.16.0.1", False), ("192.168.1.1", False),
    ("169.254.169.254", False),
    ("0.0.0.0", False), ("100.64.0.1", False), ("224.0.0.1", False), ("255.255.255.255", False),
    ("::1", False), ("::", False), ("fe80::1", False), ("fe80::1%eth0", False), ("fc00::1", False), ("ff02::1", False),
    ("::ffff:127.0.0.1", False), ("::ffff:10.0.0.1", False), ("64:ff9b::7f00:1", False), ("2002:7f00:1::", False),
    ("64:ff9b::5db8:d822", True), ("::ffff:93.184.216.34", True),
])
def test_only_public_addresses_are_asked(address, good):
    assert permitted(address) is good


def test_a_network_of_the_sites_own_may_be_allowed_and_nothing_else_is():
    assert permitted("10.1.2.3", [ip_network("10.1.0.0/16")])
    assert not permitted("10.2.2.3", [ip_network("10.1.0.0/16")])
    assert permitted("::ffff:10.1.2.3", [ip_network("10.1.0.0/16")])


def test_a_public_name_on_a_private_address_is_refused_and_so_is_a_redirect_to_one():
    with pytest.raises(Refused, match="no public address"):
        ask("http://intranet.example", allowed=(), names=lambda _h, _p: ["10.0.0.1", "169.254.169.254"])
    with site({}) as (secret, asked):
        port = secret.rpartition(":")[2]
        with site({"/robots.txt": (302, {"Location": f"http://inner.example:{port}/x"}, b"")}) as (at, _):
            names = {"127.0.0.1": ["127.0.0.1"], "inner.example": ["169.254.169.254"]}
            answer = ask(at, names=lambda h, _p: names[h])
        assert answer.status == 0
        assert "no public address" in answer.error
        assert asked == []


def test_the_connection_goes_to_the_address_that_was_checked():
    """A name that resolves to another address a moment later (DNS rebinding) gains nothing."""
    with site({"/robots.txt": (200, {}, b"ok")}) as (at, asked):
        port = at.rpartition(":")[2]
        http = Http("t", 5.0, LOOPBACK, names=lambda _h, _p: ["127.0.0.1"])
        addresses = http.addresses(f"http://rebound.example:{port}")
        http.names = lambda _h, _p: pytest.fail("resolved again")
        assert http.read(f"http://rebound.example:{port}", addresses).body == b"ok"
        assert asked[0][1]["Host"] == f"rebound.example:{port}"


def test_what_speaks_no_tls_is_no_answer():
    with site({"/robots.txt": (200, {}, b"User-agent: *\nAllow: /")}) as (at, _):
        answer = ask(at.replace("http://", "https://"))
    assert (answer.status, answer.body, answer.reachable) == (0, b"", False)


def test_nobody_there_is_no_answer():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    answer = ask(f"http://127.0.0.1:{port}")
    assert (answer.status, answer.reachable) == (0, False)
    with pytest.raises(Refused, match="does not resolve"):
        ask("http://nowhere.invalid")


def test_two_requests_to_one_address_keep_their_distance():
    now = [100.0]
    pace = Pace(1.0, lambda: now[0])
    assert [pace.reserve("a"), pace.reserve("a"), pace.reserve("b"), pace.reserve("a")] == [100.0, 101.0, 100.0, 102.0]
    now[0] = 110.0
    assert pace.reserve("a") == 110.0
