"""Delivering a page to one target: one attempt, and an error that holds no secret.

Belongs here: HTTP, SMTP and file writes, and reading secrets from the environment. Does not belong here: trying again
(``ledger.py``).
"""

import http.client
import json
import os
import smtplib
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gristmill.errors import GristmillError
from gristmill.observe.paging import shapes
from gristmill.observe.paging.config import Email, File, PagerDuty, Slack, Target, Webhook, name_of
from gristmill.observe.paging.problem import Page, clip

MAX_REPLY = 500  # characters of a refusal that are kept


class DeliveryError(GristmillError):
    """A target did not take a page. The message names the target and what to do, and holds no secret."""

    def __init__(self, message: str, wait_s: float = 0.0) -> None:
        super().__init__(message)
        self.wait_s = wait_s  # what the target asked for, at least


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A page goes where it was sent or nowhere: a redirect would carry its token elsewhere."""

    def redirect_request(self, *_args: Any, **_more: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirect)


def redacted(url: str) -> str:
    """An address without what may be a secret: its user, path and query."""
    parts = urlsplit(url)
    host = parts.hostname or "?"
    return f"{parts.scheme}://{host}{f':{parts.port}' if parts.port else ''}/***"


def deliver(target: Target, page: Page, *, timeout: float = 10.0, environment: Mapping[str, str] = os.environ) -> None:
    """Send a page to a target, once.

    Raises:
        DeliveryError: it was not taken, or may not have been.
    """
    name = name_of(target)
    try:
        if isinstance(target, File):
            _append(Path(target.path), page)
        elif isinstance(target, Email):
            _mail(target, page, timeout, environment)
        else:
            _post(name, *_request(target, page, environment), timeout)
    except DeliveryError:
        raise
    except (OSError, ssl.SSLError, http.client.HTTPException, smtplib.SMTPException, ValueError) as error:
        raise DeliveryError(f"{name}: {type(error).__name__}: {_clean(error, target, environment)}") from None


def _secret(name: str, target: Target, environment: Mapping[str, str]) -> str:
    value = environment.get(name, "").strip()
    if not value:
        raise DeliveryError(f"{name_of(target)}: the environment variable {name} is not set: set it where runs are "
                            "started and for the daemon")
    return value


def _request(target: Webhook | Slack | PagerDuty, page: Page, environment: Mapping[str, str]
             ) -> tuple[str, dict[str, Any], dict[str, str]]:
    """(address, body, headers)."""
    headers: dict[str, str] = {"Idempotency-Key": page.key}
    if isinstance(target, Slack):
        return _secret(target.url_env, target, environment), shapes.slack(page), headers
    if isinstance(target, PagerDuty):
        return target.url, shapes.pagerduty(page, _secret(target.key_env, target, environment)), headers
    url = target.url or _secret(target.url_env or "", target, environment)
    if target.token_env:
        headers["Authorization"] = f"Bearer {_secret(target.token_env, target, environment)}"
    return url, page.plain(), headers


def _post(name: str, url: str, body: dict[str, Any], headers: dict[str, str], timeout: float) -> None:
    if urlsplit(url).scheme not in ("http", "https"):
        raise DeliveryError(f"{name}: the address is not http:// or https://")
    request = urllib.request.Request(  # noqa: S310 - the scheme is checked above
        url, json.dumps(body, ensure_ascii=True).encode(), {"Content-Type": "application/json", **headers},
        method="POST",
    )
    try:
        with _OPENER.open(request, timeout=timeout) as reply:
            reply.read(MAX_REPLY)
    except urllib.error.HTTPError as error:
        with error:
            said = clip(error.read(MAX_REPLY).decode("utf-8", "replace"), 200)
            wait = error.headers.get("Retry-After", "")
        said = said.replace(url, redacted(url))
        raise DeliveryError(f"{name}: {redacted(url)} answered {error.code}: {said}",
                            float(wait) if wait.isdigit() else 0.0) from None
    except urllib.error.URLError as error:
        raise DeliveryError(f"{name}: {redacted(url)}: {clip(str(error.reason), 200)}") from None


def _append(path: Path, page: Page) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps(page.plain(), ensure_ascii=False, sort_keys=True).encode() + b"\n"
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640)
    try:
        os.write(handle, line)  # one write: appended lines of two processes do not mix
        os.fsync(handle)
    finally:
        os.close(handle)


def _mail(target: Email, page: Page, timeout: float, environment: Mapping[str, str]) -> None:
    message = shapes.mail(page, target.sender, target.to)
    context = ssl.create_default_context() if target.security != "none" else None
    local = socket.gethostname() or "localhost"
    if target.security == "tls":
        client: smtplib.SMTP = smtplib.SMTP_SSL(target.host, target.port, local, timeout=timeout, context=context)
    else:
        client = smtplib.SMTP(target.host, target.port, local, timeout=timeout)
    with client:
        if target.security == "starttls":
            client.starttls(context=context)
        if target.user_env:
            client.login(_secret(target.user_env, target, environment),
                         _secret(target.password_env or "", target, environment))
        refused = client.send_message(message)
        if refused:
            raise DeliveryError(f"{name_of(target)}: refused for {', '.join(sorted(refused))}")


def _clean(error: BaseException, target: Target, environment: Mapping[str, str]) -> str:
    """An error's text with every secret of the target taken out."""
    text = str(error)
    for field in ("url_env", "key_env", "token_env", "user_env", "password_env"):
        variable = getattr(target, field, None)
        value = environment.get(variable, "").strip() if variable else ""
        if value:
            text = text.replace(value, "***")
    return clip(text, 200)
