"""The command line. Every command imports what it needs when it runs, so a training host can call ``gristmill replay``.

Belongs here: arguments, and printing what library functions return. Does not belong here: anything that launches
Dagster runs (``launch.py`` in the project folder, started as a subprocess), and any computing.
"""

import argparse
import sys
from collections.abc import Sequence

from gristmill.commands import COMMANDS
from gristmill.commands.printing import close_output, printing, sentence
from gristmill.errors import GristmillError


def build_parser() -> argparse.ArgumentParser:
    """All commands; see ``gristmill/commands``."""
    parser = argparse.ArgumentParser(
        prog="gristmill", description="Web crawls and other text in, training-ready tokens out."
    )
    parser.add_argument("--version", dest="show_version", action="store_true", help="print the version")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for command in COMMANDS:
        command(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code. A person's error is printed without a traceback."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["run"]:  # its arguments are launch.py's
        from gristmill.commands.project import run_launch

        return run_launch(arguments[1:])
    with printing():
        return _call(arguments)


def _call(arguments: Sequence[str]) -> int:
    parser = build_parser()
    args = parser.parse_args(arguments)
    if args.show_version:
        from gristmill import __version__

        print(__version__)
        return 0
    if args.command is None:
        parser.print_help()
        return 2
    try:
        code = int(args.call(args) or 0)
        sys.stdout.flush()
        return code
    except GristmillError as error:
        print(f"gristmill: {error}", file=sys.stderr)
        return 1
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "gristmill":
            raise
        print(f"gristmill: this command needs the package {error.name}, of the extra pipeline: "
              "pip install '.[pipeline]' in the repository's folder", file=sys.stderr)
        return 1
    except BrokenPipeError:  # whoever read it has seen enough
        close_output()
        return 0
    except OSError as error:  # a place that cannot be read or written
        print(f"gristmill: {sentence(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("gristmill: stopped", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
