"""Commands on dataset versions: recipe, manifest, forget, replay.

Belongs here: arguments and printing. Does not belong here: selection, policy, shipping (``release/``), the schedule
(``mixture/``).
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gristmill.commands.places import Workplace, add_pipeline, pipeline_of
from gristmill.errors import GristmillError, RecipeError


def _recipe_of(place: Workplace, named: Path | None) -> Path:
    recipe = named or (Path(place.site.recipe) if place.site.recipe else None)
    if recipe is None:
        raise RecipeError("no recipe: pass --recipe FILE, or name one in pipeline.yaml (site.recipe)")
    return recipe


def _recipe(commands: Any) -> None:
    parser = commands.add_parser("recipe", help="check a mixture recipe before it costs anything")
    parser.add_argument("action", choices=["check"])
    parser.add_argument("--recipe", type=Path, help="default: the site's")
    parser.add_argument("--crawl", action="append", help="default: every crawl with a catalogue")
    add_pipeline(parser)

    def call(args: argparse.Namespace) -> int:
        from gristmill.release.examine import check, explain

        place = pipeline_of(args)
        examined = check(place.store, place.plan, place.site, _recipe_of(place, args.recipe), args.crawl)
        print("\n".join(explain(examined)))
        return 1 if examined.problems else 0

    parser.set_defaults(call=call)


def _manifest(commands: Any) -> None:
    parser = commands.add_parser("manifest", help="build, compare, verify, copy and keep dataset versions")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    def action(name: str, text: str, call: Callable[[argparse.Namespace], int], **arguments: dict[str, Any]) -> None:
        sub = actions.add_parser(name, help=text)
        for argument, settings in arguments.items():
            positional = settings.pop("positional", False)
            sub.add_argument(argument if positional else "--" + argument.replace("_", "-"), **settings)
        add_pipeline(sub)
        sub.set_defaults(call=call)

    version = {"positional": True, "metavar": "VERSION"}
    action("build", "freeze a version", _build, version=dict(version),
           crawl={"action": "append", "default": []}, recipe={"type": Path})
    action("list", "versions that stand, and names that stood", _list)
    action("diff", "what changed between two", _diff, old=dict(version), new=dict(version))
    action("verify", "can it be read in full: by sizes and names, or all of it", _verify, version=dict(version),
           deep={"action": "store_true", "help": "read every shard"}, hash={"help": "the pinned hash"})
    action("ship", "copy what a target lacks", _ship, version=dict(version),
           target={"positional": True, "metavar": "PLACE"},
           deep={"action": "store_true", "help": "read what the target holds too, and replace what is damaged"},
           dollars_per_tb={"type": float, "default": 20.0}, dry_run={"action": "store_true"})
    action("retain", "keep the last N versions", _retain, keep={"positional": True, "type": int, "metavar": "N"},
           dry_run={"action": "store_true"})


def _build(args: argparse.Namespace) -> int:
    from gristmill.commands.project import run_launch

    place = pipeline_of(args)
    arguments = ["--pipeline", str(place.file), "--manifest", args.version]
    if args.crawl:
        arguments += [a for c in args.crawl for a in ("--only", c)]
    if args.recipe:
        arguments += ["--recipe", str(args.recipe.resolve())]
    return run_launch(arguments)


def _list(args: argparse.Namespace) -> int:
    from gristmill.release.standing import NO_VERSION, dropped, read_hash, registered

    store = pipeline_of(args).store
    gone = dropped(store)
    known = registered(store)
    if not known:
        print(NO_VERSION)
    for name in known:
        if name in gone:
            print(f"{name:<16} {gone[name] or '':<64} (dropped)")
            continue
        try:
            print(f"{name:<16} {read_hash(store, name)}")
        except GristmillError as error:  # a build that was stopped
            print(f"{name:<16} cannot be read: {error}")
    return 0


def _diff(args: argparse.Namespace) -> int:
    from gristmill.release.versions import diff

    found = diff(pipeline_of(args).store, args.old, args.new)
    print("\n".join(found.pop("summary")))
    print(json.dumps({k: v for k, v in found.items() if v or k == "same"}, indent=2, sort_keys=True))
    return 0


def _verify(args: argparse.Namespace) -> int:
    from gristmill.release.versions import examine, mending

    store = pipeline_of(args).store
    found = examine(store, args.version, deep=args.deep, expected_hash=args.hash)
    checked = "sizes and names only; --deep reads every shard"
    if args.deep:
        checked = ("every shard was read" if found.read == found.shards else
                   f"{found.read} of {found.shards} shards were read")
    if not found.problems:
        print(f"{args.version} is whole ({checked})")
        return 0
    mend = mending(store, args.version, found.lost) if found.lost else []
    print("\n".join([*found.problems, *mend, f"({checked})"]))
    return 1


def _ship(args: argparse.Namespace) -> int:
    from gristmill.release.ship import ship
    from gristmill.store import Store

    shipped = ship(pipeline_of(args).store, args.version, Store(args.target), dry_run=args.dry_run, deep=args.deep)
    verb = "would copy" if args.dry_run else "copied"
    cost = shipped.bytes_copied / 1e12 * args.dollars_per_tb
    print(f"{verb} {shipped.shards_copied} of {shipped.shards_named} shards, {shipped.bytes_copied:,} bytes "
          f"(${cost:,.2f} at ${args.dollars_per_tb:g} a TB); {shipped.bytes_named:,} bytes are named")
    return 0


def _retain(args: argparse.Namespace) -> int:
    from gristmill.release.versions import retain

    place = pipeline_of(args)
    done = retain(place.store, args.keep, plan=place.plan, dry_run=args.dry_run)
    verb = "would delete" if args.dry_run else "deleted"
    print(f"kept {', '.join(done.kept) or 'none'}; dropped {', '.join(done.dropped) or 'none'}; "
          f"{verb} {done.shards_deleted} shards, {done.bytes_deleted:,} bytes")
    return 0


_KINDS = {"url": "URL", "host": "host", "doc": "id", "contract": "licence or contract"}


def _forget(commands: Any) -> None:
    parser = commands.add_parser("forget", help="write a tombstone: no later manifest shows it")
    parser.add_argument("what", metavar="URL|HOST|DOC|CONTRACT")
    parser.add_argument("--kind", choices=["url", "host", "doc", "contract"], help="default: guessed from its form")
    parser.add_argument("--reason", default="")
    parser.add_argument("--delete-bytes", action="store_true",
                        help="also take its text and tokens out of shards and tables, now and for good")
    add_pipeline(parser)

    def call(args: argparse.Namespace) -> int:
        from gristmill.release.named import count_named
        from gristmill.release.tombstones import classify, forget, normal

        if args.delete_bytes:
            return _delete_bytes(args)

        place = pipeline_of(args)
        kind = args.kind or classify(args.what)
        found = count_named(place.store, place.plan, kind, normal(kind, args.what))
        print(f"wrote {forget(place.store, args.what, kind=kind, reason=args.reason)}; "
              f"the next manifest leaves out what it names: {found:,} documents today")
        if not found:
            print(f"warning: no document of today's catalogue has this {_KINDS[kind]}. If one should, correct the "
                  "spelling and forget it again; this tombstone stays, and holds for what comes", file=sys.stderr)
        return 0

    parser.set_defaults(call=call)


def _delete_bytes(args: argparse.Namespace) -> int:
    from gristmill.registry import Registry
    from gristmill.release.purge import purge
    from gristmill.release.whereabouts import Finder

    place = pipeline_of(args)
    finder = Finder(place.store, place.plan.fingerprints, place.plan.buckets, Registry(place.store).crawls())
    done = purge(place.store, finder, args.what, kind=args.kind, reason=args.reason)
    print(f"{len(done.documents)} documents: {len(done.shards)} shards rewritten, {len(done.scrubbed)} tables "
          "scrubbed; the tombstone stays, and old manifests say what they can no longer reproduce")
    if done.left:
        print("still held by:\n" + "\n".join(f"  {place}" for place in done.left))
    return 0


def _replay(commands: Any) -> None:
    parser = commands.add_parser("replay", help="count a whole run without reading data: realised against asked")
    parser.add_argument("version")
    parser.add_argument("--root", metavar="STORE", help="the store (default: the site's)")
    parser.add_argument("--check-steps", type=int, default=64, help="steps drawn sample by sample")
    add_pipeline(parser)

    def call(args: argparse.Namespace) -> int:
        from gristmill.loader.manifest import open_manifest
        from gristmill.mixture.replay import replay

        manifest = open_manifest(args.root or pipeline_of(args).site.store, args.version)
        told = replay(manifest.schedule, manifest.phases, manifest.max_epochs, manifest.sampler, args.check_steps)
        print(f"{told.steps:,} steps, {told.tokens:,} tokens, {told.samples_checked:,} samples drawn one by one")
        heads = f"{'asked':>8} {'granted':>8} {'realised':>9} {'sequences':>12} {'error':>9}"
        print(f"{'phase':<16} {'source':<20} {heads}")
        for line in told.lines:
            print(f"{line.phase:<16} {line.source:<20} {line.asked:>8.4f} {line.granted:>8.4f} {line.realised:>9.6f} "
                  f"{line.sequences:>12,} {line.error:>9.1e}")
        for e in told.exposures:
            print(f"{e.source}: {e.epochs:.3f} epochs" + (f" (cap {e.cap:g})" if e.cap is not None else ""))
        return 0 if told.holds else 1

    parser.set_defaults(call=call)


COMMANDS = [_recipe, _manifest, _forget, _replay]
