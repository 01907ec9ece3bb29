"""trafilatura's extraction, faster, with the same output to the byte.

Belongs here: ``extract``, and the choice between the faster parts and the package as it is. Does not belong here: the
parts, each in a file of its own, and which replaces what (``install.py``).
"""

import logging
from collections.abc import Callable
from functools import cache

from gristmill.extract.swift import instance

log = logging.getLogger(__name__)


def is_pinned() -> bool:
    """Are the installed packages the versions that the faster parts were held against."""
    return instance.installed() == instance.PINNED


@cache
def load() -> Callable[..., str | None]:
    """``trafilatura.extract``, faster where the installed version is the pinned one."""
    if not is_pinned():
        log.warning(
            "extraction runs trafilatura as it is, at about half the speed: installed are %s, known are %s",
            instance.installed(),
            instance.PINNED,
        )
        import trafilatura

        return trafilatura.extract
    from gristmill.extract.swift import install

    found: Callable[..., str | None] = install.extractor()
    return found
