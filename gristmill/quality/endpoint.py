"""Asking language models behind OpenAI-compatible endpoints, and the files in which their answers are kept.

Belongs here: one question and its answer, many of them at a time in order, and rows of JSON lines that a killed run
goes on with. Does not belong here: what is asked (``annotate.py``, ``decontaminate/judge.py``) and serving a model.
"""

import http.client
import json
import time
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from gristmill import strict_json
from gristmill.errors import GristmillError

MOST_BYTES = 16 << 20  # of a response
AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})  # busy, or starting
ITS_OWN = frozenset({400, 413, 422})  # about this prompt (too long, mostly), not about the endpoint
PAUSE = 1.0  # seconds before the second try; doubled for each after it

T = TypeVar("T")
U = TypeVar("U")


class AnnotationError(GristmillError):
    """The endpoint cannot be reached, or does not answer as an OpenAI-compatible one does."""


class RefusedError(AnnotationError):
    """The endpoint refuses this one prompt, and may take others."""


@dataclass(frozen=True)
class Asking:
    """How an endpoint is asked.

    Attributes:
        key: bearer token, for all endpoints.
        timeout: seconds for one answer, from the first byte to the last.
        max_tokens: of an answer.
        tries: of one question, where the endpoint is busy or the line breaks.
        at_once: questions in flight.
    """

    key: str | None = None
    timeout: float = 120
    max_tokens: int = 400
    tries: int = 3
    at_once: int = 1


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the key to another host."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        """Never."""


def ask(endpoint: str, model: str, prompt: str, how: Asking = Asking()) -> str:
    """One answer at temperature 0 from ``{endpoint}/chat/completions``; empty where the model says nothing.

    Raises:
        RefusedError: the endpoint does not take this prompt.
        AnnotationError: with the endpoint's own words.
    """
    if not endpoint.startswith(("http://", "https://")):
        raise AnnotationError(f"{endpoint} is no http(s) address of an OpenAI-compatible endpoint")
    for tried in range(1, how.tries + 1):
        try:
            return _once(endpoint, model, prompt, how)
        except urllib.error.HTTPError as error:
            words = f"{error.code} {error.read(200).decode('utf-8', 'replace')}"
            if error.code in ITS_OWN:
                raise RefusedError(f"{endpoint} refused a prompt: {words}") from error
            if error.code not in AGAIN or tried == how.tries:
                raise AnnotationError(f"{endpoint} refused: {words}") from error
        except (OSError, http.client.HTTPException) as error:
            if tried == how.tries or isinstance(error, http.client.InvalidURL):
                raise AnnotationError(f"{endpoint} did not answer: {error}") from error
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise AnnotationError(f"{endpoint} did not answer as an OpenAI-compatible endpoint: {error}") from error
        time.sleep(PAUSE * 2 ** (tried - 1))
    raise AnnotationError(f"{endpoint} is asked {how.tries} times: name one or more")


def _once(endpoint: str, model: str, prompt: str, how: Asking) -> str:
    body = {"model": model, "temperature": 0, "seed": 1, "max_tokens": how.max_tokens,
            "messages": [{"role": "user", "content": prompt}]}
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {how.key}"} if how.key else {})
    url = f"{endpoint.rstrip('/')}/chat/completions"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)  # noqa: S310 - http(s) alone
    until = time.monotonic() + how.timeout
    data = b""
    with urllib.request.build_opener(_NoRedirect).open(request, timeout=how.timeout) as response:
        while piece := response.read1(1 << 16):
            data += piece
            if time.monotonic() > until:
                raise TimeoutError(f"no whole answer in {how.timeout:g} s")
            if len(data) > MOST_BYTES:
                raise ValueError(f"more than {MOST_BYTES:,} bytes")
    try:
        content = json.loads(data)["choices"][0]["message"]["content"]
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(content, str | None):
        raise TypeError(f"its message's content is a {type(content).__name__}")
    return (content or "").encode("utf-8", "replace").decode("utf-8")  # a lone surrogate is no text


def in_order(work: Callable[[T], U], jobs: Iterable[T], at_once: int) -> Iterator[U]:
    """Results in the order of the jobs, ``at_once`` of them under way and few waiting; the first error ends it."""
    with ThreadPoolExecutor(max(1, at_once)) as pool:
        under_way: deque[Future[U]] = deque()
        try:
            for job in jobs:
                under_way.append(pool.submit(work, job))
                if len(under_way) >= 2 * at_once:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        finally:
            for waiting in under_way:
                waiting.cancel()


def read_rows(path: Path, kind: Callable[..., T], what: str) -> list[T]:
    """Rows of a file of answers; a last line that a kill cut short is left out, and none is there without the file.

    Args:
        path: JSON lines.
        kind: called with a line's fields.
        what: a row of which command it is, for the message.

    Raises:
        AnnotationError: a line is no such row, named by its number.
    """
    out = []
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], start=1) if path.exists() else ():
        if line:
            try:
                out.append(kind(**strict_json.loads(line)))
            except (ValueError, TypeError) as error:
                raise AnnotationError(f"{path}, line {number}: no {what}: {error}") from error
    return out


def without_a_cut_line(path: Path) -> None:
    """Take off a last line that a killed run left unfinished, so that what is added stands on lines of its own."""
    data = path.read_bytes() if path.exists() else b""
    if data[-1:] not in (b"", b"\n"):
        with path.open("r+b") as file:
            file.truncate(data.rfind(b"\n") + 1)
