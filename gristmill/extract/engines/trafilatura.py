"""trafilatura, the quality reference, at its default settings."""

import importlib.metadata

from gristmill.extract.engines import Extracted, Page

VERSION = "trafilatura-" + importlib.metadata.version("trafilatura")


def extract(page: Page) -> Extracted:
    """Main text with comments, tables and trafilatura's own fallbacks; its process-wide duplicate cache is off."""
    import trafilatura

    text = trafilatura.extract(page.html, url=page.url or None, deduplicate=False)
    return Extracted(text or "", "trafilatura")
