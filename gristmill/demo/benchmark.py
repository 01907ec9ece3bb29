"""A synthetic benchmark for the demo, and the ways in which its items leak into pages.

Belongs here: questions and answers made of documentation text that stands on no page, word problems with figures of
their own, and the forms of a leak. Does not belong here: how leaks are found (``decontaminate/``).
"""

import random
import re
from dataclasses import dataclass
from html import escape
from typing import Literal

from gristmill.demo.texts import Supply, title_of

Form = Literal["verbatim", "rewrapped", "embedded", "short", "partial"]
DOCS, SUMS = "demo_docs", "demo_sums"


@dataclass(frozen=True)
class Item:
    """One question and its answer."""

    benchmark: str
    id: str
    question: str
    answer: str


PROBLEMS = (  # {a} {b} {c}: figures; the sentences differ from problem to problem, so none is a template of another
    "A water mill grinds {a} sacks of wheat before noon and {b} sacks afterwards; each sack holds {c} kilograms "
    "of grain, "
    "so how many kilograms does the miller grind on a whole day when the wheel never stops?",
    "Marta plants {a} rows of onions with {b} seedlings in every row, but frost kills {c} of the young plants "
    "during the "
    "first cold night of April; how many onions are left for her to harvest in summer?",
    "A ferry carries {a} cars on each crossing and crosses the strait {b} times a day, while {c} further cars "
    "wait at the "
    "pier in the evening; how many cars wanted to cross the strait on that day?",
    "The library owns {a} atlases and buys {b} more each year for {c} years without losing a single one; how "
    "many atlases "
    "stand on its shelves when the last delivery has been unpacked and catalogued?",
    "Three bakers knead {a} loaves, {b} loaves and {c} loaves before the shop opens, and a quarter of an hour "
    "later the "
    "first customer asks how many loaves they have made together since midnight; what is the right reply?",
    "On a mountain railway a train climbs {a} metres in the first hour, {b} metres in the second and then rolls "
    "{c} metres "
    "back because of ice on the track; how far above the valley station does it stand at last?",
    "A beekeeper fills {a} jars from her first hive and {b} jars from her second hive, then breaks {c} jars on "
    "the way to "
    "the market square; how many jars of honey can she still offer to the buyers there?",
    "An old clock loses {a} seconds every hour; after {b} hours its owner sets it right, and after another {c} "
    "hours he "
    "looks at it again; by how many seconds is the clock behind at that moment of the evening?",
    "A stage carpenter saws a plank of {a} centimetres into pieces of {b} centimetres, throws the remainder away "
    "and needs "
    "{c} such planks for the whole floor; how many usable pieces does he carry to the stage?",
    "The choir has {a} sopranos, {b} altos and {c} basses, and every singer brings two friends to the concert in "
    "the town "
    "hall; how many people apart from the singers themselves sit in the audience on that night?",
)


def items(supply: Supply, long: int, short: int) -> list[Item]:
    """``long`` questions of 30 to 60 words, ``short`` ones of 12 to 18, and ten word problems."""
    out = []
    for number in range(long + short):
        wide = number < long
        text = supply.paragraph(30, 60) if wide else supply.paragraph(12, 18)
        out.append(Item(DOCS, f"docs-{number:03d}", text, f"It is the passage that begins {title_of(text, 4)!r}"))
    rng = random.Random("word problems")
    for number, problem in enumerate(PROBLEMS):
        a, b, c = rng.randrange(210, 990), rng.randrange(11, 99), rng.randrange(3, 60)
        out.append(Item(SUMS, f"sums-{number:03d}", problem.format(a=a, b=b, c=c), str(a * b + c)))
    return out


def leaked(item: Item, form: Form, filler: tuple[str, str]) -> tuple[str, str]:
    """The paragraph that carries an item: (its text, its HTML).

    ``verbatim`` and ``short`` are the question as it is; ``rewrapped`` is other line ends, case and punctuation;
    ``embedded`` stands between two sentences of the page; ``partial`` is only its first twelve words, no leak.
    """
    if form in ("verbatim", "short"):
        text = item.question
    elif form == "rewrapped":
        parts = [re.sub(r"[,.;:]", "", w).upper() if i % 3 == 0 else w for i, w in enumerate(item.question.split())]
        lines = [" ".join(parts[i : i + 6]) for i in range(0, len(parts), 6)]
        return "\n".join(lines), "<br>\n".join(escape(line, quote=False) for line in lines)
    elif form == "embedded":
        text = f"{filler[0]} {item.question} {filler[1]}"
    else:
        text = f"{' '.join(item.question.split()[:12])} {filler[0]}"
    return text, escape(text, quote=False)
