"""The heuristics in plain Python: the definition that the kernels are held against, and that a reader can check.

Belongs here: one function a family, straight from the papers, on words of ``gristmill/text_units.py``. Does not belong
here: anything that runs in the funnel.
"""

import math
import re
from collections import Counter

from gristmill.quality import marks
from gristmill.quality.stopwords import STOP_WORDS
from gristmill.text_units import words

_CITATION = re.compile(r"\[[0-9]*]$|\[edit]$|\[citation needed]$")


def _flag(ch: str, bit: int) -> bool:
    table = marks.flags()
    return ord(ch) < len(table) and bool(table[ord(ch)] & bit)


def duplicates(parts: list[str]) -> tuple[int, int]:
    """How many parts repeat an earlier one, and their characters."""
    seen: set[str] = set()
    repeated = [p for p in parts if p in seen or seen.add(p)]  # type: ignore[func-returns-value]
    return len(repeated), sum(map(len, repeated))


def sentences(line: str) -> int:
    """Sentences of a line: a stop, closing marks, then space or the end; wide stops need no space; a rest is one."""
    count, content, pending = 0, False, False
    for ch in line:
        if _flag(ch, marks.WIDE_STOP):
            count += content
            content = pending = False
        elif _flag(ch, marks.STOP):
            pending = pending or content
        elif ch.isspace():
            if pending:
                count, content = count + 1, False
            pending = False
        elif not _flag(ch, marks.CLOSER):
            pending, content = False, True
    return count + content


def top_gram(tokens: list[str], n: int) -> int:
    """Characters, with spaces, of the most frequent n-gram times its count; of equals the first counts."""
    grams = Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))
    if not grams:
        return 0
    gram, count = grams.most_common(1)[0]
    return len(" ".join(gram)) * count


def repeated_grams(tokens: list[str], n: int) -> int:
    """Characters in n-grams seen before, read from left to right without overlap."""
    seen: set[tuple[str, ...]] = set()
    characters, i = 0, 0
    while i <= len(tokens) - n:
        gram = tuple(tokens[i : i + n])
        if gram in seen:
            characters += sum(map(len, gram))
            i += n
        else:
            seen.add(gram)
            i += 1
    return characters


def c4_line(line: str) -> str:
    """What C4 does with a line: one of the c4_ counts' names."""
    line = line.strip()
    tokens = line.split()
    if any(len(t) > 1000 for t in tokens):
        return "c4_long_word"
    while (shorter := _CITATION.sub("", line)) != line:
        line = shorter
    if not line.endswith((".", "?", "!", '"', "'")) or line.endswith("..."):
        return "c4_no_terminal"
    if len(tokens) < 3:
        return "c4_few_words"
    bits = phrases(line)
    if bits & marks.LOREM:
        return "c4_lorem"
    if bits & marks.JAVASCRIPT:
        return "c4_javascript"
    if "{" in line:
        return "c4_curly"
    return "c4_policy" if bits & marks.POLICY else "c4_lines"


def phrases(line: str) -> int:
    """Bits of the phrases in a line, ASCII letters in either case."""
    low = "".join(ch.lower() if ch.isascii() else ch for ch in line)
    bits = 0
    for phrase, bit in marks.PHRASES.items():
        if phrase in low:
            bits |= bit
    return bits


def refinedweb_line(line: str) -> str | None:
    """Which of RefinedWeb's line rules holds, the first of them."""
    visible = [ch for ch in line if not ch.isspace()]
    tokens = words(line)
    if 2 * sum(ch.isupper() for ch in visible) > len(visible):
        return "rw_upper"
    if not any(ch.isalpha() for ch in visible) and any(_flag(ch, marks.DIGIT) for ch in visible):
        return "rw_numeric"
    if len(tokens) >= 2 and all(_flag(t[0], marks.DIGIT) for t in tokens[:-1]) and tokens[-1] in marks.COUNTED \
            and not _flag(tokens[-1][0], marks.DIGIT):
        return "rw_counter"
    if len(tokens) == 1:
        return "rw_one_word"
    return "rw_snippet" if len(tokens) <= 10 and phrases(line) & marks.SNIPPET else None


def counts(text: str, lang: str | None) -> dict[str, int]:
    """Every count of ``kernels.FIELDS`` for one text."""
    every = text.split("\n")
    lines = [line for line in every if line.strip()]
    blocks: list[list[str]] = [[]]
    for line in every:
        if line.strip():
            blocks[-1].append(line)
        else:
            blocks.append([])
    paragraphs = ["\n".join(b) for b in blocks if b]
    tokens = words(text)
    out = dict.fromkeys((f for f in _FIELDS), 0)
    out.update(
        chars=len(text), words=len(tokens), word_chars=sum(map(len, tokens)), lines=len(lines), paras=len(paragraphs),
        alpha_words=sum(any(c.isalpha() for c in w) for w in tokens), hashes=text.count("#"),
        ellipses=text.count("...") + text.count("…"), newlines=text.count("\n"),
        bullet_lines=sum(line.lstrip().startswith(("•", "-")) for line in lines),
        ellipsis_lines=sum(line.rstrip().endswith(("...", "…")) for line in lines),
        stop_words=len(set(words(STOP_WORDS.get(lang or "", ""))) & set(tokens)),
        punct_lines=sum(_flag(line.rstrip()[-1], marks.LINE_END) for line in lines),
        short_lines=sum(len(line) <= 30 for line in lines), long_lines=sum(len(line) >= 200 for line in lines),
        longest_line=max(map(len, lines), default=0), longest_word=max(map(len, tokens), default=0),
        digits=sum(_flag(c, marks.DIGIT) for c in text), upper=sum(c.isupper() for c in text),
        letters=sum(c.isalpha() for c in text), spaces=sum(c.isspace() for c in text), unique_words=len(set(tokens)),
        sentences=sum(map(sentences, lines)),
    )
    out["dup_lines"], out["dup_line_chars"] = duplicates(lines)
    out["dup_paras"], out["dup_para_chars"] = duplicates(paragraphs)
    for n in (2, 3, 4):
        out[f"top_{n}"] = top_gram(tokens, n)
    for n in range(5, 11):
        out[f"dup_{n}"] = repeated_grams(tokens, n)
    for line in lines:
        verdict = c4_line(line)
        out[verdict] += 1
        if verdict == "c4_lines":
            out["c4_sentences"] += sentences(line)
        rule = refinedweb_line(line)
        if rule:
            out[rule] += 1
            out["rw_words"] += len(words(line))
    return out


def entropy(text: str) -> float:
    """Entropy of the distribution of words, in bits."""
    tokens = words(text)
    return -sum(c / len(tokens) * math.log2(c / len(tokens)) for c in Counter(tokens).values()) if tokens else 0.0


from gristmill.quality.kernels import FIELDS as _FIELDS  # noqa: E402 - only the names
