"""trafilatura, the quality reference, at its default settings (``swift/`` runs it faster, with the same output)."""

import importlib.metadata

from gristmill.extract.engines import Extracted, Page

VERSION = "trafilatura-" + importlib.metadata.version("trafilatura")


def extract(page: Page) -> Extracted:
    """Main text with comments, tables and trafilatura's own fallbacks; its process-wide duplicate cache is off."""
    from gristmill.extract import swift

    text = swift.load()(page.html, url=page.url or None, deduplicate=False)
    return Extracted(text or "", "trafilatura")
