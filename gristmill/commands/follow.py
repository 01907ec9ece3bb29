"""Commands that follow a document into training and back, and carry documents between tools.

Belongs here: arguments and printing. Does not belong here: the questions themselves (``release/lineage.py``) and the
shapes of files (``interchange/``).
"""

import argparse
import json
from pathlib import Path
from shlex import quote
from typing import Any

from gristmill.commands.places import add_pipeline, pipeline_of
from gristmill.errors import GristmillError, ManifestError


def _version(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--manifest", dest="version", metavar="VERSION", help="default: the newest")
    add_pipeline(parser)


def _newest(args: argparse.Namespace) -> tuple[Any, str]:
    from gristmill.release.standing import NO_VERSION, registered

    store = pipeline_of(args).store
    if args.version:
        return store, args.version
    known = registered(store)
    if not known:
        raise ManifestError(NO_VERSION)
    return store, known[-1]


def _lineage(commands: Any) -> None:
    parser = commands.add_parser("lineage", help="what a rank read at a step: document, URL, fetch time, licence")
    parser.add_argument("--step", type=int, required=True)
    parser.add_argument("--position", type=int, default=0, help="among the rank's samples of the step")
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--world", type=int, default=1)
    _version(parser)

    def call(args: argparse.Namespace) -> int:
        from gristmill.release.lineage import lineage

        store, version = _newest(args)
        try:
            pieces = lineage(store, version, args.step, args.position, args.rank, args.world)
        except IndexError as error:
            raise GristmillError(str(error)) from error
        for piece in pieces:
            origin = piece.provenance
            print(f"tokens {piece.start}..{piece.start + piece.length}  {origin.get('url')}")
            print(f"  fetched {origin.get('fetch_ts')}, tier {origin.get('source_tier')}, licence "
                  f"{origin.get('license_id') or 'unknown'}, robots {origin.get('robots_state')}, "
                  f"language {origin.get('lang')}")
            if origin.get("source_id") is not None:
                print(f"  the supplier's id {origin['source_id']}")
            print(f"  doc {piece.doc_id}, record {piece.record_id}, phase {piece.phase}, source {piece.source}, epoch "
                  f"{piece.epoch}, shard {piece.shard[:16]}, document {piece.ordinal}")
            for parent in piece.derived_from:
                print(f"  derived from {parent.get('url')}")
        return 0

    parser.set_defaults(call=call)


def _whereis(commands: Any) -> None:
    parser = commands.add_parser("whereis", help="the steps and ranks that show a page")
    parser.add_argument("what", metavar="URL_OR_DOC")
    parser.add_argument("--world", type=int, default=1)
    parser.add_argument("--until", type=int, help="only up to this step: what has been shown")
    _version(parser)

    def call(args: argparse.Namespace) -> int:
        from gristmill.release.lineage import whereis

        store, version = _newest(args)
        try:
            shown = whereis(store, version, args.what, world=args.world, until=args.until)
        except IndexError as error:
            raise GristmillError(str(error)) from error
        for row in shown:
            print(json.dumps(row, default=str, sort_keys=True))
        if not shown:
            print(f"{version} never shows it; gristmill explain says why")
        return 0 if shown else 1

    parser.set_defaults(call=call)


def _spike(commands: Any) -> None:
    parser = commands.add_parser("spike", help="documents behind a loss spike, the most suspicious first")
    parser.add_argument("--steps", required=True, metavar="A:B")
    parser.add_argument("--ranks", help="comma-separated; default: all")
    parser.add_argument("--world", type=int, default=1)
    parser.add_argument("--top", type=int, default=20)
    _version(parser)

    def call(args: argparse.Namespace) -> int:
        from gristmill.release.lineage import spike

        try:
            first, _, last = args.steps.partition(":")
            steps = int(first), int(last or first)
            if not 0 <= steps[0] <= steps[1]:
                raise ValueError(f"{args.steps} is no range")
            ranks = [int(r) for r in args.ranks.split(",")] if args.ranks else None
        except ValueError as error:
            raise GristmillError(f"--steps A:B and --ranks R,R hold whole numbers: {error}") from error
        store, version = _newest(args)
        try:
            rows = spike(store, version, *steps, ranks, args.world)
        except IndexError as error:
            raise GristmillError(str(error)) from error
        for row in rows[: args.top]:
            print(json.dumps(row, default=str, sort_keys=True))
        if not rows:
            print("these ranks are shown no document at these steps")
        return 0

    parser.set_defaults(call=call)


def _export(commands: Any) -> None:
    parser = commands.add_parser("export", help="documents as JSON lines, or a version as Megatron files")
    parser.add_argument("out", type=Path, metavar="FOLDER")
    parser.add_argument("--crawl", help="documents of this crawl")
    parser.add_argument("--shape", choices=["gristmill", "datatrove", "dolma"], default="gristmill")
    parser.add_argument("--as-extracted", action="store_true", help="with boilerplate lines and personal data")
    parser.add_argument("--megatron", metavar="VERSION", help="tokens of this version as .bin and .idx")
    add_pipeline(parser)

    def call(args: argparse.Namespace) -> int:
        from gristmill.interchange.export import export, export_megatron

        if bool(args.crawl) == bool(args.megatron):
            raise GristmillError("say what to export: --crawl NAME or --megatron VERSION")
        place = pipeline_of(args)
        if args.megatron:
            files = export_megatron(place.store, args.megatron, args.out)
        else:
            from gristmill.registry import Registry

            Registry(place.store).ordinal(args.crawl)
            files = export(place.store, place.plan, place.site, args.crawl, args.out, shape=args.shape,
                           released=not args.as_extracted)
        print("\n".join(str(f) for f in files) or "there is no document to export")
        return 0

    parser.set_defaults(call=call)


def _import(commands: Any) -> None:
    parser = commands.add_parser("import", help="land documents of JSON-lines files as a crawl")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE.jsonl.zst")
    parser.add_argument("--as", dest="name", required=True, metavar="NAME")
    parser.add_argument("--landing", metavar="PLACE", help="default: the site's")
    parser.add_argument("--tier", help="of all its documents: licensed, code, academic, synthetic (default: own_crawl)")
    parser.add_argument("--license", metavar="ID", help="of all its documents")
    add_pipeline(parser)

    def call(args: argparse.Namespace) -> int:
        from gristmill.interchange.importing import import_jsonl

        landing = pipeline_of(args).site.landing if args.landing is None else args.landing
        done = import_jsonl(args.files, args.name, landing, tier=args.tier, license_id=args.license)
        for bad in done.bad:
            print(f"not read: {bad}")
        print(f"{args.name}: {done.documents} documents landed, {len(done.bad)} lines could not be read")
        where = f" --pipeline {quote(str(args.pipeline))}" if args.pipeline else ""
        print(f"next: gristmill run{where} --landing {quote(str(landing))} --crawl {args.name}")
        return 1 if done.bad else 0

    parser.set_defaults(call=call)


COMMANDS = [_lineage, _whereis, _spike, _export, _import]
