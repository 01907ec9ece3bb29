"""Which elements of a page a reader does not see, by their attributes and by the page's own style sheets.

Belongs here: the meaning of inline styles, of simple rules in ``style`` elements, of ``hidden`` and ``aria-hidden`` and
of the class names by which frameworks hide text. Does not belong here: taking elements out (``sanitize.py``). Style
sheets in files of their own are not fetched, and what scripts hide is not seen.
"""

import html
import re

import numpy as np
from numba import njit, uint64

from gristmill.extract import cuts, scan, sheets, tags
from gristmill.extract.scan import Scan

_LENGTH = r"\s*(?:-\s*)?0*\.?0*(?:px|em|rem|pt|%|vw|vh)?\s*(?:!important)?\s*(?:;|$)"
_FAR = r"\s*-\s*(?:\d{4,}(?:\.\d+)?(?:px|pt)?|\d{3,}(?:em|rem|vw|vh|%))"
# Declarations that hide by themselves.
_HIDES = re.compile(
    r"(?:^|[;{\s])(?:"
    r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|content-visibility\s*:\s*hidden"
    rf"|font-size\s*:{_LENGTH}|font-size\s*:\s*(?:(?:0*[01](?:\.\d+)?|0*\.\d+)(?:px|pt)|0*\.0\d*r?em)"
    r"|font\s*:\s*(?:[a-z-]+\s+)*0+(?:\.0+)?(?:px|pt|em|rem|%)?(?:\s|/)|filter\s*:\s*opacity\(\s*0*\.?0*%?\s*\)"
    rf"|text-indent\s*:{_FAR}"
    r"|clip-path\s*:\s*(?:inset\(\s*(?:50|100)%|circle\(\s*0|polygon\(\s*0)|clip\s*:\s*rect\(\s*[01](?:px)?[\s,]+[01]"
    r"|transform\s*:\s*(?:scale\(\s*0\s*[,)]|translate[xy]?\(\s*-\s*\d{4,})"
    r")", re.IGNORECASE)
# Not to be seen until a script fades it in, or never.
_FADES = re.compile(r"(?:^|[;{\s])opacity\s*:\s*0?(?:\.0+|0)(?:%)?\s*(?:!important)?\s*(?:;|$)", re.IGNORECASE)
# Off-screen and zero-size need two declarations to hide.
_OUT_OF_FLOW = re.compile(r"position\s*:\s*(?:absolute|fixed)", re.IGNORECASE)
_AWAY = re.compile(rf"(?:^|[;{{\s])(?:inset|left|top|right|bottom|margin-left|margin-top)\s*:{_FAR}", re.IGNORECASE)
_CLIPPED = re.compile(r"overflow(?:-[xy])?\s*:\s*(?:hidden|clip)", re.IGNORECASE)
_SMALL = re.compile(
    r"(?:^|[;{\s])(?:max-)?(?:height|width)\s*:\s*(?:0+(?:\.0+)?|1px)(?:px|em|rem|pt|%)?\s*(?:!important)?\s*(?:;|$)",
    re.IGNORECASE)
# Text for screen readers only, and frameworks' words for display: none.
CLASSES = frozenset((b"sr-only", b"visually-hidden", b"visuallyhidden", b"screen-reader-text", b"screen-reader-only",
                     b"d-none", b"hide-text", b"offscreen", b"off-screen", b"a11y-hidden", b"u-hidden", b"is-hidden"))
_SHOWN_AGAIN = re.compile(rb"(?:^|\s)(?:d-(?:sm|md|lg|xl|xxl|print)-|(?:sm|md|lg|xl):(?:block|flex|inline|grid))")
WORDS = tuple(sorted(CLASSES))
_SIMPLE = re.compile(r"^(?:[a-z][a-z0-9]*)?([.#])([\w-]+)$", re.IGNORECASE)
_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_ESCAPE = re.compile(r"\\([0-9a-fA-F]{1,6})\s?")
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


def fades(style: str) -> bool:
    """Does this list of CSS declarations make the element that has it transparent."""
    return _FADES.search(style) is not None


def elements(page: Scan, seen: bool) -> np.ndarray:
    """Start tokens of elements that are hidden, ascending; elements inside them are not all listed.

    What is only transparent is hidden where no script would fade it in: it has neither class nor id, or stands among
    the paragraphs that a reader sees. Sections that appear as one scrolls are transparent in the source.

    ``seen``: does one of ``WORDS`` occur in the page.
    """
    found = (page.kind == scan.START) & ((page.flags & (scan.A_HIDDEN | scan.A_ARIA_HIDDEN)) != 0)
    cache: dict[bytes, bool] = {}
    faded: dict[bytes, bool] = {}
    clear: list[int] = []
    for element in _styled(page.buf, page.kind, page.attrs).tolist():
        value = page.value(element, scan.STYLE)
        verdict = cache.get(value)
        if verdict is None:
            style = _text(value)
            verdict = cache[value] = hides(style)
            faded[value] = fades(style)
        if verdict:
            found[element] = True
        elif faded[value]:
            clear.append(element)
    classes, ids, fading = _style_rules(page)
    if classes or seen:
        cache.clear()
        for element in _named(page, scan.CLASS, classes | CLASSES):
            value = page.value(element, scan.CLASS)
            verdict = cache.get(value)
            if verdict is None:
                names = value.split()
                verdict = cache[value] = any(n in classes for n in names) or (
                    any(n in CLASSES for n in names) and _SHOWN_AGAIN.search(value) is None)
            if verdict:
                found[element] = True
    if fading:
        for element in _named(page, scan.CLASS, fading):
            if not fading.isdisjoint(page.value(element, scan.CLASS).split()):
                clear.append(element)
    if clear:
        found[_for_good(page, np.unique(np.array(clear, np.int64)))] = True
    if ids:
        for element in _named(page, scan.ID, ids):
            if page.value(element, scan.ID) in ids:
                found[element] = True
    every = np.flatnonzero(found)
    return every[~_NEVER[page.tag[every]]]


