"""datatrove's filters, decontamination and PII formatter on a Parquet column ``text``: MODE TEXTS.parquet COUNT [EXTRA].

Modes: filters-default, filters-plain (words of a regular expression), verdicts (words given in a column ``words``, joined
by newlines; one list of verdicts a filter), decontaminate-default, decontaminate-plain (EXTRA: a Parquet of items), pii.
CPU seconds of one thread, best of three, for rates.
"""

import json
import re
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from datatrove.data import Document
from datatrove.pipeline.filters import c4_filters, fineweb_quality_filter, gopher_quality_filter, gopher_repetition_filter

MODULES = (gopher_repetition_filter, gopher_quality_filter, fineweb_quality_filter)
WORD = re.compile(r"\w+")


def filters() -> dict:
    return {
        "gopher_repetition": gopher_repetition_filter.GopherRepetitionFilter(),
        "gopher_quality": gopher_quality_filter.GopherQualityFilter(),
        "fineweb": fineweb_quality_filter.FineWebQualityFilter(),
    }


def use_words(split) -> None:
    for module in MODULES:
        module.split_into_words = split


def passes(step, text: str) -> bool:
    try:
        result = step.filter(Document(text=text, id="x"))
    except ZeroDivisionError:
        return False
    return result if isinstance(result, bool) else result[0]


def best(call, texts: list[str]) -> float:
    call(texts[0])
    least = float("inf")
    for _ in range(3):
        begun = time.process_time()
        for text in texts:
            call(text)
        least = min(least, time.process_time() - begun)
    return least


def every_measure(text: str) -> None:
    """All filters to the end: ours gives every measure of every document, so no filter may spare the next."""
    for step in STEPS.values():
        passes(step, text)


def decontaminator(items_path: str, plain: bool):
    from datatrove.pipeline.decont import NGramsDecontFilter
    from datatrove.utils.text import ngrams, simplify_text

    folder = tempfile.mkdtemp()
    step = NGramsDecontFilter(folder)
    if plain:
        class Words:
            def word_tokenize(self, text):
                return text.split()

        step.tokenizer = Words()
    config = step.config
    hashes = set()
    for text in pq.read_table(items_path)["text"].to_pylist():
        tokens = step.tokenizer.word_tokenize(simplify_text(text, config.norm_config))
        hashes.update(step.hash_func(" ".join(g)) for g in ngrams(tokens, config.n_grams))
    np.array(sorted(hashes), dtype=config.hash_config.np_descr).tofile(Path(folder) / "items.index.hashes")
    return step


def main() -> None:
    global STEPS
    mode, path, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    table = pq.read_table(path).slice(0, count)
    texts = table["text"].to_pylist()
    size = sum(len(t.encode()) for t in texts)
    if mode == "verdicts":
        words = dict(zip(texts, table["words"].to_pylist()))
        use_words(lambda text, language=None: words[text].split("\n") if words[text] else [])
        marks = tuple(sys.argv[4])
        STEPS = filters()
        STEPS["fineweb"].stop_chars = marks
        print(json.dumps({name: [passes(step, t) for t in texts] for name, step in STEPS.items()}))
        return
    if mode.startswith("filters"):
        if mode == "filters-plain":
            use_words(lambda text, language=None: WORD.findall(text))
        STEPS = filters() | {"c4": c4_filters.C4QualityFilter()}
        spent = best(every_measure, texts)
    elif mode.startswith("decontaminate"):
        step = decontaminator(sys.argv[4], mode.endswith("plain"))
        spent = best(lambda text: passes(step, text), texts)
        print(json.dumps({"docs_per_s": len(texts) / spent, "mb_per_s": size / spent / 1e6,
                          "flagged": [not passes(step, t) for t in texts] if len(sys.argv) > 5 else []}))
        return
    else:
        from datatrove.pipeline.formatters import PIIFormatter

        step = PIIFormatter()
        spent = best(step.format, texts)
    print(json.dumps({"docs_per_s": len(texts) / spent, "mb_per_s": size / spent / 1e6}))


STEPS: dict = {}
if __name__ == "__main__":
    main()
