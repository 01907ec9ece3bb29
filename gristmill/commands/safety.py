"""The command ``gristmill safety``: hashes for hard-removal lists, and what of a file's texts a release would replace.

Belongs here: arguments and printing. Does not belong here: any detection (``gristmill/safety``).
"""

import argparse
import json
from pathlib import Path
from typing import Any

from gristmill.commands.places import add_pipeline, pipeline_of


def _safety(commands: Any) -> None:
    parser = commands.add_parser("safety", help="hash texts for a hard-removal list; find personal data in texts")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    hashed = actions.add_parser("hash", help="hashes of texts, one a line, as a hash list holds them; no text")
    hashed.add_argument("--kind", choices=["exact", "near"], default="exact",
                        help="exact: the document's id; near: a simhash that edited copies share to a few bits")
    hashed.set_defaults(call=_hash)
    scanned = actions.add_parser("scan", help="personal data in texts, by the parameters' rules")
    scanned.add_argument("--json", action="store_true", help="one JSON a text with its spans (bytes of UTF-8)")
    add_pipeline(scanned)
    scanned.set_defaults(call=_scan)
    for action in (hashed, scanned):
        action.add_argument("--texts", type=Path, nargs="+", required=True, metavar="FILE",
                            help=".jsonl(.gz), .parquet or .txt")
        action.add_argument("--field", default="text", help="the field of a text")


def _texts(args: argparse.Namespace) -> list[tuple[str, str]]:
    from gristmill.quality.labelled import read_texts

    return [row for path in args.texts for row in read_texts(path, args.field)]


def _hash(args: argparse.Namespace) -> int:
    import sys

    import pyarrow as pa

    from gristmill.deduplicate.normalise import doc_ids
    from gristmill.safety.hash_lists import simhashes
    from gristmill.text_units import text_buffers

    rows = [(name, text) for name, text in _texts(args) if text.strip()]
    column = pa.array([text for _, text in rows], pa.large_string())
    if args.kind == "exact":
        found = [value.hex() for value in doc_ids(column).to_pylist()]
    else:
        found = [f"{value:016x}" if value else "" for value in simhashes(*text_buffers(column)).tolist()]
    short = 0
    for value in found:
        short += not value
        if value:
            print(value)
    if short:
        print(f"{short} texts of fewer than three words have no near hash", file=sys.stderr)
    return 0


def _scan(args: argparse.Namespace) -> int:
    from collections import Counter

    import pyarrow as pa

    from gristmill.safety import pii
    from gristmill.text_units import text_buffers

    params = pipeline_of(args).pipeline.params.safety
    rows = _texts(args)
    rules = pii.Rules(private_ips=params.private_ips, countries=params.phone_countries or tuple(pii.PHONE_FORMATS))
    found = pii.scan(*text_buffers(pa.array([text for _, text in rows], pa.large_string())), rules)
    if args.json:
        for (name, _), spans in zip(rows, found, strict=True):
            print(json.dumps({"id": name, "spans": [s._asdict() for s in spans]}))
        return 0
    kinds = Counter(s.kind for spans in found for s in spans)
    print(f"{sum(map(bool, found)):,} of {len(rows):,} texts hold personal data"
          + "".join(f"\n  {kind:<12} {n:,}" for kind, n in sorted(kinds.items())))
    return 0


COMMANDS = [_safety]
