"""Heuristics: all measures in one pass beside datatrove's four filters, and verdicts beside its verdicts.

``python -m bench.heuristics`` (``--small`` for fewer documents). Rates are documents per second of CPU time of one
thread. Verdicts are compared on real pages under our words, where ``../shared`` is.
"""

import argparse
import gzip
import json
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench.deduplication import best
from bench.peer import PeerUnavailable, run_peer
from bench.report import Report
from bench.texts import documents
from gristmill.quality import heuristics, plain, rules
from gristmill.text_units import words
from tests.quality.test_bad_input import HOSTILE
from tests.quality.test_rules import DEFINITIONS

PAGES = Path(__file__).resolve().parent.parent.parent / "shared" / "data" / "02_extraction"
MARKS = "".join(ch for ch in map(chr, range(0x3000)) if plain._flag(ch, 16)) + "。！？．｡"


def pages(count: int) -> list[str]:
    """Main texts of real pages; none where the data is not there."""
    out: list[str] = []
    for name in ("wcxb", "zyte", "daniel"):
        path = PAGES / f"{name}_pub.gold.jsonl.gz"
        if path.exists():
            with gzip.open(path, "rt", encoding="utf-8") as file:
                out += [text for line in file if (text := json.loads(line)["text"])]
    return out[:count]


def speed(report: Report, folder: Path, small: bool) -> None:
    texts = documents(400 if small else 4000)
    path = folder / "texts.parquet"
    pq.write_table(pa.table({"text": texts}), path)
    langs = ["eng"] * len(texts)

    def ours() -> None:
        table = heuristics.measure(texts, langs)
        for chosen in rules.RULE_SETS.values():
            rules.passes(table, chosen)

    spent = best(ours, 3)
    rate = len(texts) / spent
    report.add("all measures and rule sets, docs/s", rate, note=f"{texts.nbytes / spent / 1e6:.0f} MB/s, one thread")
    for words_, count, bar in (("default", 60, 50), ("plain", 300, None)):
        what = f"all measures, docs/s: datatrove's four filters, {words_} words"
        try:
            theirs = run_peer("datatrove", "datatrove_filters.py", [f"filters-{words_}", str(path), str(count)])
        except PeerUnavailable as reason:
            report.add(what, rate, bar=f">= {bar} x" if bar else "", note=str(reason)[:200])
            continue
        ratio = rate / theirs["docs_per_s"]
        report.add(what, rate, theirs["docs_per_s"], ratio, f">= {bar} x" if bar else "", ratio >= bar if bar else None)


def verdicts(report: Report, folder: Path) -> None:
    texts = pages(500)
    if not texts:
        report.add("verdicts on real pages", None, note="../shared/data is not on this machine")
        return
    table = heuristics.measure(pa.array(texts, pa.large_string()), ["eng"] * len(texts))
    for name, definition in DEFINITIONS.items():
        ours, plainly = rules.passes(table, rules.RULE_SETS[name]).tolist(), [definition(t) for t in texts]
        same = sum(a == b for a, b in zip(ours, plainly, strict=True)) / len(texts)
        report.add(f"verdicts of {name} equal to its published definition on {len(texts)} pages", sum(ours),
                   sum(plainly), same, "all", same == 1, "pages that pass; theirs: the definition read off the page, "
                   "same words")
    path = folder / "pages.parquet"
    pq.write_table(pa.table({"text": texts, "words": ["\n".join(words(t)) for t in texts]}), path)
    try:
        theirs = run_peer("datatrove", "datatrove_filters.py", ["verdicts", str(path), str(len(texts)), MARKS])
    except PeerUnavailable as reason:
        report.add("verdicts on real pages beside datatrove's", None, note=str(reason)[:200])
        return
    for name in ("gopher_repetition", "gopher_quality", "fineweb"):
        ours = rules.passes(table, rules.RULE_SETS[name]).tolist()
        same = sum(a == b for a, b in zip(ours, theirs[name], strict=True))
        report.add(f"verdicts of {name} equal on {len(texts)} pages, same words", sum(ours), sum(theirs[name]),
                   same / len(texts), note="pages that pass; datatrove counts blank lines as lines and duplicates "
                   "(datatrove#273): tests hold ours to the published definitions exactly")


def hostile(report: Report) -> None:
    """Empty and giant lines, repeated characters, right-to-left, unassigned: CPU of a text four times as long."""
    worst, at = 0.0, ""
    for name, text in HOSTILE.items():
        spent = []
        for times in (1, 4):
            column = pa.array([text * times], pa.large_string())
            spent.append(best(lambda column=column: heuristics.measure(column, ["eng"]), 3))
        if spent[1] > 0.001 and spent[1] / spent[0] > worst:
            worst, at = spent[1] / spent[0], name
    report.add(f"bad input, {len(HOSTILE)} kinds: most that four times the text costs", worst, None, worst,
               "linear is 4, quadratic 16: < 8", worst < 8, at)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true")
    small = parser.parse_args().small
    report = Report("heuristics")
    with tempfile.TemporaryDirectory() as folder:
        speed(report, Path(folder), small)
        verdicts(report, Path(folder))
    hostile(report)
    report.write()


if __name__ == "__main__":
    main()
