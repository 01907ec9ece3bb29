"""trafilatura's cascade of extractors, without the steps whose outcome nobody reads.

Belongs here: the order of its steps (``trafilatura.core.trafilatura_sequence`` and ``external.compare_extraction``),
with copies made where they are used, and a fallback left out where it is too short to be taken. Does not belong here:
the steps.
"""

from collections.abc import Callable
from copy import copy
from functools import cached_property
from typing import Any

from lxml import etree

from gristmill.extract.swift.instance import module
from gristmill.extract.swift.paragraphs import good_paragraphs
from gristmill.extract.swift.readable import Readable, reads_alike
from gristmill.extract.swift.trees import prune, text_length, trim

_core, _external, _processing, _xpaths = (
    module(name) for name in ("core", "external", "htmlprocessing", "xpaths")
)
_baseline, _settings, _utils = (module(name) for name in ("baseline", "settings", "utils"))


class Source:
    """A pruned page that is read and not changed, and what is derived from it again and again."""

    def __init__(self, tree: Any, options: Any) -> None:
        self.tree, self.options = tree, options

    def cleaned(self) -> Any:
        """A copy without unwanted elements, in HTML's tags."""
        return _processing.tree_cleaning(copy(self.tree), self.options)

    @cached_property
    def length(self) -> int:
        """Characters of all text, trimmed."""
        return text_length(self.tree)

    @cached_property
    def longest(self) -> float:
        """Bound on the text that readability finds: it takes text away and adds none."""
        return self.length if reads_alike(self.tree) else float("inf")

    @cached_property
    def longest_spaced(self) -> int:
        """Bound on the text that ``html2txt`` finds: it parts words at the borders of blocks."""
        return self.length + 2 * sum(1 for _ in self.tree.iter(*_baseline._BLOCK_ELEMS))


def sequence(tree: Any, options: Any, url: str | None = None) -> tuple[Any, str, Any, str]:
    """Body and comments of a page, each as an element and as text."""
    is_forum = _core._forum_thread_page(tree)
    tree = prune(tree, _xpaths.RAW_TREE_PRUNE_XPATH)
    if not options.comments and (options.focus == "precision" or not is_forum):
        tree = prune(tree, _xpaths.REMOVE_COMMENTS_AND_LISTS_XPATH)
    source = Source(tree, options)
    cleaned = _processing.convert_tags(source.cleaned(), options, url)
    comments, comments_text = etree.Element("body"), ""
    posts = None
    if options.comments:
        comments, comments_text, cleaned = _core.extract_comments(cleaned, options)
        if comments_text and is_forum:
            posts = comments
            comments, comments_text = etree.Element("body"), ""
            cleaned = _processing.convert_tags(source.cleaned(), options, url)
    if options.focus == "precision" and not is_forum:
        cleaned = prune(cleaned, _xpaths.REMOVE_COMMENTS_XPATH)
    body, text = _extract(cleaned, source, options)
    if len(text) < options.min_extracted_size and options.focus != "precision":
        plain_body, plain_text, length = _core.baseline(tree)
        if length > len(text):
            body, text, posts = plain_body, plain_text, None
    if _covers_little(text, source, options):
        more = _escalate(source, text, is_forum, bool(comments_text), url)
        if more is not None:
            (body, text), posts = more, None
    if posts is not None:
        known = "\n".join(filter(None, (_core._elem_text(e) for e in body)))
        missing = [e for e in posts if (t := _core._elem_text(e)) and t not in known]
        if missing:
            body.extend(missing)
            text = " ".join(body.itertext()).strip()
    return body, text, comments, comments_text


def _extract(cleaned: Any, source: Source, options: Any) -> tuple[Any, str]:
    body, text = _core.extract_content(cleaned, options)
    return (body, text) if options.fast else compare(source, body, text, options)


def _covers_little(text: str, source: Source, options: Any) -> bool:
    if options.focus != "balanced" or not 0 < len(text) < _core.ESCALATION_MAX_LENGTH:
        return False
    if len(text) >= _core.ESCALATION_PAGE_SHARE * source.longest_spaced:
        return False
    return bool(len(text) < _core.ESCALATION_PAGE_SHARE * len(_core.html2txt(source.tree)))


