"""Paraphrases made by rule: other words, other order, numbers in words. What is still found is reported, not barred.

Belongs here: the rules, and recall of each method on what they make. A rule is a lower bound on what a person or a
model does to a text: it keeps the sentences. The synonyms are a list of our own of words that benchmarks use.
"""

import random
import re
import tempfile
from collections.abc import Callable

import pyarrow as pa

from bench.report import Report
from gristmill.decontaminate import semantic
from gristmill.decontaminate.index import Index, build
from gristmill.decontaminate.ngrams import FUZZY, NGRAM, SHORT_SPAN, probe
from gristmill.errors import ModelError
from gristmill.params import DecontaminateParams, EmbedderParams
from gristmill.text_units import words

_PAIRS = """
a one|the that|and plus|of from|in within|to towards|is remains|are remain|was became|were became|for on behalf of
with alongside|by through|on upon|has possesses|have possess|had possessed|he the man|she the woman|they those people
his the man's|her the woman's|their those people's|it the thing|at near|from out of|this the present|an one
how in what way|many a large number|much a great deal|what which thing|which what|each every single|every each
all the whole of|some several|more additional|less fewer|than compared with|then afterwards|if supposing|when once
after following|before ahead of|because since|so hence|but yet|also too|only merely|not never|about roughly
buys purchases|buy purchase|bought purchased|sells trades away|sell trade away|sold traded away|makes produces
make produce|made produced|gives hands over|give hand over|gave handed over|gets receives|get receive|got received
takes grabs|take grab|took grabbed|uses employs|use employ|used employed|using employing|eats consumes|eat consume
ate consumed|spends pays out|spend pay out|spent paid out|needs requires|need require|wants wishes for|want wish for
goes travels|go travel|went travelled|says states|say state|said stated|shows displays|show display|finds discovers
find discover|returns gives back|return give back|determine work out|calculate compute|contains holds|check verify
money cash|price cost|cost price|day date|days dates|week seven days|year twelve months|hour sixty minutes
house home|car vehicle|man gentleman|woman lady|boy lad|girl young lady|children kids|people persons|friend pal
school academy|book volume|books volumes|number figure|numbers figures|total overall amount|list sequence
string text|function routine|element entry|elements entries|following next|statement claim|true correct|false wrong
big large|large big|small little|little small|new fresh|old aged|good fine|first initial|last final|same identical
different distinct|equal matching|twice two times|half one in two|begins starts|begin start|starts begins|start begin
person individual|water liquid|food meals|work labour|game match|team squad|right proper|two a pair of|three a trio of
"""
SYNONYMS = dict(pair.split(" ", 1) for line in _PAIRS.strip().splitlines() for pair in line.split("|"))
_ONES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
         "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_DIGITS = {w: str(i) for i, w in enumerate(_ONES)} | {w: str(20 + 10 * i) for i, w in enumerate(_TENS)}


