"""The heuristics of Gopher, C4, FineWeb and RefinedWeb as measures: one column each, no verdict.

Belongs here: what every measure is and how it follows from the counts. Does not belong here: the counting
(``kernels.py``), bounds (``rules.py``). Words are ``gristmill/text_units.py``'s, the same as for shingles, so counts
differ from tools that count punctuation as words. A line is what stands between newlines and is not blank: blank lines
are neither lines nor duplicates of each other.

Sources: Gopher, Rae et al. 2021, appendix A.1.1 and table A1; C4, Raffel et al. 2020, section 2.2, and its code;
FineWeb, Penedo et al. 2024, section 3.6; RefinedWeb, Penedo et al. 2023, appendix G.2; mC4, Xue et al. 2021, section
3.1.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from gristmill.quality import kernels, marks, stopwords
from gristmill.quality.kernels import FIELDS
from gristmill.text_units import packed, text_buffers, word_hash

# measure -> (numerator, denominator) among the counts; a share of nothing is 0
SHARES: dict[str, tuple[str, str]] = {
    "mean_word_length": ("word_chars", "words"),
    "hash_word_ratio": ("hashes", "words"),
    "ellipsis_word_ratio": ("ellipses", "words"),
    "bullet_line_ratio": ("bullet_lines", "lines"),
    "ellipsis_line_ratio": ("ellipsis_lines", "lines"),
    "alpha_word_ratio": ("alpha_words", "words"),
    "dup_line_frac": ("dup_lines", "lines"),
    "dup_line_char_frac": ("dup_line_chars", "chars"),
    "dup_para_frac": ("dup_paras", "paras"),
    "dup_para_char_frac": ("dup_para_chars", "chars"),
    **{f"top_{n}gram_char_frac": (f"top_{n}", "chars") for n in (2, 3, 4)},
    **{f"dup_{n}gram_char_frac": (f"dup_{n}", "chars") for n in range(5, 11)},
    "line_punct_ratio": ("punct_lines", "lines"),
    "short_line_ratio": ("short_lines", "lines"),
    "char_dup_ratio": ("dup_line_chars", "chars_without_newlines"),
    "new_line_ratio": ("newlines", "words"),
    "rw_removed_word_ratio": ("rw_words", "words"),
    "digit_ratio": ("digits", "chars"),
    "upper_ratio": ("upper", "letters"),
    "space_ratio": ("spaces", "chars"),
    "type_token_ratio": ("unique_words", "words"),
}
# counts that are measures themselves
COUNTS: dict[str, str] = {
    "n_chars": "chars", "n_words": "words", "n_lines": "lines", "n_paragraphs": "paras", "n_sentences": "sentences",
    "longest_word": "longest_word", "longest_line": "longest_line", "long_lines": "long_lines",
    **{n: n for n in FIELDS if n.startswith("c4_")},
    **{n + "_lines": n for n in ("rw_upper", "rw_numeric", "rw_counter", "rw_one_word", "rw_snippet")},
}
MEASURES: tuple[str, ...] = (*COUNTS, "stop_words", *SHARES, "word_entropy")


def measure(texts: pa.Array | pa.ChunkedArray, langs: Sequence[str | None]) -> pa.Table:
    """Every measure of every text.

    Args:
        texts: strings without nulls.
        langs: ISO 639-3 of each, for its stop words; None, or a language without a list, gives a null there.

    Returns:
        One row a text; int32 counts, float32 shares (a share of nothing is 0), ``word_entropy`` in bits.
    """
    buf, offsets = text_buffers(texts)
    n = len(offsets) - 1
    number, stop_offsets, stops = stopwords.table()
    lang = np.fromiter((number.get(code or "", -1) for code in langs), np.int32, n)
    counts, spread = np.zeros((n, len(FIELDS)), np.int64), np.zeros(n)
    step, seen = marks.automaton()
    counted = np.array([word_hash(w) for w in marks.COUNTED], np.uint64)
    kernels.measure(buf, offsets, packed(), marks.flags(), step, seen, counted, stops, stop_offsets, lang, counts,
                    spread)
    column = {name: counts[:, i] for i, name in enumerate(FIELDS)}
    column["chars_without_newlines"] = column["chars"] - column["newlines"]
    out: dict[str, pa.Array] = {name: pa.array(column[source].astype(np.int32)) for name, source in COUNTS.items()}
    out["stop_words"] = pa.array(column["stop_words"].astype(np.int32), mask=lang < 0)
    for name, (top, bottom) in SHARES.items():
        share = column[top] / np.maximum(column[bottom], 1)
        out[name] = pa.array(share.astype(np.float32))
    words = np.maximum(column["words"], 1)
    out["word_entropy"] = pa.array(((np.log(words) - spread / words) / np.log(2)).astype(np.float32))
    return pa.table({name: out[name] for name in MEASURES})
