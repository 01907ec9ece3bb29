"""Fingerprints: a hash of everything that decides a stage's bytes.

Belongs here: canonical JSON and the hash over it. A value with no stable bytes raises instead of being guessed at
(the idea of marin's ``fingerprint.py``). Does not belong here: which stages there are (``funnel.py``).
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from enum import Enum
from typing import Any

FINGERPRINT_HEX = 16  # 64 bits: a name for a path, checked again by the manifest's content hashes


def stable(value: Any) -> Any:
    """Return ``value`` as JSON-able data with one possible spelling.

    Raises:
        TypeError: for a value with no stable bytes (a function, a set, an open file, a float that is not finite).
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise TypeError(f"{value!r} has no stable JSON spelling")
        return value
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    if isinstance(value, Enum):
        return stable(value.value)
    if hasattr(value, "model_dump"):
        return stable(value.model_dump(mode="json"))
    if is_dataclass(value) and not isinstance(value, type):
        return stable(asdict(value))
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise TypeError("only mappings with string keys have a stable spelling")
        return {key: stable(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [stable(item) for item in value]
    raise TypeError(f"{type(value).__name__} has no stable bytes; give the stage a plain value instead")


def canonical_json(value: Any) -> bytes:
    """One value, one byte string: sorted keys, no spaces, ASCII only."""
    return json.dumps(stable(value), sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode("ascii")


def digest(value: Any) -> str:
    """Full sha256 (hex) of the canonical JSON of ``value``."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def fingerprint(value: Any) -> str:
    """Short sha256 (16 hex digits) of the canonical JSON of ``value``; for paths and as Dagster's code_version."""
    return digest(value)[:FINGERPRINT_HEX]
