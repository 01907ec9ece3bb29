"""What a terminal is shown: crawled text without its control characters, and the system's errors as sentences.

Belongs here: making text safe to print. Does not belong here: what is printed.

URLs, titles and texts come from strangers. An escape sequence in one of them would clear the screen, rename the window
or hide what stands around it; so everything that a command prints goes through ``Printable``, whatever it prints.
"""

import contextlib
import os
import re
import sys
from collections.abc import Iterator
from typing import Any, TextIO

# C0 and C1 controls but for tab and line feed, marks that turn or hide what is around them, and lone surrogates.
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")


def printable(text: str) -> str:
    r"""The text with control characters written out (``\x1b``), one line staying one line."""
    return _HIDDEN.sub(lambda found: _written(ord(found[0])), text)


def _written(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


class Printable:
    """A text stream that writes what ``printable`` leaves of it; everything else is the stream's own."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """As the stream's own; returns the characters that were asked for."""
        self._stream.write(printable(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def printing() -> Iterator[None]:
    """Standard output and error through ``Printable``, until the end of the block."""
    out: Any = Printable(sys.stdout)
    err: Any = Printable(sys.stderr)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        yield


def sentence(error: OSError) -> str:
    """What the system said, with the file in front and without its number: ``a.txt: no such file or directory``."""
    if error.strerror is None:
        return str(error)
    said = error.strerror[:1].lower() + error.strerror[1:]
    named = [str(f) for f in (error.filename, error.filename2) if f is not None]
    return f"{' and '.join(named)}: {said}" if named else said


def close_output() -> None:
    """After a broken pipe: point standard output at nothing, so that the last flush at exit does not fail too."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
