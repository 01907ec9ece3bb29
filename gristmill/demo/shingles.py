"""Jaccard similarity over word 5-grams, in plain Python, and texts at a wanted similarity.

Belongs here: the demo's own definition of similarity (sets, no hashing), against which deduplication is held; it
must share no code with ``deduplicate/``. Does not belong here: estimates.
"""

import random
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from gristmill.demo.texts import Article, Block

WORD = re.compile(r"[^\W_]+")
N = 5


def words(text: str) -> list[str]:
    """Case-folded words without diacritics; everything that is no letter or digit parts words."""
    folded = unicodedata.normalize("NFKD", text.casefold())
    return WORD.findall("".join(c for c in folded if not unicodedata.combining(c)))


def shingles(text: str, n: int = N) -> frozenset[tuple[str, ...]]:
    """The set of word n-grams; a shorter text is one shingle."""
    tokens = words(text)
    if len(tokens) < n:
        return frozenset({tuple(tokens)}) if tokens else frozenset()
    return frozenset(zip(*(tokens[i:] for i in range(n))))


def jaccard(a: str, b: str) -> float:
    """Exact Jaccard of two texts' shingle sets; two empty texts are equal."""
    x, y = shingles(a), shingles(b)
    if not x and not y:
        return 1.0
    return len(x & y) / len(x | y)


def edited(article: Article, target: float, fill: Sequence[str], rng: random.Random) -> tuple[Article, float]:
    """A copy with single words replaced, far from each other, until the Jaccard is as near to ``target`` as they allow.

    Args:
        article: paragraphs only; the longer, the finer the steps (one word of 400 moves it by 0.025).
        target: wanted Jaccard over word 5-grams.
        fill: words to put in; each replacement takes the next.
        rng: decides where.

    Returns:
        The copy and its exact Jaccard.
    """
    places = [
        (i, match.span())
        for i, block in enumerate(article.blocks)
        for number, match in enumerate(WORD.finditer(block.text))
        if number % N == 2 and len(match.group()) > 1  # spaced by one shingle, so each costs N of them
    ]
    rng.shuffle(places)
    best: tuple[float, Article, float] | None = None
    low, high = 0, len(places)
    while low <= high:  # more replacements, lower similarity
        k = (low + high) // 2
        copy = _replace(article, places[:k], fill)
        found = jaccard(article.text, copy.text)
        if best is None or abs(found - target) < best[0]:
            best = (abs(found - target), copy, found)
        if found > target:
            low = k + 1
        else:
            high = k - 1
    assert best is not None
    return best[1], best[2]


def _replace(article: Article, places: Sequence[tuple[int, tuple[int, int]]], fill: Sequence[str]) -> Article:
    by_block: dict[int, list[tuple[tuple[int, int], str]]] = defaultdict(list)
    for number, (block, span) in enumerate(places):
        by_block[block].append((span, fill[number % len(fill)]))
    blocks = []
    for i, whole in enumerate(article.blocks):
        text = whole.text
        for (start, end), word in sorted(by_block[i], reverse=True):
            text = text[:start] + word + text[end:]
        blocks.append(Block(whole.kind, text))
    return Article(article.title, tuple(blocks))


def similar_pairs(texts: Mapping[str, str], at_least: float) -> list[tuple[str, str, float]]:
    """All pairs of texts with Jaccard of at least a bound above 0, exactly, through an inverted index of shingles."""
    sets = {name: shingles(text) for name, text in texts.items()}
    holders: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for name in sorted(sets):
        for shingle in sets[name]:
            holders[shingle].append(name)
    shared: Counter[tuple[str, str]] = Counter()
    for names in holders.values():
        for i, a in enumerate(names):
            for b in names[i + 1 :]:
                shared[(a, b)] += 1
    out = []
    for (a, b), common in shared.items():
        j = common / (len(sets[a]) + len(sets[b]) - common)
        if j >= at_least:
            out.append((a, b, j))
    return sorted(out)
