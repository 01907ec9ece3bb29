"""The measures of a page's blocks as one matrix, which the forests of ``blocks.json`` read.

Belongs here: turning counts, boxes and neighbours into columns, and the columns of the second pass, which also knows
what the first pass thought of a block's surroundings. Does not belong here: cutting blocks (``blocks.py``) and
evaluating trees (``forest.py``). Column numbers are part of the trained weights: a change here means training anew.
"""

import numpy as np
from numba import njit, uint64

from gristmill.extract import hints, tags, traits
from gristmill.extract.blocks import LEVELS, Blocks

_OWN_TAGS = np.array([tags.ID[n] for n in (
    "p", "li", "td", "th", "div", "h1", "h2", "h3", "h4", "h5", "h6", "dt", "dd", "pre", "blockquote", "article",
    "section", "figcaption", "header", "form", "center")], np.int32)
_P, _H1, _H6 = tags.ID["p"], tags.ID["h1"], tags.ID["h6"]
N_TRAIT = len(traits.NAMES)
N_OWN, N_TAG, N_WITHIN, N_HINT = 18, len(_OWN_TAGS), 36, len(hints.MEANINGS)
N_NEIGHBOUR, N_BOX, N_PAGE, N_PLACE, N_REPEAT = 6, 5, 8, 8, 5
A_OWN = 0
A_TAG = A_OWN + N_OWN
A_WITHIN = A_TAG + N_TAG
A_HINT = A_WITHIN + N_WITHIN
A_NEAR = A_HINT + N_HINT
A_NEIGHBOUR = A_NEAR + N_HINT
A_BOX = A_NEIGHBOUR + 4 * N_NEIGHBOUR
A_PAGE = A_BOX + LEVELS * N_BOX
A_PLACE = A_PAGE + N_PAGE
A_REPEAT = A_PLACE + N_PLACE
A_TRAIT = A_REPEAT + N_REPEAT
COLUMNS = A_TRAIT + N_TRAIT
SECOND = 4 + 2 * LEVELS + 6  # columns that the second pass adds


def first_pass(page: Blocks, page_traits: int = 0) -> np.ndarray:
    """float32[n, COLUMNS]; ``page_traits`` from ``traits.py``."""
    out = np.zeros((len(page), COLUMNS), np.float32)
    if len(page):
        _fill(page.page.tag, page.page.parent, page.page.depth, page.element, page.counts, page.within, page.hints,
              page.near, page.path, page.print_, _OWN_TAGS, page_traits, out)
    return out


def second_pass(page: Blocks, first: np.ndarray, score: np.ndarray) -> np.ndarray:
    """float32[n, COLUMNS + SECOND]: the columns of the first pass and what it made of the surroundings.

    Args:
        page: the blocks.
        first: from ``first_pass``.
        score: float64[n], the first pass's probabilities.
    """
    out = np.zeros((len(page), COLUMNS + SECOND), np.float32)
    if len(page):
        out[:, :COLUMNS] = first
        _surroundings(page.page.parent, page.element, page.counts, page.path, score, len(page.page), out)
    return out


@njit(inline="always")
def _log(x):  # type: ignore[no-untyped-def]
    return np.log(1.0 + x)


