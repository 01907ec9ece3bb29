"""Commands that make and run a project: run, demo, land, init.

Belongs here: arguments and what is printed. Runs themselves are started by ``launch.py``, as a subprocess in the
project's folder.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import Any

from gristmill.commands.holdouts import add_fields, add_lock, benchmarks_of, fields_of
from gristmill.commands.places import PIPELINE_VARIABLE, Workplace, add_pipeline, project_folder
from gristmill.errors import GristmillError, ParameterError
from gristmill.processes import STARTER_VARIABLE

NEXT_VERSION = "next"  # launch.py: the newest version while it is current, else the number after it
BATCHES = 3


def run_launch(arguments: Sequence[str], *, pipeline: Path | None = None) -> int:
    """Start ``launch.py`` with these arguments; its exit code.

    A terminate signal goes on to it, and it gets one where this process is killed: a person stops what was started.
    """
    try:
        project = project_folder()
    except GristmillError as error:
        print(f"gristmill: {error}", file=sys.stderr)
        return 1
    environment = dict(os.environ)
    if pipeline is not None:
        environment[PIPELINE_VARIABLE] = str(pipeline)
    environment[STARTER_VARIABLE] = str(os.getpid())
    process = subprocess.Popen([sys.executable, str(project / "launch.py"), *arguments], env=environment)
    before = signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    try:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:  # the child got it too, and says what it did
                continue
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(commands: Any) -> None:
    # Listed for --help; main() hands its arguments to launch.py before they are parsed here.
    commands.add_parser("run", help="take a landed crawl through the funnel (arguments: gristmill run --help)",
                        add_help=False)


def _land(commands: Any) -> None:
    parser = commands.add_parser("land", help="lay loose WARC files out as a crawl",
                                 description="Copy WARC files into a landing area in Common Crawl's layout.")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE.warc.gz")
    parser.add_argument("--as", dest="name", required=True, metavar="NAME", help="the crawl's name")
    parser.add_argument("--landing", metavar="PLACE", help="folder or s3:// (default: the site's landing area)")
    add_pipeline(parser)

    def call(args: argparse.Namespace) -> int:
        from gristmill.acquire.landing import land

        place = args.landing
        if place is None:
            from gristmill.commands.places import pipeline_of

            place = pipeline_of(args).site.landing
        written = land(args.files, args.name, place)
        print(f"{args.name}: {len(written)} file(s) listed in {place}/crawl-data/{args.name}/warc.paths.gz")
        where = f" --pipeline {quote(str(args.pipeline))}" if args.pipeline else ""
        print(f"next: gristmill run{where} --landing {quote(str(place))} --crawl {args.name}")
        return 0

    parser.set_defaults(call=call)


def _demo(commands: Any) -> None:
    parser = commands.add_parser("demo", help="make a demo crawl and take it through everything",
                                 description="Without an action: make it, run it, freeze a manifest, read batches.")
    parser.add_argument("action", nargs="?", choices=["make"], help="make: only write the demo crawl")
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder (default: demo)")
    parser.add_argument("--pages", type=int, help="fewer pages, for a quick look")
    parser.add_argument("--workers", type=int, default=0, help="processes; 0, the default: one a core")
    parser.set_defaults(call=demo)


def demo(args: argparse.Namespace) -> int:
    """``gristmill demo [make]``."""
    from gristmill.demo.make import make_demo

    started = time.monotonic()
    if args.pages is not None and args.pages < 1:
        raise ParameterError("--pages must be 1 or more")
    if args.workers < 0:
        raise ParameterError("--workers must be 0 (one a core) or more")
    out = args.out.resolve()
    made = make_demo(out, **({"pages": args.pages} if args.pages is not None else {}))
    if made.written:
        print(f"demo crawl: wrote {len(made.written)} file(s) in {out}: {len(made.fetches)} fetches in "
              f"{len(made.crawls)} crawls")
    else:
        print(f"demo crawl: nothing to do, all {len(made.untouched)} files in {out} are there")
    if args.action == "make":
        return 0
    pipeline = out / "pipeline.yaml"
    for crawl in made.crawls:
        code = run_launch(["--pipeline", str(pipeline), "--crawl", crawl, "--workers", str(args.workers)])
        if code:
            return code
    code = run_launch(["--pipeline", str(pipeline), "--manifest", NEXT_VERSION])
    if code:
        return code
    from gristmill.params import read_pipeline
    from gristmill.release.standing import registered

    place = Workplace(read_pipeline(pipeline), pipeline)
    version = registered(place.store)[-1]
    _first_batches(place, version)
    shown = os.path.relpath(pipeline)
    print(f"\ndemo done in {time.monotonic() - started:.0f} s. Look around:\n"
          f"  make ui                                     Dagster on this state, http://127.0.0.1:3000\n"
          f"  gristmill explain URL                       where a page stopped, and why\n"
          f"  {os.path.relpath(out)}/store/manifests/{version}/report.html   the dataset card\n"
          f"(gristmill is in .venv/bin; the parameter file is {shown})")
    return 0


def _first_batches(place: Workplace, version: str) -> None:
    """Print the first training batches of the demo's manifest."""
    from gristmill.loader import TokenLoader

    loader = TokenLoader(place.site.store, version)
    print(f"\nfirst batches of manifest {version}:")
    for step, batch in zip(range(BATCHES), loader, strict=False):
        tokens = batch["tokens"]
        shape = f"{tokens.shape[0]} sequences of {tokens.shape[1]} tokens"
        print(f"  step {step}: {shape}, first ids {tokens[0, :8].tolist()}")


