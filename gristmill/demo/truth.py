"""What was planted in the demo crawl, as data: ``truth.json``.

Belongs here: the shape of the truth and its reading and writing. Does not belong here: planting.

``truth.json`` holds
    format      1
    pages       the size that was asked for
    crawls      name -> {files: WARC files that may be read, listed: all names in the listing, fetches: responses and
                revisits in them, started: ISO time}
    fetches     one a response or revisit: name, crawl, url, host, fetch_ts, record_id (hex, by its definition), kind,
                status, content_type, bytes, template, lang (ISO 639-3), text (the main text as written), readable
                (false for the one in the damaged member)
    plants      kind -> list of what was planted; fetches are named by their ``name``
    similar     [crawl, name, name, jaccard] of all pairs of main texts in a crawl with exact Jaccard over word 5-grams
                of at least 0.3, planted or by nature
    benchmarks  [{benchmark, id, question, answer}]

Plants, and their fields beside the fetches' names:
    recrawl_within, recrawl_across, changed: first, again.           revisit: first, again, resolved.
    exact_copy, exact_copy_across: first, copy.                      near_copy, near_copy_across: first, copy, target,
                                                                     jaccard.
    template_farm: pages, max_jaccard.                               trap: host, pages, texts.
    repeated_line: crawl, line, pages, bound, removed.               language: page, lang, charset.
    mojibake: page, broken, mended.                                  replacement: page, share.
    hidden_removed, hidden_quarantined: page, hidden, way, share.    zero_width: page, clean, marks.
    oversized: page, bytes, kept, lost.                              slow: page.
    damaged_member: page, file.                                      wet: crawl, file.
    not_text: page, content_type.                                    status: page, status.
    short, no_language: page.                                        pii: page, kind, value.
    leak: page, benchmark, item, form, flagged.                      opt_out: host, pages.
    web_sample, time_forward: page.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gristmill.errors import GristmillError

FORMAT = 1
FILE = "truth.json"


@dataclass
class DemoTruth:
    """See the module's docstring. ``written`` and ``untouched`` say what ``make_demo`` did, and are not in the file."""

    pages: int
    crawls: dict[str, dict[str, Any]] = field(default_factory=dict)
    fetches: list[dict[str, Any]] = field(default_factory=list)
    plants: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    similar: list[list[Any]] = field(default_factory=list)
    benchmarks: list[dict[str, str]] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    untouched: list[str] = field(default_factory=list)

    def plant(self, kind: str, /, **facts: Any) -> None:
        """Note one planted thing."""
        self.plants.setdefault(kind, []).append(facts)

    def fetch(self, name: str) -> dict[str, Any]:
        """The fetch of a name."""
        return next(f for f in self.fetches if f["name"] == name)

    def to_bytes(self) -> bytes:
        """The file's content, one spelling for one truth."""
        data = {
            "format": FORMAT,
            "pages": self.pages,
            "crawls": self.crawls,
            "fetches": self.fetches,
            "plants": self.plants,
            "similar": self.similar,
            "benchmarks": self.benchmarks,
        }
        return json.dumps(data, sort_keys=True, indent=1, ensure_ascii=False).encode() + b"\n"


def read_truth(out: Path) -> DemoTruth:
    """The truth of a demo made earlier.

    Raises:
        GristmillError: when there is none, or of another format.
    """
    file = out / FILE
    try:
        data = json.loads(file.read_text("utf-8"))
    except FileNotFoundError as error:
        raise GristmillError(f"no {file}: run `gristmill demo make` first") from error
    except ValueError as error:
        raise GristmillError(f"{file} is not JSON ({error}): delete it and run `gristmill demo make`") from error
    if data.pop("format", None) != FORMAT:
        raise GristmillError(f"{file} is of another format: delete {out} and run `gristmill demo make`")
    return DemoTruth(**data)
