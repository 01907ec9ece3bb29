"""Decontamination: speed beside datatrove's n-gram filter, recall of leaked items by form beside it, false flags.

``python -m bench.decontamination`` (``--small`` for fewer). Items are the public benchmarks of ``../shared`` where they
are; else made ones. Rates are megabytes per second of CPU time of one thread.
"""

import argparse
import random
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench import paraphrases
from bench.deduplication import best
from bench.peer import PeerUnavailable, run_peer
from bench.report import Report
from bench.texts import documents, paragraphs
from gristmill.decontaminate.index import build
from gristmill.decontaminate.ngrams import probe
from gristmill.params import DecontaminateParams
from gristmill.text_units import words
from tests.decontaminate.items import FORMS, IDENTITIES, Item, clean_documents, embedded, prose, public_items

TEMPLATE = "Read the passage below with care and then choose the one answer that follows from what it says."
SHARED = Path(__file__).resolve().parent.parent.parent / "shared" / "data"


def items() -> list[Item]:
    if (SHARED / "06_benchmarks").is_dir():
        return list(public_items(SHARED))
    return [("made", str(i), {"question": prose(i, 1 + i % 4)}) for i in range(5000)]


def paraphrased(text: str, every: int) -> str:
    """Here and there another word: what n-grams cannot see and containment may."""
    rng = random.Random(len(text))
    tokens = text.split()
    for i in range(rng.randrange(every), len(tokens), every):
        tokens[i] = rng.choice(("something", "another", "various", "certain", "quickly"))
    return " ".join(tokens)


def renumbered(text: str) -> str:
    rng = random.Random(len(text))
    return "".join(str(rng.randrange(10)) if c.isdigit() else c for c in text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true")
    small = parser.parse_args().small
    report = Report("decontamination")
    every = items()
    index = build(every, DecontaminateParams())
    texts = documents(400 if small else 4000)
    spent = best(lambda: probe(index, texts), 3)
    rate = texts.nbytes / spent / 1e6
    report.add("n-gram, short-span and containment pass, MB/s", rate, bar=">= 100 MB/s a core", ratio=rate,
               holds=rate >= 100, note=f"{index.size} spans; CPU time, other work on the machine lowers it")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pq.write_table(pa.table({"text": texts}), folder / "texts.parquet")
        pq.write_table(pa.table({"text": index.text}), folder / "items.parquet")
        for kind, count in (("default", 60), ("plain", 300)):
            what = f"pass, MB/s: datatrove's 12-grams, {kind} words"
            try:
                theirs = run_peer("datatrove", "datatrove_filters.py", [
                    f"decontaminate-{kind}", str(folder / "texts.parquet"), str(count), str(folder / "items.parquet")])
            except PeerUnavailable as reason:
                report.add(what, rate, bar=">= 50 x", note=str(reason)[:200])
                continue
            ratio = rate / theirs["mb_per_s"]
            report.add(what, rate, theirs["mb_per_s"], ratio, ">= 50 x" if kind == "default" else "",
                       ratio >= 50 if kind == "default" else None)
        recall(report, index, folder, 60 if small else 300)
    paraphrases.recall(report, index, 5 if small else 25)
    few = small or not SHARED.is_dir()
    clean = pa.array(sorted(set(paragraphs())) if few else clean_documents(SHARED), pa.large_string())
    flagged = len({m.doc for m in probe(index, clean)})
    report.add(f"false flags in {len(clean):,} clean documents", flagged, None, flagged / len(clean),
               "<= 1 in 10,000 of 30,000", flagged <= len(clean) / 10_000 and (few or len(clean) >= 30_000),
               "real pages, manual pages, documentation strings and source files")
    templates = build([("made", str(i), {"q": f"{TEMPLATE} {prose(10 + i, 2)}"}) for i in range(8)]
                      + [("made", f"i{i}", {"q": f"Show that {text}"}) for i, text in enumerate(IDENTITIES)],
                      DecontaminateParams())
    pages = [f"A table of formulae. {text} More follows." for text in IDENTITIES] + [embedded(TEMPLATE)]
    flagged = len({m.doc for m in probe(templates, pa.array(pages, pa.large_string()))})
    report.add(f"flagged of {len(pages)} pages of identities and templates", flagged, None, flagged / len(pages),
               "none", flagged == 0)
    report.write()


def recall(report: Report, index, folder: Path, count: int) -> None:
    """Of spans with eight words or more that can be checked at all."""
    excused = {row[:3] for row in index.not_checkable}
    long_enough = [s for s in range(index.size) if len(words(index.text[s])) >= 8]
    spans = [s for s in long_enough if (index.benchmark[s], index.item[s], index.span[s]) not in excused]
    report.add("spans of 8 words or more that are templates, or lists of numbers", len(long_enough) - len(spans),
               note=f"of {len(long_enough)}: no evidence, reported as not checkable, and left out below")
    sample = random.Random(1).sample(spans, min(count, len(spans)))
    forms = {**FORMS, "renumbered": renumbered, "every 8th word changed": lambda t: paraphrased(t, 8),
             "every 16th word changed": lambda t: paraphrased(t, 16)}
    leaked = [change(index.text[s]) for change in forms.values() for s in sample]
    pq.write_table(pa.table({"text": leaked}), folder / "leaked.parquet")
    flagged, why = None, ""
    try:  # once for all forms: it builds its index each time
        flagged = run_peer("datatrove", "datatrove_filters.py", [
            "decontaminate-plain", str(folder / "leaked.parquet"), str(len(leaked)), str(folder / "items.parquet"),
            "flags"])["flagged"]
    except PeerUnavailable as reason:
        why = str(reason)[:200]
    for i, (form, change) in enumerate(forms.items()):
        docs = [change(index.text[s]) for s in spans]
        found = {(m.doc, m.span) for m in probe(index, pa.array(docs, pa.large_string()))}
        ours = sum((d, s) in found for d, s in enumerate(spans)) / len(spans)
        exact = form in FORMS
        what = f"recall: {form}"
        if flagged is None:
            report.add(what, ours, None, ours, "100 %" if exact else "", ours == 1 if exact else None, why)
            continue
        theirs = sum(flagged[i * len(sample) : (i + 1) * len(sample)]) / len(sample)
        report.add(what, ours, theirs, ours / theirs if theirs else None, "100 %" if exact else "",
                   ours == 1 if exact else None, f"{len(spans)} spans; theirs on {len(sample)} of them, plain words")


if __name__ == "__main__":
    main()