@njit(cache=True, nogil=True)
def _fill(tag, parent, depth, element, counts, within, every, near, path, prints, own_tags, page_traits, out):  # type: ignore[no-untyped-def]
    """Fill the matrix of the first pass."""
    n = len(element)
    # Of every element, and in the last row of the page: words, link words, sentence ends and blocks inside; and words
    # of long unlinked blocks directly inside.
    boxes = np.zeros((len(tag) + 1, 4), np.float64)
    prose = np.zeros(len(tag) + 1, np.float64)
    last_box = len(tag)
    p_words = 0.0
    first_h1 = -1
    for b in range(n):
        words = float(counts[b, 0])
        e = element[b]
        if e >= 0 and tag[e] == _P:
            p_words += words
        if first_h1 < 0 and e >= 0 and tag[e] == _H1:
            first_h1 = b
        up = e
        level = 0
        long = words >= 10 and counts[b, 2] * 3 < words
        while True:
            at = up if up >= 0 else last_box
            boxes[at, 0] += words
            boxes[at, 1] += counts[b, 2]
            boxes[at, 2] += counts[b, 6]
            boxes[at, 3] += 1.0
            if long and (level == 1 or (level == 0 and not (e >= 0 and tag[e] == _P))):
                prose[at] += words
            if up < 0:
                break
            up = parent[up]
            level += 1
    total = max(boxes[last_box, 0], 1.0)
    best = last_box
    for at in range(len(tag)):
        if prose[at] > prose[best]:
            best = at
    best_first, best_last = n, -1
    in_best = np.zeros(n, np.uint8)
    for b in range(n):
        up = element[b]
        while up >= 0:
            if up == best:
                in_best[b] = 1
                best_first = min(best_first, b)
                best_last = max(best_last, b)
                break
            up = parent[up]
    order = np.argsort(path)
    order_p = np.argsort(prints)
    same = np.zeros((n, 3), np.float64)
    i = 0
    while i < n:
        j = i
        w = 0.0
        lw = 0.0
        while j < n and path[order[j]] == path[order[i]]:
            w += counts[order[j], 0]
            lw += counts[order[j], 2]
            j += 1
        for k in range(i, j):
            same[order[k], 0] = j - i
            same[order[k], 1] = w
            same[order[k], 2] = lw
        i = j
    twice = np.zeros(n, np.float64)
    i = 0
    while i < n:
        j = i
        while j < n and prints[order_p[j]] == prints[order_p[i]]:
            j += 1
        for k in range(i, j):
            twice[order_p[k]] = j - i
        i = j
    before = 0.0
    for b in range(n):
        row = out[b]
        words = float(counts[b, 0])
        w1 = max(words, 1.0)
        e = element[b]
        t = tag[e] if e >= 0 else 0
        row[0] = words
        row[1] = counts[b, 1]
        row[2] = counts[b, 2] / w1
        row[3] = counts[b, 1] / w1
        row[4] = counts[b, 4] / w1
        row[5] = counts[b, 5] / w1
        row[6] = counts[b, 6] / w1
        row[7] = counts[b, 7] / w1
        row[8] = counts[b, 6]
        row[9] = counts[b, 7]
        row[10] = counts[b, 8]
        row[11] = counts[b, 9] / w1
        row[12] = counts[b, 10]
        row[13] = counts[b, 3]
        row[14] = counts[b, 11]
        row[15] = words / (1.0 + counts[b, 8])
        row[16] = counts[b, 12] / w1
        row[17] = counts[b, 12]
        for k in range(len(own_tags)):
            row[A_TAG + k] = 1.0 if t == own_tags[k] else 0.0
        for k in range(N_WITHIN):
            row[A_WITHIN + k] = float((within[b] >> uint64(k)) & uint64(1))
        for k in range(N_HINT):
            row[A_HINT + k] = float((every[b] >> uint64(k)) & uint64(1))
            row[A_NEAR + k] = float((near[b] >> uint64(k)) & uint64(1))
        slot = A_NEIGHBOUR
        for d in (-2, -1, 1, 2):
            o = b + d
            if 0 <= o < n:
                ow = max(float(counts[o, 0]), 1.0)
                oe = element[o]
                ot = tag[oe] if oe >= 0 else 0
                row[slot] = counts[o, 0]
                row[slot + 1] = counts[o, 2] / ow
                row[slot + 2] = counts[o, 6] / ow
                row[slot + 3] = 1.0 if ot == _P else (2.0 if _H1 <= ot <= _H6 else 0.0)
                row[slot + 4] = 1.0 if path[o] == path[b] else 0.0
                row[slot + 5] = 1.0 if oe >= 0 and e >= 0 and parent[oe] == parent[e] else 0.0
            else:
                row[slot] = -1.0
            slot += N_NEIGHBOUR
        up = e
        slot = A_BOX
        for _ in range(LEVELS):
            at = up if up >= 0 else last_box
            row[slot] = _log(boxes[at, 0])
            row[slot + 1] = boxes[at, 1] / max(boxes[at, 0], 1.0)
            row[slot + 2] = boxes[at, 2] / max(boxes[at, 0], 1.0)
            row[slot + 3] = _log(boxes[at, 3])
            row[slot + 4] = boxes[at, 0] / total
            slot += N_BOX
            if up >= 0:
                up = parent[up]
        row[A_PAGE] = _log(total)
        row[A_PAGE + 1] = boxes[last_box, 1] / total
        row[A_PAGE + 2] = _log(float(n))
        row[A_PAGE + 3] = p_words / total
        row[A_PAGE + 4] = prose[best] / total
        row[A_PAGE + 5] = boxes[last_box, 2] / total
        row[A_PAGE + 6] = boxes[best, 0] / total
        row[A_PAGE + 7] = 1.0 if first_h1 >= 0 else 0.0
        row[A_PLACE] = b / n
        row[A_PLACE + 1] = before / total
        row[A_PLACE + 2] = in_best[b]
        row[A_PLACE + 3] = float(b - best_first) if best_last >= 0 else 0.0
        row[A_PLACE + 4] = float(b - best_last) if best_last >= 0 else 0.0
        row[A_PLACE + 5] = float(b - first_h1) if first_h1 >= 0 else -999.0
        row[A_PLACE + 6] = depth[e] if e >= 0 else 0.0
        row[A_PLACE + 7] = float(n - b)
        row[A_REPEAT] = same[b, 0]
        row[A_REPEAT + 1] = same[b, 1] / same[b, 0]
        row[A_REPEAT + 2] = same[b, 2] / max(same[b, 1], 1.0)
        row[A_REPEAT + 3] = twice[b]
        row[A_REPEAT + 4] = same[b, 1] / total
        for bit in range(N_TRAIT):
            row[A_TRAIT + bit] = float((page_traits >> bit) & 1)
        before += words


