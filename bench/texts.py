"""Texts to measure deduplication on: paragraphs of the standard library's documentation, mixed into documents.

Belongs here: what is on every machine with Python. Does not belong here: real pages (``gold.py``).
"""

import ast
import random
import sysconfig
from functools import cache
from pathlib import Path

import pyarrow as pa


@cache
def paragraphs() -> list[str]:
    """Distinct paragraphs of docstrings, 20 words or more, in order of file."""
    found: dict[str, None] = {}
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).rglob("*.py")):
        if "site-packages" in path.parts or "test" in path.parts or "idlelib" in path.parts:
            continue
        try:
            tree = ast.parse(path.read_text("utf-8"))
        except (SyntaxError, UnicodeDecodeError, ValueError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                for part in (ast.get_docstring(node) or "").split("\n\n"):
                    if len(part.split()) >= 20:
                        found[" ".join(part.split())] = None
    return list(found)


def documents(count: int, seed: int = 1, words: int = 600) -> pa.Array:
    """``count`` documents of about ``words`` words, each its own mix of paragraphs. large_string."""
    rng = random.Random(seed)
    pool = paragraphs()
    out = []
    for _ in range(count):
        text: list[str] = []
        size = 0
        while size < words:
            text.append(rng.choice(pool))
            size += text[-1].count(" ") + 1
        out.append("\n".join(text))
    return pa.array(out, pa.large_string())
