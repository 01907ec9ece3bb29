"""What a watched worker does with a slice of a bucket: read each record's bytes and extract.

Belongs here: the handler that ``watch.py`` calls, and the picklable pieces it is given. Does not belong here: dealing
slices and collecting results (``stages.py``), and extraction itself (``document.py``).
"""

from collections.abc import Callable
from dataclasses import dataclass

from gristmill.acquire.records import RawWarc
from gristmill.extract import document
from gristmill.params import ExtractParams
from gristmill.store import Key, Store


@dataclass(frozen=True)
class Setup:
    """Where the bytes are, and how to extract."""

    root: str
    options: tuple[tuple[str, object], ...]
    key: Key
    params: ExtractParams


@dataclass(frozen=True)
class Record:
    """One record of the index."""

    offset: int
    length: int
    url: str
    content_type: str
    charset: str | None
    tags: tuple[str, ...]


def handler(setup: Setup) -> Callable[[Record], document.Outcome]:
    """The function for one record; called once in a worker for all slices of a bucket."""
    warc = RawWarc(Store(setup.root, dict(setup.options)), setup.key)

    def work(record: Record) -> document.Outcome:
        return document.extract(
            warc.payload(record.offset, record.length), url=record.url, content_type=record.content_type,
            header_charset=record.charset, params=setup.params, tags=record.tags,
        )

    return work
