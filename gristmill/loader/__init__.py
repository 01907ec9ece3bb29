"""Feeding a trainer: the sampler, the reader, the loader. Imports with numpy, pyarrow, numba and xxhash alone.

Names resolve when first used, so that ``gristmill.mixture.schedule`` can use the sampler's arithmetic without a cycle.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gristmill.loader.loader import TokenLoader
    from gristmill.loader.manifest import Manifest, open_manifest
    from gristmill.loader.skips import SkipFolder, SkipSet

__all__ = ["Manifest", "SkipFolder", "SkipSet", "TokenLoader", "open_manifest"]

_HOMES = {
    "TokenLoader": "gristmill.loader.loader",
    "Manifest": "gristmill.loader.manifest",
    "open_manifest": "gristmill.loader.manifest",
    "SkipSet": "gristmill.loader.skips",
    "SkipFolder": "gristmill.loader.skips",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