def _escalate(
    source: Source, text: str, is_forum: bool, had_comments: bool, url: str | None
) -> tuple[Any, str] | None:
    """Once more with rules that favour recall, and jusText beside it: what is clearly longer, or None."""
    options = copy(source.options)
    options.focus = "recall"
    if not is_forum and source.options.comments:
        lists = _xpaths.REMOVE_COMMENTS_AND_LISTS_XPATH if had_comments else _xpaths.REMOVE_COMMENTS_XPATH
        source = Source(prune(copy(source.tree), lists), options)
    else:
        source = Source(source.tree, options)
    body, retried = None, ""
    found, rescued = None, ""
    try:
        body, retried = _extract(_processing.convert_tags(source.cleaned(), options, url), source, options)
    except Exception as error:  # noqa: BLE001 - as trafilatura does: the first result stands
        _core.LOGGER.warning("recall retry failed: %s %s", error, url)
    if not options.fast:
        try:
            found, rescued = rescue(copy(source.tree), options)
        except Exception as error:  # noqa: BLE001 - likewise
            _core.LOGGER.warning("justext candidate failed: %s %s", error, url)
    if len(rescued) > len(retried) and len(rescued) > _core.ESCALATION_JUSTEXT_RATIO * len(text):
        return found, rescued
    if len(retried) >= options.min_extracted_size and len(retried) > _core.ESCALATION_ACCEPT_RATIO * len(text):
        return body, retried
    return None


def compare(source: Source, body: Any, text: str, options: Any) -> tuple[Any, str]:
    """The extraction, or what readability or jusText find, where that is better by trafilatura's rules."""
    if options.focus == "recall" and len(text) > options.min_extracted_size * 10:
        return body, text
    found = _readability(source, _least(body, len(text), options), options)
    taken = False
    if found is not None:
        other = trim(etree.tostring(found, method="text", encoding="utf-8").decode("utf-8"))
        taken = _external._prefer_readability(body, found, other, len(text), len(other), options)
        if taken:
            body, text = found, other
    unclean = next(body.iterdescendants(*_UNCLEAN), None) is not None
    if unclean or len(text) < options.min_extracted_size:
        rescued, more = rescue(source.cleaned(), options)
        if unclean:
            better = len(text) <= _external.JUSTEXT_OVERRIDE_RATIO * len(more) and (
                len(more) > len(text) or not options.images or body.find(".//graphic") is None
            )
        else:
            better = len(text) < len(more)
        if more and better:
            body, text, taken = rescued, more, False
    return _external.sanitize_tree(body, options) if taken else (body, text)


_UNCLEAN = tuple(part.removeprefix(".//") for part in _external.SANITIZED_XPATH.split("|"))


def _least(body: Any, length: int, options: Any) -> float:
    """Readability is taken only where it finds more characters than this."""
    least = length if options.focus == "recall" else 2 * length
    return min(least, 2 * options.min_extracted_size) if least and _deficient(body) else least


def _deficient(body: Any) -> bool:
    paragraphs = list(body.iterdescendants("p"))
    has_text = any(next(p.itertext(), None) is not None for p in paragraphs)
    return not has_text or sum(1 for _ in body.iterdescendants("table")) > len(paragraphs)


def _readability(source: Source, least: float, options: Any) -> Any | None:
    """Readability's article, or None where it has at most ``least`` characters."""
    if source.longest <= least:
        return None
    tree = copy(source.tree)
    if options.focus == "precision":
        tree = prune(tree, _xpaths.OVERALL_DISCARD_XPATH)
    try:
        document = Readable(tree, min_text_length=25)
        article, candidates = document.article()
        if reads_alike(article) and text_length(article) <= least:
            return None
        summary = _utils.fromstring_bytes(document.sanitize(article, candidates))
    except Exception as error:  # noqa: BLE001 - as trafilatura does: no result
        _external.LOGGER.warning("readability_lxml failed: %s", error)
        return None
    return summary


def rescue(tree: Any, options: Any) -> tuple[Any, str]:
    """What jusText takes for main text."""
    tree = _baseline.basic_cleaning(tree)
    if options.lang in _settings.JUSTEXT_LANGUAGES:  # a list of stop words of its own
        body = _external.try_justext(tree, options.url, options.lang)
    else:
        body = etree.Element("body")
        for text in good_paragraphs(tree):
            etree.SubElement(body, "p").text = text
    return body, trim(" ".join(body.itertext()))


Sequence = Callable[[Any, Any, str | None], tuple[Any, str, Any, str]]
