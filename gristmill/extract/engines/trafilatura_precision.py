"""trafilatura with the settings of FineWeb and of datatrove's extractor: precision before recall, no comments."""

import importlib.metadata

from gristmill.extract.engines import Extracted, Page

VERSION = "trafilatura_precision-" + importlib.metadata.version("trafilatura")


def extract(page: Page) -> Extracted:
    """Main text; trafilatura's process-wide duplicate cache, which datatrove leaves on, is off."""
    from gristmill.extract import swift

    text = swift.load()(
        page.html, url=page.url or None, deduplicate=False, favor_precision=True, include_comments=False
    )
    return Extracted(text or "", "trafilatura_precision")