def _for_good(page: Scan, clear: np.ndarray) -> np.ndarray:
    """Those of the transparent elements that no script seems to show."""
    unnamed = (page.attrs[clear, scan.CLASS] < 0) & (page.attrs[clear, scan.ID] < 0)
    return clear[unnamed | cuts.beside_prose(page, clear)]


@njit(cache=True, nogil=True)
def _styled(buf, kind, attrs):  # type: ignore[no-untyped-def]
    """Elements whose style could hide them."""
    out = np.empty(len(kind), np.int64)
    n = 0
    for t in range(len(kind)):
        if kind[t] == scan.START and attrs[t, scan.STYLE] >= 0 and _may_hide(
                buf, attrs[t, scan.STYLE], attrs[t, scan.STYLE + 1]):
            out[n] = t
            n += 1
    return out[:n]


@njit(cache=True, nogil=True)
def _may_hide(buf, a, b):  # type: ignore[no-untyped-def]
    """Is there an entity, an escape or a comment in a style, or what it takes to hide."""
    for i in range(a, b):
        if buf[i] == 38 or buf[i] == 92 or (buf[i] == 47 and i + 1 < b and buf[i + 1] == 42):
            return True
    return sheets.may_hide(buf, a, b)


def _named(page: Scan, column: int, names: set[bytes] | frozenset[bytes]) -> list[int]:
    """Elements with one of the names in an attribute, and a few more."""
    slots = 64
    while slots < 4 * len(names):
        slots *= 2
    found: list[int] = _with_name(page.buf, page.kind, page.attrs, column, tags.hash_set(names, slots)).tolist()
    return found


@njit(cache=True, nogil=True)
def _with_name(buf, kind, attrs, column, keys):  # type: ignore[no-untyped-def]
    """Elements with a name, between blanks, of which the hash is among the keys."""
    mask = uint64(len(keys) - 1)
    out = np.empty(len(kind), np.int64)
    n = 0
    for t in range(len(kind)):
        a = attrs[t, column]
        if kind[t] != scan.START or a < 0:
            continue
        b = attrs[t, column + 1]
        h = uint64(0xCBF29CE484222325)
        inside = False
        for i in range(a, b + 1):
            c = buf[i] if i < b else 32
            if c == 32 or 9 <= c <= 13:
                if inside:
                    at = h & mask
                    while keys[at] != 0 and keys[at] != h:
                        at = (at + uint64(1)) & mask
                    if keys[at] == h:
                        out[n] = t
                        n += 1
                        break
                h = uint64(0xCBF29CE484222325)
                inside = False
            else:
                h = (h ^ uint64(c)) * uint64(0x100000001B3)
                inside = True
    return out[:n]


def _text(value: bytes) -> str:
    """An attribute's value as CSS: entities, comments and escapes undone."""
    text = value.decode("utf-8", "replace")
    text = html.unescape(text) if "&" in text else text
    text = _COMMENT.sub("", text) if "/*" in text else text
    return _ESCAPE.sub(lambda m: chr(min(int(m.group(1), 16), 0x10FFFF)), text) if "\\" in text else text


def _style_rules(page: Scan) -> tuple[set[bytes], set[bytes], set[bytes]]:
    """Class names and ids that a simple rule of the page, outside any condition (``@media``), hides; class names that
    one makes transparent.
    """
    classes: set[bytes] = set()
    ids: set[bytes] = set()
    fading: set[bytes] = set()
    for token in np.flatnonzero((page.kind == scan.RAW) & (page.tag == _STYLE)).tolist():
        raw = page.raw[page.start[token] : page.end[token]]
        if len(raw) > 1 << 18:
            continue
        for selectors, body in sheets.rules(raw):
            if len(body) > 2000:
                continue
            hiding = hides(body)
            if not hiding and not fades(body):
                continue
            for selector in selectors.split(","):
                match = _SIMPLE.match(selector.strip())
                if match and (hiding or match.group(1) == "."):
                    names = fading if not hiding else classes if match.group(1) == "." else ids
                    names.add(match.group(2).encode())
    return classes, ids, fading