def in_words(n: int) -> str:
    """A whole number under a million, in words."""
    if n < 20:
        return _ONES[n]
    if n < 100:
        return _TENS[n // 10 - 2] + (f"-{_ONES[n % 10]}" if n % 10 else "")
    unit, name = (1000, "thousand") if n >= 1000 else (100, "hundred")
    return f"{in_words(n // unit)} {name}" + (f" {in_words(n % unit)}" if n % unit else "")


def renamed(text: str, share: float) -> str:
    """``share`` of the words that have a synonym replaced by it."""
    rng = random.Random(len(text))

    def other(match: re.Match[str]) -> str:
        word = match[0]
        new = SYNONYMS.get(word.lower())
        if new is None or rng.random() >= share:
            return word
        return new.capitalize() if word[0].isupper() else new

    return re.sub(r"\b[A-Za-z]+\b", other, text)


def reordered(text: str, share: float) -> str:
    """``share`` of the sentences that have a comma turned round at it; as often the second sentence comes first."""
    rng = random.Random(len(text))
    sentences = re.split(r"(?<=[.?!])\s+", text)
    for i, sentence in enumerate(sentences):
        head, comma, tail = sentence.partition(", ")
        if comma and rng.random() < share:
            end = tail[-1] if tail[-1:] in ".?!" else ""
            sentences[i] = f"{tail[: len(tail) - len(end)]}, {head}{end}"
    if len(sentences) > 2 and rng.random() < share:
        sentences[0], sentences[1] = sentences[1], sentences[0]
    return " ".join(sentences)


def renumbered_in_words(text: str) -> str:
    """Whole numbers under a million in words, and the other way round; "$5" is "5 dollars" first."""
    text = re.sub(r"\$(\d+(?:\.\d+)?)", r"\1 dollars", text)
    return re.sub(
        r"(?<![\d.,])\d{1,6}(?![\d.,]*\d)|\b[a-z]+\b",
        lambda m: in_words(int(m[0])) if m[0][0].isdigit() else _DIGITS.get(m[0], m[0]), text)


PARAPHRASES: dict[str, Callable[[str], str]] = {
    "synonyms for a quarter of the words that have one": lambda t: renamed(t, 0.25),
    "synonyms for half of them": lambda t: renamed(t, 0.5), "synonyms for all of them": lambda t: renamed(t, 1),
    "numbers in words, words in numbers": renumbered_in_words,
    "every sentence with a comma turned round": lambda t: reordered(t, 1),
    "half of all of it": lambda t: reordered(renumbered_in_words(renamed(t, 0.5)), 0.5),
}


def changed(before: str, after: str) -> float:
    """Share of the five-word runs of ``before`` that ``after`` has no more."""
    def runs(text: str) -> set[tuple[str, ...]]:
        tokens = [w.lower() for w in re.findall(r"\w+", text)]
        return {tuple(tokens[i : i + 5]) for i in range(len(tokens) - 4)}

    whole = runs(before)
    return len(whole - runs(after)) / len(whole) if whole else 0.0


def recall(report: Report, index: Index, count: int) -> None:
    """Rows of recall by benchmark and rule: by any method, and by each.

    Args:
        report: takes the rows.
        index: of all benchmarks.
        count: spans a benchmark; the semantic pass knows only these, the others all.
    """
    params = DecontaminateParams()
    embedder = EmbedderParams()
    excused = {row[:3] for row in index.not_checkable}
    spans: dict[str, list[int]] = {}
    for s in range(index.size):
        name = index.benchmark[s], index.item[s], index.span[s]
        if len(words(index.text[s])) >= semantic.MIN_WORDS and name not in excused:
            spans.setdefault(index.benchmark[s], []).append(s)
    for benchmark, those in sorted(spans.items()):
        sample = sorted(random.Random(1).sample(those, min(count, len(those))))
        some = build([(benchmark, str(i), {"span": index.text[s]}) for i, s in enumerate(sample)], params)
        for rule, change in PARAPHRASES.items():
            before = [index.text[s] for s in sample]
            docs = [change(t) for t in before]
            by: dict[str, set[int]] = {"n-gram": set(), "fuzzy": set(), "semantic": set()}
            for m in probe(index, pa.array(docs, pa.large_string())):
                if m.span == sample[m.doc]:
                    by[{NGRAM: "n-gram", SHORT_SPAN: "n-gram", FUZZY: "fuzzy"}[m.method]].add(m.doc)
            note = ""
            try:
                with tempfile.TemporaryDirectory() as cache:
                    found = semantic.probe(some, docs, embedder, params.semantic_cosine, cache=cache)
                by["semantic"] = {m.doc for m in found if int(some.item[m.span]) == m.doc}
            except ModelError:
                by.pop("semantic")
                note = "; semantic: no model on this machine"
            n = len(sample)
            share = sum(changed(a, b) for a, b in zip(before, docs, strict=True)) / n
            report.add(f"paraphrase recall: {benchmark}: {rule}", len(set().union(*by.values())) / n, note=", ".join(
                f"{k} {len(v) / n:.2f}" for k, v in by.items()) + f"; {n} spans, {share:.0%} of 5-word runs gone{note}")
