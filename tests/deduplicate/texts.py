"""Texts with planted likeness: prose of made-up words, and edits that give a known Jaccard."""

import random

_RNG = random.Random(20_26)
WORDS = ["".join(_RNG.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(_RNG.randint(2, 9))) for _ in range(8_000)]


def prose(rng: random.Random, words: int = 200) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(words))


def edited(text: str, changes: int, rng: random.Random) -> str:
    """Replace words far apart: each costs five word 5-grams on either side."""
    words = text.split()
    step = len(words) // (changes + 1)
    for i in range(1, changes + 1):
        words[i * step] = f"changed{rng.randrange(10**9)}"
    return " ".join(words)


def near(text: str, jaccard: float, rng: random.Random) -> str:
    """Replace words so that the exact Jaccard of word 5-grams is as near to ``jaccard`` as edits allow."""
    words = text.split()
    total = len(words) - 4
    # With m of n shingles changed on either side J = (n - m) / (n + m), and a word changes five.
    changed = total * (1 - jaccard) / (1 + jaccard)
    for at in rng.sample(range(4, len(words) - 4, 5), round(changed / 5)):
        words[at] = f"changed{rng.randrange(10**9)}"
    return " ".join(words)
