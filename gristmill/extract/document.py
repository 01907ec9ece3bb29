"""One document through extraction: bytes in, text or a named reason out.

Belongs here: the order of the steps (cap, decode, sanitise, engine, checks) and the reasons for which a document is set
aside. Does not belong here: the steps themselves, where bytes come from (``slices.py``), and limits on time and memory
(``watch.py``).
"""

import json
from dataclasses import dataclass
from typing import Any

from gristmill.extract import charset, sanitize
from gristmill.extract.engines import Page, load
from gristmill.params import ExtractParams

PLAIN = "plain-1"  # the extractor of what came as plain text

# Why extraction sets a document aside. `slow`, `memory`, `crash` and `unread` are given by watch.py.
REASONS = {
    "slow": "took more CPU (or wall) time than the limit",
    "memory": "took more memory than the limit",
    "crash": "ended its worker three times",
    "unread": "its bytes could not be read, three times",
    "undecodable": "too many characters could not be decoded",
    "binary": "is not text",
    "hidden_text": "too much text that a reader of the page does not see: suspected poisoning",
    "empty": "no main text was found",
    "engine_error": "the engine raised an error on it",
}


@dataclass(frozen=True)
class Outcome:
    """Text, or the reason why there is none.

    Attributes:
        text: None where set aside.
        title: of the document, or None.
        extractor: engine and version that made the text.
        meta: JSON of ``extract_meta``.
        reason, detail: of the quarantine; None and empty where there is text.
        bytes_in: bytes of the body, before any cut.
    """

    text: str | None
    title: str | None
    extractor: str
    meta: str
    reason: str | None
    detail: str
    bytes_in: int


def extract(body: bytes, *, url: str, content_type: str, header_charset: str | None, params: ExtractParams,
            tags: tuple[str, ...] = ()) -> Outcome:
    """Extract one document. Every failure of a document is an outcome, never an exception.

    Args:
        body: decoded HTTP body.
        content_type: media type, lower case.
        tags: what intake found odd (``truncated``, ...); kept.
    """
    size = len(body)
    found = set(tags)
    if size > params.max_bytes:
        body = body[: params.max_bytes]
        found.add("truncated_extract")
    if sanitize.is_binary(body):
        return aside("binary", "signs of a binary file among the first bytes", size)
    decoded = charset.decode(body, header_charset)
    found.update(decoded.tags)
    if decoded.replaced > params.max_replacement_share:
        return aside(
            "undecodable",
            f"{decoded.replaced:.4f} of characters undecodable as {decoded.charset} ({decoded.source}), bound "
            f"{params.max_replacement_share}", size)
    meta: dict[str, Any] = {"charset": decoded.charset, "charset_source": decoded.source}
    title: str | None = None
    if content_type == "text/plain" and not sanitize.looks_like_html(decoded.text):
        text, name = decoded.text, PLAIN
        hidden = sanitize.smuggled(decoded.text)
    else:
        engine = load(params.engine)
        try:
            page = sanitize.clean(decoded.text, decoded.utf8)
            title = page.title
            result = engine.extract(Page(page.raw, url, page.title, page.traits))
        except MemoryError:
            return aside("memory", "an allocation failed", size)
        except Exception as error:  # noqa: BLE001 - engines are other people's code on hostile input
            return aside("engine_error", f"{params.engine}: {type(error).__name__}: {error}", size)
        text, hidden = result.text, page.hidden_chars
        name = engine.VERSION if result.engine == params.engine else f"{engine.VERSION}/{result.engine}"
        found.update(page.tags)
    text, repaired = charset.repair(text)
    if repaired:
        found.add("mojibake_fixed")
    text = sanitize.tidy(sanitize.visible(text))
    share = hidden / (hidden + len(text)) if hidden else 0.0
    if share > params.max_hidden_share:
        return aside("hidden_text", f"{share:.4f} of the text is hidden, bound {params.max_hidden_share}", size)
    if not text:
        return aside("empty", f"{params.engine} found no main text in {len(decoded.text)} characters", size)
    meta["hidden_share"] = round(share, 4)
    if found:
        meta["tags"] = sorted(found)
    return Outcome(text, title, name, json.dumps(meta, sort_keys=True, ensure_ascii=True), None, "", size)


def aside(reason: str, detail: str, size: int) -> Outcome:
    """An outcome without text."""
    return Outcome(None, None, "", "", reason, detail[:500], size)
