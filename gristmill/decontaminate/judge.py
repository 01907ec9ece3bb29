"""A language model as judge of the flagged tail: is the benchmark's item in the document, in other words.

Belongs here: the question, its answer, verdicts on file. Does not belong here: what was flagged (``ngrams.py``,
``semantic.py``). Only matches that wait for review are asked about. A verdict changes no flag: documents stay out of
manifests until a person says otherwise, so a judge that is wrong can only cost review, never leak an item.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gristmill.decontaminate.report import PENDING
from gristmill.quality.endpoint import (
    AnnotationError,
    Asking,
    RefusedError,
    ask,
    in_order,
    read_rows,
    without_a_cut_line,
)

ASKING = Asking(max_tokens=400)
YES, NO, UNDECIDED = "contaminated", "clean", "undecided"
_ANSWER = re.compile(r"verdict\s*[:=]\s*(yes|no)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Verdict:
    """What a judge said about one document and item; the prompt and the answer are kept."""

    doc_id: str
    benchmark: str
    item: str
    span: str
    judge: str
    verdict: str
    prompt: str
    answer: str


def question(item: str, passage: str) -> str:
    """The prompt. What stands between the marks cannot close its own quotation."""
    safe = [t.replace("ITEM>>>", "ITEM> >>").replace("PASSAGE>>>", "PASSAGE> >>") for t in (item, passage)]
    return (
        "A test item and a passage from a document follow. Would someone who has read the passage know this item: is "
        "it the same question or the same answer, word for word or in other words? Items of the same kind about other "
        "things, and texts about the same subject, are not the same item.\n"
        "Give your reason in one sentence. Then end with one line: Verdict: yes, or Verdict: no\n"
        f"<<<ITEM\n{safe[0]}\nITEM>>>\n<<<PASSAGE\n{safe[1]}\nPASSAGE>>>"
    )


def parse(answer: str) -> str:
    """The verdict of the last line that holds one and nothing else; ``undecided`` when there is none."""
    lines = [x.strip(" *.\t") for x in answer.strip().splitlines() if x.strip()]
    found = _ANSWER.fullmatch(lines[-1]) if lines else None
    return UNDECIDED if found is None else YES if found.group(1).lower() == "yes" else NO


def judge(matches: Iterable[Mapping[str, Any]], endpoint: str, model: str, out: Path, *,
          how: Asking = ASKING) -> list[Verdict]:
    """Ask about every match that waits for review, once; answers are added to a file as they come.

    Args:
        matches: rows with doc_id, benchmark, item, span, method, text (the span's), before, matched, after.
        endpoint, model: OpenAI-compatible.
        out: JSON lines.
        how: key, time and tries.

    Returns:
        Verdicts in the order of the matches. A prompt that the endpoint refuses is undecided and is not kept.

    Raises:
        AnnotationError: the endpoint cannot be reached, or refuses every prompt.
    """
    done = {(v.doc_id, v.benchmark, v.item, v.span, v.judge): v for v in read(out)}
    without_a_cut_line(out)

    refused: list[str] = []

    def work(m: Mapping[str, Any]) -> tuple[Verdict, bool]:
        name = _name(m)
        known = done.get((name, m["benchmark"], m["item"], m["span"], model))
        if known is not None:
            return known, False
        prompt = question(m["text"], f"{m['before']}{m['matched']}{m['after']}")
        try:
            answer = ask(endpoint, model, prompt, how)
        except RefusedError as error:
            refused.append(str(error))
            return Verdict(name, m["benchmark"], m["item"], m["span"], model, UNDECIDED, prompt, str(error)), False
        return Verdict(name, m["benchmark"], m["item"], m["span"], model, parse(answer), prompt, answer), True

    verdicts = []
    with out.open("a", encoding="utf-8") as file:
        for found, fresh in in_order(work, (m for m in matches if m["method"] in PENDING), how.at_once):
            if fresh:
                file.write(json.dumps(asdict(found)) + "\n")
                file.flush()
            verdicts.append(found)
    if refused and len(refused) == len(verdicts):
        raise AnnotationError(f"no prompt is taken: {refused[0]}")
    return verdicts


def beside(matches: Iterable[Mapping[str, Any]], verdicts: Iterable[Verdict]) -> list[dict[str, Any]]:
    """The matches, each with its ``verdict`` where there is one."""
    said = {(v.doc_id, v.benchmark, v.item, v.span): v.verdict for v in verdicts}
    return [{**m, "verdict": said.get((_name(m), m["benchmark"], m["item"], m["span"]))} for m in matches]


def _name(match: Mapping[str, Any]) -> str:
    return match["doc_id"].hex() if isinstance(match["doc_id"], bytes) else str(match["doc_id"])


def read(path: Path) -> list[Verdict]:
    """Verdicts of a file; a last line that a kill cut short is left out.

    Raises:
        AnnotationError: a line is no verdict, named by its number.
    """
    return read_rows(path, Verdict, "verdict of `decontaminate --judge`")
