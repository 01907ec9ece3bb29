"""English text for the demo crawl: documentation strings that are on every machine with this Python.

Belongs here: reading docstrings out of source files (parsed, never imported), cutting them into blocks, dropping what
repeats, and handing blocks out once each. Does not belong here: how a page looks (``templates.py``) or what is planted
in it (``plants.py``). The order is that of sorted file names, so two runs on one machine see the same texts; another
Python version has other docstrings, and so other pages, of the same structure.
"""

import ast
import importlib.util
import inspect
import os
import re
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gristmill.errors import GristmillError

PACKAGES = ("numpy", "scipy", "sklearn", "pyarrow")  # dependencies of the pipeline itself: always there
SKIP_FOLDERS = frozenset(
    {"test", "tests", "site-packages", "dist-packages", "idlelib", "lib2to3", "__pycache__", "testing"}
)
MIN_PROSE_WORDS = 12
RUN = 10  # words in a row that no two blocks share
DIRECTIVE = re.compile(r"^\s*(\.\.|\|)\s")
ROLE = re.compile(r":[a-z:+-]+:`~?([^`<]+?)(?:\s*<[^`>]*>)?`")
LINKED = re.compile(r"`([^`<]+?)\s*<[^`>]*>`__?")
TICKS = re.compile(r"`+([^`]+)`+_?")
BULLET = re.compile(r"^\s*([-*+•]|\(?\d+[.)])\s+")
WORD = re.compile(r"[^\W_]+")
LETTER = re.compile(r"[^\W\d_]| ")
PERSONAL = re.compile(r"[\w.+-]+@[\w-]+\.\w|https?://|ftp://")  # authors' addresses stay out of the demo
RULED = re.compile(r"^\s*([-=~^*#\"'`])\1{2,}\s*$")


@dataclass(frozen=True)
class Block:
    """A piece of a page's main text: a paragraph, a heading, a list item, or preformatted lines."""

    kind: Literal["p", "h2", "li", "pre"]
    text: str

    @property
    def words(self) -> int:
        """White-space separated."""
        return len(self.text.split())


@dataclass(frozen=True)
class Unit:
    """One docstring: what it documents, and its blocks."""

    name: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Article:
    """The main text of a page."""

    title: str
    blocks: tuple[Block, ...]

    @property
    def text(self) -> str:
        """What an extractor should return: the title and the blocks, one a line (preformatted ones keep theirs)."""
        return "\n".join([self.title, *(b.text for b in self.blocks)])


def docstrings(root: Path, package: str) -> Iterator[tuple[str, str]]:
    """(qualified name, docstring) of every module, class and function under a folder, in the order of file names."""
    for file in _sources(root):
        try:
            tree = ast.parse(file.read_text("utf-8"))
        except (OSError, SyntaxError, UnicodeDecodeError):
            continue  # the standard library carries a few files that are broken on purpose, for its own tests
        parts = [p for p in file.relative_to(root).with_suffix("").parts if p != "__init__"]
        module = ".".join([package, *parts] if package else parts) or package
        yield from _walk(tree, module)


def _sources(root: Path) -> Iterator[Path]:
    for folder, folders_below, files in os.walk(root):
        folders_below[:] = sorted(set(folders_below) - SKIP_FOLDERS)
        yield from (Path(folder, f) for f in sorted(files) if f.endswith(".py"))


def _walk(node: ast.AST, name: str) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        text = ast.get_docstring(node)
        if text:
            yield name, text
        for child in node.body:
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield from _walk(child, f"{name}.{child.name}")


def blocks_of(docstring: str) -> list[Block]:
    """Cut a docstring into blocks, its reStructuredText marks taken off."""
    out: list[Block] = []
    for chunk in re.split(r"\n[ \t]*\n", inspect.cleandoc(docstring)):
        lines = chunk.split("\n")
        if len(lines) > 1 and RULED.match(lines[1]):
            out.append(Block("h2", plain(lines[0])))
            lines = lines[2:]
        lines = [line for line in lines if line.strip() and not RULED.match(line)]
        if not lines or DIRECTIVE.match(lines[0]):
            continue
        if any(line.lstrip().startswith(">>>") for line in lines) or all(line.startswith("   ") for line in lines):
            out.append(Block("pre", "\n".join(line.rstrip().expandtabs() for line in lines)))
        elif BULLET.match(lines[0]):
            out.extend(Block("li", plain(item)) for item in _items(lines))
        else:
            out.append(Block("p", plain(" ".join(lines))))
    return [b for b in out if b.text.strip() and not PERSONAL.search(b.text)]


def _items(lines: list[str]) -> list[str]:
    items: list[str] = []
    for line in lines:
        if BULLET.match(line) or not items:
            items.append(BULLET.sub("", line))
        else:
            items[-1] += " " + line
    return items


def plain(text: str) -> str:
    """Take off roles, links and backticks, and join white space."""
    text = TICKS.sub(r"\1", LINKED.sub(r"\1", ROLE.sub(r"\1", text))).replace("\\", "")
    if not text.isprintable():
        text = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(text.split())


