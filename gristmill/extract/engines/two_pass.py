"""A fast engine on every page, and trafilatura where the fast result is likely to be worse."""

from gristmill.extract.engines import Extracted, Page, resiliparse, trafilatura

VERSION = "two_pass-1"


def extract(page: Page) -> Extracted:
    """The fast result, or trafilatura's where the fast one is nearly empty."""
    fast = resiliparse.extract(page)
    if len(fast.text) >= 250:
        return fast
    slow = trafilatura.extract(page)
    return slow if len(slow.text) > len(fast.text) else fast
