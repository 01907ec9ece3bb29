"""The command ``gristmill models``: what the parameters pin and where it lies, and putting a file or a folder there.

Belongs here: arguments and printing. Does not belong here: the registry (``gristmill/models.py``), and training
(``commands/quality.py``).
"""

import argparse
import json
from pathlib import Path
from typing import Any

from gristmill.commands.places import add_pipeline, pipeline_of


def _models(commands: Any) -> None:
    parser = commands.add_parser("models", help="register a model file or folder by hash; see what is pinned and where "
                                 "it lies")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    put = actions.add_parser("put", help="copy a file or folder into the model cache and print what to pin")
    put.add_argument("path", type=Path, nargs="+", metavar="PATH",
                     help="a classifier, a hash list, an ONNX folder: whatever a parameter names by {name, sha256}")
    put.add_argument("--name", help="to pin it by (default: the file's own)")
    put.set_defaults(call=_put)
    listed = actions.add_parser("list", help="what the parameters pin, and what else the cache holds")
    listed.add_argument("--json", action="store_true")
    listed.set_defaults(call=_list)
    for action in (put, listed):
        action.add_argument("--models", type=Path, metavar="FOLDER", help="model cache (default: the site's)")
        add_pipeline(action)


def _put(args: argparse.Namespace) -> int:
    from gristmill import models
    from gristmill.errors import ParameterError

    if args.name and len(args.path) > 1:
        raise ParameterError("--name is for one file or folder")
    cache = args.models or Path(pipeline_of(args).site.models)
    for path in args.path:
        ref = models.put(path, cache, args.name)
        print(json.dumps(ref.model_dump()))
    return 0


def _list(args: argparse.Namespace) -> int:
    from gristmill import models

    place = pipeline_of(args)
    cache = args.models or Path(place.site.models)
    pinned = models.pinned(place.pipeline.params)
    rows = [{"used_by": used, **ref.model_dump(), "where": models.where(ref, cache)} for used, ref in pinned]
    used = {ref.sha256 for _, ref in pinned}
    rest = [{"used_by": None, **ref.model_dump(), "where": "cache"} for ref in models.held(cache)
            if ref.sha256 not in used]
    if args.json:
        print(json.dumps([*rows, *rest], indent=1))
        return 0
    for row in (*rows, *rest):
        print(f"{row['used_by'] or '-':<36} {row['name']:<32} {row['sha256'][:16]}  {row['where']}")
    if not rows and not rest:
        print(f"no model is pinned, and {cache} holds none")
    return 0


COMMANDS = [_models]
