r"""JSON from people and other tools, whose strings are text: what UTF-8 cannot hold is refused where it is read.

Belongs here: one reading function, and the same check for values of other formats (YAML). Does not belong here: our own
files, which hold no such thing.

A lone surrogate (``"\ud800"``) is valid JSON and no text: it would fail later, far from the line that holds it.
"""

import json
from typing import Any


def require_text(value: Any) -> Any:
    """The value itself. Raises ValueError where a string in it is not Unicode text."""
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            found = ord(error.object[error.start])
            raise ValueError(f"it holds a lone surrogate (\\u{found:04x}): that is no text") from error
    elif isinstance(value, dict):
        for key, held in value.items():
            require_text(key)
            require_text(held)
    elif isinstance(value, list):
        for held in value:
            require_text(held)
    return value


def loads(data: str | bytes) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: it is not JSON, a string of it is not Unicode text, or it is nested too deeply.
    """
    text = data.decode("utf-8-sig") if isinstance(data, bytes) else data
    try:
        value = json.loads(text)
        if "\\ud" in text or "\\uD" in text or not isinstance(data, bytes):
            require_text(value)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    return value
