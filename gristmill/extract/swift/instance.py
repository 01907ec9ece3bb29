"""A trafilatura of our own to put faster parts into: a second instance of the installed package.

``import trafilatura`` anywhere else in the process still gets the package as it is. Belongs here: loading the instance,
and the versions that the faster parts were held against. Does not belong here: the parts.
"""

import importlib
import importlib.metadata
import importlib.util
import sys
from functools import cache
from types import ModuleType
from typing import Any

NAME = "gristmill_trafilatura"
# Output is compared byte for byte with these (tests/extract/test_swift.py). Another version is run as it is.
PINNED = {"trafilatura": "2.3.1", "jusText": "3.0.2"}


def installed() -> dict[str, str]:
    """Versions of the pinned packages."""
    return {name: importlib.metadata.version(name) for name in PINNED}


@cache
def package() -> ModuleType:
    """The second instance; its modules refer to each other and not to those of the first."""
    found = importlib.util.find_spec("trafilatura")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("trafilatura is not installed", name="trafilatura")
    spec = importlib.util.spec_from_file_location(
        NAME, found.origin, submodule_search_locations=list(found.submodule_search_locations or [])
    )
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError("trafilatura cannot be loaded a second time", name="trafilatura")
    made = importlib.util.module_from_spec(spec)
    sys.modules[NAME] = made
    spec.loader.exec_module(made)
    return made


def module(name: str) -> Any:
    """A module of the instance, as ``trafilatura.NAME``."""
    package()
    return importlib.import_module(f"{NAME}.{name}")
