"""The gates after identification: no language, a language in a script that is not its own, degenerate text.

Belongs here: the measures that the gates read, over a column of texts, and the verdict. Does not belong here: the
thresholds (``params.language``) and the guess (``language.py``).
"""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit

from gristmill import text_units
from gristmill.extract import scripts
from gristmill.extract.language import UNDETERMINED, Guess, by_iso, threshold
from gristmill.params import LanguageParams

GATES = ("no_language", "script_mismatch", "degenerate_short", "degenerate_line", "degenerate_letters")


@dataclass(frozen=True)
class Measures:
    """One entry a text.

    Attributes:
        by_script: int32[n, scripts] letters (and their marks) by script.
        chars, words: int32; words as for shingles.
        longest_line_share, letter_share: float32, of code points and of non-blank characters.
    """

    by_script: np.ndarray
    chars: np.ndarray
    words: np.ndarray
    longest_line_share: np.ndarray
    letter_share: np.ndarray


def measure(texts: pa.Array | pa.ChunkedArray) -> Measures:
    """Measures of a column of texts without nulls."""
    buf, off = text_units.text_buffers(texts)
    n = len(off) - 1
    by_script = np.zeros((n, len(scripts.NAMES)), np.int32)
    raw = np.zeros((n, 4), np.int64)
    scripts.count(buf, off, scripts.table(), by_script, raw)
    words = np.zeros(n, np.int64)
    _count_words(buf, off, text_units.tables()[0], words)
    return Measures(
        by_script, raw[:, 0].astype(np.int32), words.astype(np.int32),
        (raw[:, 3] / np.maximum(raw[:, 0], 1)).astype(np.float32),
        (raw[:, 1] / np.maximum(raw[:, 2], 1)).astype(np.float32),
    )


@njit(cache=True, nogil=True)
def _count_words(buf, off, classes, words):  # type: ignore[no-untyped-def]
    """Number of words of every text, as ``text_units.words`` has them."""
    for i in range(len(off) - 1):
        at = off[i]
        n = 0
        inside = False
        while at < off[i + 1]:
            c, at = text_units.decode(buf, at)
            kind = classes[c] if c < 0x34000 else 0
            if kind == 3:
                continue
            if kind == 1:
                if not inside:
                    n += 1
                inside = True
            else:
                inside = False
                if kind == 2:
                    n += 1
        words[i] = n


def main_scripts(measures: Measures) -> list[str]:
    """ISO 15924 of most letters of every text; Zyyy (common) where there is none. Japanese is Jpan, Korean Kore."""
    out = []
    kana = [scripts.INDEX["Hira"], scripts.INDEX["Kana"]]
    hani, hang = scripts.INDEX["Hani"], scripts.INDEX["Hang"]
    for row in measures.by_script:
        total = int(row.sum())
        if total == 0:
            out.append("Zyyy")
            continue
        best = int(row.argmax())
        japanese = int(row[kana].sum())
        if best in (hani, *kana) and japanese * 20 > total:
            out.append("Jpan")
        elif best == hang:
            out.append("Kore")
        else:
            out.append(scripts.NAMES[best])
    return out


def script_shares(measures: Measures, langs: list[str]) -> np.ndarray:
    """Share of each text's letters in a script that its language is written in; 1 for a language not in the table."""
    out = np.ones(len(langs), np.float32)
    for i, lang in enumerate(langs):
        known = by_iso().get(lang)
        total = int(measures.by_script[i].sum())
        if known is None or total == 0:
            out[i] = 0.0 if total == 0 else 1.0
            continue
        columns = [scripts.INDEX[s] for s in known.scripts if s in scripts.INDEX]
        out[i] = int(measures.by_script[i, columns].sum()) / total
    return out


def gate(guess: Guess, script_share: float, measures: Measures, i: int, params: LanguageParams,
         *, plain: bool = False) -> str | None:
    """The first gate that stops text ``i``, or None. Order: contracts.md, principle 2.

    ``plain``: it came as plain text, where a line is what its writer made of one: often a paragraph, or all of it. One
    long line is a sign of a failed extraction from markup only, so the gate on lines is for that alone.
    """
    if guess.lang == UNDETERMINED or guess.conf < threshold(guess.lang, params):
        return "no_language"
    known = by_iso().get(guess.lang)
    if (known is None or not known.large) and script_share < params.small_script_share:
        return "script_mismatch"
    if measures.words[i] < params.min_words or measures.chars[i] < params.min_chars:
        return "degenerate_short"
    if not plain and measures.longest_line_share[i] > params.max_line_share:
        return "degenerate_line"
    if measures.letter_share[i] < params.min_letter_share:
        return "degenerate_letters"
    return None


def detail(row: dict[str, Any], text: str, params: LanguageParams) -> str:
    """Value against bound, for the quarantine table; what has no language is kept for code, maths and tables."""
    reason = row["gate"]
    if reason == "no_language":
        bound = threshold(row["lang"], params)
        return f"{row['lang']} at {row['lang_conf']:.3f}, bound {bound}; looks like {kind(text)}"
    if reason == "script_mismatch":
        return f"{row['script_share']:.3f} of letters in a script of {row['lang']}, bound {params.small_script_share}"
    if reason == "degenerate_short":
        return f"{row['n_words']} words, {row['n_chars']} characters, bounds {params.min_words} and {params.min_chars}"
    if reason == "degenerate_line":
        return f"one line holds {row['longest_line_share']:.3f} of the text, bound {params.max_line_share}"
    return f"{row['letter_share']:.3f} of characters are letters, bound {params.min_letter_share}"


_CODE = re.compile(
    r"[{};]\s*$|^\s*(?:def|class|import|from|public|private|static|return|if|for|while|var|let|const|#include)\b"
    r"|=>|::|\(\);"
)
_MATHS = re.compile(r"\\[a-zA-Z]{2,}|[_^]\{|[=<>\u2264\u2265\u2200-\u22ff\u0391-\u03c9]")
_TABLE = re.compile(r"\||\t|(?:\d[\d.,%/:\-]*\s+){3,}")


def kind(text: str) -> str:
    """What a text that no language claims may be: code, maths, table or other."""
    lines = [line for line in text[:8000].split("\n") if line.strip()]
    if not lines:
        return "other"
    shares = {
        "maths": sum(len(_MATHS.findall(line)) >= 2 for line in lines) / len(lines),
        "code": sum(_CODE.search(line) is not None for line in lines) / len(lines),
        "table": sum(_TABLE.search(line) is not None for line in lines) / len(lines),
    }
    best = max(shares, key=lambda k: shares[k])
    return best if shares[best] >= 0.3 else "other"
