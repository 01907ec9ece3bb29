"""A Kneser-Ney trainer and ARPA writer, since no package carries one.

Belongs here: interpolated modified Kneser-Ney (Chen and Goodman 1999, section 3; as Heafield et al. 2013 estimate it)
for corpora that fit in memory, and the ARPA file that KenLM reads too. Does not belong here: scoring
(``perplexity.py``).
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gristmill.errors import ModelError
from gristmill.text_units import words

BEGIN, END, UNKNOWN = "<s>", "</s>", "<unk>"
FALLBACK = (0.5, 1.0, 1.5)  # discounts where counts of counts cannot give them, as lmplz --discount_fallback
Gram = tuple[str, ...]


@dataclass(frozen=True)
class Model:
    """log10 probabilities and log10 back-off weights of each order's n-grams."""

    order: int
    probability: tuple[Mapping[Gram, float], ...]
    backoff: tuple[Mapping[Gram, float], ...]


def train(texts: Iterable[str], order: int = 3) -> Model:
    """Estimate from texts; a line is a sentence, and words are ``gristmill/text_units.py``'s.

    Raises:
        ModelError: there is not one word.
    """
    raw: list[Counter[Gram]] = [Counter() for _ in range(order)]
    for text in texts:
        for line in text.splitlines():
            tokens = words(line)
            if tokens:
                sentence = (BEGIN, *tokens, END)
                for n in range(1, order + 1):
                    raw[n - 1].update(sentence[i : i + n] for i in range(len(sentence) - n + 1))
    if not raw[0]:
        raise ModelError("a language model needs text with at least one word")
    # Under the highest order what counts is in how many left contexts an n-gram stands; with <s> there is only one.
    counts: list[Counter[Gram]] = []
    for n in range(1, order):
        left = Counter(gram[1:] for gram in raw[n])
        counts.append(Counter({
            g: left[g] if g[0] != BEGIN else c for g, c in raw[n - 1].items() if left[g] or g[0] == BEGIN
        }))
    counts.append(raw[-1])
    counts[0].pop((BEGIN,), None)  # never predicted
    probability: list[dict[Gram, float]] = []
    backoff: list[dict[Gram, float]] = []
    vocabulary = len(counts[0]) + 1  # and <unk>
    for n in range(1, order + 1):
        discounts = _discounts(counts[n - 1])
        totals: Counter[Gram] = Counter()
        held: defaultdict[Gram, float] = defaultdict(float)
        for gram, count in counts[n - 1].items():
            totals[gram[:-1]] += count
            held[gram[:-1]] += discounts[min(count, 3) - 1]
        weight = {h: held[h] / totals[h] for h in totals}
        if n == 1:
            uniform = weight[()] / vocabulary
            table = {g: (c - discounts[min(c, 3) - 1]) / totals[()] + uniform for g, c in counts[0].items()}
            table[(UNKNOWN,)] = uniform
        else:
            lower = probability[-1]
            table = {
                g: (c - discounts[min(c, 3) - 1]) / totals[g[:-1]] + weight[g[:-1]] * lower[g[1:]]
                for g, c in counts[n - 1].items()
            }
            backoff.append({h: weight[h] for h in weight})
        probability.append(table)
    logs = tuple({g: math.log10(p) for g, p in table.items()} for table in probability)
    return Model(order, logs, tuple({h: math.log10(w) for h, w in table.items()} for table in backoff))


def _discounts(counts: Counter[Gram]) -> tuple[float, float, float]:
    """Modified Kneser-Ney's three discounts from the counts of counts."""
    n = Counter(min(c, 5) for c in counts.values())
    if not (n[1] and n[2] and n[3] and n[4]):
        return FALLBACK
    y = n[1] / (n[1] + 2 * n[2])
    found = (1 - 2 * y * n[2] / n[1], 2 - 3 * y * n[3] / n[2], 3 - 4 * y * n[4] / n[3])
    return found if all(0 < d < k for k, d in enumerate(found, start=1)) else FALLBACK


def write_arpa(model: Model, path: Path) -> Path:
    """Write the ARPA text format, n-grams sorted, so equal models are equal bytes."""
    parts = ["\\data\\"]
    tables = [dict(t) for t in model.probability]
    tables[0][(BEGIN,)] = -99.0  # by convention: it is never predicted
    parts += [f"ngram {n}={len(t)}" for n, t in enumerate(tables, start=1)]
    for n, table in enumerate(tables, start=1):
        parts += ["", f"\\{n}-grams:"]
        weights = model.backoff[n - 1] if n < model.order else {}
        for gram in sorted(table):
            line = f"{table[gram]:.6f}\t{' '.join(gram)}"
            if n < model.order and gram[-1] != END:
                line += f"\t{weights.get(gram, 0.0):.6f}"
            parts.append(line)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*parts, "", "\\end\\", ""]), "utf-8")
    return path
