"""Where a document goes: its stratum, and its place in the random order of a crawl.

Belongs here: quality band, length bucket, the stratum's name, the keyed hash. Does not belong here: what a recipe may
ask
for: predicates read the score itself, never the band.
"""

import re

import numpy as np

# Tokens, BOS and EOS included: [0, 1k), [1k, 4k), [4k, 16k), [16k, 64k), [64k, inf)
LENGTH_EDGES = np.array([1_000, 4_000, 16_000, 64_000], np.int64)
# Percentile of the ensemble: a coarse band, so that a threshold cuts through few strata.
QUALITY_EDGES = np.array([0.25, 0.5, 0.75, 0.9])
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")


def length_bucket(n_tokens: np.ndarray) -> np.ndarray:
    """0 to 4 for each length in tokens."""
    return np.searchsorted(LENGTH_EDGES, n_tokens, side="right").astype(np.int64)


def length_bucket_of(n_tokens: int) -> int:
    """``length_bucket`` of one document."""
    return sum(n_tokens >= edge for edge in (1_000, 4_000, 16_000, 64_000))


def quality_band(percentile: np.ndarray) -> np.ndarray:
    """0 to 4 for each percentile in [0, 1]; -1 where there is none (NaN)."""
    band = np.searchsorted(QUALITY_EDGES, np.nan_to_num(percentile, nan=0.0), side="right").astype(np.int64)
    return np.where(np.isnan(percentile), -1, band)


def stratum(tier: str, lang: str, band: int, length: int) -> str:
    """The stratum's name, safe in a path: ``cc.eng.q2.len0``; ``qx`` where there is no score."""
    return f"{path_part(tier)}.{path_part(lang)}.q{band if band >= 0 else 'x'}.len{length}"


def path_part(text: str) -> str:
    """A tier or language as it stands in a stratum's name."""
    return _UNSAFE.sub("-", text) or "none"


def language_of(stratum: str) -> str:
    """The language that a stratum's name says."""
    return stratum.split(".")[1]


def shard_key(first_uint64: np.ndarray, seed: int) -> np.ndarray:
    """Keyed 64-bit hash of doc_ids (their first 8 bytes): the shard range, and the order within it.

    splitmix64's finaliser over the id xor a key derived from the seed; ids are well mixed already, so this only unties
    the order from other uses of doc_id (ranges of ``exact`` and ``clusters``).
    """
    with np.errstate(over="ignore"):
        key = np.uint64((seed * 0x9E3779B97F4A7C15 + 0xD1B54A32D192ED03) & 0xFFFFFFFFFFFFFFFF)
        x = first_uint64.astype(np.uint64) ^ key
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))
