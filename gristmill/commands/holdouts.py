"""The command ``gristmill holdout``: freeze benchmarks into a hold-out root, and what a root holds.

Belongs here: arguments and printing, and how a file and its fields are named on the command line (``init`` freezes
too). Does not belong here: the format of a root (``acquire/holdout.py``), and what hold-outs are looked for in.
"""

from __future__ import annotations

import argparse
import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gristmill.commands.places import add_pipeline, pipeline_of
from gristmill.errors import ParameterError

KINDS = (".jsonl", ".ndjson", ".json", ".csv", ".parquet")


def add_fields(parser: argparse.ArgumentParser, option: str) -> None:
    """The option that maps a benchmark's fields to spans."""
    parser.add_argument(option, nargs=2, action="append", default=[], dest="fields",
                        metavar=("BENCHMARK", "SPAN=FIELD,..."), help="which fields of its rows are spans, under what "
                        "names; item=FIELD names the field of an item's id (default: every field that is text)")


def add_lock(parser: argparse.ArgumentParser) -> None:
    """The option that says how long hold-outs are retained."""
    parser.add_argument("--lock-until", type=_date, metavar="DATE",
                        help="retain them until then, where the bucket has object lock")


def _date(text: str) -> str:
    try:
        dt.datetime.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no date, such as 2099-12-31") from error
    return text


def benchmarks_of(files: Sequence[Path]) -> dict[str, Path]:
    """Benchmark -> file: named by the file without its kind.

    Raises:
        ParameterError: two files have one name.
    """
    out: dict[str, Path] = {}
    for file in files:
        name = file.name.removesuffix(".gz")
        name = next((name.removesuffix(k) for k in KINDS if name.endswith(k)), name)
        if name in out:
            raise ParameterError(f"two hold-out files have one name ({name}): rename one of them")
        out[name] = file
    return out


def fields_of(args: argparse.Namespace, benchmarks: dict[str, Path]) -> dict[str, dict[str, str]] | None:
    """Benchmark -> span -> field, as said; None where nothing was.

    Raises:
        ParameterError: of a benchmark that is not there, or no mapping.
    """
    out: dict[str, dict[str, str]] = {}
    for name, text in args.fields:
        if name not in benchmarks:
            raise ParameterError(f"fields are named of {name}, and the benchmarks are {', '.join(sorted(benchmarks))}")
        pairs = [part.partition("=") for part in text.split(",")]
        if not all(span and field for span, _, field in pairs) or {span for span, _, _ in pairs} == {"item"}:
            raise ParameterError(f"{text!r}: write SPAN=FIELD,..., for instance item=id,question=prompt,answer=target")
        out[name] = {span: field for span, _, field in pairs}
    return out or None


def _holdout(commands: Any) -> None:
    parser = commands.add_parser("holdout", help="freeze benchmarks into a hold-out root; see what it holds")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    frozen = actions.add_parser("freeze", help="write benchmarks into a root that holds none, and print its hash")
    frozen.add_argument("root", metavar="DIR_OR_S3")
    frozen.add_argument("file", type=Path, nargs="+", metavar="FILE", help=", ".join(KINDS) + ", each also .gz")
    add_fields(frozen, "--fields")
    frozen.add_argument("--env", default="", metavar="PREFIX_", help="the root's credentials are in "
                        "PREFIX_AWS_ACCESS_KEY_ID and PREFIX_AWS_SECRET_ACCESS_KEY")
    add_lock(frozen)
    frozen.set_defaults(call=_freeze)
    listed = actions.add_parser("list", help="benchmarks of the root that the parameters name")
    add_pipeline(listed)
    listed.set_defaults(call=_list)


def _freeze(args: argparse.Namespace) -> int:
    from gristmill.acquire.holdout import access, freeze
    from gristmill.params import SiteConfig

    benchmarks = benchmarks_of(args.file)
    root = args.root if "://" in args.root else str(Path(args.root).resolve())
    options = access(SiteConfig(holdout=root, holdout_env=args.env), {})
    held = freeze(root, dict(benchmarks), fields_of(args, benchmarks), options=options, lock_until=args.lock_until)
    print(f"froze {len(benchmarks)} benchmarks in {root}; pin them in pipeline.yaml: site.holdout is the root, and")
    print(f"  extract: {{holdout_hash: {held}}}")
    return 0


def _list(args: argparse.Namespace) -> int:
    from gristmill.acquire.holdout import access, require

    place = pipeline_of(args)
    held = require(place.site.holdout, place.pipeline.params.extract.holdout_hash,
                   options=access(place.site, place.store.options))
    print(f"{held.hash}  {held.root}")
    for entry in held.manifest["benchmarks"]:
        print(f"{entry['name']:<32} {entry['items']:>8,} items {entry['spans']:>8,} spans")
    return 0


COMMANDS = [_holdout]
