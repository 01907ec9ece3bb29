"""readability, as trafilatura forked it, stopped as soon as it cannot win.

Belongs here: the same steps with less work, and the bound on how long its result can be. Does not belong here: whether
its result is taken (``cascade.py``).
"""

from typing import Any

from gristmill.extract.swift.instance import module
from gristmill.extract.swift.trees import text_length

_fork = module("readability_lxml")
_UNLIKELY, _MAYBE = _fork.REGEXES["unlikelyCandidatesRe"], _fork.REGEXES["okMaybeItsACandidateRe"]
_MOST_REMEMBERED = 50_000
# Elements whose content a parser reads as it stands: written as XML and read again, their text grows. An empty title
# is written as an element without an end tag, and swallows the rest.
_VERBATIM = ("iframe", "noembed", "noframes", "noscript", "plaintext", "xmp")
_XPATH_SPACE = " \t\r\n"


class _Blocks(dict[str, bool]):
    def __missing__(self, tag: str) -> bool:
        verdict = self[tag] = tag.startswith(_fork.DIV_TO_P_PREFIXES)
        return verdict


_blocks = _Blocks()
_unlikely: dict[str, bool] = {}


def reads_alike(tree: Any) -> bool:
    """Has a tree no more text when it is written as XML and read again as HTML, as its result is."""
    return next(tree.iter(*_VERBATIM), None) is None and all(t.text is not None for t in tree.iter("title"))


_Document: Any = _fork.Document


class Readable(_Document):
    """The fork's document."""

    def article(self) -> tuple[Any, dict[Any, Any]]:
        """The element that holds the article, not yet cleaned, and the scored candidates."""
        for element in list(self.doc.iter("script", "style", "fencedframe")):
            element.drop_tree()
        self.remove_unlikely_candidates()
        self.transform_misused_divs_into_paragraphs()
        candidates = self.score_paragraphs()
        best = self.select_best_candidate(candidates)
        if best:
            return self.get_article(candidates, best), candidates
        body = self.doc.find("body")
        return (body if body is not None else self.doc), candidates

    def remove_unlikely_candidates(self) -> None:
        """Drop what its class or id says to be no content."""
        for element in list(self.doc.iterdescendants("*")):
            attributes = element.get("class")
            name = element.get("id")
            if name:
                attributes = f"{attributes} {name}" if attributes else name
            if not attributes or len(attributes) < 2 or element.tag in _fork.FRAME_TAGS:
                continue
            verdict = _unlikely.get(attributes)
            if verdict is None:
                low = attributes.lower()
                if len(_unlikely) >= _MOST_REMEMBERED:
                    _unlikely.clear()
                verdict = _unlikely[attributes] = bool(_UNLIKELY.search(low)) and not _MAYBE.search(low)
            if verdict:
                element.drop_tree()

    def transform_misused_divs_into_paragraphs(self) -> None:
        """Call a ``div`` without blocks a ``p``, and wrap loose text of the others."""
        for element in list(self.doc.iterdescendants("div")):
            if any(_blocks[e.tag] for e in element.iterdescendants("*")):
                continue
            if next(element.iterdescendants("a"), None) is None or _loose_text(element):
                element.tag = "p"
        for element in list(self.doc.iterdescendants("div")):
            text = element.text
            if text and not text.isspace():
                paragraph = element.makeelement("p")
                paragraph.text, element.text = text, None
                element.insert(0, paragraph)
            children = list(element)
            for place in range(len(children) - 1, -1, -1):
                child = children[place]
                tail = child.tail
                if tail and not tail.isspace():
                    paragraph = element.makeelement("p")
                    paragraph.text, child.tail = tail, None
                    element.insert(place + 1, paragraph)
                if child.tag == "br":
                    child.drop_tree()

    def get_link_density(self, elem: Any) -> float:
        """Share of an element's text that is in links."""
        links = sum(text_length(link) for link in elem.iterdescendants("a"))
        return links / (text_length(elem) or 1) if links else 0.0


def _loose_text(element: Any) -> bool:
    text = element.text
    if text and text.strip(_XPATH_SPACE):
        return True
    return any((tail := child.tail) and tail.strip(_XPATH_SPACE) for child in element)