def _init(commands: Any) -> None:
    parser = commands.add_parser("init", help="write a parameter file for a new site",
                                 description="Freeze hold-outs, register a tokenizer, write pipeline.yaml.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--holdout", action="append", type=Path, default=[], metavar="FILE",
                        help="a benchmark to hold out (.jsonl, .json, .csv, .parquet); repeat for several")
    add_fields(parser, "--holdout-fields")
    parser.add_argument("--tokenizer", type=Path, required=True, metavar="tokenizer.json")
    parser.add_argument("--pattern", metavar="REGEX", help="of a tiktoken file, which holds ranks only: how text is "
                        "split")
    parser.add_argument("--special-token", action="append", default=[], metavar="TOKEN=ID",
                        help="of a tiktoken file; repeat for several")
    parser.add_argument("--recipe", type=Path, help="recipe of manifests")
    parser.add_argument("--buckets", type=int, default=64, help="host buckets, frozen for the store's life")
    parser.add_argument("--holdout-root", metavar="DIR_OR_S3", help="freeze the hold-outs there (default: the site's)")
    parser.add_argument("--holdout-env", default="", metavar="PREFIX_", help="the root has credentials of its own, in "
                        "PREFIX_AWS_ACCESS_KEY_ID and PREFIX_AWS_SECRET_ACCESS_KEY")
    add_lock(parser)
    parser.set_defaults(call=init)


def init(args: argparse.Namespace) -> int:
    """``gristmill init``: the few facts that parameters must pin before the first run."""
    import yaml

    from gristmill.acquire.holdout import access, freeze
    from gristmill.models import put
    from gristmill.params import SiteConfig

    folder: Path = args.folder.resolve()
    file = folder / "pipeline.yaml"
    if file.exists():
        raise ParameterError(f"{file} exists; edit it, or choose another folder")
    named = [*args.holdout, args.tokenizer, *([args.recipe] if args.recipe else [])]
    missing = [str(f) for f in named if not f.is_file()]
    if missing:
        raise ParameterError(f"no such file: {', '.join(missing)}")
    if not args.holdout:
        raise ParameterError(
            "name the benchmarks to hold out (--holdout FILE.jsonl, several times): extraction does not start without"
        )
    benchmarks = benchmarks_of(args.holdout)
    fields = fields_of(args, benchmarks)
    if not 1 <= args.buckets <= 9999:
        raise ParameterError(f"--buckets {args.buckets}: there can be 1 to 9999")
    if not re.fullmatch("[A-Z0-9_]*", args.holdout_env):
        raise ParameterError(f"--holdout-env {args.holdout_env!r}: the beginning of variable names, such as HOLDOUT_")
    split = _split(args)
    _check_tokenizer(args.tokenizer, split)
    if args.recipe:
        from gristmill.mixture.recipe import read as read_recipe

        read_recipe(args.recipe)
    root = args.holdout_root or str(folder / "state" / "holdout")
    root = root if "://" in root else str(Path(root).resolve())
    at = SiteConfig(holdout=root, holdout_env=args.holdout_env)
    held = freeze(root, dict(benchmarks), fields, options=access(at, {}), lock_until=args.lock_until)
    folder.mkdir(parents=True, exist_ok=True)  # only now: what fails before leaves no folder behind
    tokenizer = put(args.tokenizer, folder / "state" / "models")
    site: dict[str, Any] = {}
    if args.holdout_root:
        site["holdout"] = root
    if args.holdout_env:
        site["holdout_env"] = args.holdout_env
    if args.recipe:
        shutil.copyfile(args.recipe, folder / "recipe.yaml")
        site["recipe"] = "recipe.yaml"
    params = {
        "grid": {"host_buckets": args.buckets},
        "extract": {"holdout_hash": held},
        "tokenize": {"tokenizer": tokenizer.model_dump(), **split},
    }
    file.write_text(yaml.safe_dump({"site": site, "params": params}, sort_keys=False))
    print(f"wrote {file}\nnext: gristmill land FILE.warc.gz... --as NAME --pipeline {quote(str(file))}")
    return 0


def _split(args: argparse.Namespace) -> dict[str, Any]:
    """What a tiktoken file does not hold, as parameters of ``tokenize``; nothing where nothing was said."""
    out: dict[str, Any] = {"pattern": args.pattern} if args.pattern is not None else {}
    for entry in args.special_token:
        name, _, number = entry.rpartition("=")
        if not name or not number.isdigit():
            raise ParameterError(f"--special-token {entry!r}: write TOKEN=ID, for instance '<|endoftext|>=100257'")
        out.setdefault("special_tokens", {})[name] = int(number)
    return out


def _check_tokenizer(file: Path, split: dict[str, Any]) -> None:
    """Refuse a file that no tokenizer reads, before it is pinned. Tiktoken files need a pattern: see ``params.py``."""
    import hashlib

    from gristmill.params import TokenizeParams
    from gristmill.tokens.tokenizer import load

    if split:  # of a rank file's control tokens only what is said exists, and documents end with this one
        split = {**split, "eos_token": TokenizeParams().eos_token}
    try:
        load(file, name=file.name, sha256=hashlib.sha256(file.read_bytes()).hexdigest(), **split)
    except GristmillError as error:
        raise ParameterError(f"--tokenizer {file}: {error}") from error


COMMANDS = [_run, _demo, _land, _init]
