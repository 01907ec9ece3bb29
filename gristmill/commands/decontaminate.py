"""The command ``gristmill decontaminate``: hold-outs against a version, against texts that are in no store yet, or as
the stage found them in a crawl.

Belongs here: arguments and printing. Does not belong here: matching (``gristmill/decontaminate``).
"""

import argparse
import json
from pathlib import Path
from typing import Any

from gristmill.commands.asking import add_asking, asking_of
from gristmill.commands.places import Workplace, add_pipeline, pipeline_of
from gristmill.errors import ManifestError, ParameterError


def _decontaminate(commands: Any) -> None:
    parser = commands.add_parser("decontaminate", help="benchmark items in a run's stream, in texts, in a crawl",
                                 description="Ends with 1 where an item is found.")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--stream", metavar="RECIPE", help="a recipe file (its newest version), or a version")
    what.add_argument("--texts", type=Path, nargs="+", metavar="FILE", help="synthetic data, say, before it is landed")
    what.add_argument("--crawl", metavar="NAME", help="what the stage found in a crawl: its report, and what waits for "
                      "review, for --judge")
    parser.add_argument("--field", default="text", help="with --texts: the field of a text")
    parser.add_argument("--every", type=int, default=1, help="with --stream: only each n-th shard")
    parser.add_argument("--semantic", action="store_true", help="with --texts or --stream: by meaning too, by the "
                        "encoder of params.decontaminate.semantic (default: the packaged one)")
    parser.add_argument("--holdout-hash", help="other hold-outs than those that the parameters pin")
    parser.add_argument("--judge", nargs=2, metavar=("ENDPOINT", "MODEL"), help="ask a language model about what is "
                        "pending review; its verdicts go to --verdicts and change no flag")
    parser.add_argument("--verdicts", type=Path, default=Path("verdicts.jsonl"))
    parser.add_argument("--out", type=Path, help="the page with matches side by side (HTML)")
    parser.add_argument("--json", type=Path, help="the summary as JSON")
    add_asking(parser)
    add_pipeline(parser)
    parser.set_defaults(call=_call)


def _call(args: argparse.Namespace) -> int:
    from gristmill.decontaminate import judge, report

    if args.every < 1:
        raise ParameterError("--every must be 1 or more")
    for option, given, others in (("--every", args.every > 1, (args.texts, args.crawl)),
                                  ("--semantic", args.semantic, (args.crawl,)),
                                  ("--holdout-hash", args.holdout_hash, (args.crawl,))):
        if given and any(others):
            raise ParameterError(f"{option} says nothing about {'texts' if args.texts else 'a crawl'}")
    how = asking_of(args)
    place = pipeline_of(args)
    title, pinned, summary, pairs = _in_crawl(place, args.crawl) if args.crawl else _probed(place, args)
    print(f"{title}: {summary['flagged']:,} of {summary['documents']:,} documents hold an item of hold-outs "
          f"{pinned[:16]}")
    for name, b in summary["benchmarks"].items():
        print(f"{name:<20} {b['leaked_items']:>6,} of {b['items']:,} items in {b['documents']:,} documents "
              f"({b['document_rate']:.2%}), {b['tokens']:,} tokens; longest run {b['longest_run']}; "
              f"{b['pending_review']} pending review")
    if args.judge:
        verdicts = judge.judge(pairs, args.judge[0], args.judge[1], args.verdicts, how=how)
        counts = {v: sum(x.verdict == v for x in verdicts) for v in (judge.YES, judge.NO, judge.UNDECIDED)}
        print("judged: " + ", ".join(f"{v} {n}" for v, n in counts.items()) + f"; wrote {args.verdicts}")
        pairs = judge.beside(pairs, verdicts)
    if args.json:
        args.json.write_text(json.dumps(summary, indent=1, sort_keys=True) + "\n", "utf-8")
    if args.out:
        args.out.write_text(report.page(title, pinned, summary, pairs), "utf-8")
        print(f"wrote {args.out}")
    return 1 if summary["flagged"] else 0


Found = tuple[str, str, dict[str, Any], list[dict[str, Any]]]  # title, hash of the hold-outs, summary, matches


def _in_crawl(place: Workplace, crawl: str) -> Found:
    """What the stage has found already."""
    from gristmill.decontaminate.stages import gathered
    from gristmill.funnel import BY_NAME
    from gristmill.partition import Partition
    from gristmill.registry import Registry

    Registry(place.store).ordinal(crawl)
    part = Partition(place.store, place.plan, BY_NAME["contamination_report"], crawl, None, place.site)
    summary, pairs = gathered(part)
    return crawl, summary["holdout_hash"], summary, pairs


def _probed(place: Workplace, args: argparse.Namespace) -> Found:
    """Texts, or the documents of a version, probed now."""
    from gristmill.acquire.holdout import access, open_holdout
    from gristmill.decontaminate import index, stream
    from gristmill.loader.manifest import open_manifest
    from gristmill.params import EmbedderParams
    from gristmill.quality.labelled import read_texts

    params = place.pipeline.params
    pinned = args.holdout_hash or params.extract.holdout_hash
    if pinned is None:
        raise ParameterError("no hold-outs are pinned: pass --holdout-hash, or set params.extract.holdout_hash")
    held = open_holdout(place.site.holdout, pinned, options=access(place.site, place.store.options))
    idx = index.build(held.benchmarks(), params.decontaminate)
    embedder = params.decontaminate.semantic or EmbedderParams() if args.semantic else None
    probe = stream.prober(idx, params.decontaminate, embedder, place.site.models)
    if args.texts:
        title = ", ".join(p.name for p in args.texts)
        rows = [row for path in args.texts for row in read_texts(path, args.field)]
        if not rows:
            raise ParameterError(f"there is no text in {title}")
        found = stream.probe_texts(rows, idx, probe)
    else:
        title = _version(place, args.stream)
        manifest = open_manifest(place.site.store, title)
        found = stream.scan(manifest, idx, stream.decoder(params.tokenize, place.site.models), probe, every=args.every)
    pairs = sorted(found.matches, key=lambda m: (m["benchmark"], -m["longest_run"], m["doc_id"], m["item"], m["span"]))
    return title, held.hash, found.summary(idx), pairs


def _version(place: Workplace, named: str) -> str:
    """A version's own name, or the newest version that was built from a recipe file."""
    from gristmill.mixture import recipe as recipes
    from gristmill.release.standing import read_manifest, registered

    if not named.endswith((".yaml", ".yml", ".json")):
        return named
    wanted = recipes.read_with_policy(Path(named))[0].hash
    for version in reversed(registered(place.store)):
        try:
            if read_manifest(place.store, version)[0]["recipe_hash"] == wanted:
                return version
        except ManifestError:  # dropped since
            continue
    raise ManifestError(f"no version was built from {named}: gristmill manifest build VERSION --recipe {named}")


COMMANDS = [_decontaminate]
