"""Benchmark items for tests: made ones, and the public sets where they are; and documents that hold none."""

import gzip
import inspect
import json
import random
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa

from gristmill.decontaminate.index import Index, Item, build
from gristmill.params import DecontaminateParams
from tests.quality.pages import gold_texts

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

IDENTITIES = (
    r"\sin^2 x + \cos^2 x = 1, \quad \int_0^1 x^2 \, dx = \frac{1}{3}, \quad \sum_{i=1}^{n} i = \frac{n(n+1)}{2}",
    r"(a + b)^2 = a^2 + 2 a b + b^2, (a - b)^2 = a^2 - 2 a b + b^2, (a + b)(a - b) = a^2 - b^2, a^3 - b^3 = 1",
    "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30",
    "| 1 | 0 | 1 | 0 | 1 | 1 | 0 | 0 | 1 | 0 | 1 | 0 | 1 | 1 | 0 | 0 | 1 | 0 | 1 | 0 | 1 | 1 |",
)


def documentation_and_code(n: int) -> list[str]:
    """Source files of the standard library and of installed packages, and the long strings in them: documentation."""
    roots = [Path(sysconfig.get_paths()["stdlib"]), Path(inspect.getfile(pa)).parent.parent]
    seen: set[str] = set()
    for path in (p for root in roots for p in sorted(root.rglob("*.py"))):
        if len(seen) >= n:
            break
        try:
            source = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue
        texts = (source[:20_000], *map(inspect.cleandoc, source.split('"""')[1::2]))
        seen.update(text for text in texts if len(text) >= 200)
    return sorted(seen)[:n]


def clean_documents(shared: Path, n: int = 32_000) -> list[str]:
    """Main texts of real pages, manual pages, documentation strings and source files: no benchmark stands in them."""
    clean = gold_texts(shared, "wcxb", "zyte", "traf", "daniel")
    clean += [gzip.decompress(p.read_bytes()).decode("utf-8", "ignore")[:50_000]
              for p in sorted(Path("/usr/share/man").glob("man*/*.gz"))]
    return clean + documentation_and_code(n - len(clean))
