"""Commands on quality scorers: train, evaluate, annotate, reference quantiles, and the ablation of a threshold.

Belongs here: arguments and printing. Does not belong here: any classifier (``gristmill/quality``).
"""

import argparse
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gristmill.commands.asking import add_asking, asking_of
from gristmill.commands.places import add_pipeline, pipeline_of
from gristmill.errors import ParameterError

if TYPE_CHECKING:
    from gristmill.quality.fasttext_classifier import Evaluation
    from gristmill.quality.labelled import Labelled

KIND = ("fasttext", "encoder", "ngram")


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
        if not args.labels.is_file():
            raise ParameterError(f"no file of labels {args.labels}")
        if not args.texts or not 0 < args.keep_from <= annotate.MAX_SCORE:
            raise ParameterError("--labels needs --texts (what was labelled), and --keep-from over 0 and at most "
                                 f"{annotate.MAX_SCORE}")
        rows = labelled.distinct(row for path in args.texts for row in labelled.read_rows(path, args.field))
        return labelled.joined(annotate.read(args.labels), [row[:2] for row in rows], args.keep_from)
    if not args.good or not args.bad:
        raise ParameterError("name texts of both sides (--good, --bad), or --labels with --texts")
    return labelled.sides(args.good, args.bad, args.field)


def _train(actions: Any) -> None:
    parser = actions.add_parser("train", help="train a scorer, judge it on held-out texts, register it by hash")
    parser.add_argument("--kind", choices=KIND, default="fasttext",
                        help="fastText; heads of a sentence encoder; an n-gram model of the good texts (ARPA)")
    parser.add_argument("--out", type=Path, required=True, help="model file to write")
    parser.add_argument("--hold-out", type=_share, default=0.1, help="share of the texts that is only judged on")
    parser.add_argument("--small", action="store_true", help="fastText: dim 16, 50,000 buckets: for few texts")
    parser.add_argument("--pack", action="store_true", help="fastText: product quantisation (.ftz), a tenth of the "
                        "bytes or less, judged as packed")
    parser.add_argument("--hidden", type=int, default=0, help="encoder: units of a hidden layer (0: linear)")
    parser.add_argument("--head", help="encoder: the head's name (default: that of the label of good texts)")
    parser.add_argument("--add", action="store_true", help="encoder: add the head to those that --out holds")
    parser.add_argument("--order", type=int, default=3, help="n-gram model: words of its longest n-grams")
    _sides(parser)
    parser.set_defaults(call=_call_train)


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError("it must lie between 0 and 1: a classifier is judged on texts it never saw")
    return value


def _call_train(args: argparse.Namespace) -> int:
    from gristmill import models
    from gristmill.quality import fasttext_classifier as ft
    from gristmill.quality.labelled import hold_out

    if args.kind == "ngram":
        from gristmill.quality import kneser_ney, perplexity

        if not 1 <= args.order <= perplexity.MAX_ORDER:
            raise ParameterError(f"--order must lie between 1 and {perplexity.MAX_ORDER}")
    cache = _cache(args)
    data, held = hold_out(_data(args), args.hold_out)
    head = args.head or ft.GOOD
    if args.kind == "encoder":
        from gristmill.quality import encoder, heads

        trained = encoder.train({head: (data.texts, data.targets)}, cache, how=heads.Fit(hidden=max(0, args.hidden)))
        heads.write(heads.joined(heads.read(args.out), trained) if args.add else trained, args.out)
    elif args.kind == "ngram":
        kneser_ney.write_arpa(kneser_ney.train(data.good, args.order), args.out)
    else:
        few = ft.Training(buckets=ft.buckets_for(len(data.texts)))
        how = ft.DEMO if args.small else few
        ft.train(data.good, data.bad, args.out, replace(how, pack=args.pack))
    ref = models.put(args.out, cache)
    print(f"trained on {len(data.good)} good and {len(data.bad)} bad texts; wrote {args.out} "
          f"({args.out.stat().st_size:,} bytes)")
    if args.kind == "fasttext" and not args.pack:
        print("most of a fastText file is its table; --pack makes it a tenth or less, --small a quick one")
    _show([(args.out.name, _judged(args.out, held, cache, head))])
    print("registered; pin it in pipeline.yaml (params.quality):")
    print(f"  {'classifier' if args.kind == 'fasttext' else 'scorers'}: {json.dumps(_pin(args.kind, ref, head))}")
    return 0


