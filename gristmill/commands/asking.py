"""Options on how a language model behind an endpoint is asked.

Belongs here: adding and reading them. Does not belong here: commands, and asking (``gristmill/quality/endpoint.py``).
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from gristmill.errors import ParameterError

if TYPE_CHECKING:
    from gristmill.quality.endpoint import Asking


def add_asking(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.add_argument("--key-variable", metavar="NAME", help="environment variable that holds the endpoint's key")
    parser.add_argument("--at-once", type=int, default=1, metavar="N", help="questions in flight (vLLM: 64 and more)")
    parser.add_argument("--timeout", type=float, default=120, metavar="SECONDS", help="for one answer")
    parser.add_argument("--max-tokens", type=int, default=400, metavar="N", help="of an answer")


def asking_of(args: argparse.Namespace) -> Asking:
    """What they say.

    Raises:
        ParameterError: the variable is not set, or a number is none that can be used.
    """
    from gristmill.quality.endpoint import Asking

    if args.key_variable and args.key_variable not in os.environ:
        raise ParameterError(f"the environment variable {args.key_variable} is not set")
    if args.at_once < 1 or args.max_tokens < 1 or not args.timeout > 0:
        raise ParameterError("--at-once, --timeout and --max-tokens must be over 0")
    return Asking(key=os.environ[args.key_variable] if args.key_variable else None, timeout=args.timeout,
                  max_tokens=args.max_tokens, at_once=args.at_once)
