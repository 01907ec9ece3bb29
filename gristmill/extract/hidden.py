"""Which elements of a page a reader does not see, by their attributes and by the page's own style sheets.

Belongs here: the meaning of inline styles, of simple rules in ``style`` elements, of ``hidden`` and ``aria-hidden`` and
of the class names by which frameworks hide text. Does not belong here: taking elements out (``sanitize.py``). Style
sheets in files of their own are not fetched, and what scripts hide is not seen.
"""

import html
import re

import numpy as np

from gristmill.extract import scan, tags
from gristmill.extract.scan import Scan

_LENGTH = r"\s*(?:-\s*)?0*\.?0*(?:px|em|rem|pt|%|vw|vh)?\s*(?:!important)?\s*(?:;|$)"
_FAR = r"\s*-\s*(?:\d{4,}(?:\.\d+)?(?:px|pt)?|\d{3,}(?:em|rem|vw|vh|%))"
# Declarations that hide by themselves.
_HIDES = re.compile(
    r"(?:^|[;{\s])(?:"
    r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|content-visibility\s*:\s*hidden"
    rf"|font-size\s*:{_LENGTH}|opacity\s*:\s*0?(?:\.0+|0)(?:%)?\s*(?:!important)?\s*(?:;|$)"
    rf"|text-indent\s*:{_FAR}"
    r"|clip-path\s*:\s*(?:inset\(\s*(?:50|100)%|circle\(\s*0|polygon\(\s*0)|clip\s*:\s*rect\(\s*[01](?:px)?[\s,]+[01]"
    r"|transform\s*:\s*(?:scale\(\s*0\s*[,)]|translate[xy]?\(\s*-\s*\d{4,})"
    r")", re.IGNORECASE)
# Off-screen and zero-size need two declarations to hide.
_OUT_OF_FLOW = re.compile(r"position\s*:\s*(?:absolute|fixed)", re.IGNORECASE)
_AWAY = re.compile(rf"(?:^|[;{{\s])(?:left|top|right|bottom|margin-left|margin-top)\s*:{_FAR}", re.IGNORECASE)
_CLIPPED = re.compile(r"overflow(?:-[xy])?\s*:\s*(?:hidden|clip)", re.IGNORECASE)
_SMALL = re.compile(
    r"(?:^|[;{\s])(?:max-)?(?:height|width)\s*:\s*(?:0+(?:\.0+)?|1px)(?:px|em|rem|pt|%)?\s*(?:!important)?\s*(?:;|$)",
    re.IGNORECASE)
_MAY_HIDE = re.compile(rb"[&\\]|/\*|none|hidden|collapse|opacity|font-size|-\s*\d|clip|scale"
                       rb"|height\s*:\s*[01]|width\s*:\s*[01]")  # of a style in lower case
_OFTEN = (b"none", b"hidden", b"/*", b"opacity", b"font-size")  # of it, in lower case: looked for first
# Of declarations in lower case: a pattern that ignores case tries every word at every character.
_MAY_RULE = re.compile(r"none|hidden|collapse|opacity|font-size|indent|absolute|fixed|clip|scale|translate")
# Text for screen readers only, and frameworks' words for display: none.
CLASSES = frozenset((b"sr-only", b"visually-hidden", b"visuallyhidden", b"screen-reader-text", b"screen-reader-only",
                     b"d-none", b"hide-text", b"offscreen", b"off-screen", b"a11y-hidden", b"u-hidden", b"is-hidden"))
_SHOWN_AGAIN = re.compile(rb"(?:^|\s)(?:d-(?:sm|md|lg|xl|xxl|print)-|(?:sm|md|lg|xl):(?:block|flex|inline|grid))")
WORDS = tuple(sorted(CLASSES))
_RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")
_SIMPLE = re.compile(r"^(?:[a-z][a-z0-9]*)?([.#])([\w-]+)$", re.IGNORECASE)
_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_ESCAPE = re.compile(r"\\([0-9a-fA-F]{1,6})\s?")
_NESTED = re.compile(r"@[^{};]+\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}")
# A page that hides its whole self until a script has run means to be seen.
_NEVER = np.zeros(len(tags.NAMES), bool)
_NEVER[[tags.ID[n] for n in ("html", "body", "main", "article")]] = True
_STYLE = tags.ID["style"]


def hides(style: str) -> bool:
    """Does this list of CSS declarations hide the element that has it."""
    if _HIDES.search(style):
        return True
    if _OUT_OF_FLOW.search(style) and _AWAY.search(style):
        return True
    return _CLIPPED.search(style) is not None and _SMALL.search(style) is not None


def elements(page: Scan, seen: list[bool]) -> np.ndarray:
    """Start tokens of elements that are hidden, ascending; elements inside them are not all listed.

    ``seen``: which of ``WORDS`` occur in the page.
    """
    started = page.kind == scan.START
    found = started & ((page.flags & (scan.A_HIDDEN | scan.A_ARIA_HIDDEN)) != 0)
    cache: dict[bytes, bool] = {}
    by_class: dict[bytes, bool] = {}
    for element, value in page.with_value(scan.STYLE):
        verdict = cache.get(value)
        if verdict is None:
            verdict = _MAY_HIDE.search(value.lower()) is not None and hides(_text(value))
            cache[value] = verdict
        if verdict:
            found[element] = True
    classes, ids = _style_rules(page)
    if classes or any(seen):
        for element, value in page.with_value(scan.CLASS):
            verdict = by_class.get(value)
            if verdict is None:
                names = value.split()
                verdict = any(n in classes for n in names) or (
                    any(n in CLASSES for n in names) and _SHOWN_AGAIN.search(value) is None)
                by_class[value] = verdict
            if verdict:
                found[element] = True
    if ids:
        for element, value in page.with_value(scan.ID):
            if value in ids:
                found[element] = True
    every = np.flatnonzero(found)
    return every[~_NEVER[page.tag[every]]]


def _text(value: bytes) -> str:
    """An attribute's value as CSS: entities, comments and escapes undone."""
    text = value.decode("utf-8", "replace")
    text = html.unescape(text) if "&" in text else text
    text = _COMMENT.sub("", text) if "/*" in text else text
    return _ESCAPE.sub(lambda m: chr(min(int(m.group(1), 16), 0x10FFFF)), text) if "\\" in text else text


def _style_rules(page: Scan) -> tuple[set[bytes], set[bytes]]:
    """Class names and ids that a simple rule of the page, outside any condition (``@media``), hides."""
    classes: set[bytes] = set()
    ids: set[bytes] = set()
    for token in np.flatnonzero((page.kind == scan.RAW) & (page.tag == _STYLE)).tolist():
        raw = page.raw[page.start[token] : page.end[token]]
        if len(raw) > 1 << 18:
            continue
        if not any(word in raw for word in _OFTEN) and _MAY_HIDE.search(raw.lower()) is None:
            continue
        sheet = _COMMENT.sub(" ", raw.decode("utf-8", "replace"))
        if "@" in sheet:
            sheet = _NESTED.sub(" ", sheet)
        for selectors, body in _RULE.findall(sheet):
            if len(body) > 2000 or _MAY_RULE.search(body.lower()) is None or not hides(body):
                continue
            for selector in selectors.split(","):
                match = _SIMPLE.match(selector.strip())
                if match:
                    (classes if match.group(1) == "." else ids).add(match.group(2).encode())
    return classes, ids
