"""Commands of watching: the dashboard of a crawl, what is broken now, and saying that a change was meant.

Belongs here: arguments and printing. Does not belong here: counting and judging (``gristmill/observe``).
"""

import argparse
from pathlib import Path
from typing import Any

from gristmill.commands.places import add_pipeline, pipeline_of
from gristmill.errors import GristmillError


def _dashboard(commands: Any) -> None:
    parser = commands.add_parser("dashboard", help="a crawl's funnel by band, tokens, scores and hosts, as a page")
    parser.add_argument("crawl", nargs="?", help="default: the newest that has a report")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the page there, instead of saying where it is")
    add_pipeline(parser)

    def call(args: argparse.Namespace) -> int:
        from gristmill.observe.history import REPORT
        from gristmill.registry import Registry
        from gristmill.store import Key

        place = pipeline_of(args)
        store, registry = place.store, Registry(place.store)
        if args.crawl:
            registry.ordinal(args.crawl)  # raises, with what there is
        keys = [Key(REPORT, place.plan.fingerprints[REPORT], c) for c in reversed(registry.crawls())
                if args.crawl in (None, c)]
        key = next((k for k in keys if store.manifest(k) is not None), None)
        if key is None:
            which = args.crawl or "any crawl"
            raise GristmillError(f"there is no report of {which}: run `gristmill run --crawl {args.crawl or 'NAME'}`")
        ref = store.require(key).role("report")[0]
        if args.out is None:
            print(f"{store.root}/{key.path}/{ref.name}")
            return 0
        args.out.write_bytes(store.read_file(key, ref))
        print(f"wrote {args.out}")
        return 0

    parser.set_defaults(call=call)


def _status(commands: Any) -> None:
    parser = commands.add_parser("status", help="what is broken now; the exit code is 1 where something is")
    add_pipeline(parser)

    def call(args: argparse.Namespace) -> int:
        import datetime as dt

        from gristmill.observe.standing import render, standing

        place = pipeline_of(args)
        found = standing(place.store, place.plan, dt.datetime.now(dt.UTC))
        print(render(found))
        return 0 if all(one.passed for one in found) else 1

    parser.set_defaults(call=call)


def _acknowledge(commands: Any) -> None:
    parser = commands.add_parser("acknowledge", help="say that a stage's changed parameters or models are meant")
    parser.add_argument("stage")
    parser.add_argument("--reason", required=True, help="for people; stays in the store")
    add_pipeline(parser)

    def call(args: argparse.Namespace) -> int:
        from gristmill.observe.history import acknowledge

        place = pipeline_of(args)
        path = acknowledge(place.store, place.plan, args.stage, args.reason)
        print(f"{args.stage}: its present settings are meant ({path}); it is compared with crawls made with them only")
        return 0

    parser.set_defaults(call=call)


COMMANDS = [_dashboard, _status, _acknowledge]
