"""What a page says it is: its declared type, its structured data, the software that made it.

Belongs here: traits as bits, found in the raw page before scripts are taken out. Does not belong here: what they are
worth, which is learnt (``measures.py``).
"""

import re

import numpy as np
from numba import njit

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
# The words one after the other, where each starts, and by their first two bytes the first word and the next that shares
# them.
_BYTES = np.frombuffer(b"".join(w for w, _ in _SOFTWARE), np.uint8)
_STARTS = np.cumsum([0, *(len(w) for w, _ in _SOFTWARE)]).astype(np.int64)
_FIRST = np.full(65_536, -1, np.int16)
_NEXT = np.full(len(_SOFTWARE), -1, np.int16)
for _number, (_word, _) in enumerate(_SOFTWARE):
    _NEXT[_number] = _FIRST[_word[0] << 8 | _word[1]]
    _FIRST[_word[0] << 8 | _word[1]] = _number


@njit(cache=True, nogil=True)
def _words(page, data, starts, first, following, hit):  # type: ignore[no-untyped-def]
    """Mark the words that occur in a page, whatever the case, in one pass."""
    n = len(page)
    before = page[0] + 32 if 65 <= page[0] <= 90 else page[0]
    for i in range(1, n):
        now = page[i] + 32 if 65 <= page[i] <= 90 else page[i]
        word = first[np.int64(before) << 8 | np.int64(now)]
        before = now
        while word >= 0:
            size = starts[word + 1] - starts[word]
            if i - 1 + size <= n and not hit[word]:
                same = True
                for k in range(2, size):
                    c = page[i - 1 + k]
                    if (c + 32 if 65 <= c <= 90 else c) != data[starts[word] + k]:
                        same = False
                        break
                if same:
                    hit[word] = 1
            word = following[word]


def traits(page: bytes) -> int:
    """Bits of the traits (``NAMES``) that a page has. Literals are looked for first: patterns are slow on a whole
    page.
    """
    head = page[:LIMIT]
    found = _og(head)
    if b"article:published_time" in head or b"datePublished" in head:
        found.add("published")
    if b'"@type"' in head:
        kinds = set(_LD.findall(head))
        found.update(name for name, members in _LD_KINDS.items() if kinds & members)
        if any(k.endswith(b"Article") for k in kinds):
            found.add("ld_article")
    if b"schema.org/" in head:
        kinds = set(_MICRO.findall(head))
        if any(b"Article" in k or k.startswith(b"BlogPosting") for k in kinds):
            found.add("micro_article")
        if any(k.startswith((b"Product", b"Offer")) for k in kinds):
            found.add("micro_product")
    if b"wp-content" in head or b"wp-includes" in head:
        found.add("wordpress")
    hit = np.zeros(len(_SOFTWARE), np.uint8)
    if len(head) > 1:
        _words(np.frombuffer(head, np.uint8), _BYTES, _STARTS, _FIRST, _NEXT, hit)
    found.update(kind for (_, kind), seen in zip(_SOFTWARE, hit.tolist(), strict=True) if seen)
    return sum(1 << number for number, name in enumerate(NAMES) if name in found)


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
