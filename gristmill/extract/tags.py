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


MIX, MIX_REST = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F


def packed(name: str) -> tuple[int, int]:
    """The first eight and the next eight bytes of a lower-case ASCII name as numbers; the scanner makes the same.

    Raises:
        ValueError: for a longer one.
    """
    data = name.encode("ascii")
    if len(data) > 16:
        raise ValueError(f"{name!r} is over 16 bytes")
    return int.from_bytes(data[:8], "big"), int.from_bytes(data[8:], "big")


def hash_table(names: dict[str, int], size: int) -> tuple[np.ndarray, np.ndarray]:
    """Open addressing: (uint64[size, 2] packed names, int32 values); an empty slot is 0. ``size`` is a power of two."""
    keys, values = np.zeros((size, 2), np.uint64), np.zeros(size, np.int32)
    for name, value in names.items():
        first, rest = packed(name)
        at = ((first * MIX ^ rest * MIX_REST) & _MASK) >> 40 & (size - 1)
        while keys[at, 0]:
            at = (at + 1) & (size - 1)
        keys[at], values[at] = (first, rest), value
    return keys, values
