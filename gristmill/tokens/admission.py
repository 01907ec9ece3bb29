"""Admission: token sequences that would hurt training are left out, each by itself.

Belongs here: the checks of a document and of its windows (algorithms.md section 7), their bounds, and a plain
reference.
Does not belong here: text measures (``quality/heuristics.py``) and what happens to rejected documents (``stages.py``).
"""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numba import njit

WINDOW = 4_096  # tokens
SHORT_TAIL = 512  # a last window under this joins the one before
RUN_ONLY = 64  # a document under this is checked for runs only: entropy of few tokens says nothing

MIN_LANGUAGE_MATCH = 0.98  # of a shard's tokens, of the language that its stratum names

REASONS = ("", "token_run", "low_entropy", "dominant_token")

# Scripts that the usual tokenizers do not merge spell each letter as the same lead byte and another: one token then
# holds up to half of any honest text. Script of a language is what decides; ISO 639-3 codes of the seven.
BYTE_SPELT = frozenset(
    {
        "amh",
        "tir",
        "gez",  # Ethiopic
        "khm",  # Khmer
        "mya",
        "shn",
        "mnw",
        "ksw",  # Myanmar
        "lao",  # Lao
        "sin",  # Sinhala
        "bod",
        "dzo",  # Tibetan
        "ory",
        "ori",  # Oriya
    }
)


def bounds(lang: str) -> tuple[int, float, float]:
    """(longest run allowed, entropy in bits that must be passed, largest share of one token) for a language."""
    if lang in BYTE_SPELT:
        return 1_000, 1.5, 0.55
    return 1_000, 2.0, 0.30


@njit(cache=True, nogil=True)
def _check(
    ids: np.ndarray,
    max_run: int,
    min_bits: float,
    max_share: float,
    window: int,
    short_tail: int,
    run_only: int,
    scratch: np.ndarray,
) -> tuple[int, float, int]:  # pragma: no cover - compiled
    """(reason number, value, start of the window); ``scratch`` is int32 zeros over the vocabulary, left zero."""
    n = ids.shape[0]
    run = 1
    longest = 1 if n else 0
    for i in range(1, n):
        run = run + 1 if ids[i] == ids[i - 1] else 1
        longest = max(longest, run)
    if longest >= max_run:
        return 1, float(longest), 0
    if n < run_only:
        return 0, 0.0, 0
    start = 0
    while start < n:
        end = start + window
        if n - end < short_tail:
            end = n
        size = end - start
        top = 0
        total = 0.0
        for i in range(start, end):
            c = scratch[ids[i]] + 1
            scratch[ids[i]] = c
            top = max(top, c)
        for i in range(start, end):
            c = scratch[ids[i]]
            if c > 0:
                total += c * math.log2(c)
                scratch[ids[i]] = 0
        bits = math.log2(size) - total / size
        share = top / size
        if bits <= min_bits:
            return 2, bits, start
        if share > max_share:
            return 3, share, start
        start = end
    return 0, 0.0, 0


def check(ids: np.ndarray, lang: str, scratch: np.ndarray) -> tuple[str, float, float, int]:
    """Why a document may not enter a shard: (reason, value, bound, first token of the window); reason "" admits it.

    Args:
        ids: uint32, without BOS and EOS.
        lang: ISO 639-3.
        scratch: int32 zeros, as long as the vocabulary; comes back as zeros.
    """
    limits = bounds(lang)
    number, value, start = _check(ids, limits[0], limits[1], limits[2], WINDOW, SHORT_TAIL, RUN_ONLY, scratch)
    bound = 0.0 if number == 0 else float(limits[number - 1])
    return REASONS[number], float(value), bound, int(start)


def check_shard(ids: np.ndarray, lang: str, tokens_by_lang: dict[str, int]) -> str:
    """What is wrong with a whole shard; "" where nothing is.

    A backstop: each document passed by itself, so this fails only where tables were joined or cut wrongly.

    Args:
        ids: uint32, the shard's tokens.
        lang: of its stratum.
        tokens_by_lang: tokens of its documents by their own language.
    """
    total = sum(tokens_by_lang.values())
    match = tokens_by_lang.get(lang, 0) / total if total else 1.0
    if match < MIN_LANGUAGE_MATCH:
        others = ", ".join(sorted(x for x in tokens_by_lang if x != lang)[:5])
        return f"{match:.1%} of its tokens are of {lang}, at least {MIN_LANGUAGE_MATCH:.0%} must be (others: {others})"
    if len(ids) < WINDOW:
        return ""
    counts = np.bincount(ids)
    counts = counts[counts > 0]
    share = counts / len(ids)
    bits = float(-(share * np.log2(share)).sum())
    _, min_bits, max_share = bounds(lang)
    if bits <= min_bits:
        return f"its tokens have {bits:.2f} bits of entropy, over {min_bits:g} are needed"
    if float(share.max()) > max_share:
        return f"one token is {share.max():.1%} of it, at most {max_share:.0%} may be"
    return ""


def check_plain(ids: Sequence[int], lang: str) -> tuple[str, float, float, int]:
    """The same in plain Python: the reference."""
    max_run, min_bits, max_share = bounds(lang)
    longest = run = 0
    for i, token in enumerate(ids):
        run = run + 1 if i and token == ids[i - 1] else 1
        longest = max(longest, run)
    if longest >= max_run:
        return "token_run", float(longest), float(max_run), 0
    if len(ids) < RUN_ONLY:
        return "", 0.0, 0.0, 0
    start = 0
    while start < len(ids):
        end = start + WINDOW
        if len(ids) - end < SHORT_TAIL:
            end = len(ids)
        counts = Counter(ids[start:end])
        size = end - start
        bits = -sum(c / size * math.log2(c / size) for c in counts.values())
        share = max(counts.values()) / size
        if bits <= min_bits:
            return "low_entropy", bits, min_bits, start
        if share > max_share:
            return "dominant_token", share, max_share, start
        start = end
    return "", 0.0, 0.0, 0
