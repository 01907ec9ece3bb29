"""Commands that look ahead: what is not current, what a change would cost, what a whole corpus would.

Belongs here: arguments and printing. Does not belong here: estimating (``gristmill/plan``) and launching
(``launch.py``, which ``plan change --launch`` starts).
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gristmill.commands.places import Workplace, add_pipeline, crawls_of, pipeline_of
from gristmill.errors import ArchivedPartitionError, ParameterError

if TYPE_CHECKING:
    from gristmill.params import Pipeline


def _plan(commands: Any) -> None:
    parser = commands.add_parser("plan", help="what is stale, what a change costs, what a whole corpus costs")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    _stale(actions)
    _change(actions)
    _funnel(actions)


def _stale(actions: Any) -> None:
    parser = actions.add_parser("stale", help="what is not current: stage, partitions")
    parser.add_argument("--crawl", action="append", help="default: every crawl")
    add_pipeline(parser)

    def call(args: argparse.Namespace) -> int:
        from gristmill.plan.stale import survey

        place = pipeline_of(args)
        stale = 0
        crawls = crawls_of(args, place.store)
        for crawl in crawls:
            for state in survey(place.store, place.plan, place.site, crawl):
                if state.wanting:
                    stale += len(state.wanting)
                    buckets = "" if state.wanting == (-1,) else " buckets " + ", ".join(map(str, state.wanting))
                    print(f"{crawl}  {state.stage:<20} {len(state.wanting)} to make{buckets}")
        if crawls:
            print(f"{stale} partitions are not current" if stale else "everything is current")
        return 0

    parser.set_defaults(call=call)


def _change(actions: Any) -> None:
    parser = actions.add_parser(
        "change", help="what a changed parameter file makes necessary, what it costs, and starting it",
        description="Without --to: what the parameter file in force asks of the store as it is.",
    )
    parser.add_argument("--to", type=Path, metavar="FILE", help="the changed parameter file")
    parser.add_argument("--crawl", action="append", help="default: every crawl; repeat for several")
    parser.add_argument("--assumptions", type=Path, metavar="FILE", help="prices that differ from the packaged ones")
    parser.add_argument("--workers", type=int, default=0, help="processes; 0, the default: one a core")
    parser.add_argument("--launch", action="store_true", help="start exactly these ranges, then the next manifest")
    add_pipeline(parser)
    parser.set_defaults(call=change)


def change(args: argparse.Namespace) -> int:
    """``gristmill plan change``."""
    from gristmill.params import read_pipeline
    from gristmill.plan import assumptions, reelect
    from gristmill.plan.change import below_floor, render
    from gristmill.plan.change import change as compare
    from gristmill.workers import default_workers

    if args.to and not args.to.is_file():
        raise ParameterError(f"--to {args.to}: no such file")
    if args.workers < 0:
        raise ParameterError("--workers must be 0 (one a core) or more")
    place = pipeline_of(args)
    file = args.to or place.file
    new = read_pipeline(file)
    if new.site.store != place.site.store:
        raise ParameterError(f"{file} names the store {new.site.store}, not {place.site.store}: nothing to compare")
    if args.to:
        _require_runnable(place, new)
    values = assumptions.values(assumptions.read(args.assumptions or new.site.assumptions))
    after = Workplace(new, file)
    crawls = crawls_of(args, place.store)
    elected = reelect.wanted(place.store, after.plan)
    found = compare(place.store, place.pipeline, new, crawls, elected)
    print(render(found, values, args.workers or default_workers()))
    if new.site.recipe and Path(new.site.recipe).is_file():
        for source, (docs, size) in below_floor(place.store, place.plan, new.site.recipe, crawls).items():
            print(f"source {source}: {docs:,} documents ({size:,} bytes of text) that it selects lie under "
                  f"tokenize.floor ({place.plan.params.tokenize.floor:g}), in no shard: lower the floor to have them")
    return _launch(args, file, after, found) if args.launch else 0


def _require_runnable(place: Workplace, new: "Pipeline") -> None:
    """What a run of changed parameters would refuse is refused before it is priced, in the run's words.

    Raises:
        ParameterError, HoldoutError: another number of host buckets than the store's, no hold-outs or no tokenizer.
    """
    from gristmill.acquire.holdout import require
    from gristmill.frozen import other_buckets
    from gristmill.funnel import Plan
    from gristmill.tokens.stages import load_pinned

    plan = Plan(new.params)
    if plan.buckets != place.plan.buckets:  # place.plan was held against the store's own
        raise other_buckets(place.store, plan, place.plan.buckets)
    if new.params.extract.holdout_hash is None:
        require(new.site.holdout, None)
    if new.params.tokenize.tokenizer is None:
        load_pinned(new.params.tokenize, new.site.models)


def _launch(args: argparse.Namespace, file: Path, after: Workplace, found: Any) -> int:
    from gristmill.commands.project import NEXT_VERSION, run_launch
    from gristmill.plan import reelect

    if found.restore:
        named = "; ".join(f"gristmill restore {c} --asset {a}" for c, a in sorted(found.restore))
        raise ArchivedPartitionError(f"files that are read lie in an archive: {named}")
    reelect.register(after.store, found.elected)
    stages: dict[str, list[str]] = {}
    for redo in found.redo:
        stages.setdefault(redo.crawl, []).append(redo.stage)
    for crawl, names in stages.items():
        only = [word for name in names for word in ("--stage", name)]
        code = run_launch(["--pipeline", str(file), "--crawl", crawl, "--workers", str(args.workers), *only])
        if code:
            return code
    if found.manifest and after.site.recipe:
        code = run_launch(["--pipeline", str(file), "--manifest", NEXT_VERSION])
        if code:
            return code
    if args.to and found.fields:
        print(f"made with {file}: make it the site's parameter file, or the next run makes the old one's again")
    return 0


def _funnel(actions: Any) -> None:
    parser = actions.add_parser(
        "funnel", help="funnel, sizes and costs of a whole corpus, from one assumptions file",
        description="Derived once from the assumptions, and again with what this installation measured.",
    )
    parser.add_argument("--assumptions", type=Path, metavar="FILE", help="values that differ from the packaged ones")
    parser.add_argument("--crawl", action="append", help="measure these crawls only (default: every one)")
    parser.add_argument("--assumed-only", action="store_true", help="do not look at this installation")
    parser.add_argument("--out", type=Path, metavar="FILE.html", help="write the page with every formula")
    add_pipeline(parser)
    parser.set_defaults(call=funnel)


def funnel(args: argparse.Namespace) -> int:
    """``gristmill plan funnel``."""
    from gristmill.plan import assumptions, page
    from gristmill.plan.measured import measure, tally

    known = assumptions.read(args.assumptions)
    measured, seen = {}, {}
    if not args.assumed_only:
        place = pipeline_of(args)
        known = assumptions.read(args.assumptions or place.site.assumptions)
        crawls = crawls_of(args, place.store)
        measured = measure(place.store, place.plan, crawls)
        seen = {c: tally(place.store, place.plan, [c])[0]["crawl_slices"].docs_in for c in crawls}
    report = page.Report(known, measured)
    print(page.text(report), end="")
    if args.out:
        args.out.write_text(page.page(report, seen), "utf-8")
        print(f"wrote {args.out}")
    return 0


COMMANDS = [_plan]
