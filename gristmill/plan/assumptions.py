"""The assumptions file: reading the packaged one, and a person's that names what differs.

Belongs here: names, units and sources of the values that a plan rests on. Does not belong here: what follows from them
(``model.py``).
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from gristmill.errors import ParameterError

SHARE = "share"
# Units of what is counted: a whole number, and at least so many.
COUNTED = {"bands": 1, "rows": 1, "cores": 1, "GPUs": 1, "ranks": 1, "connections": 1, "crawls": 0, "runs": 0,
           "sites": 0}
LEAST = {"corpus.crawls": 1}  # where it is more than its unit's


@dataclass(frozen=True)
class Assumption:
    """One value, its unit, and where it comes from."""

    name: str
    value: float
    unit: str
    source: str


def packaged() -> dict[str, Assumption]:
    """The reference values of ``gristmill/plan/assumptions.yaml``, by ``section.name``."""
    text = resources.files("gristmill.plan").joinpath("assumptions.yaml").read_text("utf-8")
    out = {}
    for section, entries in yaml.safe_load(text).items():
        for short, entry in entries.items():
            name = f"{section}.{short}"
            out[name] = Assumption(name, float(entry["value"]), str(entry["unit"]), str(entry["from"]))
    return out


def read(path: str | Path | None = None) -> dict[str, Assumption]:
    """The packaged values, with those of a file in their place.

    Args:
        path: YAML of sections; a value is a number, or a mapping with ``value`` and, where wanted, ``from`` and
            ``unit``, which must be the packaged one: values are not converted.

    Raises:
        ParameterError: naming the file, the name (and the nearest there is) and what is wrong.
    """
    known = packaged()
    if path is None:
        return known
    file = Path(path)
    try:
        data: Any = yaml.safe_load(file.read_text("utf-8")) or {}
    except FileNotFoundError as error:
        raise ParameterError(f"no assumptions file {file}") from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ParameterError(f"{file} cannot be read as YAML: {error}") from error
    if not isinstance(data, dict):
        raise ParameterError(f"{file}: an assumptions file holds sections (corpus, yields, rates, ...)")
    for section, entries in data.items():
        if not isinstance(entries, dict):
            raise ParameterError(f"{file}: {section} must hold names and values")
        for short, entry in entries.items():
            known[f"{section}.{short}"] = _entry(file, f"{section}.{short}", entry, known)
    return known


def _entry(file: Path, name: str, entry: Any, known: Mapping[str, Assumption]) -> Assumption:
    if name not in known:
        near = difflib.get_close_matches(name, known, 1)
        raise ParameterError(f"{file}: there is no assumption {name}" + (f"; {near[0]} is meant?" if near else ""))
    value, source = entry, str(file.name)
    if isinstance(entry, dict):
        value, source = entry.get("value"), str(entry.get("from", file.name))
        unit, wrong = entry.get("unit", known[name].unit), sorted(map(str, entry.keys() - {"value", "unit", "from"}))
        if wrong:
            raise ParameterError(f"{file}: {name} has {', '.join(wrong)}: an entry holds value, unit and from")
        if unit != known[name].unit:
            raise ParameterError(f"{file}: {name} has the unit {unit!r}, and the plan reckons it in "
                                 f"{known[name].unit!r}: give the value in that")
    if isinstance(value, bool):
        raise ParameterError(f"{file}: {name} is {value!r}, not a number")
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise ParameterError(f"{file}: {name} is {value!r}, not a number") from error
    if not 0 <= number < float("inf"):
        raise ParameterError(f"{file}: {name} is {number}: it must be 0 or more, and finite")
    if known[name].unit == SHARE and number > 1:
        raise ParameterError(f"{file}: {name} is {number:g}: a share must be 0 to 1")
    least = LEAST.get(name, COUNTED.get(known[name].unit))
    if least is not None and (number < least or number != int(number)):
        raise ParameterError(f"{file}: {name} is {number:g}: a count must be a whole number of {least} or more")
    return replace(known[name], value=number, source=source)


def values(assumptions: Mapping[str, Assumption]) -> dict[str, float]:
    """Name -> value."""
    return {name: a.value for name, a in assumptions.items()}
