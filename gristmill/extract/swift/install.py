"""Puts the faster parts into the second instance of trafilatura.

Belongs here: which names are replaced by what. Does not belong here: the parts, and the promise that output stays the
same, which ``tests/extract/test_swift.py`` holds.
"""

from functools import cache
from typing import Any

from gristmill.extract.swift import cascade, readable, trees
from gristmill.extract.swift.instance import module, package
from gristmill.extract.swift.predicates import Matcher

FIRST_ONLY = ("BODY_XPATH", "COMMENTS_XPATH")  # whose users take the first match alone
PARTS = (
    "baseline",
    "core",
    "external",
    "htmlprocessing",
    "main_extractor",
    "readability_lxml",
    "utils",
    "xml",
    "xpaths",
)
ALL = (
    "COMMENTS_DISCARD_XPATH",
    "DISCARD_IMAGE_ELEMENTS",
    "OVERALL_DISCARD_XPATH",
    "PRECISION_DISCARD_XPATH",
    "RAW_TREE_PRUNE_XPATH",
    "REMOVE_COMMENTS_AND_LISTS_XPATH",
    "REMOVE_COMMENTS_XPATH",
    "TEASER_DISCARD_XPATH",
)


@cache
def extractor() -> Any:
    """``extract`` of the instance with its faster parts."""
    parts = {name: module(name) for name in PARTS}
    for name in (*FIRST_ONLY, *ALL):
        expressions = getattr(parts["xpaths"], name)
        expressions[:] = [Matcher(e.path, first=name in FIRST_ONLY) for e in expressions]
    parts["baseline"].BASIC_CLEAN_XPATH = Matcher(parts["baseline"].BASIC_CLEAN_XPATH.path)
    for part in parts.values():
        for name, faster in {
            "trim": trees.trim,
            "text_length": trees.text_length,
            "prune_unwanted_nodes": trees.prune,
            "delete_by_link_density": trees.delete_by_link_density,
            "trafilatura_sequence": cascade.sequence,
            "_log_event": _nothing,
        }.items():
            if hasattr(part, name):
                setattr(part, name, faster)
    parts["readability_lxml"].Document = readable.Readable
    parts["utils"].HTML_PARSER.set_element_class_lookup(trees.lookup())
    return package().extract


def _nothing(msg: str, tag: object, text: object) -> None:
    """An event that is described for nobody costs a trim."""
