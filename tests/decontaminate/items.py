"""Benchmark items for tests: made ones, and the public sets where they are."""

import gzip
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path

from gristmill.decontaminate.index import Index, Item, build
from gristmill.params import DecontaminateParams

_SUBJECTS = ["river", "engine", "garden", "market", "library", "bridge", "teacher", "captain", "painter", "farmer",
    "doctor", "orchard", "station", "harbour"]
_VERBS = ["carries", "measures", "repairs", "counts", "borrows", "follows", "describes", "collects", "divides",
    "explains"]
_OBJECTS = ["apples", "letters", "wheels", "windows", "stories", "baskets", "lanterns", "pebbles", "ribbons",
    "tickets", "numbers"]
_WHERE = ["before dawn", "after the storm", "in the old town", "near the mill", "during winter", "under the tower",
    "by the lake"]


def sentence(rng: random.Random) -> str:
    return (f"The {rng.choice(_SUBJECTS)} {rng.choice(_VERBS)} {rng.randrange(2, 99)} {rng.choice(_OBJECTS)} "
            f"{rng.choice(_WHERE)}, and the {rng.choice(_SUBJECTS)} {rng.choice(_VERBS)} the {rng.choice(_OBJECTS)}.")


def prose(seed: int, sentences: int) -> str:
    rng = random.Random(seed)
    return " ".join(sentence(rng) for _ in range(sentences))


def index_of(*items: Item, **params: object) -> Index:
    return build(items, DecontaminateParams(**params))


def public_items(shared: Path) -> Iterator[Item]:
    """GSM8K, HumanEval, MMLU-Redux, HellaSwag, with the spans that their registries would name."""
    folder = shared / "06_benchmarks"

    def rows(name: str) -> Iterator[tuple[int, dict]]:
        with gzip.open(folder / name, "rt", encoding="utf-8") as file:
            yield from enumerate(json.loads(line) for line in file)

    for i, r in rows("gsm8k_test.jsonl.gz"):
        yield "gsm8k", str(i), {"question": r["question"], "answer": r["answer"]}
    for _, r in rows("HumanEval.jsonl.gz"):
        yield "humaneval", r["task_id"], {"prompt": r["prompt"], "solution": r["canonical_solution"]}
    for i, r in rows("mmlu_redux.jsonl.gz"):
        yield "mmlu", str(i), {"question": r["question"], "options": r["choices"]}
    for i, r in rows("hellaswag_val_0-1499.jsonl.gz"):
        yield "hellaswag", str(i), {"context": r["ctx"], **{f"ending{k}": e for k, e in enumerate(r["endings"])}}


def wrapped(text: str) -> str:
    """Eight words a line."""
    tokens = text.split()
    return "\n".join(" ".join(tokens[i : i + 8]) for i in range(0, len(tokens), 8))


def recased(text: str) -> str:
    """Other case, other punctuation. (ß in capitals is two letters: one-to-one folding does not undo that.)"""
    rng = random.Random(len(text))
    table = str.maketrans({",": ";", ".": "!", "?": "...", "(": "[", ")": "]", "'": "’"})
    mixed = (c.upper() if rng.random() < 0.5 and len(c.upper()) == 1 else c.lower() for c in text)
    return "".join(mixed).translate(table)


def embedded(text: str, seed: int = 1) -> str:
    """In the middle of a page."""
    return f"{prose(seed, 25)}\n\n{text}\n\n{prose(seed + 1, 25)}"


FORMS: dict[str, Callable[[str], str]] = {
    "verbatim": lambda t: t, "wrapped": wrapped, "embedded": embedded, "recased": recased,
    "embedded, wrapped and recased": lambda t: embedded(wrapped(recased(t))),
}
