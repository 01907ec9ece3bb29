"""Published rule sets as predicates over the measures, with their bounds and where each is stated.

Belongs here: the bounds, and other ones for languages that the published ones were not made for. Nothing in the funnel
drops a document by them: the stage counts what they would pass, and a recipe may use them or its own. Does not belong
here: how a measure is computed (``heuristics.py``).

A document passes a rule whose measure is null (no stop words are known for its language).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa


@dataclass(frozen=True)
class Rule:
    """``measure`` must be at least (``>=``) or at most (``<=``) ``bound``."""

    measure: str
    op: Literal[">=", "<="]
    bound: float

    def __str__(self) -> str:
        return f"{self.measure} {self.op} {self.bound:g}"

    def holds(self, values: np.ndarray, langs: np.ndarray | None = None) -> np.ndarray:
        """Which values pass; NaN passes. Compared in float32, as stored.

        Args:
            values: float32 (n).
            langs: str (n), ISO 639-3: each value's bound is its language's. None: the published one for all.
        """
        bound = np.full(len(values), self.bound, np.float32)
        for lang in set(langs.tolist()) & BOUNDS.keys() if langs is not None else ():
            bound[langs == lang] = BOUNDS[lang].get(f"{self.measure} {self.op}", self.bound)
        kept = values >= bound if self.op == ">=" else values <= bound
        found: np.ndarray = kept | np.isnan(values)
        return found


def _rules(*texts: str) -> tuple[Rule, ...]:
    out = []
    for text in texts:
        measure, op, bound = text.split()
        if op not in (">=", "<="):
            raise ValueError(text)
        out.append(Rule(measure, op, float(bound)))  # type: ignore[arg-type]
    return tuple(out)


RULE_SETS: dict[str, tuple[Rule, ...]] = {
    # Rae et al. 2021 (arXiv 2112.11446), appendix A.1.1: 50 to 100,000 words of mean length 3 to 10; at most 0.1
    # hashes or ellipses a word; at most 90 % bullet lines and 30 % ellipsis lines; 80 % of words with a letter; two
    # stop words.
    "gopher_quality": _rules(
        "n_words >= 50", "n_words <= 100000", "mean_word_length >= 3", "mean_word_length <= 10",
        "hash_word_ratio <= 0.1", "ellipsis_word_ratio <= 0.1", "bullet_line_ratio <= 0.9",
        "ellipsis_line_ratio <= 0.3", "alpha_word_ratio >= 0.8", "stop_words >= 2"),
    # The same, table A1.
    "gopher_repetition": _rules(
        "dup_line_frac <= 0.3", "dup_para_frac <= 0.3", "dup_line_char_frac <= 0.2", "dup_para_char_frac <= 0.2",
        "top_2gram_char_frac <= 0.2", "top_3gram_char_frac <= 0.18", "top_4gram_char_frac <= 0.16",
        "dup_5gram_char_frac <= 0.15", "dup_6gram_char_frac <= 0.14", "dup_7gram_char_frac <= 0.13",
        "dup_8gram_char_frac <= 0.12", "dup_9gram_char_frac <= 0.11", "dup_10gram_char_frac <= 0.10"),
    # Penedo et al. 2024 (arXiv 2406.17557), section 3.6: lines ending with punctuation at least 0.12; characters in
    # duplicate lines at most 0.01 (0.1 in the paper's text, 0.01 in its code, which made the data set); lines of at
    # most 30 characters at most 0.67. The list rule (newlines a word at most 0.3) is in the code alone.
    "fineweb": _rules(
        "line_punct_ratio >= 0.12", "short_line_ratio <= 0.67", "char_dup_ratio <= 0.01", "new_line_ratio <= 0.3"),
    # Raffel et al. 2020 (JMLR 21/140), section 2.2: after its line rules, five sentences; no lorem ipsum, no bracket {.
    "c4": _rules("c4_sentences >= 5", "c4_lorem <= 0", "c4_curly <= 0"),
    # Penedo et al. 2023 (arXiv 2306.01116), appendix G.2: at most 5 % of words in lines that its line rules take out.
    "refinedweb": _rules("rw_removed_word_ratio <= 0.05"),
    # Xue et al. 2021 (arXiv 2010.11934), section 3.1: at least three lines of 200 characters or more.
    "mc4": _rules("long_lines >= 3"),
}
# What the yields count: FineWeb's order of filters, without C4's, which edits lines.
REFERENCE: tuple[str, ...] = ("gopher_repetition", "gopher_quality", "fineweb")


# Bounds of our own, since the published ones are of English words: chosen so that the Universal Declaration of Human
# Rights, looked at in 117 languages, passes. Where no spaces part words each character is one, so words are not 3 long;
# in alphabetic scripts of the kind 5 to 10 characters in a row are one or two words, vowel signs are no letters, and
# Thai ends no sentence with a mark.
_SINGLE: dict[str, float] = {"mean_word_length >=": 1, "n_words >=": 80, "n_words <=": 160_000}
_LETTERS: dict[str, float] = {"mean_word_length >=": 1, "n_words >=": 200, "n_words <=": 400_000, "alpha_word_ratio >=":
    0.3, "line_punct_ratio >=": 0, **{f"dup_{n}gram_char_frac <=": 1 for n in range(5, 11)}}
_SHORT: dict[str, float] = {"mean_word_length >=": 2}  # short words, with spaces
BOUNDS: dict[str, dict[str, float]] = {  # language -> "measure op" -> bound
    **dict.fromkeys(("zho", "cmn", "yue", "wuu", "nan", "hak", "gan", "lzh", "jpn"), _SINGLE),
    **dict.fromkeys(("tha", "lao", "khm", "mya", "shn"), _LETTERS),
    **dict.fromkeys(("ada", "blt", "fon", "lns"), _SHORT),
}


def passes(table: pa.Table, rules: Iterable[Rule], langs: Sequence[str | None] | None = None) -> np.ndarray:
    """Which documents pass all rules, bool (rows).

    Args:
        table: measures.
        rules: which.
        langs: language of each row, for its own bounds; None: the published ones.
    """
    own = _langs(langs)
    kept = np.ones(table.num_rows, bool)
    for rule in rules:
        kept &= rule.holds(_values(table, rule.measure), own)
    return kept


def first_failed(table: pa.Table, rules: Iterable[Rule],
                 langs: Sequence[str | None] | None = None) -> list[Rule | None]:
    """The first rule that each document fails, or None; arguments as of ``passes``."""
    own = _langs(langs)
    out: list[Rule | None] = [None] * table.num_rows
    for rule in rules:
        for row in np.flatnonzero(~rule.holds(_values(table, rule.measure), own)):
            out[row] = out[row] or rule
    return out


def _langs(langs: Sequence[str | None] | None) -> np.ndarray | None:
    return None if langs is None else np.array([lang or "" for lang in langs], object)


TOP_SHARE = 0.65  # a document whose ensemble percentile is this or more is in the reference's top 35 %


def reference() -> tuple[Rule, ...]:
    """The rules of the reference rule set, in order."""
    return tuple(rule for name in REFERENCE for rule in RULE_SETS[name])


def _values(table: pa.Table, measure: str) -> np.ndarray:
    return table.column(measure).cast(pa.float32()).to_numpy(zero_copy_only=False)
