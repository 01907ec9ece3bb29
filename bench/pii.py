"""Personal data: recall and precision by kind on gold spans, and speed beside datatrove's formatter.

``python -m bench.pii``. Gold is ``presidio_synth.jsonl`` of ``../shared``, where it is. Rates are megabytes per second
of CPU time of one thread.
"""

import argparse
import json
import tempfile
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench.deduplication import best
from bench.heuristics import pages
from bench.peer import PeerUnavailable, run_peer
from bench.report import Report
from bench.texts import documents
from gristmill.errors import ModelError
from gristmill.params import NerParams
from gristmill.safety import ner, pii
from gristmill.text_units import text_buffers

GOLD = Path(__file__).resolve().parent.parent.parent / "shared" / "data" / "09_pii_toxicity" / "presidio_synth.jsonl"
KINDS = {"PHONE_NUMBER": "phone", "CREDIT_CARD": "card", "EMAIL_ADDRESS": "email", "US_SSN": "us_ssn",
         "IBAN_CODE": "iban", "IP_ADDRESS": "ip"}


def quality(report: Report) -> None:
    if not GOLD.exists():
        report.add("recall and precision", None, note="../shared/data is not on this machine")
        return
    rows = [json.loads(line) for line in GOLD.open(encoding="utf-8")]
    found = pii.scan(*text_buffers(pa.array([r["text"] for r in rows], pa.large_string())))
    hit, gold, ours, right = Counter(), Counter(), Counter(), Counter()
    for row, spans in zip(rows, found, strict=True):
        text = row["text"]
        truth = [(len(text[: s["start"]].encode()), len(text[: s["end"]].encode()), KINDS[s["type"]])
                 for s in row["spans"] if s["type"] in KINDS]
        for start, end, kind in truth:
            gold[kind] += 1
            hit[kind] += any(s.kind == kind and s.start <= start and s.end >= end for s in spans)
        for s in spans:
            ours[s.kind] += 1
            right[s.kind] += any(s.kind == kind and s.start < end and start < s.end for start, end, kind in truth)
    for kind in sorted(gold):
        recall, precision = hit[kind] / gold[kind], right[kind] / max(ours[kind], 1)
        report.add(f"recall: {kind}", recall, None, recall, ">= 0.95", recall >= 0.95, f"{gold[kind]} spans")
        report.add(f"precision: {kind}", precision, None, precision, ">= 0.95", precision >= 0.95)


def named(report: Report) -> None:
    """Names and addresses by the packaged model: reported, no bar. Recall: touched by a span of the kind."""
    what = "recall: address"
    try:
        if not GOLD.exists():
            raise ModelError("../shared/data is not on this machine")
        rows = [json.loads(line) for line in GOLD.open(encoding="utf-8")]
        began = time.process_time()
        with tempfile.TemporaryDirectory() as cache:
            found, stats = ner.scan([r["text"] for r in rows], NerParams(), cache_dir=cache)
        spent = time.process_time() - began
    except ModelError as reason:
        report.add(what, None, note=str(reason)[:200])
        return
    for kind, gold, near in (("address", "STREET_ADDRESS", ("STREET_ADDRESS", "GPE", "ZIP_CODE")),
                             ("name", "PERSON", ("PERSON",))):
        wanted, hit, inside, ours, right = 0, 0, 0, 0, 0
        for row, spans in zip(rows, found, strict=True):
            text = row["text"]
            truth = [(len(text[: s["start"]].encode()), len(text[: s["end"]].encode()), s["type"])
                     for s in row["spans"] if s["type"] in near]
            mine = [s for s in spans if s.kind == kind]
            for start, end in ((a, b) for a, b, t in truth if t == gold):
                wanted += 1
                hit += any(s.start < end and start < s.end for s in mine)
                inside += any(s.start <= start and s.end >= end for s in mine)
            ours += len(mine)
            right += sum(any(s.start < end and start < s.end for start, end, _ in truth) for s in mine)
        report.add(f"recall: {kind}", hit / wanted, None, hit / wanted,
                   note=f"{wanted} spans; whole {inside / wanted:.3f}")
        report.add(f"precision: {kind}", right / max(ours, 1), None, right / max(ours, 1),
                   note=f"{ours} spans; the rules that join an address's parts were chosen with this set in view")
    report.add("names and addresses, kB/s", sum(len(r["text"].encode()) for r in rows) / spent / 1e3,
               note=f"CPU time, one core; {stats.padding_waste:.1%} of the tokens run were padding")


def speed(report: Report, small: bool) -> None:
    real = pages(600)
    texts = pa.array(real * (1 if small else 6), pa.large_string()) if real else documents(400 if small else 4000)
    buf, offsets = text_buffers(texts)
    spent = best(lambda: pii.scan(buf, offsets), 3)
    rate = float(offsets[-1] - offsets[0]) / spent / 1e6
    report.add("all kinds, MB/s", rate, None, rate, ">= 100 MB/s a core", rate >= 100,
               "real pages" if real else "documentation")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "texts.parquet"
        pq.write_table(pa.table({"text": texts}), path)
        try:
            theirs = run_peer("datatrove", "datatrove_filters.py", ["pii", str(path), "400"])["mb_per_s"]
            report.add("MB/s: datatrove's formatter (e-mail and IP only)", rate, theirs, rate / theirs)
        except PeerUnavailable as reason:
            report.add("MB/s: datatrove's formatter (e-mail and IP only)", rate, note=str(reason)[:200])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true")
    small = parser.parse_args().small
    report = Report("pii")
    quality(report)
    named(report)
    speed(report, small)
    report.write()


if __name__ == "__main__":
    main()
