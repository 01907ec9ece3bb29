"""What pydantic found wrong with a person's file, as sentences.

Belongs here: wording. Does not belong here: any model. A misspelt name is answered with the nearest one that there is,
and what a union tried is said once, under the field's own name.
"""

import difflib
from collections.abc import Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

NEAR = 0.7  # of difflib's ratio: further off, a suggestion misleads


def sentences(error: ValidationError, model: type[BaseModel], root: str = "") -> str:
    """All problems of a file in one line, ``field: what is wrong``, separated by semicolons.

    Args:
        error: of the validation.
        model: that was validated.
        root: what the file as a whole is called, where no field is to blame.
    """
    found: dict[str, list[tuple[str, str]]] = {}
    for one in error.errors():
        where = [str(p) for p in one["loc"] if not _of_a_union(p)]
        kind, said = one["type"], one["msg"].removeprefix("Value error, ")
        if kind == "extra_forbidden":
            said = _unknown(str(one["loc"][-1]), _fields(model, one["loc"][:-1]))
        found.setdefault(".".join(where) or root, []).append((kind, said))
    lines = []
    for name, problems in found.items():
        # A union's other members say only that the value is none of theirs.
        telling = [said for kind, said in problems if not kind.endswith("_type")] or [said for _, said in problems]
        lines.append(f"{name}: {' or '.join(dict.fromkeys(telling))}" if name else telling[0])
    return "; ".join(lines)


def nearest(name: str, known: Sequence[str]) -> str:
    """``did you mean X?`` where something is near, else all that there is."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=NEAR)
    return f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known)}"


def _unknown(name: str, known: Sequence[str]) -> str:
    return f"there is no such name; {nearest(name, known)}" if known else "there is no such name"


def _of_a_union(part: Any) -> bool:
    """Is it pydantic's name of a union's member (``function-before[...]``), not a part of the file."""
    return isinstance(part, str) and "[" in part and part.endswith("]")


def _fields(model: type[BaseModel], way: Sequence[Any]) -> list[str]:
    """Names that the model at this place of the file has."""
    at = [model]
    for part in way:
        below = [m for k in at if part in k.model_fields for m in _models(k.model_fields[str(part)].annotation)]
        at = below or at  # a number or a key of a list or mapping of models stays among them
    return sorted({name for k in at for name in k.model_fields})


def _models(kind: Any) -> list[type[BaseModel]]:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return [kind]
    return [m for argument in get_args(kind) for m in _models(argument)]
