"""What a page says it is: its declared type, its structured data, the software that made it.

Belongs here: traits as bits, found in the raw page before scripts are taken out. Does not belong here: what they are
worth, which is learnt (``measures.py``).
"""

import re

# Order is part of the trained weights: append only.
NAMES = (
    "og_article", "og_product", "og_website", "published", "ld_article", "ld_product", "ld_list", "ld_forum",
    "ld_service",
    "ld_recipe", "micro_article", "micro_product", "wordpress", "forum", "shop", "docs",
)
LIMIT = 200_000  # bytes of a page that are searched
_OG = b"og:type"
_OG_REACH = 80
_OG_AFTER = re.compile(rb"""og:type["'][^>]{0,40}content=["'](article|(?:og:)?product|website|blog)""")
_OG_BEFORE = re.compile(rb"""content=["'](article|website)["'][^>]{0,40}og:type""")
_LD = re.compile(rb'"@type"\s*:\s*\[?\s*"([A-Za-z]+)"')
_MICRO = re.compile(rb"schema\.org/([A-Za-z]+)")
_LD_KINDS = {
    "ld_article": {b"BlogPosting", b"Report", b"LiveBlogPosting"},
    "ld_product": {b"Product", b"ProductGroup", b"Offer", b"AggregateOffer"},
    "ld_list": {b"ItemList", b"CollectionPage", b"SearchResultsPage", b"Blog"},
    "ld_forum": {b"DiscussionForumPosting", b"QAPage", b"Question", b"Comment"},
    "ld_service": {b"LocalBusiness", b"Service", b"ProfessionalService", b"Organization"},
    "ld_recipe": {b"Recipe", b"HowTo", b"FAQPage"},
}
_SOFTWARE: tuple[tuple[bytes, str], ...] = (  # in lower case
    *((w, "forum") for w in (b"phpbb", b"vbulletin", b"xenforo", b"discourse", b"smf", b"invision", b"data-xf-init",
                             b"proboards", b"nodebb")),
    *((w, "shop") for w in (b"cdn.shopify", b"woocommerce", b"magento", b"bigcommerce", b"prestashop")),
    *((b"add%sto%s%s" % (a, b, c), "shop") for a in (b"-", b"_", b" ") for b in (b"-", b"_", b" ")
      for c in (b"cart", b"basket")),
    *((w, "docs") for w in (b"sphinx", b"docusaurus", b"mkdocs", b"readthedocs", b"gitbook", b"mediawiki", b"javadoc",
                            b"doxygen", b"asciidoc")),
)
_DATED, _TYPED, _SCHEMA, _PRESS = (
    (b"article:published_time", b"datePublished"), (b'"@type"',), (b"schema.org/",), (b"wp-content", b"wp-includes"))
_CASED = (_OG, *_DATED, *_TYPED, *_SCHEMA, *_PRESS)  # looked for as they are, where any case of them occurs
WORDS = (*(w for w, _ in _SOFTWARE), *(w.lower() for w in _CASED))


def traits(page: bytes, places: list[int]) -> int:
    """Bits of the traits (``NAMES``) that a page has. Literals are looked for first: patterns are slow on a whole
    page.

    ``places``: where each of ``WORDS`` first occurs in the page, or -1.
    """
    head = page[:LIMIT] if len(page) > LIMIT else page
    seen = [0 <= at <= LIMIT - len(word) for word, at in zip(WORDS, places, strict=True)]
    known = len(_SOFTWARE)
    first = {w: at for w, at, there in zip(_CASED, places[known:], seen[known:], strict=True) if there}

    def has(words: tuple[bytes, ...]) -> bool:
        return any(w in first and head.find(w, first[w]) >= 0 for w in words)

    found = _og(head) if _OG in first else set()
    if has(_DATED):
        found.add("published")
    if has(_TYPED):
        kinds = _named(_LD, _TYPED[0], head, first[_TYPED[0]])
        found.update(name for name, members in _LD_KINDS.items() if kinds & members)
        if any(k.endswith(b"Article") for k in kinds):
            found.add("ld_article")
    if has(_SCHEMA):
        kinds = _named(_MICRO, _SCHEMA[0], head, first[_SCHEMA[0]])
        if any(b"Article" in k or k.startswith(b"BlogPosting") for k in kinds):
            found.add("micro_article")
        if any(k.startswith((b"Product", b"Offer")) for k in kinds):
            found.add("micro_product")
    if has(_PRESS):
        found.add("wordpress")
    found.update(kind for (_, kind), there in zip(_SOFTWARE, seen, strict=False) if there)
    return sum(1 << number for number, name in enumerate(NAMES) if name in found)


def _named(pattern: re.Pattern[bytes], literal: bytes, head: bytes, at: int) -> set[bytes]:
    """The names that a pattern finds, which begins with a literal, from byte ``at`` on."""
    found = set()
    at = head.find(literal, at)
    while at >= 0:
        match = pattern.match(head, at)
        if match is not None:
            found.add(match.group(1))
        at = head.find(literal, at + 1 if match is None else match.end())
    return found


def _og(head: bytes) -> set[str]:
    """What ``og:type`` says."""
    found = set()
    at = head.find(_OG)
    while at >= 0:
        kinds = {m.group(1) for m in (_OG_AFTER.match(head, at), _OG_BEFORE.search(head, max(at - _OG_REACH, 0),
        at + len(_OG)))
                 if m}
        found |= {"og_article"} if b"article" in kinds else set()
        found |= {"og_product"} if any(k.endswith(b"product") for k in kinds) else set()
        found |= {"og_website"} if kinds & {b"website", b"blog"} else set()
        at = head.find(_OG, at + 1)
    return found
