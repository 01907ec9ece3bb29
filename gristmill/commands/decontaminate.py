"""The command ``gristmill decontaminate``: hold-outs against a version, or against texts that are in no store yet.

Belongs here: arguments and printing. Does not belong here: matching (``gristmill/decontaminate``).
"""

import argparse
import json
from pathlib import Path
from typing import Any

from gristmill.commands.places import Workplace, add_pipeline, pipeline_of
from gristmill.errors import ManifestError, ParameterError


def _decontaminate(commands: Any) -> None:
    parser = commands.add_parser("decontaminate", help="benchmark items in what a run is shown, or in texts")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--stream", metavar="RECIPE", help="a recipe file (its newest version), or a version")
    what.add_argument("--texts", type=Path, nargs="+", metavar="FILE", help="synthetic data, say, before it is landed")
    parser.add_argument("--field", default="text", help="with --texts: the field of a text")
    parser.add_argument("--every", type=int, default=1, help="only each n-th shard")
    parser.add_argument("--holdout-hash", help="other hold-outs than those that the parameters pin")
    parser.add_argument("--judge", nargs=2, metavar=("ENDPOINT", "MODEL"), help="ask a language model about what is "
                        "pending review; its verdicts go to --verdicts and change no flag")
    parser.add_argument("--verdicts", type=Path, default=Path("verdicts.jsonl"))
    parser.add_argument("--out", type=Path, help="the page with matches side by side (HTML)")
    parser.add_argument("--json", type=Path, help="the summary as JSON")
    add_pipeline(parser)

    def call(args: argparse.Namespace) -> int:
        from gristmill.acquire.holdout import access, open_holdout
        from gristmill.decontaminate import index, judge, report, stream
        from gristmill.loader.manifest import open_manifest
        from gristmill.quality.labelled import read_texts

        if args.every < 1:
            raise ParameterError("--every must be 1 or more")
        place = pipeline_of(args)
        params = place.plan.params
        pinned = args.holdout_hash or params.extract.holdout_hash
        if pinned is None:
            raise ParameterError("no hold-outs are pinned: pass --holdout-hash, or set params.extract.holdout_hash")
        held = open_holdout(place.site.holdout, pinned, options=access(place.site, place.store.options))
        idx = index.build(held.benchmarks(), params.decontaminate)
        if args.texts:
            title = ", ".join(p.name for p in args.texts)
            found = stream.probe_texts([row for path in args.texts for row in read_texts(path, args.field)], idx)
        else:
            title = _version(place, args.stream)
            manifest = open_manifest(place.site.store, title)
            decode = stream.decoder(params.tokenize, place.site.models)
            found = stream.scan(manifest, idx, decode, every=args.every)
        summary = found.summary(idx)
        print(f"{title}: {summary['flagged']:,} of {found.documents:,} documents hold an item of hold-outs "
              f"{held.hash[:16]}")
        for name, b in summary["benchmarks"].items():
            print(f"{name:<20} {b['leaked_items']:>6,} of {b['items']:,} items in {b['documents']:,} documents, "
                  f"{b['tokens']:,} tokens; longest run {b['longest_run']}; {b['pending_review']} pending review")
        if args.judge:
            verdicts = judge.judge(found.matches, args.judge[0], args.judge[1], args.verdicts)
            counts = {v: sum(x.verdict == v for x in verdicts) for v in (judge.YES, judge.NO, judge.UNDECIDED)}
            print("judged: " + ", ".join(f"{v} {n}" for v, n in counts.items()) + f"; wrote {args.verdicts}")
        if args.json:
            args.json.write_text(json.dumps(summary, indent=1, sort_keys=True) + "\n", "utf-8")
        if args.out:
            pairs = sorted(found.matches, key=lambda m: (m["benchmark"], -m["longest_run"], m["doc_id"], m["item"]))
            args.out.write_text(report.page(title, held.hash, summary, pairs), "utf-8")
            print(f"wrote {args.out}")
        return 1 if summary["flagged"] else 0

    parser.set_defaults(call=call)


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
