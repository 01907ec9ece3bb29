"""Extraction engines: one file each, chosen by name in ``params.extract.engine``.

Belongs here: what an engine is given and gives back, and finding it. An engine is a module of this package with
``VERSION: str`` and ``extract(page: Page) -> Extracted``; a new engine is a new file. Does not belong here: what all
engines need done before (``document.py``: decoding, hidden text, maths).
"""

import importlib
import re
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType

from gristmill.errors import ParameterError


@dataclass(frozen=True)
class Page:
    """A page ready for an engine.

    Attributes:
        source: text or UTF-8, hidden text and active content removed, maths as LaTeX; engines take ``html`` or ``raw``.
        url: where it was fetched.
        title: of the document, or None.
        traits: what the page says it is (``traits.py``).
    """

    source: str | bytes
    url: str
    title: str | None = None
    traits: int = 0

    @cached_property
    def html(self) -> str:
        """The page as text."""
        return self.source if isinstance(self.source, str) else self.source.decode("utf-8", "replace")

    @cached_property
    def raw(self) -> bytes:
        """The page in UTF-8."""
        return self.source if isinstance(self.source, bytes) else self.source.encode("utf-8", "replace")


@dataclass(frozen=True)
class Extracted:
    """Main text of a page: paragraphs and other blocks on lines of their own.

    Attributes:
        text: empty where the engine found none.
        engine: what made it: the engine's own name, or that of the pass whose result was taken.
    """

    text: str
    engine: str


def load(name: str) -> ModuleType:
    """The engine's module.

    Raises:
        ParameterError: no engine has that name.
    """
    if re.fullmatch(r"[a-z][a-z0-9_]*", name):
        try:
            return importlib.import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{name}":
                raise
    raise ParameterError(f"extract.engine: there is no engine {name!r} in gristmill/extract/engines")
