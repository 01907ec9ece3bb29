"""Commands of a running site: where the time went, what a crawl cost, what is archived, what can go.

Belongs here: arguments and printing. Does not belong here: the work (``observe/profile.py``, ``plan/bill.py``,
``plan/archive.py``, ``plan/collect.py``).
"""

import argparse
import json
from pathlib import Path
from typing import Any

from gristmill.commands.places import add_pipeline, crawls_of, nothing_of, pipeline_of
from gristmill.errors import ParameterError


def _profile(commands: Any) -> None:
    parser = commands.add_parser("profile", help="where a crawl's time went, and what holds each stage back")
    parser.add_argument("crawl", nargs="?", help="default: every crawl")
    add_pipeline(parser)

    def call(args: argparse.Namespace) -> int:
        from gristmill.observe.profile import profile, render

        place = pipeline_of(args)
        for crawl in crawls_of(args, place.store):
            found = profile(place.store, place.plan, crawl)
            print(f"profile of {crawl}, seconds\n{render(found)}\n" if found else nothing_of(crawl))
        return 0

    parser.set_defaults(call=call)


def _bill(commands: Any) -> None:
    parser = commands.add_parser("bill", help="what a crawl cost: core-hours, GPU-hours, storage")
    parser.add_argument("crawl", nargs="?", help="default: every crawl")
    parser.add_argument("--assumptions", type=Path, metavar="FILE", help="prices that differ from the packaged ones")
    add_pipeline(parser)

    def call(args: argparse.Namespace) -> int:
        from gristmill.plan import assumptions
        from gristmill.plan.bill import bill, render

        place = pipeline_of(args)
        values = assumptions.values(assumptions.read(args.assumptions or place.site.assumptions))
        for crawl in crawls_of(args, place.store):
            found = bill(place.store, place.plan, crawl, values)
            print(f"{render(found)}\n" if found.lines or found.other_bytes else nothing_of(crawl))
        return 0

    parser.set_defaults(call=call)


def _archive(commands: Any) -> None:
    parser = commands.add_parser(
        "archive", help="move the heavy files of old crawls to a cold place",
        description="Copies, reads back and verifies before anything hot is removed. Commit records, verdicts, the "
                    "index, shards and the catalogue stay hot.",
    )
    parser.add_argument("crawls", nargs="*", metavar="CRAWL")
    parser.add_argument("--to", metavar="PLACE", help="folder or s3:// of the archive (default: the site's)")
    parser.add_argument("--keep", type=int, metavar="N", help="all crawls but the newest N")
    parser.add_argument("--older-than", type=float, metavar="DAYS", help="crawls last worked on so many days ago")
    parser.add_argument("--asset", action="append", help="only this asset (repeat for several)")
    parser.add_argument("--lifecycle", action="store_true",
                        help="print the lifecycle rule for the archive's bucket, and do nothing else")
    add_pipeline(parser)
    parser.set_defaults(call=archive)


def archive(args: argparse.Namespace) -> int:
    """``gristmill archive``."""
    from gristmill.plan import archive as cold

    if args.lifecycle:
        print(json.dumps(cold.lifecycle(), indent=2))
        return 0
    place = pipeline_of(args)
    to = args.to or place.site.archive
    if not to:
        raise ParameterError("name the archive: --to FOLDER or --to s3://bucket/prefix, or site.archive in the file")
    if not args.crawls and args.keep is None and args.older_than is None:
        raise ParameterError("name crawls, or a bound: --keep N, --older-than DAYS")
    if args.keep is not None and args.keep < 0:
        raise ParameterError("--keep must be 0 or more")
    assets = _assets(args)
    where = to if "://" in to else str(Path(to).resolve())
    chosen = args.crawls or cold.older(place.store, keep=args.keep, days=args.older_than)
    if not chosen:
        print("no crawl is past the bound")
    for crawl in chosen:
        moved = cold.archive(place.store, crawl, where, assets=assets)
        print(f"{crawl}: {moved.files:,} files, {moved.bytes / 1e6:,.1f} MB moved to {where}" if moved.files
              else f"{crawl}: nothing to move")
    return 0


def _assets(args: argparse.Namespace) -> list[str]:
    """The assets that were named, or all that are archived unless told otherwise.

    Raises:
        ParameterError: there is no such asset, with those that there are.
    """
    from gristmill.funnel import BY_NAME
    from gristmill.plan.archive import COLD
    from gristmill.validation import nearest

    for name in args.asset or ():
        if name not in BY_NAME:
            raise ParameterError(f"there is no asset {name!r}; {nearest(name, sorted(BY_NAME))} "
                                 f"Archived unless told otherwise: {', '.join(COLD)}")
    return list(args.asset or COLD)


def _restore(commands: Any) -> None:
    parser = commands.add_parser("restore", help="bring a crawl's archived files back, verified")
    parser.add_argument("crawl")
    parser.add_argument("--asset", action="append", help="only this asset (repeat for several)")
    add_pipeline(parser)

    def call(args: argparse.Namespace) -> int:
        from gristmill.plan import archive as cold
        from gristmill.registry import Registry

        assets = _assets(args)
        place = pipeline_of(args)
        Registry(place.store).ordinal(args.crawl)
        moved = cold.restore(place.store, args.crawl, assets=assets)
        print(f"{args.crawl}: {moved.files:,} files, {moved.bytes / 1e6:,.1f} MB restored" if moved.partitions
              else f"{args.crawl}: nothing of it is archived")
        return 0

    parser.set_defaults(call=call)


def _collect(commands: Any) -> None:
    parser = commands.add_parser(
        "collect", help="what of the store nothing reads any more; --delete makes room",
        description="Results of parameters that neither a parameter file nor a standing version names, files that no "
                    "commit record names, and what killed processes left. Put the old parameters back, and deleted "
                    "results are made again. Delete while no run is at work.",
    )
    parser.add_argument("--also", action="append", type=Path, default=[], metavar="FILE",
                        help="another parameter file that uses the same store (repeat for several)")
    parser.add_argument("--delete", action="store_true", help="delete it; without this, only say what there is")
    add_pipeline(parser)

    def call(args: argparse.Namespace) -> int:
        from gristmill.funnel import Plan
        from gristmill.params import read_pipeline
        from gristmill.plan.collect import collect

        place = pipeline_of(args)
        missing = [str(f) for f in args.also if not f.is_file()]
        if missing:
            raise ParameterError(f"--also: no such file: {', '.join(missing)}")
        others = [read_pipeline(f) for f in args.also]
        for file, other in zip(args.also, others, strict=True):
            if other.site.store != place.pipeline.site.store:
                raise ParameterError(f"{file} uses another store ({other.site.store}): it has nothing here")
        found = collect(place.store, [place.plan, *(Plan(o.params) for o in others)], delete=args.delete)
        for one in found.superseded:
            print(f"{one.asset:<22} {one.fingerprint}  {one.files:6,} files {one.bytes / 1e6:12,.1f} MB  "
                  f"{', '.join(sorted(one.crawls)) or 'site'}")
        for what, there in (("named by no commit record", found.orphans),
                            ("left by killed processes", found.temporary)):
            if there:
                print(f"{len(there):,} files {what}, {sum(there.values()) / 1e6:,.1f} MB")
        if not found.bytes and not found.superseded:
            print("nothing to collect")
        else:
            print(f"{found.bytes / 1e6:,.1f} MB {'deleted' if args.delete else 'could go: --delete'}")
        return 0

    parser.set_defaults(call=call)


COMMANDS = [_profile, _bill, _archive, _restore, _collect]
