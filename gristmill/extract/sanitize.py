"""What a reader of a page would not see must not reach its text.

Belongs here: signs of binary files, invisible characters, the white space of extracted text, and the removal of hidden
elements from HTML. Does not belong here: how elements are found (``scan.py``) and what a style means (``hidden.py``).
"""

import html
import re
from dataclasses import dataclass

_MAGIC = (
    b"%PDF-", b"\x89PNG", b"GIF8", b"\xff\xd8\xff", b"PK\x03\x04", b"\x1f\x8b", b"Rar!", b"\x7fELF", b"OggS", b"ID3",
    b"RIFF", b"BZh", b"\xfd7zXZ", b"7z\xbc\xaf", b"\x00\x00\x01\x00", b"wOFF", b"wOF2", b"\xd0\xcf\x11\xe0",
)
_HTML = re.compile(r"\s*(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL)
_TITLE = re.compile(r"<title[^>]*>(.*?)</title", re.IGNORECASE | re.DOTALL)

# Zero-width characters, soft hyphen, word joiner and invisible operators, byte order marks, bidi embeddings, overrides
# and isolates, interlinear annotation, tag characters, variation selectors of the supplement. Directional marks
# (U+200E, U+200F) stay: right-to-left text needs them.
_INVISIBLE = re.compile(
    "[\u00ad\u180e\u200b-\u200d\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e01ef]"
)
# Joiners mean something between letters of these scripts, and inside emoji.
_JOINER_SCRIPTS = "\u0600-\u07ff\u08a0-\u0dff\u1000-\u109f\u1780-\u17ff\u1800-\u18af\ufb50-\ufdff\ufe70-\ufefc"
_EMOJI = "\u2190-\u2bff\ufe0f\U0001f000-\U0001faff"
_JOINED = re.compile(f"(?<=[{_JOINER_SCRIPTS}{_EMOJI}])[\u200c\u200d](?=[{_JOINER_SCRIPTS}{_EMOJI}])")
_SMUGGLED = re.compile("[\U000e0000-\U000e01ef]")
_CONTROL = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f]")
_SPACES = str.maketrans({"\r": "\n", "\x0c": "\n", "\u2028": "\n", "\u2029": "\n", "\u0085": "\n", "\u00a0": " "})
_BLANKS = re.compile(r"\n{3,}")


@dataclass(frozen=True)
class Clean:
    """A page without what is hidden.

    Attributes:
        html: for the engines.
        title: of the document, or None.
        hidden_chars: characters of hidden prose that were taken out.
        tags: what was found, for ``extract_meta``.
    """

    html: str
    title: str | None
    hidden_chars: int
    tags: tuple[str, ...]


def is_binary(body: bytes) -> bool:
    """Do the first bytes say that this is no text."""
    if body.startswith(_MAGIC):
        return True
    head = body[:1024]
    control = sum(head.count(bytes([c])) for c in (*range(1, 9), 11, *range(14, 27), *range(28, 32)))
    return control * 10 > len(head) > 0


def looks_like_html(text: str) -> bool:
    """Is a document that was served as plain text an HTML page."""
    return _HTML.match(text[:2000]) is not None


def clean(text: str) -> Clean:
    """Take hidden and active content out of a page."""
    found = _TITLE.search(text[:200_000])
    title = " ".join(html.unescape(found.group(1)).split())[:1000] if found else ""
    return Clean(text, title or None, 0, ())


def visible(text: str) -> tuple[str, int]:
    """Text without invisible characters.

    Returns:
        The text, and how many smuggled characters (tags, supplementary variation selectors) it held: they can spell
        sentences that no reader sees. Zero-width and bidi characters go without being counted: they carry no words.
    """
    if _INVISIBLE.search(text) is None:
        return text, 0
    smuggled = len(_SMUGGLED.findall(text))
    kept = {m.start() for m in _JOINED.finditer(text)}
    if not kept:
        return _INVISIBLE.sub("", text), smuggled
    return _INVISIBLE.sub(lambda m: m.group() if m.start() in kept else "", text), smuggled


def tidy(text: str) -> str:
    """Line ends to LF, no control characters or trailing blanks, at most one empty line in a row."""
    if _CONTROL.search(text):
        text = _CONTROL.sub("", text)
    text = text.replace("\r\n", "\n").translate(_SPACES)
    text = "\n".join(line.rstrip() for line in text.split("\n"))
    return _BLANKS.sub("\n\n", text).strip("\n")
