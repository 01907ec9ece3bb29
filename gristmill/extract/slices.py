"""What a watched worker does with a slice of a bucket: read each record's bytes and extract.

Belongs here: the handler that ``watch.py`` calls, and the picklable pieces it is given. Does not belong here: dealing
slices and collecting results (``stages.py``), and extraction itself (``document.py``).
"""

import gc
import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

from gristmill.acquire import origin
from gristmill.acquire.records import RawWarc, split_frame
from gristmill.blobs import LocalBlobs
from gristmill.errors import DamagedPartitionError
from gristmill.extract import document
from gristmill.params import ExtractParams
from gristmill.store import Key, Store

COPY_BYTES = 64 << 20


@dataclass(frozen=True)
class Setup:
    """Where the bytes are, and how to extract."""

    root: str
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


class Extracted(NamedTuple):
    """What a worker sends back of a record: an outcome, its text in UTF-8 in the place of its ``text``."""

    outcome: document.Outcome
    utf8: bytes | None
    origin: Mapping[str, str] | None  # what the supplier says of it (``acquire/origin.py``)


@contextmanager
def at_hand(store: Store, key: Key) -> Iterator[Store]:
    """A store on this machine that holds the partition: workers have no network.

    The store itself where it is a folder; else a copy of the one partition on scratch disk, verified, gone afterwards.

    Raises:
        DamagedPartitionError: when what came is not what was committed.
    """
    if isinstance(store.blobs, LocalBlobs):
        yield store
        return
    with store.scratch() as folder:
        near = Store(folder)
        manifest = store.require(key)
        for ref in manifest.role("warc"):
            path, sha = f"{key.path}/{ref.name}", hashlib.sha256()
            target = Path(folder) / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as file:
                for start in range(0, ref.bytes, COPY_BYTES):
                    block = store.blobs.get_range(path, start, min(COPY_BYTES, ref.bytes - start))
                    sha.update(block)
                    file.write(block)
            if sha.hexdigest() != ref.sha256:
                raise DamagedPartitionError(f"{key}: {path} is not what was committed; make it again with --force")
        near.commit(key, manifest)
        yield near


# Something of everything that is compiled or imported on first use: undeclared Latin-1, mojibake, hidden text (by a
# style, a class, a sheet with a comment and a condition), maths, a list that counts.
_WARM = (
    "<html><head><title>t</title><style>/* c */ .h { display: none } @media print { .p { color: red } }</style></head>"
    "<body><nav><a href='/'>n</a></nav><main><h1>A page</h1><p>The caf\xe9 and "
    "the caf\xc3\xa9 are the same, and this sentence is long enough to be taken for text by whoever looks at it.</p>"
    "<p style='display:none'>hidden</p><p class='h sr-only'>hidden</p><math><mi>x</mi></math><ul><li>one</li></ul>"
    "<ol><li>one<ol><li>of it</li></ol></li><li>two</li></ol><table><tr><td>two</td></tr></table>"
    "<pre>three</pre></main></body></html>"
).encode("latin-1")


@cache
def warm_up(params: ExtractParams) -> None:
    """Load kernels and engines before the first document, which would be charged for compiling them and given up."""
    engines = (params.engine, "trafilatura") if params.engine == "two_pass" else (params.engine,)
    for engine in engines:
        document.extract(_WARM, url="https://warm.example/", content_type="text/html", header_charset=None,
                         params=params.model_copy(update={"engine": engine}))
    gc.freeze()  # modules and tables live as long as the worker: no collection need look at them again


def handler(setup: Setup) -> Callable[[Record], Extracted]:
    """The function for one record; called once in a worker for all slices of a bucket."""
    warc = RawWarc(Store(setup.root), setup.key)
    warm_up(setup.params)

    def work(record: Record) -> Extracted:
        head, _, payload = split_frame(warc.record(warc.frames(record.offset, record.length)))
        found = document.extract(
            payload, url=record.url, content_type=record.content_type,
            header_charset=record.charset, params=setup.params, tags=record.tags,
        )
        utf8 = None if found.text is None else found.text.encode()
        return Extracted(replace(found, text=None), utf8, origin.read(head) or None)

    return work
