"""Clusters: edges of all ranges become components, and one order says which member is first.

Belongs here: labels, sizes, the first member, the similarity that decided, and the re-examination of large components.
Does not belong here: how edges came to be (``lsh.py``), and what a manifest later makes of members.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gristmill.deduplicate import ids
from gristmill.deduplicate.components import Components
from gristmill.deduplicate.lsh import jaccard_sorted, sorted_sets

# One row group of edges at a time: anchor and member (uint64[n, 2]), similarity (float32, NaN where unverified).
EdgeBatch = tuple[np.ndarray, np.ndarray, np.ndarray]
# Shingle hashes of documents by number, with edges as of ``minhash.shingle_table``; unfolded.
Shingles = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
PIECE = 4096  # edges whose texts are in memory together while a large component is re-examined


@dataclass
class Clusters:
    """Members of clusters of two or more, in order of doc_id."""

    doc_id: np.ndarray  # uint64[n, 2]
    label: np.ndarray  # int64[n]: row of the smallest member
    size: np.ndarray  # uint32[n]
    similarity: np.ndarray  # float32[n]: of the best edge; NaN where nothing was verified
    reexamined: int = 0  # components over the cap
    cut: int = 0  # their edges that exact Jaccard refused


@dataclass(frozen=True)
class Verified:
    """Candidate edges whose texts were compared."""

    documents: np.ndarray  # uint64[n, 2], of all edges, in order
    sure_at: float  # edges of at least this similarity were not read
    verify_at: float
    one: np.ndarray  # int64: rows of the documents, in order of (one, other)
    other: np.ndarray
    exact: np.ndarray  # float32


def documents(batches: Callable[[], Iterable[EdgeBatch]]) -> np.ndarray:
    """uint64[n, 2]: every document that has an edge, in order."""
    held = [ids.unique(np.concatenate([anchor, member])) for anchor, member, _ in batches()]
    return ids.unique(np.concatenate([*held, np.zeros((0, 2), np.uint64)]))


def unsure(found: np.ndarray, batches: Callable[[], Iterable[EdgeBatch]], sure_at: float
           ) -> tuple[np.ndarray, np.ndarray]:
    """Edges below ``sure_at``, once each: rows of ``found`` (int64), in order of (one, other)."""
    n = max(len(found), 1)
    held = [np.zeros(0, np.int64)]
    for anchor, member, values in batches():
        few = values < sure_at
        held.append(np.unique(ids.find(found, anchor[few]) * n + ids.find(found, member[few])))
    keys = np.unique(np.concatenate(held))
    return keys // n, keys % n


def label(batches: Callable[[], Iterable[EdgeBatch]], folder: Path | None = None, verified: Verified | None = None
          ) -> Clusters:
    """Components of edges that are read twice: once for the documents, once for the edges.

    Args:
        batches: a new iterator over all edges at each call.
        folder: where a large array of parents may lie.
        verified: what the texts say of candidates; those below its bound are no edges.
    """
    found = verified.documents if verified else documents(batches)
    similarity = np.full(len(found), -1, np.float32)
    keys = verified.one * len(found) + verified.other if verified else np.zeros(0, np.int64)
    with Components(len(found), folder) as components:
        for anchor, member, values in batches():
            one, other = ids.find(found, anchor), ids.find(found, member)
            if verified:
                few = values < verified.sure_at
                values = values.copy()
                values[few] = verified.exact[np.searchsorted(keys, one[few] * len(found) + other[few])]
                stays = ~few | (values >= verified.verify_at)
                one, other, values = one[stays], other[stays], values[stays]
            components.join(one, other)
            known = ~np.isnan(values)
            np.maximum.at(similarity, one[known], values[known])
            np.maximum.at(similarity, other[known], values[known])
        labels = components.labels().astype(np.int64)
    return _together(found, labels, similarity)


def _together(doc_id: np.ndarray, labels: np.ndarray, similarity: np.ndarray) -> Clusters:
    """Clusters without those of one member; an unknown similarity is -1."""
    sizes = np.bincount(labels, minlength=len(doc_id))[labels] if len(labels) else labels
    stays = sizes > 1
    renumber = np.cumsum(stays) - 1
    similarity = np.where(similarity < 0, np.float32(np.nan), similarity)
    return Clusters(doc_id[stays], renumber[labels[stays]], sizes[stays].astype(np.uint32), similarity[stays])


def reexamine(found: Clusters, batches: Callable[[], Iterable[EdgeBatch]], cap: int, verify_at: float,
              max_leaders: int, shingles: Shingles) -> Clusters:
    """Look at components over ``cap`` again with exact Jaccard, text by text.

    Their edges below ``verify_at`` go. A member that is left without any is compared with the leaders of what its
    component fell into (the smallest member of each piece, the first ``max_leaders`` of them) and joins the first that
    it matches; so a member that only its edge's anchor did not match is not lost.
    """
    large = found.size > cap
    if not large.any():
        return found
    n = len(found.doc_id)
    one, other = _distinct_edges(found, batches, large)
    exact = np.empty(len(one), np.float32)
    for start in range(0, len(one), PIECE):
        piece = slice(start, start + PIECE)
        exact[piece] = _exact(one[piece], other[piece], shingles)
    keep = exact >= verify_at
    similarity = found.similarity.copy()
    similarity[large] = -1
    with Components(n) as components:
        inside = np.flatnonzero(~large)
        components.join(inside, found.label[inside])
        components.join(one[keep], other[keep])
        np.maximum.at(similarity, one[keep], exact[keep])
        np.maximum.at(similarity, other[keep], exact[keep])
        alone = large & (similarity < 0)
        _rejoin(found, components, alone, verify_at, max_leaders, shingles, similarity)
        labels = components.labels().astype(np.int64)
    return replace(_together(found.doc_id, labels, similarity), reexamined=len(np.unique(found.label[large])),
                   cut=int((~keep).sum()))


def _distinct_edges(found: Clusters, batches: Callable[[], Iterable[EdgeBatch]], large: np.ndarray
                    ) -> tuple[np.ndarray, np.ndarray]:
    """Edges inside large components, once each, grouped by anchor."""
    pairs = np.zeros((0, 2), np.int64)
    for anchor, member, _ in batches():
        both = np.stack([ids.find(found.doc_id, anchor), ids.find(found.doc_id, member)], axis=1)
        both = both[(both >= 0).all(axis=1)]  # a candidate that its text refused may be in no cluster, or in two
        both = both[large[both[:, 0]] & (found.label[both[:, 0]] == found.label[both[:, 1]])]
        pairs = np.unique(np.concatenate([pairs, both]), axis=0)
    return pairs[:, 0], pairs[:, 1]


def _exact(one: np.ndarray, other: np.ndarray, shingles: Shingles) -> np.ndarray:
    """Exact Jaccard of pairs of documents, reading each text once."""
    need, where = np.unique(np.concatenate([one, other]), return_inverse=True)
    sets, edges = sorted_sets(*shingles(need))
    first, second = where[: len(one)], where[len(one) :]
    return np.array([
        jaccard_sorted(sets[edges[i] : edges[i + 1]], sets[edges[j] : edges[j + 1]]) for i, j in zip(first, second)
    ], np.float32)


def _rejoin(found: Clusters, components: Components, alone: np.ndarray, verify_at: float, max_leaders: int,
            shingles: Shingles, similarity: np.ndarray) -> None:
    """Give members without an edge their component's leaders to match, in order of doc_id."""
    for component in np.unique(found.label[alone]).tolist():
        loners = np.flatnonzero(alone & (found.label == component))
        others = np.flatnonzero((found.label == component) & ~alone)
        pieces = np.unique(components.labels().astype(np.int64)[others])[:max_leaders]
        leaders = list(pieces.tolist())
        sets: dict[int, np.ndarray] = {}
        for start in range(0, len(loners), PIECE):
            block = loners[start : start + PIECE]
            missing = np.array(sorted({*block.tolist(), *leaders} - sets.keys()), np.int64)
            values, edges = sorted_sets(*shingles(missing))
            sets.update({m: values[edges[i] : edges[i + 1]] for i, m in enumerate(missing.tolist())})
            for row in block.tolist():
                best = next(((q, v) for q in leaders if (v := jaccard_sorted(sets[q], sets[row])) >= verify_at), None)
                if best is not None:
                    components.join(np.array([best[0]]), np.array([row]))
                    similarity[[best[0], row]] = np.maximum(similarity[[best[0], row]], best[1])
                elif len(leaders) < max_leaders:
                    leaders.append(row)
            for row in block.tolist():
                if row not in leaders:
                    del sets[row]


def first_of(labels: np.ndarray, when: np.ndarray, record_id: np.ndarray) -> np.ndarray:
    """The row of each row's first member: smallest (fetch time, record id) among rows with its label.

    Args:
        labels: int64[n].
        when: int64[n], fetch time of the document's first record; unknown times last.
        record_id: uint64[n, 2].
    """
    order = np.lexsort((record_id[:, 1], record_id[:, 0], when, labels))
    ordered = labels[order]
    new = np.ones(len(order), bool)
    new[1:] = ordered[1:] != ordered[:-1]
    starts = np.flatnonzero(new)
    out = np.empty(len(order), np.int64)
    out[order] = np.repeat(order[starts], np.diff(np.append(starts, len(order))))
    return out
