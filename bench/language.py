"""Language identification beside lid.176 alone: python -m bench.language.

Belongs here: accuracy on sentences of 75 languages and on the declarations of UDHR, and what the thresholds do. Does
not belong here: identification itself.
"""

import gzip
import html
import json
import re
import sys
import tempfile
import time
from collections import defaultdict

import pyarrow as pa

from bench import gold
from bench.report import Report
from gristmill.extract import gates, sanitize
from gristmill.extract.engines import Page, blocks
from gristmill.extract.language import Identifier, by_iso, languages, open_model, threshold
from gristmill.models import resolve
from gristmill.params import LanguageParams

# What the sets call otherwise than the model: macrolanguages and their members, renamed and regional codes.
SAME = {
    "cmn": "zho",
    "nb": "nob",
    "arb": "ara",
    "azj": "aze",
    "tgl": "tgl",
    "gsw1": "gsw",
    "ell": "ell",
    "roh": "roh",
    "hat": "hat",
    "oci": "oci",
    "bos": "bos",
    "tha2": "tha",
    "ckb": "ckb",
    "gug": "grn",
    "tuk": "tuk",
    "zh": "zho",
}

FEW = 30  # texts under which a precision says nothing


def _iso(code: str) -> str:
    if code in SAME:
        return SAME[code]
    known = languages().get(code)
    return known.iso if known else code


def sentences() -> list[tuple[str, str]]:
    """(ISO 639-3, sentence) of lingua's test data."""
    with gzip.open(gold.SHARED / "03_langid" / "lingua_sentences.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [(_iso(row["lang"]), row["text"]) for row in map(json.loads, lines)]


def declarations() -> list[tuple[str, str]]:
    """(ISO 639-3, text) of UDHR pages, as our extraction gives it."""
    out = []
    for file in sorted((gold.SHARED / "03_langid" / "udhr_html").glob("*.html")):
        code = _iso(re.split(r"[_\d]", file.stem)[0])
        page = sanitize.clean(file.read_text("utf-8"))
        text = blocks.extract(Page(page.html, "")).text or " ".join(
            html.unescape(re.sub(r"<[^>]+>", " ", page.html)).split()
        )
        if code:
            out.append((code, text))
    return out


def main() -> None:
    if not (gold.SHARED / "03_langid").is_dir():
        sys.exit("the language data (../shared/data/03_langid) is not on this machine")
    params = LanguageParams()
    with tempfile.TemporaryDirectory() as cache:
        ours = open_model(params.model, cache)
        bare = Identifier(resolve(params.model, cache))._model.f
    report = Report("language")
    for name, rows in (("lingua sentences", sentences()), ("UDHR", declarations())):
        rows = [r for r in rows if r[0] in by_iso()]
        started = time.process_time()
        guesses = [ours.guess(t, params.first_chars) for _, t in rows]
        seconds = time.process_time() - started
        alone = []
        started = time.process_time()
        for _, text in rows:
            found = bare.predict(text.replace("\n", " ") + "\n", 1, 0.0, "strict")
            alone.append(_iso(found[0][1].removeprefix("__label__")) if found else "und")
        bare_seconds = time.process_time() - started
        mine = sum(g.lang == lang for (lang, _), g in zip(rows, guesses)) / len(rows)
        theirs = sum(a == lang for (lang, _), a in zip(rows, alone)) / len(rows)
        report.add(
            f"accuracy, {name}, {len(rows)} texts",
            mine,
            theirs,
            mine / theirs,
            ">= 1",
            mine >= theirs,
            "theirs: lid.176 on the whole text; languages that the model knows",
        )
        report.add(f"texts/s a core, {name}", len(rows) / seconds, len(rows) / bare_seconds, bare_seconds / seconds)
        _precision(report, name, rows, guesses, params)
    report.write()


def _precision(report: Report, name: str, rows, guesses, params: LanguageParams) -> None:
    """Of what the gate lets through as a small language, how much is that language; and with the plain threshold."""
    measured = gates.measure(pa.array([t for _, t in rows], pa.large_string()))
    shares = gates.script_shares(measured, [g.lang for g in guesses])
    kept: dict[str, list[bool]] = defaultdict(list)
    for (lang, _), guess, share in zip(rows, guesses, shares.tolist()):
        known = by_iso().get(guess.lang)
        size = "large" if known is not None and known.large else "small"
        if guess.conf >= params.threshold:
            kept[f"{size} plain"].append(guess.lang == lang)
        if guess.conf >= threshold(guess.lang, params) and (size == "large" or share >= params.small_script_share):
            kept[f"{size} rule"].append(guess.lang == lang)
    for size in ("small", "large"):
        rule, plain = kept[f"{size} rule"], kept[f"{size} plain"]
        if rule and plain:
            a, b = sum(rule) / len(rule), sum(plain) / len(plain)
            report.add(
                f"precision, {size} languages, {name}",
                a,
                b,
                a / b,
                ">= 1",
                a >= b if len(rule) >= FEW else None,
                f"theirs: threshold 0.65 for all; {len(rule)} kept of {len(plain)}"
                + ("" if len(rule) >= FEW else ", too few to hold"),
            )


if __name__ == "__main__":
    main()
