"""Elements and small steps on trees, as trafilatura has them, with less work.

Belongs here: the element class with a faster text, trimming, pruning with a guard, link density. Does not belong here:
what they are used for (``cascade.py``, ``readable.py``, and trafilatura itself).
"""

from typing import Any

from lxml import etree, html

from gristmill.extract.swift.instance import module

_processing, _utils, _xml = module("htmlprocessing"), module("utils"), module("xml")
delete_element = _xml.delete_element
_content = etree.XPath("string()", smart_strings=False)
ITEM_CELLS = frozenset(("item", "td", "th"))


class SwiftElement(html.HtmlElement):
    """An HTML element whose text is found without asking XPath where it has no children."""

    def text_content(self) -> str:
        """Text of the element and of all inside."""
        return _content(self) if len(self) else self.text or ""


def lookup() -> etree.ElementDefaultClassLookup:
    """Classes for a parser's nodes, chosen without a call into Python for each."""
    return etree.ElementDefaultClassLookup(
        element=SwiftElement,
        comment=html.HtmlComment,
        pi=html.HtmlProcessingInstruction,
        entity=html.HtmlEntity,
    )


def trim(text: str | None) -> str:
    """One blank for every run of white space, none at the ends."""
    return " ".join(text.split()) if text else ""


def text_length(element: Any) -> int:
    """Characters of an element's trimmed text."""
    return len(trim(element.text_content()))


def prune(tree: Any, expressions: list[Any], with_backup: bool = False) -> Any:
    """Delete what matches, keeping tails; ``with_backup``: unless six sevenths of the text would go."""
    if not with_backup:
        for expression in expressions:
            for element in expression(tree):
                delete_element(element)
        return tree
    matches = dict.fromkeys(element for expression in expressions for element in expression(tree))
    if not matches:
        return tree
    inside: dict[Any, bool] = {tree: tree in matches}
    outer = [element for element in matches if not _inside(element.getparent(), matches, inside)]
    whole = len(tree.text_content())
    if whole - sum(len(element.text_content()) for element in outer) > whole / 7:
        for element in outer:
            delete_element(element)
    return tree


def _inside(element: Any, matches: dict[Any, None], known: dict[Any, bool]) -> bool:
    """Is an element among the matches, or inside one."""
    path = []
    while element is not None and element not in known and element not in matches:
        path.append(element)
        element = element.getparent()
    verdict = element is not None and (element in matches or known[element])
    for passed in path:
        known[passed] = verdict
    return verdict


def delete_by_link_density(
    tree: Any, tag: str, backtracking: bool = False, favor_precision: bool = False
) -> Any:
    """Delete elements that are mostly links."""
    longest, fewest = (200, 1) if favor_precision else (100, 3)
    gone: dict[Any, None] = {}
    for element in tree.iter(tag):
        refs = list(element.iterdescendants("ref"))
        if not refs or next(element.iterdescendants("graphic"), None) is not None:
            continue
        text = element.text_content()
        rich, short = _link_density(element, refs, len(trim(text)), favor_precision)
        if not rich and not (backtracking and short and len(element) >= fewest and len(trim(text)) < longest):
            continue
        parent = element.getparent()
        if tag == "p" and parent is not None and parent.tag in ITEM_CELLS:
            continue
        gone[element] = None
    for element in gone:
        delete_element(element)
    return tree


def _link_density(element: Any, refs: list[Any], size: int, favor_precision: bool) -> tuple[bool, bool]:
    """Is an element of ``size`` characters mostly links; is it short and has links."""
    if len(refs) == 1:
        link = text_length(refs[0])
        if link > (10 if favor_precision else 100) and link > size * 0.9:
            return True, False
    last = element.getnext() is None
    limit = (60 if last else 30) if element.tag == "p" else (300 if last else 100)
    if size >= limit and len(refs) <= 4:
        return False, False
    lengths = [n for n in map(text_length, refs) if n]
    linked = sum(lengths)
    if size < limit:
        if not lengths:
            return True, False
        return linked > size * 0.8 or (len(lengths) > 1 and sum(n < 10 for n in lengths) / len(lengths) > 0.8), True
    farm = linked > size * _utils.LINK_FARM_RATIO and linked < 100 * len(lengths)
    return farm and not _processing.is_paragraph_listing(refs), False
