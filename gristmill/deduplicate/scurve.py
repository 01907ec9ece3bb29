"""The S-curve: what bands, rows and verification find, and what they keep and remove, at every similarity.

Belongs here: the formulas, the table and the plot of ``gristmill scurve``. Does not belong here: signatures
(``minhash.py``), whose measured rates tests hold against these. Leskovec, Rajaraman, Ullman, "Mining of Massive
Datasets", section 3.4; the number of equal values of two signatures is binomial (K, J).
"""

from collections.abc import Sequence
from math import ceil, comb, sqrt

GRID = (0.3, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.935, 0.95, 0.98, 1.0)
WIDTH, HEIGHT = 61, 16
# An estimate further than this below the bound is no candidate: with K = 112 one pair of J = 0.85 in 500 is,
# and one of J = 0.9 in 700,000.
MARGIN = 0.05
SURE = 0.95  # estimates from here on are taken without reading the texts (``clusters.sure_at``)


def candidate(s: float, bands: int, rows: int) -> float:
    """Probability that two documents of Jaccard ``s`` share a band: 1 - (1 - s^r)^b."""
    return float(1 - (1 - s**rows) ** bands)


def threshold(bands: int, rows: int) -> float:
    """Where the curve is steepest, about: (1/b)^(1/r)."""
    return float((1 / bands) ** (1 / rows))


def standard_error(s: float, size: int) -> float:
    """Of the estimate of Jaccard from ``size`` values: sqrt(s (1 - s) / K)."""
    return sqrt(s * (1 - s) / size)


def at_least(least: int, of: int, p: float) -> float:
    """Probability of ``least`` or more successes in ``of`` trials."""
    return sum(comb(of, k) * p**k * (1 - p) ** (of - k) for k in range(max(least, 0), of + 1))


def verified(s: float, size: int, verify_at: float) -> float:
    """Probability that the estimate reaches the bound, for two documents of Jaccard ``s``."""
    return at_least(max(ceil(verify_at * size - 1e-9), 1), size, s)


def edge(s: float, bands: int, rows: int, verify_at: float) -> float:
    """Probability of a band in common and an estimate at the bound: what verification by signature keeps.

    The two are not independent. With i equal values out of K at random places, a band is whole with a probability that
    inclusion and exclusion over the bands gives exactly.
    """
    size = bands * rows
    need = max(ceil(verify_at * size - 1e-9), 1)
    total = 0.0
    for equal in range(need, size + 1):
        ways = comb(size, equal)
        none = sum((-1) ** j * comb(bands, j) * comb(size - j * rows, equal - j * rows)
                   for j in range(min(bands, equal // rows) + 1))
        total += ways * s**equal * (1 - s) ** (size - equal) * (1 - none / ways)
    return float(total)


def joined(s: float, bands: int, rows: int, verify_at: float, verify: str) -> float:
    """Probability that two documents that meet in a bucket alone are joined, by kind of verification.

    With ``jaccard`` the texts decide: under the bound only an estimate of ``SURE`` joins, over it every candidate.
    """
    if verify == "none":
        return candidate(s, bands, rows)
    if verify == "signature":
        return edge(s, bands, rows, verify_at)
    return edge(s, bands, rows, verify_at - MARGIN if s >= verify_at else max(SURE, verify_at))


def votes(s: float, bands: int, rows: int, least: int) -> float:
    """Probability that at least ``least`` bands agree: a match across crawls."""
    return at_least(least, bands, s**rows)


def fewest_votes(bands: int, rows: int, at: float = 0.85, at_most: float = 0.56) -> int:
    """The fewest votes with which at most this share of pairs of that Jaccard match: 4 for 14 x 8.

    So that "near-verbatim" means the same, whatever the bands and rows: about half at 0.85, nearly all from 0.92.
    """
    return next(m for m in range(1, bands + 1) if votes(at, bands, rows, m) <= at_most or m == bands)


def false_areas(bands: int, rows: int, verify_at: float, steps: int = 1000) -> tuple[float, float]:
    """Area under the candidate curve below ``verify_at``, and over it above: pairs compared in vain, and missed."""
    grid = [(i + 0.5) / steps for i in range(steps)]
    below = sum(candidate(s, bands, rows) for s in grid if s < verify_at) / steps
    above = sum(1 - candidate(s, bands, rows) for s in grid if s >= verify_at) / steps
    return below, above


def table(bands: int, rows: int, verify_at: float = 0.8, least_votes: int | None = None, verify: str = "jaccard",
          at: Sequence[float] = GRID) -> list[dict[str, float]]:
    """A row a similarity: the error; probabilities to be a candidate, to be joined, to match across crawls."""
    least = fewest_votes(bands, rows) if least_votes is None else least_votes
    return [
        {
            "similarity": s, "standard_error": standard_error(s, bands * rows),
            "candidate": candidate(s, bands, rows), "joined": joined(s, bands, rows, verify_at, verify),
            "kept_of_1000": 1000 * (1 - joined(s, bands, rows, verify_at, verify)),
            "matched_across_crawls": votes(s, bands, rows, least),
        }
        for s in at
    ]


def plot(bands: int, rows: int, verify_at: float = 0.8, verify: str = "jaccard") -> str:
    """The curves in text: ``.`` candidates, ``#`` joined after verification (both where they meet: ``#``)."""
    canvas = [[" "] * WIDTH for _ in range(HEIGHT + 1)]
    for x in range(WIDTH):
        s = x / (WIDTH - 1)
        for mark, value in ((".", candidate(s, bands, rows)), ("#", joined(s, bands, rows, verify_at, verify))):
            canvas[HEIGHT - round(value * HEIGHT)][x] = mark
    lines = [f"{1 - y / HEIGHT:4.2f} |{''.join(row)}" if y % 4 == 0 else f"     |{''.join(row)}"
             for y, row in enumerate(canvas)]
    axis = "      " + "".join(f"{x / 10:<6.1f}" for x in range(11))
    return "\n".join([*lines, "     +" + "-" * WIDTH, axis])


def render(bands: int, rows: int, verify_at: float = 0.8, least_votes: int | None = None, verify: str = "jaccard",
           at: Sequence[float] = GRID) -> str:
    """What ``gristmill scurve`` prints."""
    size = bands * rows
    least = fewest_votes(bands, rows) if least_votes is None else least_votes
    below, above = false_areas(bands, rows, verify_at)
    star = threshold(bands, rows)
    lines = [
        f"{bands} bands x {rows} rows, K = {size}; threshold s* = {star:.3f}; standard error of the estimate there "
        f"{standard_error(star, size):.3f}",
        f"verification {verify} at {verify_at}: area of false candidates {below:.4f}, of misses {above:.4f}; "
        f"across crawls: {least} of {bands} votes",
        "",
        "Jaccard   error   candidate   joined   kept of 1000   removed   across crawls",
    ]
    for row in table(bands, rows, verify_at, least, verify, at):
        lines.append(
            f"{row['similarity']:7.3f} {row['standard_error']:7.3f} {row['candidate']:11.4f} {row['joined']:8.4f} "
            f"{row['kept_of_1000']:14.1f} {1000 - row['kept_of_1000']:9.1f} {row['matched_across_crawls']:15.4f}"
        )
    lines += ["", plot(bands, rows, verify_at, verify), "       Jaccard; '.' candidates, '#' joined after verification"]
    return "\n".join(lines)
