"""Which language a text is in: fastText on the characters that matter, codes of ISO 639-3.

Belongs here: the models (lid.176; GlotLID and OpenLID by path), the table of languages with their codes, scripts and
sizes, and the guess. Does not belong here: what becomes of a text (``gates.py``).
"""

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gristmill.errors import ModelError
from gristmill.models import resolve
from gristmill.params import LanguageParams, ModelRef

UNDETERMINED = "und"
DOUBT, FURTHER = 0.65, 16
_ADDRESS = re.compile(r"(?:https?://|www\.)\S+|\S+@\S+\.\S+")
_LETTERS = re.compile(r"[^\W\d_]{2}")


@dataclass(frozen=True)
class Language:
    """A language as this release knows it.

    Attributes:
        iso: ISO 639-3.
        scripts: ISO 15924 codes of the scripts it is written in.
        large: one of the languages for which the plain threshold is enough; the others are what a model
            says when it does not know, so they must be claimed loudly and in a right script.
    """

    iso: str
    scripts: tuple[str, ...]
    large: bool


@dataclass(frozen=True)
class Guess:
    """The two likeliest languages and their probabilities, clipped to 1."""

    lang: str
    conf: float
    second: str | None
    second_conf: float | None


@cache
def languages() -> dict[str, Language]:
    """lid.176's label -> language. The table is ``languages.json``."""
    raw = json.loads((Path(__file__).parent / "languages.json").read_text("utf-8"))
    return {k: Language(v["iso"], tuple(v["scripts"]), v["large"]) for k, v in raw.items()}


@cache
def by_iso() -> dict[str, Language]:
    """ISO 639-3 -> language."""
    return {v.iso: v for v in languages().values()}


def threshold(iso: str, params: LanguageParams) -> float:
    """The probability under which nothing is claimed for a language."""
    known = by_iso().get(iso)
    return params.threshold if known is not None and known.large else params.small_threshold


def salient(text: str, limit: int) -> str:
    """The first ``limit`` characters that say something of the language, on one line.

    Lines without two letters in a row, web and mail addresses say nothing; a text of nothing else is taken as it is.
    """
    out: list[str] = []
    size = 0
    for line in text.split("\n"):
        if not line or _LETTERS.search(line) is None:
            continue
        if "://" in line or "www." in line or "@" in line:
            line = _ADDRESS.sub(" ", line)
        kept = " ".join(line[: 2 * limit].split())
        if kept.isupper():
            kept = kept.capitalize()  # the models learnt from running text; a title in capitals misleads them
        if not kept:
            continue
        out.append(kept)
        size += len(kept) + 1
        if size >= limit:
            break
    return (" ".join(out) or " ".join(text[: 2 * limit].split()))[:limit]


class Identifier:
    """A fastText model, its labels read as ISO 639-3. Single-threaded, so the same text gives the same numbers."""

    def __init__(self, path: Path) -> None:
        import fasttext

        try:
            self._model: Any = fasttext.load_model(str(path))
        except ValueError as error:
            raise ModelError(f"{path} is no fastText model: {error}") from error

    def guess(self, text: str, limit: int = 1000) -> Guess:
        """The two likeliest languages of a text's first characters that matter.

        A text that these leave in doubt is read further, ``FURTHER`` times as far.
        """
        guess = self._line(salient(text, limit))
        if guess.conf < DOUBT and len(text) > limit:
            return self._line(salient(text, FURTHER * limit))
        return guess

    def _line(self, line: str) -> Guess:
        if not line:
            return Guess(UNDETERMINED, 0.0, None, None)
        found = self._model.f.predict(line, 2, 0.0, "strict")
        if not found:
            return Guess(UNDETERMINED, 0.0, None, None)
        guesses = [(_iso(label), min(float(conf), 1.0)) for conf, label in found]
        second = guesses[1] if len(guesses) > 1 else (None, None)
        return Guess(guesses[0][0], guesses[0][1], second[0], second[1])


def _iso(label: str) -> str:
    """``__label__en``, ``__label__eng_Latn`` or ``__label__zho_Hans`` -> ISO 639-3."""
    name = label.removeprefix("__label__")
    known = languages().get(name)
    return known.iso if known is not None else name.split("_")[0]


def open_model(ref: ModelRef, cache_dir: str) -> Identifier:
    """The model of the parameters; loaded once a process."""
    return _load(str(resolve(ref, cache_dir)))


@cache
def _load(path: str) -> Identifier:
    return Identifier(Path(path))
