"""What a reader of a page would not see must not reach its text.

Belongs here: signs of binary files, invisible characters, the white space of extracted text, and the removal of hidden
elements from HTML. Does not belong here: how elements are found (``scan.py``) and what a style means (``hidden.py``).
"""

import html
import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gristmill.extract import cuts, hidden, hints, maths, scan, tags, traits
from gristmill.extract.literals import Literals
from gristmill.extract.scan import Scan

_MAGIC = (
    b"%PDF-", b"\x89PNG", b"GIF8", b"\xff\xd8\xff", b"PK\x03\x04", b"\x1f\x8b", b"Rar!", b"\x7fELF", b"OggS", b"ID3",
    b"RIFF", b"BZh", b"\xfd7zXZ", b"7z\xbc\xaf", b"\x00\x00\x01\x00", b"wOFF", b"wOF2", b"\xd0\xcf\x11\xe0",
)
_CONTROLS = bytes((*range(1, 9), 11, *range(14, 27), *range(28, 32)))
_HTML = re.compile(r"\s*(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL)
# Elements whose content is no text of the page. Their markup goes too: engines parse faster without it.
_INERT = np.zeros(len(tags.NAMES), bool)
for _name in ("script", "style", "noscript", "template", "iframe", "textarea", "noembed", "noframes", "object", "embed",
              "applet", "canvas", "video", "audio", "svg", "math", "datalist"):
    _INERT[tags.ID[_name]] = True
MIN_PROSE = 40  # bytes of a piece of hidden text under which it is a label
MIN_SUSPECT = 64  # characters of it on a page under which there is no message
# Where hidden text is a habit of site builders: it goes, but is no sign of poisoning.
_EXCUSED = np.zeros(len(tags.NAMES), bool)
_EXCUSED[[tags.ID[n] for n in (
    "a", "nav", "form", "button", "select", "label", "dialog", "menu", "footer", "header", "aside", "fieldset",
    "script", "img", "input", "i", "title")]] = True
_EXCUSED_HINTS = sum(1 << hints.BIT[m] for m in (
    "nav", "menu", "modal", "cookie", "newsletter", "login", "search", "form", "share", "ad", "button", "skip",
    "language",
    "question", "grid", "comment", "footer", "print", "header", "sidebar"))

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
_SMUGGLED_IN_UTF8 = b"\xf3\xa0"  # as each of them begins
_CONTROL = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f]")
_ODD = re.compile("[\x00-\x08\x0b-\x1f\x7f\x85\xa0\u2028\u2029]")
_SPACES = str.maketrans({"\r": "\n", "\x0c": "\n", "\u2028": "\n", "\u2029": "\n", "\u0085": "\n", "\u00a0": " "})
_WORDS = Literals((*maths.WORDS, *hidden.WORDS, *traits.WORDS))  # all that anybody looks for, in one pass
_BLANKS = re.compile(r"\n{3,}")


@dataclass(frozen=True)
class Clean:
    """A page without what is hidden.

    Attributes:
        raw: for the engines, in UTF-8.
        title: of the document, or None.
        hidden_chars: characters of hidden prose that were taken out, and of smuggled ones (tags, supplementary
        variation
            selectors), which can spell sentences that no reader sees.
        traits: what the page says it is (``traits.py``).
        tags: what was found, for ``extract_meta``.
    """

    raw: bytes
    title: str | None
    hidden_chars: int
    traits: int
    tags: tuple[str, ...]

    @cached_property
    def html(self) -> str:
        """``raw`` as text."""
        return self.raw.decode("utf-8", "replace")


def is_binary(body: bytes) -> bool:
    """Do the first bytes say that this is no text."""
    if body.startswith(_MAGIC):
        return True
    head = body[:1024]
    control = len(head) - len(head.translate(None, _CONTROLS))
    return control * 10 > len(head) > 0


def looks_like_html(text: str) -> bool:
    """Is a document that was served as plain text an HTML page."""
    return _HTML.match(text[:2000]) is not None


def clean(text: str, whole: bytes | None = None) -> Clean:
    """Take hidden and active content out of a page, and write maths as LaTeX.

    ``whole``: the text in UTF-8, where it is at hand.
    """
    if whole is None:
        whole = text.encode("utf-8", "replace")
    page = scan.scan(whole)
    places = _WORDS.places(whole)
    formulae = maths.replacements(page, any(at >= 0 for at in places[: len(maths.WORDS)]))
    unseen = hidden.elements(page, any(at >= 0 for at in places[len(maths.WORDS) : -len(traits.WORDS)]))
    ranges = np.array([f[:2] for f in formulae], np.int64).reshape(-1, 2)
    pieces: list[bytes] = []
    at = 0
    for start, end, formula in cuts.spans(page, _INERT, unseen, ranges).tolist():
        pieces.append(whole[at:start])
        if formula >= 0:
            pieces.append(formulae[formula][2])
        at = end
    pieces.append(whole[at:])
    return Clean(b"".join(pieces), _title(page),
                 _prose(page, unseen) + (smuggled(text) if _SMUGGLED_IN_UTF8[:1] in whole else 0),
                 traits.traits(whole, places[-len(traits.WORDS) :]), ("hidden_removed",) if len(unseen) else ())


def _title(page: Scan) -> str | None:
    raw = np.flatnonzero((page.kind == scan.RAW) & (page.tag == tags.ID["title"]))
    if not len(raw):
        return None
    value = page.raw[page.start[raw[0]] : page.end[raw[0]]].decode("utf-8", "replace")
    return " ".join(html.unescape(value).split())[:1000] or None


def _prose(page: Scan, unseen: np.ndarray) -> int:
    """Characters of running text in hidden elements.

    Menus, dialogues, forms, messages and links wait hidden on every other page until a script shows them.
    """
    total = 0
    for token in cuts.suspects(page, unseen, _EXCUSED, _EXCUSED_HINTS, MIN_PROSE).tolist():
        size = int(page.end[token] - page.start[token])
        words = page.raw[page.start[token] : page.end[token]].decode("utf-8", "replace").split()
        if len(words) >= 8 or (len(words) <= 2 and size >= 3 * MIN_PROSE):  # unspaced scripts have no words
            total += sum(map(len, words)) + len(words) - 1
    return total if total >= MIN_SUSPECT else 0


def smuggled(text: str) -> int:
    """How many characters of a text are tags or supplementary variation selectors."""
    if text.isascii() or _SMUGGLED_IN_UTF8 not in text.encode("utf-8", "replace"):
        return 0
    return len(_SMUGGLED.findall(text))


def visible(text: str) -> str:
    """Text without invisible characters: zero-width ones (but joiners where a script needs them), bidi overrides,
    tags.
    """
    if text.isascii() or _INVISIBLE.search(text) is None:
        return text
    kept = {m.start() for m in _JOINED.finditer(text)}
    if not kept:
        return _INVISIBLE.sub("", text)
    return _INVISIBLE.sub(lambda m: m.group() if m.start() in kept else "", text)


def tidy(text: str) -> str:
    """Line ends to LF, no control characters or trailing blanks, at most one empty line in a row."""
    if _ODD.search(text):
        text = _CONTROL.sub("", text.replace("\r\n", "\n")).translate(_SPACES)
    if " \n" in text or "\t\n" in text or text[-1:].isspace() or not text.isascii():
        text = "\n".join(line.rstrip() for line in text.split("\n"))
    if "\n\n\n" in text:
        text = _BLANKS.sub("\n\n", text)
    return text.strip("\n")
