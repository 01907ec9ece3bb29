"""jusText's verdict on the paragraphs of a page, as trafilatura asks for it, in one walk.

Belongs here: cutting a tree into paragraphs and classing them by length, stop words and links, then by neighbours
(Pomikálek, "Removing Boilerplate and Duplicate Content from Web Corpora", 2011), with the bounds trafilatura passes and
without headings. Does not belong here: when it is asked (``cascade.py``).
"""

import re
from functools import cache
from typing import Any

from justext.core import PARAGRAPH_TAGS
from justext.utils import get_stoplist, get_stoplists
from lxml import etree

SHORTEST, LONG = 50, 150  # characters
FEW_STOPWORDS, MANY_STOPWORDS, MOST_LINKED = 0.1, 0.2, 0.25  # shares of words, of words, of characters
_UNTIDY = re.compile(r"\s\s+|[^\S \n]")
Paragraph = tuple[str, int, bool]  # text, characters in links, inside something named select


@cache
def stopwords() -> frozenset[str]:
    """The stop words of all languages that jusText knows."""
    return frozenset().union(*map(get_stoplist, get_stoplists()))


def good_paragraphs(root: Any) -> list[str]:
    """Texts of the paragraphs that are main text."""
    found = paragraphs(root)
    kinds = revise([first_class(p, stopwords()) for p in found])
    return [text for (text, _, _), kind in zip(found, kinds, strict=True) if kind == "good"]


def paragraphs(root: Any) -> list[Paragraph]:
    """Cut at block elements and at two ``br`` in a row."""
    out: list[Paragraph] = []
    pieces: list[str] = []
    linked, selects, selected = 0, 0, False  # selected: when the paragraph began
    in_link = after_break = False

    def flush() -> None:
        nonlocal linked, selected
        if pieces:
            text = _tidy("".join(pieces).strip())
            if text:
                out.append((text, linked, selected))
            pieces.clear()
        linked, selected = 0, selects > 0

    for event, element in etree.iterwalk(root, events=("start", "end")):
        name = element.tag
        if event == "start":
            selects += "select" in name
            if name in PARAGRAPH_TAGS or (after_break and name == "br"):
                flush()
            else:
                after_break = name == "br"
                if after_break:
                    pieces.append(" ")
                elif name == "a":
                    in_link = True
            content = element.text
        else:
            selects -= "select" in name
            if name in PARAGRAPH_TAGS:
                flush()
            if name == "a":
                in_link = False
            content = element.tail
        if content and not content.isspace():
            content = _tidy(content)
            pieces.append(content)
            if in_link:
                linked += len(content)
            after_break = False
    flush()
    return out


def _tidy(text: str) -> str:
    """White space in a row becomes one line end where it has one, else one blank."""
    return _UNTIDY.sub(_one, text)


def _one(found: re.Match[str]) -> str:
    run = found.group()
    return "\n" if "\n" in run or "\r" in run else " "


def first_class(paragraph: Paragraph, known: frozenset[str]) -> str:
    """``good``, ``neargood``, ``short`` or ``bad``, by the paragraph alone and the stop words ``known``."""
    text, linked, selected = paragraph
    if linked / len(text) > MOST_LINKED or "\xa9" in text or "&copy" in text or selected:
        return "bad"
    if len(text) < SHORTEST:
        return "bad" if linked else "short"
    words = text.split()
    share = sum(word.lower() in known for word in words) / len(words)
    if share >= MANY_STOPWORDS:
        return "good" if len(text) > LONG else "neargood"
    return "neargood" if share >= FEW_STOPWORDS else "bad"


def revise(classes: list[str]) -> list[str]:
    """Class short and neargood paragraphs by their nearest neighbours that are good or bad; the ends count as bad."""
    sure, near = frozenset(("good", "bad")), frozenset(("good", "bad", "neargood"))
    before, before_near = _nearest(classes, sure), _nearest(classes, near)
    after, after_near = (_nearest(classes[::-1], kinds)[::-1] for kinds in (sure, near))
    revised = list(classes)
    for i, kind in enumerate(classes):
        if kind != "short":
            continue
        if before[i] == after[i]:
            revised[i] = before[i]
        else:
            side = before_near[i] if before[i] == "bad" else after_near[i]
            revised[i] = "good" if side == "neargood" else "bad"
    after = _nearest(revised[::-1], sure)[::-1]
    for i, kind in enumerate(revised):
        if kind == "neargood":
            last = revised[i - 1] if i else "bad"
            revised[i] = "bad" if last == after[i] == "bad" else "good"
    return revised


def _nearest(classes: list[str], kinds: frozenset[str]) -> list[str]:
    """Of each the class of the last one before it that is among ``kinds``."""
    out, last = [], "bad"
    for kind in classes:
        out.append(last)
        if kind in kinds:
            last = kind
    return out
