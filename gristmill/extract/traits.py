"""What a page says it is: its declared type, its structured data, the software that made it.

Belongs here: traits as bits, found in the raw page before scripts are taken out. Does not belong here: what they are
worth, which is learnt (``measures.py``).
"""

import re

# Order is part of the trained weights: append only. Each is searched in the page's first bytes.
_TRAITS: tuple[tuple[str, bytes], ...] = (
    ("og_article", rb"""og:type["'][^>]{0,40}content=["']article|content=["']article["'][^>]{0,40}og:type"""),
    ("og_product", rb"""og:type["'][^>]{0,40}content=["'](?:og:)?product"""),
    ("og_website", rb"""og:type["'][^>]{0,40}content=["'](?:website|blog)|content=["']website["'][^>]{0,40}og:type"""),
    ("published", rb"article:published_time|datePublished|itemprop=.datePublished"),
    ("ld_article", rb'"@type"\s*:\s*\[?\s*"(?:[A-Za-z]*Article|BlogPosting|Report|LiveBlogPosting)"'),
    ("ld_product", rb'"@type"\s*:\s*\[?\s*"(?:Product|ProductGroup|Offer|AggregateOffer)"'),
    ("ld_list", rb'"@type"\s*:\s*\[?\s*"(?:ItemList|CollectionPage|SearchResultsPage|Blog)"'),
    ("ld_forum", rb'"@type"\s*:\s*\[?\s*"(?:DiscussionForumPosting|QAPage|Question|Comment)"'),
    ("ld_service", rb'"@type"\s*:\s*\[?\s*"(?:LocalBusiness|Service|ProfessionalService|Organization)"'),
    ("ld_recipe", rb'"@type"\s*:\s*\[?\s*"(?:Recipe|HowTo|FAQPage)"'),
    ("micro_article", rb"schema\.org/(?:[A-Za-z]*Article|BlogPosting)"),
    ("micro_product", rb"schema\.org/(?:Product|Offer)"),
    ("wordpress", rb"wp-content|wp-includes"),
    ("forum", rb"(?i)phpbb|vbulletin|xenforo|discourse|smf|invision|data-xf-init|proboards|nodebb"),
    ("shop", rb"(?i)cdn\.shopify|woocommerce|magento|bigcommerce|add[-_ ]to[-_ ](?:cart|basket)|prestashop"),
    ("docs", rb"(?i)sphinx|docusaurus|mkdocs|readthedocs|gitbook|mediawiki|javadoc|doxygen|asciidoc"),
)
NAMES = tuple(name for name, _ in _TRAITS)
_PATTERNS = tuple(re.compile(pattern) for _, pattern in _TRAITS)
LIMIT = 200_000  # bytes of a page that are searched


def traits(page: bytes) -> int:
    """Bits of the traits that a page has."""
    head = page[:LIMIT]
    return sum(1 << number for number, pattern in enumerate(_PATTERNS) if pattern.search(head))