def _pin(kind: str, ref: Any, head: str) -> Any:
    model = ref.model_dump()
    if kind == "fasttext":
        return model
    if kind == "ngram":
        return [{"name": "ngram", "kind": kind, "model": model}]
    named = re.sub("[^a-z0-9_]", "_", head.lower().removeprefix("__label__"))
    name = named if named[:1].isalpha() else f"encoder_{named.strip('_')}"
    return [{"name": name, "kind": kind, "model": model, "label": head}]


def _kind_of(path: Path) -> str:
    """Of a model file, by its first bytes."""
    with path.open("rb") as file:
        head = file.read(64)
    return "encoder" if head.lstrip()[:1] == b"{" else "ngram" if head.lstrip()[:6] == b"\\data\\" else "fasttext"


def _judged(path: Path, held: "Labelled", cache: Path, head: str) -> "Evaluation":
    from gristmill.quality import fasttext_classifier as ft

    kind = _kind_of(path)
    if kind == "encoder":
        from gristmill.quality import encoder

        return encoder.evaluate(path, held.good, held.bad, cache, name=head)
    if kind == "ngram":
        import numpy as np

        from gristmill.quality.perplexity import LanguageModel

        model = LanguageModel.read(path)
        high, low = (np.nan_to_num(model.score(texts), nan=-99.0) for texts in (held.good, held.bad))
        return ft.evaluation(high, low, float(np.median(np.concatenate([high, low]))) if held.texts else 0.0)
    return ft.evaluate(ft.Classifier(path), held.good, held.bad)


def _show(results: "Sequence[tuple[str, Evaluation]]") -> None:
    first = results[0][1]
    print(f"held out: {first.good} good, {first.bad} bad texts")
    wide = max(len(name) for name, _ in results)
    for name, result in results:
        print(f"{name:<{wide}}  accuracy {result.accuracy:.4f}  precision {result.precision:.4f}  "
              f"recall {result.recall:.4f}  AUC {result.auc:.4f}")


def _evaluate(actions: Any) -> None:
    parser = actions.add_parser("evaluate", help="judge scorers on labels that they were not trained on, side by side")
    parser.add_argument("model", type=Path, nargs="+",
                        help="fastText files, heads of an encoder (.json), n-gram models (.arpa)")
    parser.add_argument("--hold-out", type=_share, help="only the texts that `train --hold-out` of the same share "
                        "judges on (chosen by their hashes)")
    parser.add_argument("--head", help="encoder: which head (default: that of the label of good texts)")
    parser.add_argument("--json", action="store_true")
    _sides(parser)

    def call(args: argparse.Namespace) -> int:
        from gristmill.quality.fasttext_classifier import GOOD
        from gristmill.quality.labelled import hold_out

        data = _data(args)
        held = hold_out(data, args.hold_out)[1] if args.hold_out else data
        cache = _cache(args) if any(_kind_of(path) == "encoder" for path in args.model) else Path()
        results = [(str(path), _judged(path, held, cache, args.head or GOOD)) for path in args.model]
        if args.json:
            found: list[dict[str, Any]] = [{"model": name, **asdict(r)} for name, r in results]
            print(json.dumps(found if len(found) > 1 else found[0], sort_keys=True))
        else:
            _show(results)
        return 0

    parser.set_defaults(call=call)


def _annotate(actions: Any) -> None:
    parser = actions.add_parser("annotate", help="have language models score texts 0 to 5 under a rubric")
    parser.add_argument("--texts", type=Path, nargs="+", required=True, metavar="FILE")
    parser.add_argument("--labeller", nargs=2, action="append", required=True, metavar=("ENDPOINT", "MODEL"),
                        help="an OpenAI-compatible endpoint (http://host:port/v1) and its model; may be repeated")
    parser.add_argument("--rubric", type=Path, action="append", metavar="FILE", help="JSON {name, lang, points: [...]} "
                        "(default: educational value); several: each for the texts of its lang (\"*\": of any other)")
    parser.add_argument("--lang-field", default="lang", help="the field of a text's language (ISO 639-3)")
    parser.add_argument("--sample", type=int, default=0, help="this many texts, the same ones every time (0: all)")
    parser.add_argument("--first-chars", type=int, default=4000, help="how much of a text is shown")
    parser.add_argument("--out", type=Path, required=True, help="labels, prompts and answers, one JSON a line")
    parser.add_argument("--field", default="text")
    add_asking(parser)
    parser.set_defaults(call=_call_annotate)