@njit(cache=True, nogil=True)
def _surroundings(parent, element, counts, path, score, tokens, out):  # type: ignore[no-untyped-def]
    """Fill the columns that the second pass adds."""
    n = len(element)
    sums = np.zeros((tokens + 1, 2), np.float64)
    for b in range(n):
        w = 1.0 + counts[b, 0]
        up = element[b]
        while True:
            at = up if up >= 0 else tokens
            sums[at, 0] += w * score[b]
            sums[at, 1] += w
            if up < 0:
                break
            up = parent[up]
    order = np.argsort(path)
    same = np.zeros(n, np.float64)
    i = 0
    while i < n:
        j = i
        w = 0.0
        s = 0.0
        while j < n and path[order[j]] == path[order[i]]:
            w += 1.0 + counts[order[j], 0]
            s += (1.0 + counts[order[j], 0]) * score[order[j]]
            j += 1
        for k in range(i, j):
            same[order[k]] = s / w
        i = j
    ahead = 0.0
    for b in range(n):
        row = out[b]
        c = COLUMNS
        row[c] = score[b]
        row[c + 1] = same[b]
        row[c + 2] = sums[tokens, 0] / max(sums[tokens, 1], 1.0)
        row[c + 3] = sums[tokens, 0]
        c += 4
        up = element[b]
        for _ in range(LEVELS):
            at = up if up >= 0 else tokens
            row[c] = sums[at, 0] / sums[at, 1]
            row[c + 1] = sums[at, 0] / max(sums[tokens, 0], 1e-9)
            c += 2
            if up >= 0:
                up = parent[up]
        row[c] = score[b - 1] if b >= 1 else -1.0
        row[c + 1] = score[b + 1] if b + 1 < n else -1.0
        s = 0.0
        w = 0.0
        for o in range(max(b - 4, 0), b):
            s += (1.0 + counts[o, 0]) * score[o]
            w += 1.0 + counts[o, 0]
        row[c + 2] = s / w if w > 0 else -1.0
        s = 0.0
        w = 0.0
        for o in range(b + 1, min(b + 5, n)):
            s += (1.0 + counts[o, 0]) * score[o]
            w += 1.0 + counts[o, 0]
        row[c + 3] = s / w if w > 0 else -1.0
        row[c + 4] = ahead / max(sums[tokens, 0], 1e-9)
        ahead += (1.0 + counts[b, 0]) * score[b]
        row[c + 5] = counts[b, 0] * score[b]
