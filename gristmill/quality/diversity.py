"""How wide a pool is: vocabulary, hosts, topics, lengths; by generation, so that a narrowing corpus is seen.

Belongs here: the measures. Does not belong here: pools (``ablation.py``). Type-token ratios fall with length, so they
are means over stretches of equal length; entropies are given as the number of equally likely values that they equal.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gristmill.text_units import words

STRETCH = 1000  # words a type-token ratio is taken over (Johnson 1944, mean segmental)
TOPICS = 32
SEED = 1


@dataclass(frozen=True)
class Diversity:
    """One pool, or one generation of it.

    ``effective_hosts`` and ``effective_topics`` are exp of the entropy: 10 hosts of equal size have 10.
    """

    documents: int
    words: int
    type_token_ratio: float  # NaN for fewer words than a stretch
    hosts: int
    effective_hosts: float
    effective_topics: float
    length_p10: float  # words
    length_p50: float
    length_p90: float


def measure(texts: Sequence[str], hosts: Sequence[str], topics: np.ndarray) -> Diversity:
    """Measures of documents.

    Args:
        texts, hosts: of each document.
        topics: int (n), of ``topics``.
    """
    split = [words(t) for t in texts]
    lengths = np.array([len(w) for w in split], np.int64)
    stream = [w for doc in split for w in doc]
    ratios = [len(set(stream[a : a + STRETCH])) / STRETCH for a in range(0, len(stream) - STRETCH + 1, STRETCH)]
    p10, p50, p90 = np.quantile(lengths, (0.1, 0.5, 0.9)) if len(lengths) else (0.0, 0.0, 0.0)
    return Diversity(
        documents=len(texts), words=len(stream), type_token_ratio=float(np.mean(ratios)) if ratios else float("nan"),
        hosts=len(set(hosts)), effective_hosts=effective(hosts), effective_topics=effective(topics.tolist()),
        length_p10=float(p10), length_p50=float(p50), length_p90=float(p90),
    )


def effective(values: Sequence[object]) -> float:
    """Number of equally likely values with the entropy of these; 0 for none."""
    if not values:
        return 0.0
    shares = np.array(sorted(Counter(values).values()), float) / len(values)
    return float(np.exp(-(shares * np.log(shares)).sum()))


def topics(texts: Sequence[str], count: int = TOPICS) -> np.ndarray:
    """A topic for each text, int (n): k-means over latent semantic vectors (Deerwester et al. 1990) of hashed words.

    Topics are of these texts together: they compare parts of one pool, not two pools clustered apart.
    """
    from sklearn.cluster import KMeans
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer
    from sklearn.preprocessing import normalize
    from threadpoolctl import threadpool_limits

    count = min(count, len(texts) // 4)
    if count < 2:
        return np.zeros(len(texts), np.int64)
    with threadpool_limits(1):  # sums in one order, whatever the machine
        hashed = HashingVectorizer(analyzer=words, n_features=1 << 14, alternate_sign=False, norm=None).transform(texts)
        weighted = TfidfTransformer(sublinear_tf=True).fit_transform(hashed)
        latent = TruncatedSVD(min(48, len(texts) - 1), random_state=SEED).fit_transform(weighted)
        found: np.ndarray = KMeans(count, n_init=2, random_state=SEED).fit_predict(normalize(latent))
    return found.astype(np.int64)
