"""Commands of a site's upkeep: pages, robots.txt, licences, the band index.

Belongs here: arguments and printing. Does not belong here: the work (``observe/upkeep.py``, ``observe/paging``).
"""

import argparse
import datetime as dt
from typing import Any

from gristmill.commands.places import Workplace, add_pipeline, pipeline_of
from gristmill.errors import GristmillError, ParameterError


def _pages(commands: Any) -> None:
    parser = commands.add_parser("pages", help="what people were told, and what could not be told yet",
                                 description="list: told and waiting; send: try now what waits; test: a page to every "
                                             "target.")
    parser.add_argument("action", nargs="?", choices=["list", "send", "test"], default="list")
    parser.add_argument("--last", type=int, default=20, help="so many that were told")
    add_pipeline(parser)
    parser.set_defaults(call=_call_pages)


def _call_pages(args: argparse.Namespace) -> int:
    from gristmill.observe.paging.ledger import Ledger

    place = pipeline_of(args)
    if place.site.paging is None:
        raise ParameterError(f"nobody is paged: {place.file} has no site.paging; docs/operating.md shows one")
    ledger = Ledger(place.store, place.site.paging)
    if args.action == "test":
        return _test_pages(place)
    if args.action == "send":
        done = ledger.flush()
        print(f"{done.delivered} pages delivered; {done.waiting} problems waiting")
        for why in done.failed:
            print(f"  {why}")
    waiting = ledger.pending()
    for record in waiting:
        print(f"waiting  {_when(record.noted_at)}  [{record.problem.severity}] {record.problem.title}")
        for name, state in sorted(record.targets.items()):
            if "error" in state:
                print(f"         {name}: tried {state['attempts']} times, next {_when(state['next_at'])}: "
                      f"{state['error']}")
    if args.action == "list":
        known = ledger.told()[: max(args.last, 0)]
        if not known and not waiting:
            print("nobody has been told anything, and nothing waits")
        for told in known:
            well = f", well again {_when(told['passed_at'])}" if told["passed_at"] else ""
            print(f"told     {_when(told['told_at'])}  [{told['severity']}] {told['title']}{well}")
    return 1 if waiting else 0


def _test_pages(place: Workplace) -> int:
    import time

    from gristmill.observe.paging.config import name_of
    from gristmill.observe.paging.deliver import DeliveryError, deliver
    from gristmill.observe.paging.problem import Page, Problem

    paging = place.site.paging
    assert paging is not None
    problem = Problem(("test",), "warning", "a test page: nothing is wrong", time.time(), "", {"site": place.file.name})
    failed = 0
    for target in paging.targets:
        try:
            deliver(target, Page((problem,), paging.ui), timeout=paging.timeout_seconds)
            print(f"{name_of(target)}: delivered")
        except DeliveryError as error:
            failed += 1
            print(str(error))
    return 1 if failed else 0


