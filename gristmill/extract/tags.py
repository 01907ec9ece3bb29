"""HTML elements as small integers, with what the scanner must know of each.

Belongs here: names, numbers, and the sets that the HTML standard's tree construction speaks of. Does not belong here:
the scanner (``scan.py``) and what words in class names mean (``hints.py``).
"""

from collections.abc import Iterable

import numpy as np

UNKNOWN = 0
# Order is part of the trained weights (a block's tag is a feature): append only.
NAMES: tuple[str, ...] = (
    "?", "html", "head", "body", "title", "script", "style", "noscript", "template", "iframe", "textarea", "svg",
    "math", "a", "p", "div", "span", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "dl", "dt", "dd",
    "table", "caption", "thead", "tbody", "tfoot", "tr", "td", "th", "pre", "code", "blockquote", "article",
    "section", "main", "nav", "header", "footer", "aside", "figure", "figcaption", "form", "fieldset", "legend",
    "label", "button", "select", "optgroup", "option", "input", "img", "br", "hr", "b", "strong", "i", "em", "u",
    "s", "small", "sub", "sup", "mark", "tt", "kbd", "samp", "var", "cite", "q", "time", "address", "details",
    "summary", "dialog", "menu", "center", "font", "noembed", "noframes", "xmp", "object", "embed", "video",
    "audio", "canvas", "source", "track", "picture", "area", "map", "base", "col", "colgroup", "link", "meta",
    "param", "wbr", "hgroup", "search", "applet", "marquee", "plaintext", "ins", "del", "abbr", "big", "strike",
    "nobr", "bdi", "bdo", "dfn", "ruby", "rt", "rp", "output", "progress", "meter", "data", "datalist", "frameset",
    "frame", "mjx-container", "listing",
)
ID = {name: number for number, name in enumerate(NAMES)}


def _set(names: str) -> frozenset[str]:
    return frozenset(names.split())


VOID = _set("area base br col embed hr img input link meta param source track wbr frame")
# Their content is text up to their end tag. noscript is, for a reader whose browser runs scripts.
RAW = _set("script style textarea title iframe noembed noframes xmp noscript")
# Begin and end a block of text.
BLOCK = _set(
    "html head body p div h1 h2 h3 h4 h5 h6 ul ol li dl dt dd table caption thead tbody tfoot tr td th pre "
    "blockquote article section main nav header footer aside figure figcaption form fieldset legend select "
    "optgroup option hr address details summary dialog menu center title textarea hgroup search listing xmp "
    "frameset button iframe"
)
# The standard's "special" elements: an end tag of another kind does not reach past them.
SPECIAL = BLOCK | _set("template iframe object applet marquee script style noscript svg math col colgroup")
# A start tag of these closes an open p.
CLOSES_P = _set(
    "p div h1 h2 h3 h4 h5 h6 ul ol li dl dt dd table pre blockquote article section main nav header footer aside "
    "figure figcaption form fieldset hr address details summary dialog menu center hgroup search listing xmp"
)
# Scope barriers: an end tag inside one of these does not close what is outside.
BARRIER = _set("table td th caption template html object applet marquee svg math")

F_VOID, F_RAW, F_BLOCK, F_SPECIAL, F_CLOSES_P, F_BARRIER = 1, 2, 4, 8, 16, 32

FLAGS = np.zeros(len(NAMES), np.uint8)
for _flag, _members in ((F_VOID, VOID), (F_RAW, RAW), (F_BLOCK, BLOCK), (F_SPECIAL, SPECIAL), (F_CLOSES_P, CLOSES_P),
                    (F_BARRIER, BARRIER)):
    for _name in _members:
        FLAGS[ID[_name]] |= _flag
FLAGS.flags.writeable = False

FNV_SEED, FNV_PRIME, _MASK = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1


def name_hash(name: str) -> int:
    """FNV-1a, 64 bits, of a lower-case ASCII name; the scanner computes the same."""
    return bytes_hash(name.encode("ascii"))


def bytes_hash(data: bytes) -> int:
    """FNV-1a, 64 bits."""
    h = FNV_SEED
    for byte in data:
        h = ((h ^ byte) * FNV_PRIME) & _MASK
    return h


def hash_set(names: Iterable[bytes], size: int) -> np.ndarray:
    """Open addressing: uint64 keys; an empty slot's key is 0. ``size`` is a power of two."""
    keys = np.zeros(size, np.uint64)
    for name in names:
        at = bytes_hash(name) & (size - 1)
        while keys[at]:
            at = (at + 1) & (size - 1)
        keys[at] = bytes_hash(name)
    return keys


def hash_table(names: dict[str, int], size: int) -> tuple[np.ndarray, np.ndarray]:
    """Open addressing: (uint64 keys, int32 values); an empty slot's key is 0. ``size`` is a power of two."""
    keys, values = np.zeros(size, np.uint64), np.zeros(size, np.int32)
    for name, value in names.items():
        h = name_hash(name)
        at = h & (size - 1)
        while keys[at]:
            at = (at + 1) & (size - 1)
        keys[at], values[at] = h, value
    return keys, values
