"""Toxic and hateful text: scores by category, kept beside the text so that a recipe can tag it and weigh it down.

Belongs here: rates of word lists (one weak signal: lists flag reclaimed words and quotations, and miss hate without
slurs) and a fastText classifier with one label a category. Does not belong here: removal. No list and no classifier is
packaged: both are registered files that the user pins, and without them there is no such column, not a column of zeros.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gristmill.errors import ModelError
from gristmill.quality.fasttext_classifier import line_of
from gristmill.safety.phrases import PhraseList

PREFIX = "__label__"


def word_rates(lists: Sequence[tuple[str, str | None, PhraseList]], buf: np.ndarray, offsets: np.ndarray,
               langs: np.ndarray) -> dict[str, np.ndarray]:
    """Hits a word, by category: float64 (n), NaN for documents in a language that no list of the category covers.

    Args:
        lists: category, language (None: every language), list.
        buf, offsets: the texts.
        langs: str (n).
    """
    out: dict[str, np.ndarray] = {}
    for category, lang, phrases in lists:
        hits, words = phrases.count(buf, offsets)
        rates = np.where((langs == lang) if lang is not None else True, hits / np.maximum(words, 1), np.nan)
        before = out.get(category)
        out[category] = rates if before is None else np.where(np.isnan(before), rates, before + np.nan_to_num(rates))
    return out


class ToxicityClassifier:
    """A fastText model whose labels are categories."""

    def __init__(self, path: Path, first_chars: int = 2000) -> None:
        """Load it.

        Raises:
            ModelError: fastText cannot read it.
        """
        import fasttext

        fasttext.FastText.eprint = lambda *args, **kwargs: None
        try:
            self._model: Any = fasttext.load_model(str(path))
        except (ValueError, MemoryError) as error:
            raise ModelError(f"{path} is no fastText model: {error}") from error
        self.categories: tuple[str, ...] = tuple(sorted(label[len(PREFIX):] for label in self._model.get_labels()))
        self._first_chars = first_chars

    def score(self, texts: Sequence[str]) -> Mapping[str, np.ndarray]:
        """Probability of each category, float64 (n), rounded to 6 digits; NaN for a text without words."""
        lines = [line_of(t, self._first_chars) for t in texts]
        out = {c: np.full(len(texts), np.nan) for c in self.categories}
        rows = [i for i, line in enumerate(lines) if line]
        if rows:
            labels, values = self._model.predict([lines[i] for i in rows], k=len(self.categories))
            for i, names, numbers in zip(rows, labels, values):
                for name, number in zip(names, numbers):
                    out[name[len(PREFIX):]][i] = min(1.0, round(float(number), 6))
        return out
