"""Commands on quality classifiers: train, evaluate, annotate, and the ablation of a threshold.

Belongs here: arguments and printing. Does not belong here: any classifier (``gristmill/quality``).
"""

import argparse
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gristmill.commands.places import add_pipeline, pipeline_of
from gristmill.errors import ParameterError

if TYPE_CHECKING:
    from gristmill.quality.labelled import Labelled

KIND = ("fasttext", "encoder")


def _cache(args: argparse.Namespace) -> Path:
    """The model cache: the option, else the site's."""
    return args.models or Path(pipeline_of(args).site.models)


def _sides(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--good", type=Path, nargs="+", default=[], metavar="FILE",
                        help="texts to keep: .jsonl(.gz), .parquet or .txt")
    parser.add_argument("--bad", type=Path, nargs="+", default=[], metavar="FILE", help="texts to leave")
    parser.add_argument("--labels", type=Path, metavar="FILE", help="labels of `quality annotate`, with --texts")
    parser.add_argument("--texts", type=Path, nargs="+", default=[], metavar="FILE", help="what was labelled")
    parser.add_argument("--keep-from", type=float, default=3, help="score from which a labelled text is good")
    parser.add_argument("--field", default="text", help="the field of a text")
    _models(parser)


def _models(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--models", type=Path, metavar="FOLDER", help="model cache (default: the site's)")
    add_pipeline(parser)


def _data(args: argparse.Namespace) -> "Labelled":
    from gristmill.quality import annotate, labelled

    if args.labels:
        texts = [row for path in args.texts for row in labelled.read_texts(path, args.field)]
        return labelled.joined(annotate.read(args.labels), texts, args.keep_from)
    if not args.good or not args.bad:
        raise ParameterError("name texts of both sides (--good, --bad), or --labels with --texts")
    return labelled.sides(args.good, args.bad, args.field)


def _train(actions: Any) -> None:
    parser = actions.add_parser("train", help="train a classifier, judge it on held-out texts, register it by hash")
    parser.add_argument("--kind", choices=KIND, default="fasttext")
    parser.add_argument("--out", type=Path, required=True, help="model file to write")
    parser.add_argument("--hold-out", type=float, default=0.1, help="share of the texts that is only judged on")
    parser.add_argument("--small", action="store_true", help="fastText: dim 16, 50,000 buckets: for few texts")
    parser.add_argument("--pack", action="store_true", help="fastText: product quantisation (.ftz), a tenth of the "
                        "bytes or less, judged as packed")
    parser.add_argument("--hidden", type=int, default=0, help="encoder: units of a hidden layer (0: linear)")
    _sides(parser)

    def call(args: argparse.Namespace) -> int:
        from gristmill import models
        from gristmill.quality import fasttext_classifier as ft
        from gristmill.quality.labelled import hold_out

        if not 0 < args.hold_out < 1:
            raise ParameterError("--hold-out must lie between 0 and 1: a classifier is judged on texts it never saw")
        cache = _cache(args)
        data, held = hold_out(_data(args), args.hold_out)
        if args.kind == "encoder":
            from gristmill.quality import encoder, heads

            trained = encoder.train({ft.GOOD: (data.texts, data.targets)}, cache, how=heads.Fit(hidden=args.hidden))
            heads.write(trained, args.out)
        else:
            few = ft.Training(buckets=ft.buckets_for(len(data.texts)))
            how = ft.DEMO if args.small else few
            ft.train(data.good, data.bad, args.out, replace(how, pack=args.pack))
        result = _judged(args.kind, args.out, held, cache)
        ref = models.put(args.out, cache)
        print(f"trained on {len(data.good)} good and {len(data.bad)} bad texts; wrote {args.out} "
              f"({args.out.stat().st_size:,} bytes)")
        if args.kind == "fasttext" and not args.pack:
            print("most of a fastText file is its table; --pack makes it a tenth or less, --small a quick one")
        _show(result)
        print("registered; pin it in pipeline.yaml (params.quality):")
        print(f"  {'classifier' if args.kind == 'fasttext' else 'scorers'}: {json.dumps(_pin(args.kind, ref))}")
        return 0

    parser.set_defaults(call=call)


def _pin(kind: str, ref: Any) -> Any:
    model = ref.model_dump()
    return model if kind == "fasttext" else [{"name": "encoder", "kind": "encoder", "model": model}]


def _judged(kind: str, path: Path, held: "Labelled", cache: Path) -> Any:
    from gristmill.quality import fasttext_classifier as ft

    if kind == "encoder":
        from gristmill.quality import encoder

        return encoder.evaluate(path, held.good, held.bad, cache)
    return ft.evaluate(ft.Classifier(path), held.good, held.bad)


def _show(result: Any) -> None:
    print(f"held out: {result.good} good, {result.bad} bad texts")
    print(f"accuracy {result.accuracy:.4f}  precision {result.precision:.4f}  recall {result.recall:.4f}  "
          f"AUC {result.auc:.4f}")


def _evaluate(actions: Any) -> None:
    parser = actions.add_parser("evaluate", help="judge a classifier on labels that it was not trained on")
    parser.add_argument("model", type=Path, help="a fastText file, or heads of an encoder (.json)")
    parser.add_argument("--kind", choices=KIND, default="fasttext")
    parser.add_argument("--json", action="store_true")
    _sides(parser)

    def call(args: argparse.Namespace) -> int:
        cache = _cache(args) if args.kind == "encoder" else Path()
        result = _judged(args.kind, args.model, _data(args), cache)
        if args.json:
            print(json.dumps(asdict(result), sort_keys=True))
        else:
            _show(result)
        return 0

    parser.set_defaults(call=call)


def _annotate(actions: Any) -> None:
    parser = actions.add_parser("annotate", help="have language models score texts 0 to 5 under a rubric")
    parser.add_argument("--texts", type=Path, nargs="+", required=True, metavar="FILE")
    parser.add_argument("--labeller", nargs=2, action="append", required=True, metavar=("ENDPOINT", "MODEL"),
                        help="an OpenAI-compatible endpoint (http://host:port/v1) and its model; may be repeated")
    parser.add_argument("--rubric", type=Path, help="JSON {name, lang, points: [...]}; default: educational value")
    parser.add_argument("--sample", type=int, default=0, help="this many texts, the same ones every time (0: all)")
    parser.add_argument("--out", type=Path, required=True, help="labels, prompts and answers, one JSON a line")
    parser.add_argument("--field", default="text")
    parser.add_argument("--key-variable", metavar="NAME", help="environment variable that holds the endpoints' key")

    def call(args: argparse.Namespace) -> int:
        import os

        from gristmill.fingerprint import digest
        from gristmill.quality import annotate, labelled

        rubric = annotate.read_rubric(args.rubric) if args.rubric else annotate.EDUCATIONAL
        texts = [row for path in args.texts for row in labelled.read_texts(path, args.field) if row[1].strip()]
        texts.sort(key=lambda row: digest(row[1]))
        labels = annotate.annotate(texts[: args.sample or None], rubric, [tuple(x) for x in args.labeller], args.out,
                                   key=os.environ[args.key_variable] if args.key_variable else None)
        keep, leave, unknown = annotate.split(labels)
        print(f"{len(keep)} to keep, {len(leave)} to leave, {len(unknown)} without a valid score; "
              f"agreement (Krippendorff's alpha) {annotate.agreement(labels):.3f}; wrote {args.out}")
        return 0

    parser.set_defaults(call=call)


def _ablate(actions: Any) -> None:
    parser = actions.add_parser("ablate", help="train small proxies on each candidate threshold's pool and judge them")
    parser.add_argument("--crawl", action="append", help="a generation; may be repeated (default: every crawl)")
    parser.add_argument("--column", default="ensemble_percentile", help="of the table quality")
    parser.add_argument("--threshold", type=float, nargs="+", required=True, metavar="X", help="candidates")
    parser.add_argument("--evaluate", nargs=2, action="append", required=True, metavar=("NAME", "FILE"),
                        help="held-out texts; may be repeated")
    parser.add_argument("--field", default="text", help="the field of a held-out text")
    parser.add_argument("--tokens", type=int, required=True, help="of each proxy (bytes, for the built-in one)")
    parser.add_argument("--horizon", type=int, help="tokens that the run will take of this pool (default: --tokens)")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--bucket", type=int, action="append", help="a host bucket (default: all)")
    parser.add_argument("--lang", help="only this language (ISO 639-3)")
    parser.add_argument("--trainer", metavar="COMMAND", help="trains and judges a proxy of your own: "
                        "COMMAND TRAIN.jsonl EVALUATIONS SEED prints a JSON object, name to loss")
    parser.add_argument("--out", type=Path, help="the table as JSON")
    add_pipeline(parser)

    def call(args: argparse.Namespace) -> int:
        from gristmill.quality import ablation
        from gristmill.quality.labelled import read_texts
        from gristmill.quality.pools import read_pool
        from gristmill.registry import Registry

        place = pipeline_of(args)
        crawls = args.crawl or Registry(place.store).crawls()
        pool = read_pool(place.store, place.plan, place.site, crawls, args.column, buckets=args.bucket, lang=args.lang)
        held = {name: [t for _, t in read_texts(Path(file), args.field)] for name, file in args.evaluate}
        proxy = ablation.CommandProxy(args.trainer) if args.trainer else None
        found = ablation.ablate(pool, held, args.threshold, tokens=args.tokens, horizon=args.horizon,
                                seeds=range(1, args.seeds + 1), proxy=proxy)
        print(ablation.render(found))
        if args.out:
            args.out.write_text(json.dumps(found.plain(), indent=1, sort_keys=True) + "\n", "utf-8")
        return 0

    parser.set_defaults(call=call)


def _quality(commands: Any) -> None:
    parser = commands.add_parser("quality", help="train and judge classifiers, bootstrap labels, ablate a threshold")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for add in (_train, _evaluate, _annotate, _ablate):
        add(actions)


COMMANDS = [_quality]
