"""What heuristics look at besides words: flags of code points, and the phrases of the published line filters.

Belongs here: tables built once from Unicode and from phrase lists. Does not belong here: counting (``heuristics.py``).
"""

import unicodedata
from functools import cache

import numpy as np

from gristmill.text_units import LIMIT

LETTER, DIGIT, UPPER, SPACE, LINE_END, STOP, WIDE_STOP, CLOSER = 1, 2, 4, 8, 16, 32, 64, 128

# Marks that end a sentence: Unicode's Sentence_Terminal, without scripts that no crawl holds.
_STOPS = ".!?…‽⁇⁈⁉‼؟۔։؞܀܁܂߹।॥၊။።፧፨᙮᠃᠉᥄᥅᭚᭛᭞᭟᰻᰼᱾᱿⸮⸼꓿꘎꘏꛳꛷꡶꡷꣎꣏꤯꧈꧉꩝꩞꩟꫰꫱꯫﹒﹖﹗៖។៕"
_WIDE_STOPS = "。！？．｡"  # need no space after them
_QUOTES = "\"'”’»」』"
_CLOSERS = _QUOTES + ")]}）】"


@cache
def flags() -> np.ndarray:
    """uint8[LIMIT]: LETTER, DIGIT, UPPER, SPACE, LINE_END, STOP, WIDE_STOP, CLOSER of every code point.

    LINE_END is FineWeb's and C4's "ends with punctuation": a stop or a closing quotation mark.
    """
    table = np.zeros(LIMIT, np.uint8)
    for cp in range(LIMIT):
        if 0xD800 <= cp < 0xE000:
            continue
        ch = chr(cp)
        category = unicodedata.category(ch)
        bits = 0
        if ch.isalpha():
            bits |= LETTER
        if category == "Nd":
            bits |= DIGIT
        if ch.isupper():
            bits |= UPPER
        if ch.isspace():
            bits |= SPACE
        table[cp] = bits
    for ch in _STOPS:
        table[ord(ch)] |= STOP | LINE_END
    for ch in _WIDE_STOPS:
        table[ord(ch)] |= WIDE_STOP | LINE_END
    for ch in _QUOTES:
        table[ord(ch)] |= LINE_END
    for ch in _CLOSERS:
        table[ord(ch)] |= CLOSER
    table.flags.writeable = False
    return table


LOREM, JAVASCRIPT, POLICY, SNIPPET = 1, 2, 4, 8

PHRASES: dict[str, int] = {
    "lorem ipsum": LOREM,
    "javascript": JAVASCRIPT,
    # C4's code, beyond its paper: lines that speak of cookies and terms
    "terms of use": POLICY, "privacy policy": POLICY, "cookie policy": POLICY, "uses cookies": POLICY,
    "use of cookies": POLICY, "use cookies": POLICY,
    # RefinedWeb, appendix G.2 names three of them as examples (sign-in, Read more..., items in cart); the rest are ours
    "sign-in": SNIPPET, "sign in": SNIPPET, "log in": SNIPPET, "read more": SNIPPET, "continue reading": SNIPPET,
    "items in cart": SNIPPET, "add to cart": SNIPPET, "skip to content": SNIPPET, "share this": SNIPPET,
}

# RefinedWeb's counters: a number and one of these (3 likes, 1,204 views).
COUNTED: tuple[str, ...] = (
    "likes", "like", "shares", "share", "comments", "comment", "retweets", "reposts", "quotes", "bookmarks", "upvotes",
    "downvotes", "downloads", "views", "view", "followers", "following", "replies", "reply", "votes", "points", "posts",
    "reads",
)


@cache
def automaton() -> tuple[np.ndarray, np.ndarray]:
    """Aho-Corasick over bytes, ASCII letters in either case.

    Returns:
        ``step``: uint16 (states, 256); ``seen``: uint8 (states), the phrases' bits that end in a state.
    """
    children: list[dict[int, int]] = [{}]
    seen = [0]
    for phrase, bit in PHRASES.items():
        state = 0
        for byte in phrase.encode():
            if byte not in children[state]:
                children[state][byte] = len(children)
                children.append({})
                seen.append(0)
            state = children[state][byte]
        seen[state] |= bit
    step = np.zeros((len(children), 256), np.uint16)
    fail = [0] * len(children)
    queue = list(children[0].values())
    for byte, child in children[0].items():
        step[0, byte] = child
    while queue:
        state = queue.pop(0)
        seen[state] |= seen[fail[state]]
        step[state] = step[fail[state]]
        for byte, child in children[state].items():
            fail[child] = int(step[fail[state], byte])
            step[state, byte] = child
            queue.append(child)
    for byte in range(ord("A"), ord("Z") + 1):
        step[:, byte] = step[:, byte + 32]
    table = np.array(seen, np.uint8)
    step.flags.writeable = False
    table.flags.writeable = False
    return step, table
