"""Toxicity by HateCheck's functionalities: what the detectors at hand can do, and what they cannot.

``python -m bench.toxicity``. HateCheck (Roettger et al. 2021) lies in ``../shared`` where it is. There is no packaged
default: what is measured is (1) the LDNOOBW word list, (2) a linear head on the sentence encoder, trained on half of
HateCheck's templates and judged on the other half, named ``hatecheck_head`` for what it has seen, and (3) beside them
the peer alt-profanity-check where it is installed. HateCheck is short made-up sentences; a head trained on them is a
demonstration, and its figures are an upper bound of what a real page would give. The split keeps a template's targets
together, not its misspelt forms: figures of ``spell_*`` are of sentences that were partly seen in another spelling.
"""

import argparse
import gzip
import json
import re
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.report import Report
from gristmill.fingerprint import digest
from gristmill.quality import encoder
from gristmill.safety.phrases import compile_phrases
from gristmill.text_units import text_buffers

DATA = Path(__file__).resolve().parent.parent.parent / "shared" / "data" / "09_pii_toxicity"


def template(row: dict[str, str]) -> str:
    """A case without its target: cases of one template must not stand on both sides."""
    text = row["text"].lower()
    for word in sorted(row["target"].lower().split(), key=len, reverse=True) if row["target"] else ():
        text = text.replace(word, "#")
    return re.sub(r"\b(women|woman|trans|gay|gays|black|disabled|muslim|muslims|immigrant|immigrants|people|person)\b",
                  "#", text)


def verdicts(rows: list[dict[str, str]], test: np.ndarray) -> dict[str, np.ndarray]:
    """Detector -> which cases it flags (bool)."""
    texts = [r["text"] for r in rows]
    out: dict[str, np.ndarray] = {}
    words = DATA / "ldnoobw" / "en"
    words = words if words.exists() else next(iter(sorted((DATA / "ldnoobw").glob("en*"))), words)
    if words.exists():
        hits, _ = compile_phrases(words.read_text("utf-8").splitlines()).count(
            *text_buffers(pa.array(texts, pa.large_string())))
        out["LDNOOBW word list"] = hits > 0
    target = np.array([r["label"] == "hateful" for r in rows], float)
    train = ~test
    heads = encoder.train({"hate": ([texts[i] for i in np.flatnonzero(train)], target[train].tolist())}, "models")
    found, _, _ = encoder.vectors(texts, encoder.ENCODER, "models")
    out["hatecheck_head (half of the templates seen)"] = heads.heads["hate"].apply(found) >= 0.5
    try:
        from profanity_check import predict_prob
    except ImportError:
        return out
    out["peer: alt-profanity-check"] = np.asarray(predict_prob(texts)) >= 0.5
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="a quarter of the cases")
    small = parser.parse_args().small
    report = Report("toxicity")
    if not (DATA / "hatecheck.jsonl.gz").exists():
        report.add("HateCheck", None, note="../shared/data is not on this machine")
        report.write()
        return
    with gzip.open(DATA / "hatecheck.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    rows = rows[::4] if small else rows
    test = np.array([int(digest(template(r))[:8], 16) % 2 == 0 for r in rows])
    hateful = np.array([r["label"] == "hateful" for r in rows])
    groups: dict[str, list[int]] = defaultdict(list)
    for i, row in enumerate(rows):
        if test[i]:
            groups[row["functionality"]].append(i)
    for name, flagged in verdicts(rows, test).items():
        right = flagged == hateful
        report.add(f"{name}: accuracy on templates not seen", right[test].mean(), None, None,
                   note=f"{int(test.sum())} cases; all flagged would be {hateful[test].mean():.2f}")
        report.add(f"{name}: hateful found", flagged[test & hateful].mean())
        report.add(f"{name}: not hateful, left alone", (~flagged)[test & ~hateful].mean())
        for kind, at in sorted(groups.items()):
            report.add(f"{name}: {kind}", right[at].mean(), note=f"{len(at)} cases, "
                       f"{'hateful' if hateful[at[0]] else 'not hateful'}: below 0.5 it cannot do this"
                       if right[at].mean() < 0.5 else f"{len(at)} cases")
    report.write()


if __name__ == "__main__":
    main()