def is_prose(text: str) -> bool:
    """Reads as a sentence: a dozen words or more, nearly all letters, ends like one."""
    words = text.split()
    return (
        len(words) >= MIN_PROSE_WORDS
        and text[0].isupper()
        and text.rstrip().endswith((".", ":", "!", "?"))
        and len(LETTER.findall(text)) >= 0.92 * len(text)
        and sum(w[:1].isalpha() and "_" not in w and "." not in w[:-1] for w in words) >= 0.9 * len(words)
    )


def folders() -> list[tuple[str, Path]]:
    """Where the texts come from: the standard library, then the pinned packages that are installed.

    Raises:
        GristmillError: when this Python has no source of its standard library beside it.
    """
    library = Path(sysconfig.get_paths()["stdlib"])
    if not (library / "argparse.py").is_file():
        raise GristmillError(f"{library} holds no sources of the standard library: make the demo with another Python")
    out = [("", library)]
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.origin is not None:
            out.append((package, Path(spec.origin).parent))
    return out


def topics() -> Iterator[tuple[str, str]]:
    """The language reference as it ships with the interpreter (what ``help('topics')`` shows)."""
    # A data module without side effects, and the only one that is imported.
    from pydoc_data.topics import topics as pages

    for name in sorted(pages):
        yield f"reference.{name}", pages[name]


class Supply:
    """Hands out text, each block once, in a fixed order; reads only as many files as it needs.

    Whole ``units`` are for pages that look like documentation, single prose paragraphs for articles and for whatever
    must be long and even. The next docstring goes to whoever asks, never to both.
    """

    def __init__(self) -> None:
        self._source = self._units()
        self._seen: set[str] = set()
        self._runs: set[str] = set()
        self._whole: list[Unit] = []
        self._prose: list[Block] = []

    def _units(self) -> Iterator[Unit]:
        queues = [docstrings(root, package) for package, root in folders()]
        queues.insert(1, topics())
        while queues:
            # One of each in turn, so that a small crawl has texts of all of them too.
            for queue in list(queues):
                found = next(queue, None)
                if found is None:
                    queues.remove(queue)
                    continue
                unit = self._fresh(*found)
                if unit is not None:
                    yield unit

    def _fresh(self, name: str, docstring: str) -> Unit | None:
        blocks = []
        for block in blocks_of(docstring):
            key = " ".join(block.text.casefold().split())
            if block.kind in ("p", "pre") and (key in self._seen or self._repeats(key)):
                continue
            self._seen.add(key)
            blocks.append(block)
        if sum(is_prose(b.text) for b in blocks if b.kind == "p") == 0:
            return None
        return Unit(name, tuple(blocks))

    def _repeats(self, text: str) -> bool:
        """Does a text share a run of ``RUN`` words with an earlier one. Docstrings of sister functions do."""
        words = WORD.findall(text)
        runs = {" ".join(words[i : i + RUN]) for i in range(len(words) - RUN + 1)}
        if runs & self._runs:
            return True
        self._runs |= runs
        return False

    def _next(self) -> Unit:
        unit = next(self._source, None)
        if unit is None:
            raise GristmillError(
                "this Python and its packages hold too little documentation for a demo crawl of that size: ask for "
                "fewer pages"
            )
        return unit

    def unit(self) -> Unit:
        """The next whole docstring.

        Raises:
            GristmillError: when there is no more text.
        """
        return self._whole.pop(0) if self._whole else self._next()

    def paragraph(self, at_least: int = MIN_PROSE_WORDS, at_most: int = 200) -> str:
        """The next prose paragraph of a length in words."""
        while True:
            for i, block in enumerate(self._prose):
                if at_least <= block.words <= at_most:
                    del self._prose[i]
                    return block.text
            self._prose.extend(b for b in self._next().blocks if b.kind == "p" and is_prose(b.text))

    def paragraphs(self, words: int) -> tuple[Block, ...]:
        """Prose paragraphs of at least so many words in all."""
        out: list[Block] = []
        while sum(b.words for b in out) < words:
            out.append(Block("p", self.paragraph(at_most=120)))
        return tuple(out)

    def article(self, words: int) -> Article:
        """Prose under a title of its own first words."""
        blocks = self.paragraphs(words)
        return Article(title_of(blocks[0].text), blocks)

    def documentation(self, words: int) -> Article:
        """Whole docstrings, one section each, of at least so many words in all."""
        units: list[Unit] = []
        while sum(b.words for u in units for b in u.blocks) < words:
            unit = self.unit()
            cut = _cut(unit.blocks, words)
            if cut < len(unit.blocks):  # a long one goes on over the next pages
                self._whole.insert(0, Unit(unit.name, unit.blocks[cut:]))
            units.append(Unit(unit.name, unit.blocks[:cut]))
        blocks: list[Block] = []
        for unit in units:
            blocks.append(Block("h2", unit.name.rsplit(".", 2)[-1].replace("_", " ").strip() + f" ({unit.name})"))
            blocks.extend(unit.blocks)
        return Article(f"{units[0].name} explained", tuple(blocks))


def _cut(blocks: Sequence[Block], words: int) -> int:
    """How many of the first blocks reach so many words, at least one."""
    total = 0
    for i, block in enumerate(blocks):
        total += block.words
        if total >= words:
            return i + 1
    return len(blocks)


def title_of(text: str, words: int = 7) -> str:
    """A headline out of a paragraph's first words."""
    head = " ".join(re.findall(r"[^\W_]+", text)[:words])
    return head[:1].upper() + head[1:]
