"""resiliparse's main-content rules on lexbor's tree: the fast engine of DCLM."""

import importlib.metadata

from gristmill.extract.engines import Extracted, Page

VERSION = "resiliparse-" + importlib.metadata.version("resiliparse")


def extract(page: Page) -> Extracted:
    """Main text as plain text with list bullets."""
    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.html import HTMLTree

    return Extracted(extract_plain_text(HTMLTree.parse(page.html), main_content=True, alt_texts=False), "resiliparse")
