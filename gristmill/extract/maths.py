r"""Formulae of a page as LaTeX, whatever wrote them: MathML, KaTeX, MathJax 2 and 3, images with alternative text.

Belongs here: finding formulae in a scanned page, and the text that stands for each, between ``$`` or ``$$``. The
author's own source is taken where the page carries it (annotation, alternative text, script); else MathML is converted
(``mathml.py``). Source between ``\(`` and ``\)`` is text already. Does not belong here: LaTeX documents.
"""

import html
import re

import numpy as np
from numba import njit

from gristmill.extract import mathml, scan, tags
from gristmill.extract.scan import Scan

WORDS = (b"<math", b"math/tex", b"katex", b"mathjax", b"mjx-", b"mwe-math")
_ANNOTATION = re.compile(rb"<annotation[^>]*application/x-tex[^>]*>(.*?)</annotation\s*>", re.IGNORECASE | re.DOTALL)
_ALTTEXT = re.compile(rb"""\balttext\s*=\s*(?:"([^"]*)"|'([^']*)')""", re.IGNORECASE)
_ALT = re.compile(rb"""\balt\s*=\s*(?:"([^"]*)"|'([^']*)')""", re.IGNORECASE)
_DISPLAY = re.compile(rb"""\bdisplay\s*=\s*["']?(?:block|true)""", re.IGNORECASE)
_IMAGE_CLASS = re.compile(rb"(?:^|[\s_-])(?:tex|latex|math|mathtex|equation|mwe-math-fallback-image\S*)(?:$|[\s_-])",
                          re.IGNORECASE)
_TEX = re.compile(r"\\[A-Za-z]|[_^{}=<>]|^\W*\w\W*$|^[\w\s()+*/.,|-]+$")
# Boxes that hold one formula and nothing else, often twice: for the eye and for screen readers.
_WHOLE = re.compile(rb"(?:^|\s)(?:katex|katex-display|mwe-math-element|MathJax|MathJax_Display|MathJax_SVG|"
                    rb"MathJax_CHTML|MathJax_MathML|mjx-chtml|MJXc-display|mathjax-block|mjx-full-width)(?:\s|$)")
_RENDERED = re.compile(rb"(?:^|\s)(?:MathJax|MathJax_Preview|MathJax_Display|MathJax_SVG|MathJax_SVG_Display|"
                       rb"MathJax_CHTML|mjx-chtml|MJXc-display)(?:\s|$)")
_WRAPPER = re.compile(r"^\{\\(?:displaystyle|textstyle|scriptstyle)\s*(.*)\}$", re.DOTALL)
_MATH, _SCRIPT, _IMG, _MJX, _SPAN, _DIV = (tags.ID[n] for n in ("math", "script", "img", "mjx-container", "span",
"div"))
MAX_FORMULA = 20_000  # bytes of LaTeX
_IMAGES, _ANY = np.zeros(len(tags.NAMES), np.uint8), np.zeros(len(tags.NAMES), np.uint8)
_IMAGES[_IMG] = _ANY[[_IMG, _SPAN, _DIV]] = 1  # where they have a class
_ANY[[_MATH, _SCRIPT, _MJX]] = 2  # always


def replacements(page: Scan, seen: bool) -> list[tuple[int, int, bytes]]:
    """Byte ranges of formulae and what stands for each, escaped as HTML text. Ascending, not nested.

    ``seen``: does one of ``WORDS`` occur in the page.
    """
    whole = page.raw
    out: list[tuple[int, int, bytes]] = []
    until = 0
    for element in _may_be(page.kind, page.tag, page.attrs, _ANY if seen else _IMAGES).tolist():
        start = int(page.start[element])
        if start < until:
            continue
        found = _formula(page, whole, element)
        if found is not None:
            stop, source, display = found
            out.append((start, stop, _text(source, display)))
            until = stop
    return out


