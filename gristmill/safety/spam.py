"""Spam and search-engine bait: links, phrases of selling, one word over and over.

Belongs here: measures, as shares of words. Does not belong here: a verdict, and repetition (``quality/heuristics.py``).
"""

from functools import cache

import numpy as np
import pyarrow as pa
import re2

from gristmill.safety.phrases import PhraseList, compile_phrases, top_words
from gristmill.text_units import packed

# A short list of our own, in the languages that the authors can read; a weak signal, as its name says.
PHRASES = (
    "buy now", "order now", "shop now", "click here", "act now", "limited time offer", "free shipping", "best price",
    "lowest price", "cheap price", "discount code", "promo code", "coupon code", "money back guarantee", "risk free",
    "no credit card required", "work from home", "make money online", "earn money", "get rich", "online casino",
    "casino bonus", "free spins", "slot machine", "slots online", "sports betting", "payday loan", "weight loss pills",
    "diet pills", "viagra", "cialis", "levitra", "online pharmacy", "without prescription", "replica watches",
    "essay writing service", "backlinks", "seo services", "buy followers", "subscribe now", "100 free", "free download",
    "full version crack", "keygen", "escort service", "jetzt kaufen", "kostenloser versand", "hier klicken",
    "achetez maintenant", "livraison gratuite", "cliquez ici", "compra ahora", "envío gratis", "haz clic aquí",
    "compre agora", "frete grátis", "купить дешево", "бесплатная доставка", "казино онлайн", "免费下载", "点击这里",
)
TOP_WORD_BYTES = 4

_LINK = re2.compile(rb"https?://|\bwww\.")


@cache
def _phrases() -> PhraseList:
    return compile_phrases(PHRASES)


def measure(buf: np.ndarray, offsets: np.ndarray) -> dict[str, pa.Array]:
    """link_word_ratio, spam_phrase_ratio and top_word_share of each document, float32."""
    hits, words = _phrases().count(buf, offsets)
    top = np.zeros(len(hits), np.int64)
    top_words(buf, offsets, packed(), TOP_WORD_BYTES, top)
    links = np.zeros(len(hits), np.int64)
    if len(hits):
        text = buf[offsets[0] : offsets[-1]].tobytes()
        places = np.fromiter((m.start() for m in _LINK.finditer(text)), np.int64) + offsets[0]
        links = np.diff(np.searchsorted(places, offsets)).astype(np.int64)
    bottom = np.maximum(words, 1)
    return {
        "link_word_ratio": pa.array((links / bottom).astype(np.float32)),
        "spam_phrase_ratio": pa.array((hits / bottom).astype(np.float32)),
        "top_word_share": pa.array((top / bottom).astype(np.float32)),
    }
