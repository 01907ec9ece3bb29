"""Whose credentials go where: read off the wire, from a server that keeps the headers of what it is asked."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from gristmill.acquire import holdout
from gristmill.blobs import S3Blobs
from gristmill.params import SiteConfig


@pytest.fixture
def heard() -> Iterator[tuple[str, list[dict[str, str]]]]:
    """An endpoint, and the headers of every request to it."""
    headers: list[dict[str, str]] = []

    class Listener(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            headers.append({k.lower(): v for k, v in self.headers.items()})
            self.send_response(404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Listener)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}", headers
    server.shutdown()
    server.server_close()


def test_the_hold_outs_are_asked_for_with_their_own_keys_and_nothing_of_the_stores(heard, monkeypatch) -> None:
    endpoint, headers = heard
    for name, value in {"AWS_ACCESS_KEY_ID": "MILL", "AWS_SECRET_ACCESS_KEY": "mill", "AWS_SESSION_TOKEN": "milltoken",
                        "AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL": endpoint,
                        "HOLDOUT_AWS_ACCESS_KEY_ID": "KEEPER", "HOLDOUT_AWS_SECRET_ACCESS_KEY": "keeper"}.items():
        monkeypatch.setenv(name, value)
    site = SiteConfig(holdout="s3://held/x", holdout_env="HOLDOUT_")
    S3Blobs(site.holdout, holdout.access(site, {})).size("a")
    assert "Credential=KEEPER/" in headers[-1]["authorization"]
    assert "x-amz-security-token" not in headers[-1]
    S3Blobs("s3://mill/x").size("a")
    assert "Credential=MILL/" in headers[-1]["authorization"]
    assert headers[-1]["x-amz-security-token"] == "milltoken"
    monkeypatch.setenv("HOLDOUT_AWS_SESSION_TOKEN", "keepertoken")
    S3Blobs(site.holdout, holdout.access(site, {})).size("a")
    assert headers[-1]["x-amz-security-token"] == "keepertoken"