@njit(cache=True, nogil=True)
def _may_be(kind, tag, attrs, kinds):  # type: ignore[no-untyped-def]
    """Elements of some kinds."""
    out = np.empty(len(kind), np.int64)
    n = 0
    for t in range(len(kind)):
        wanted = kinds[tag[t]]
        if kind[t] == scan.START and wanted and (wanted == 2 or attrs[t, scan.CLASS] >= 0):
            out[n] = t
            n += 1
    return out[:n]


def _formula(page: Scan, whole: bytes, element: int) -> tuple[int, str, bool] | None:
    """(byte after it, LaTeX, is it displayed) of an element that is a formula; empty LaTeX where it only repeats
    one.
    """
    name = page.tag[element]
    classes = page.value(element, scan.CLASS)
    if name == _MATH:
        stop = page.outer_end(element)
        return stop, _of_math(page, whole, element), _shown(page, whole, element)
    if name == _SCRIPT:
        kind = page.value(element, scan.TYPE).lower()
        if not kind.startswith(b"math/tex"):
            return None
        source = whole[page.end[element] : _content_end(page, element)].decode("utf-8", "replace")
        return page.outer_end(element), source, b"display" in kind
    if name == _IMG:
        if _IMAGE_CLASS.search(classes) is None:
            return None
        alt = _attribute(_ALT, whole[page.start[element] : page.end[element]])
        if not alt or _TEX.search(alt) is None:
            return None
        return int(page.end[element]), alt, False
    if name == _MJX or (classes and _WHOLE.search(classes)):
        stop = page.outer_end(element)
        inner = _math_inside(page, element)
        if inner is not None:
            display = _shown(page, whole, inner) or b"isplay" in classes or (
                name == _MJX and _DISPLAY.search(whole[page.start[element] : page.end[element]]) is not None)
            return stop, _of_math(page, whole, inner), display
        note = _ANNOTATION.search(whole, page.start[element], stop)
        if note is not None:
            return stop, html.unescape(note.group(1).decode("utf-8", "replace")), b"isplay" in classes
    if classes and _RENDERED.search(classes) and b"math/tex" in whole:
        return page.outer_end(element), "", False  # MathJax 2's rendering stands beside its source
    return None


def _content_end(page: Scan, element: int) -> int:
    inner = element + 1
    return int(page.end[inner]) if inner < len(page) and page.kind[inner] == scan.RAW else int(page.end[element])


def _math_inside(page: Scan, element: int) -> int | None:
    inside = np.arange(element + 1, min(int(page.close[element]), len(page)))
    found = inside[(page.kind[inside] == scan.START) & (page.tag[inside] == _MATH)]
    return int(found[0]) if len(found) else None


def _shown(page: Scan, whole: bytes, element: int) -> bool:
    return _DISPLAY.search(whole[page.start[element] : page.end[element]]) is not None


def _of_math(page: Scan, whole: bytes, element: int) -> str:
    """LaTeX of a ``math`` element: its annotation, its alttext, or its MathML converted."""
    stop = page.outer_end(element)
    note = _ANNOTATION.search(whole, page.start[element], stop)
    if note is not None:
        return html.unescape(note.group(1).decode("utf-8", "replace"))
    alt = _attribute(_ALTTEXT, whole[page.start[element] : page.end[element]])
    return alt or mathml.to_latex(whole[page.start[element] : stop])


def _attribute(pattern: re.Pattern[bytes], tag: bytes) -> str | None:
    match = pattern.search(tag)
    if match is None:
        return None
    return html.unescape((match.group(1) or match.group(2) or b"").decode("utf-8", "replace")).strip()


def _text(source: str, display: bool) -> bytes:
    source = " ".join(source.replace("%\n", "\n").split())[:MAX_FORMULA]
    wrapped = _WRAPPER.match(source)
    if wrapped:
        source = wrapped.group(1).strip()
    if not source:
        return b""
    fence = "$$" if display else "$"
    return html.escape(f"{fence}{source}{fence}", quote=False).encode()