def _when(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def _robots(commands: Any) -> None:
    parser = commands.add_parser("robots", help="read robots.txt of the corpus again; list who has opted out")
    parser.add_argument("action", choices=["sweep", "list"])
    add_pipeline(parser)

    def call(args: argparse.Namespace) -> int:
        from gristmill.acquire.robots_sweep import Host, opted_out
        from gristmill.observe.upkeep import sweep_robots

        place = pipeline_of(args)

        def show(hosts: list[Host]) -> None:
            for h in hosts:
                since = h.since.date().isoformat() if h.since else "?"
                print(f"{h.closed:>12,} of {h.pages:,} pages closed since {since}  {h.authority}")

        if args.action == "list":
            closed = opted_out(place.store, place.plan.buckets)
            show(closed)
            if not closed:
                print("no host has opted out, as far as robots.txt was read again (gristmill robots sweep)")
            return 0
        done = sweep_robots(place.store, place.plan, place.site)
        print(f"{done.asked} hosts asked: {done.changed} with new rules, {done.unchanged} unchanged, "
              f"{done.unreachable} unreachable, {done.refused} without a public address; {done.not_due} asked lately, "
              f"{done.left} left for the next sweep")
        if done.opted_out:
            print("opted out; later manifests leave out:")
            show(done.opted_out)
        for authority in done.returned:
            print(f"open again: {authority}")
        return 0

    parser.set_defaults(call=call)


def day(text: str) -> dt.date:
    """A day as an argument."""
    try:
        return dt.date.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no date, such as 2026-12-31") from error


def _licences(commands: Any) -> None:
    parser = commands.add_parser("licences", help="the registry of licences and contracts, and which end soon")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    put = actions.add_parser("put", help="write or replace an entry")
    put.add_argument("licence", metavar="ID")
    put.add_argument("--expires", type=day, metavar="DATE", help="first day on which it is no more")
    put.add_argument("--signed", type=day, metavar="DATE")
    put.add_argument("--scope", action="append", help="what it allows, for instance training; repeat for several")
    put.set_defaults(call=_put_licence)
    add_pipeline(put)
    shown = actions.add_parser("list", help="every entry")
    shown.set_defaults(call=_list_licences)
    add_pipeline(shown)
    swept = actions.add_parser("sweep", help="which end soon; told to people where site.paging says whom")
    swept.add_argument("--within", type=int, metavar="DAYS", help="default: observe.contract_days")
    swept.add_argument("--today", type=day, metavar="DATE", help="default: today, UTC")
    swept.set_defaults(call=_sweep_licences)
    add_pipeline(swept)


def _put_licence(args: argparse.Namespace) -> int:
    from gristmill.release.policy import Licence, put_licence

    if not args.licence.strip():
        raise GristmillError("a licence needs an id: the one in source.yaml's license")
    put_licence(pipeline_of(args).store, Licence(
        license_id=args.licence, expires=args.expires, signed=args.signed,
        scope=tuple(args.scope) if args.scope else None))
    print(f"wrote {args.licence}; recipes judge it by policy.as_of")
    return 0


def _list_licences(args: argparse.Namespace) -> int:
    from gristmill.release.policy import licences

    known = licences(pipeline_of(args).store)
    if not known:
        print("the registry is empty: gristmill licences put ID writes an entry")
    for name, entry in known.items():
        scope = ", ".join(entry.scope) if entry.scope is not None else "any use"
        print(f"{name:<32} {scope:<24} signed {entry.signed or '-'}  expires {entry.expires or '-'}")
    return 0


def _sweep_licences(args: argparse.Namespace) -> int:
    from gristmill.observe.upkeep import sweep_licences

    place = pipeline_of(args)
    within = place.pipeline.params.observe.contract_days if args.within is None else args.within
    found = sweep_licences(place.store, place.site, args.today or dt.datetime.now(dt.UTC).date(), within)
    for entry in found:
        print(f"{entry.license_id:<32} {entry.told}")
    print(f"{len(found)} of the registry end within {within} days" if found else f"none ends within {within} days")
    return 0


def _compact(commands: Any) -> None:
    parser = commands.add_parser("compact", help="merge the band index's generations, so that a new crawl opens one",
                                 description="Originals stay; matches are the same from either.")
    add_pipeline(parser)

    def call(args: argparse.Namespace) -> int:
        from gristmill.observe.upkeep import compact

        place = pipeline_of(args)
        done = compact(place.store, place.plan, place.site)
        if not done.crawls:
            print("nothing to merge: fewer than two crawls have a whole generation")
        else:
            verb = "merged" if done.new else "nothing to do, merged already:"
            print(f"{verb} {len(done.crawls)} generations ({done.crawls[0]} to {done.crawls[-1]}), "
                  f"{done.entries:,} entries")
        if done.stopped_at:
            print(f"stopped before {done.stopped_at}: its generation is not whole yet")
        if done.dropped:
            print(f"deleted {len(done.dropped)} older merge(s)")
        return 0

    parser.set_defaults(call=call)


COMMANDS = [_pages, _robots, _licences, _compact]
