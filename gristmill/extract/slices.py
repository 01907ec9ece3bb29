"""What a watched worker does with a slice of a bucket: read each record's bytes and extract.

Belongs here: the handler that ``watch.py`` calls, and the picklable pieces it is given. Does not belong here: dealing
slices and collecting results (``stages.py``), and extraction itself (``document.py``).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

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


# Something of everything that is compiled or imported on first use: undeclared Latin-1, mojibake, hidden text, maths.
_WARM = (
    "<html><head><title>t</title></head><body><nav><a href='/'>n</a></nav><main><h1>A page</h1><p>The caf\xe9 and "
    "the caf\xc3\xa9 are the same, and this sentence is long enough to be taken for text by whoever looks at it.</p>"
    "<p style='display:none'>hidden</p><math><mi>x</mi></math><ul><li>one</li></ul><table><tr><td>two</td></tr></table>"
    "<pre>three</pre></main></body></html>"
).encode("latin-1")


@cache
def warm_up(params: ExtractParams) -> None:
    """Load kernels and engines before the first document, which would be charged for compiling them and given up."""
    engines = (params.engine, "trafilatura") if params.engine == "two_pass" else (params.engine,)
    for engine in engines:
        document.extract(_WARM, url="https://warm.example/", content_type="text/html", header_charset=None,
                         params=params.model_copy(update={"engine": engine}))


def handler(setup: Setup) -> Callable[[Record], document.Outcome]:
    """The function for one record; called once in a worker for all slices of a bucket."""
    warc = RawWarc(Store(setup.root, dict(setup.options)), setup.key)
    warm_up(setup.params)

    def work(record: Record) -> document.Outcome:
        return document.extract(
            warc.payload(record.offset, record.length), url=record.url, content_type=record.content_type,
            header_charset=record.charset, params=setup.params, tags=record.tags,
        )

    return work
