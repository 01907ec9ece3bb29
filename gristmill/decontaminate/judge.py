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
from gristmill.quality.annotate import ask

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
          key: str | None = None) -> list[Verdict]:
    """Ask about every match that waits for review, once; answers are added to a file as they come.

    Args:
        matches: rows with doc_id, benchmark, item, span, method, text (the span's), before, matched, after.
        endpoint, model: OpenAI-compatible.
        out: JSON lines.
        key: bearer token.

    Raises:
        AnnotationError: the endpoint cannot be reached.
    """
    done = {(v.doc_id, v.benchmark, v.item, v.span, v.judge): v for v in read(out)} if out.exists() else {}
    verdicts = []
    with out.open("a", encoding="utf-8") as file:
        for m in matches:
            if m["method"] not in PENDING:
                continue
            name = m["doc_id"].hex() if isinstance(m["doc_id"], bytes) else str(m["doc_id"])
            found = done.get((name, m["benchmark"], m["item"], m["span"], model))
            if found is None:
                prompt = question(m["text"], f"{m['before']}{m['matched']}{m['after']}")
                answer = ask(endpoint, model, prompt, key=key)
                found = Verdict(name, m["benchmark"], m["item"], m["span"], model, parse(answer), prompt, answer)
                file.write(json.dumps(asdict(found)) + "\n")
                file.flush()
            verdicts.append(found)
    return verdicts


def read(path: Path) -> list[Verdict]:
    """Verdicts of a file; a last line that a kill cut short is left out."""
    return [Verdict(**json.loads(line)) for line in path.read_text("utf-8").split("\n")[:-1] if line]