def _call_annotate(args: argparse.Namespace) -> int:
    from gristmill.fingerprint import digest
    from gristmill.quality import annotate, labelled

    how = asking_of(args)
    if args.sample < 0 or args.first_chars < 1:
        raise ParameterError("--sample must be 0 or more, and --first-chars 1 or more")
    rubrics = [annotate.read_rubric(path) for path in args.rubric] if args.rubric else [annotate.EDUCATIONAL]
    annotate.check(rubrics)
    rows = labelled.distinct(row for path in args.texts for row in labelled.read_rows(path, args.field, args.lang_field)
                             if row[1].strip())
    if not rows:
        raise ParameterError("there is no text to label")
    rows.sort(key=lambda row: digest(row[1]))
    chosen = rows[: args.sample or None]
    labels = []
    for rubric in rubrics:
        own = [row[:2] for row in chosen if annotate.rubric_for(row[2], rubrics) == rubric]
        labels += annotate.annotate(own, rubric, [tuple(x) for x in args.labeller], args.out, how=how,
                                    first_chars=args.first_chars)
    left = sum(annotate.rubric_for(row[2], rubrics) is None for row in chosen)
    keep, leave, unknown = annotate.split(labels)
    print(f"{len(keep)} to keep, {len(leave)} to leave, {len(unknown)} without a valid score"
          + (f", {left} in languages without a rubric" if left else "") + f"; wrote {args.out}")
    for rubric in rubrics if len(args.labeller) > 1 else ():
        own_labels = [label for label in labels if label.rubric == rubric.name]
        print(f"agreement under {rubric.name} (Krippendorff's alpha): {annotate.agreement(own_labels):.3f}")
    return 0


def _freeze(actions: Any) -> None:
    parser = actions.add_parser("freeze", help="freeze every scorer's reference quantiles, by language and source tier")
    parser.add_argument("--crawl", action="append", help="reference crawls, taken through `quality`; may be repeated "
                        "(default: every crawl)")
    parser.add_argument("--bucket", type=int, action="append", help="a host bucket (default: all): a sample of hosts")
    parser.add_argument("--out", type=Path, required=True, help="file to write")
    _models(parser)
    parser.set_defaults(call=_call_freeze)


def _call_freeze(args: argparse.Namespace) -> int:
    from gristmill import models
    from gristmill.quality import ensemble, quantiles
    from gristmill.quality.pools import read_scores
    from gristmill.registry import Registry

    place = pipeline_of(args)
    crawls = args.crawl or Registry(place.store).crawls()
    scores, langs, tiers = read_scores(place.store, place.plan, place.site, crawls, buckets=args.bucket)
    found = ensemble.frozen(scores, langs, tiers)
    if not found.tables:
        raise ParameterError(f"{len(langs)} documents and {len(scores)} scorers give no quantiles: the least is "
                             f"{quantiles.MIN_SCORES} scores of one scorer")
    quantiles.write(found, args.out)
    ref = models.put(args.out, _cache(args))
    pairs = len(set(zip(langs.tolist(), tiers.tolist(), strict=True)))
    for name in sorted({key[0] for key in found.tables}):
        own = sum(key[0] == name and quantiles.ANY not in key for key in found.tables)
        print(f"{name}: {own} of {pairs} pairs of language and source tier have quantiles of their own; the others are "
              "measured against their language's, or all")
    print("registered; pin it in pipeline.yaml (params.quality), and percentiles are made again:")
    print(f"  quantiles: {json.dumps(ref.model_dump())}")
    return 0


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

        for name, _ in args.evaluate:
            if not re.fullmatch(r"\w[\w.-]*", name):
                raise ParameterError(f"--evaluate: {name!r} is no name (letters, digits, '.', '_', '-')")
        if len({name for name, _ in args.evaluate}) < len(args.evaluate):
            raise ParameterError("--evaluate: two sets of texts have one name")
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
    parser = commands.add_parser("quality", help="train and judge scorers, bootstrap labels, freeze quantiles, ablate "
                                 "a threshold")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for add in (_train, _evaluate, _annotate, _freeze, _ablate):
        add(actions)


COMMANDS = [_quality]
