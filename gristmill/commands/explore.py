"""Commands that look: where a document stopped, what stages kept, how a choice of bands behaves.

Belongs here: arguments and printing. Does not belong here: anything that changes a store.
"""

import argparse
from pathlib import Path
from typing import Any

from gristmill.commands.places import add_pipeline, crawls_of, nothing_of, pipeline_of
from gristmill.errors import GristmillError


def _explain(commands: Any) -> None:
    parser = commands.add_parser("explain", help="where a page or document stopped, and why")
    parser.add_argument("what", metavar="URL_OR_ID", help="a URL, or a doc_id or record_id in hex")
    parser.add_argument("--crawl", help="only in this crawl")
    parser.add_argument("--manifest", dest="version", metavar="VERSION",
                        help="why this version leaves it out (default: the newest)")
    add_pipeline(parser)

    def call(args: argparse.Namespace) -> int:
        from gristmill.explain import explain, render

        place = pipeline_of(args)
        found = explain(place.store, place.plan, place.site, args.what, crawl=args.crawl,
                        version=args.version)
        print(f"{args.what}: {render(found)}" if not found else render(found))
        return 0 if found else 1

    parser.set_defaults(call=call)


def _yields(commands: Any) -> None:
    parser = commands.add_parser("yields", help="the yield table of a crawl")
    parser.add_argument("crawl", nargs="?", help="default: every crawl")
    add_pipeline(parser)

    def call(args: argparse.Namespace) -> int:
        from gristmill.observe.yields import render, stage_yields

        place = pipeline_of(args)
        for crawl in crawls_of(args, place.store):
            found = stage_yields(place.store, place.plan, crawl)
            print(f"yield of {crawl}\n{render(found)}\n" if found else nothing_of(crawl))
        return 0

    parser.set_defaults(call=call)


def _scurve(commands: Any) -> None:
    parser = commands.add_parser("scurve", help="the S-curve of a choice of bands and rows")
    parser.add_argument("--bands", type=int, default=14)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--verify", choices=["none", "signature", "jaccard"], default="jaccard")
    parser.add_argument("--verify-at", type=float, default=0.8, metavar="J")
    parser.add_argument("--at", type=float, nargs="+", metavar="J", help="similarities to tabulate")

    def call(args: argparse.Namespace) -> int:
        from gristmill.deduplicate.scurve import GRID, render

        if not (args.bands >= 1 and args.rows >= 1 and args.bands * args.rows <= 100_000):
            raise GristmillError("--bands and --rows must be 1 or more, and their product at most 100,000")
        at = sorted(args.at) if args.at else GRID
        if not all(0 <= s <= 1 for s in (*at, args.verify_at)):
            raise GristmillError("--at and --verify-at are similarities, between 0 and 1")
        print(render(args.bands, args.rows, args.verify_at, verify=args.verify, at=at))
        return 0

    parser.set_defaults(call=call)


def _audit(commands: Any) -> None:
    parser = commands.add_parser("audit", help="pages to read: decided pairs side by side")
    parser.add_argument("what", choices=["pairs"])
    parser.add_argument("--crawl", required=True)
    parser.add_argument("--out", type=Path, default=Path("pairs.html"))
    parser.add_argument("--per-band", type=int, default=10, help="pairs a similarity band and source")
    parser.add_argument("--semantic", action="store_true", help="pairs of like meaning, kept ones too: choose epsilon")
    parser.add_argument("--seed", type=int, default=0)
    add_pipeline(parser)

    def call(args: argparse.Namespace) -> int:
        from gristmill.deduplicate.audit import audit_pairs

        if args.per_band < 1:
            raise GristmillError("--per-band must be 1 or more")
        place = pipeline_of(args)
        page = audit_pairs(place.store, place.plan, place.site, args.crawl, per_band=args.per_band, seed=args.seed,
                           semantic=args.semantic)
        args.out.write_text(page, "utf-8")
        print(f"wrote {args.out}")
        return 0

    parser.set_defaults(call=call)


COMMANDS = [_explain, _yields, _scurve, _audit]
