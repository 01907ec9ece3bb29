"""The Numba pass behind the heuristics: counts of one document from its UTF-8 bytes.

Belongs here: two kernels (lines and words; n-grams) and the loop over documents. Does not belong here: what the counts
mean and their names as measures (``heuristics.py``), and the plain definition they are held against (``plain.py``).
"""

import numpy as np
from numba import int32, njit, uint32, uint64

from gristmill.text_units import decode, mix64

# One integer a document each; the order is the kernels'.
FIELDS = (
    "chars", "words", "word_chars", "alpha_words", "hashes", "ellipses", "lines", "bullet_lines", "ellipsis_lines",
    "stop_words", "dup_lines", "dup_line_chars", "paras", "dup_paras", "dup_para_chars", "top_2", "top_3", "top_4",
    "dup_5", "dup_6", "dup_7", "dup_8", "dup_9", "dup_10", "punct_lines", "short_lines", "newlines", "digits", "upper",
    "letters", "spaces", "longest_word", "sentences", "c4_sentences", "c4_lines", "c4_no_terminal", "c4_few_words",
    "c4_long_word", "c4_javascript", "c4_policy", "c4_lorem", "c4_curly", "rw_upper", "rw_numeric", "rw_counter",
    "rw_one_word", "rw_snippet", "rw_words", "unique_words", "long_lines", "longest_line",
)
# Kernels write fields by number: f[24] is FIELDS[24].


@njit(inline="always")
def _slot(keys, stamps, stamp, mask, x):  # type: ignore[no-untyped-def]
    """Place of key ``x`` in an open-addressed table whose live entries carry ``stamp``; free when the stamp differs."""
    p = ((x * uint64(0x9E3779B97F4A7C15)) >> uint64(32)) & mask
    while stamps[p] == stamp and keys[p] != x:
        p = (p + uint64(1)) & mask
    return p


@njit(cache=True, nogil=True)
def _c4_terminal(buf, a, b):  # type: ignore[no-untyped-def]
    """Does the stripped line buf[a:b], less citations ([12], [edit], [citation needed]) at its end, end a sentence."""
    while b > a and buf[b - 1] == 93:
        p = b - 2
        while p >= a and p > b - 18 and buf[p] != 91:
            p -= 1
        if p < a or buf[p] != 91:
            break
        n = b - 2 - p
        digits = True
        for q in range(p + 1, b - 1):
            if buf[q] < 48 or buf[q] > 57:
                digits = False
        edit = n == 4 and buf[p + 1] == 101 and buf[p + 2] == 100 and buf[p + 3] == 105 and buf[p + 4] == 116
        needed = n == 15 and buf[p + 1] == 99 and buf[p + 9] == 32 and buf[p + 10] == 110 and buf[p + 15] == 100
        if not (digits or edit or needed):
            break
        b = p
    if b <= a:
        return False
    c = buf[b - 1]
    if c not in (46, 63, 33, 34, 39):
        return False
    return not (b - a >= 3 and c == 46 and buf[b - 2] == 46 and buf[b - 3] == 46)


@njit(cache=True, nogil=True)
def lines_and_words(buf,  # type: ignore[no-untyped-def]
                     s, e, table, flag, step, seen, counted, stops, stop_bits, f, wh, wl, keys, stamps, stamp,
                    mask):
    """Everything that one pass over the bytes gives. Words' hashes and lengths go to ``wh`` and ``wl``.

    Args:
        f: int64[len(FIELDS)], zeroed; filled.
        keys, stamps: an open-addressed table; ``stamp`` is fresh. Paragraphs' keys are salted, so both share it.

    Returns:
        The number of words.
    """
    nw = 0
    h = uint64(0x9E3779B97F4A7C15)
    wlen, alpha, first_digit = 0, False, False
    stop_mask = uint64(0)
    dots = 0
    # of the line
    lh = uint64(0x9E3779B97F4A7C15)
    llen, visible, l_letters, l_upper, l_digits, l_words, l_leading = 0, 0, 0, 0, 0, 0, 0
    first, last, p1, p2, q1, q2 = uint32(0), uint32(0), uint32(0), uint32(0), uint32(0), uint32(0)
    last_word = uint64(0)
    tokens, token, longest = 0, 0, 0
    state, phrases, curly = 0, 0, False
    content, pending, sentences = False, False, 0
    a, b = s, s
    # of the paragraph
    ph, plen = uint64(0x9E3779B97F4A7C15), 0
    i = s
    while i <= e:
        if i < e:
            at = i
            c, i = decode(buf, i)
            for q in range(at, i):
                state = step[state, buf[q]]
                phrases |= seen[state]
            f[0] += 1
        else:
            at = i
            c = uint32(10)
            i += 1
        t = table[c] if c < uint32(0x34000) else uint32(0)
        g = flag[c] if c < uint32(0x34000) else 0
        kind = t >> uint32(24)
        if kind == 1:
            h = (h ^ uint64(t & uint32(0xFFFFFF))) * uint64(0x100000001B3)
            if wlen == 0:
                first_digit = (g & 2) != 0
            wlen += 1
            alpha = alpha or (g & 1) != 0
        elif kind != 3:
            if wlen > 0:
                x = mix64(h)
                wh[nw] = x
                wl[nw] = wlen
                nw += 1
                f[2] += wlen
                if alpha:
                    f[3] += 1
                f[31] = max(f[31], wlen)
                l_words += 1
                l_leading += first_digit
                last_word = x
                if (stop_bits >> (x & uint64(63))) & uint64(1):
                    for z in range(stops.shape[0]):
                        if stops[z] == x:
                            stop_mask |= uint64(1) << uint64(z)
                h = uint64(0x9E3779B97F4A7C15)
                wlen, alpha = 0, False
            if kind == 2:
                x = mix64((h ^ uint64(t & uint32(0xFFFFFF))) * uint64(0x100000001B3))
                wh[nw] = x
                wl[nw] = 1
                nw += 1
                f[2] += 1
                f[3] += (g & 1) != 0
                f[31] = max(f[31], 1)
                l_words += 1
                last_word = x
                if (stop_bits >> (x & uint64(63))) & uint64(1):
                    for z in range(stops.shape[0]):
                        if stops[z] == x:
                            stop_mask |= uint64(1) << uint64(z)
        if g & 2:
            f[27] += 1
            l_digits += 1
        if g & 1:
            f[29] += 1
            l_letters += 1
        if g & 4:
            f[28] += 1
            l_upper += 1
        if c == 35:
            f[4] += 1
        if c == 46:
            dots += 1
            if dots == 3:
                f[5] += 1
                dots = 0
        else:
            dots = 0
            if c == 0x2026:
                f[5] += 1
        # sentences of the line
        if g & 64:
            if content:
                sentences += 1
            content, pending = False, False
        elif g & 32:
            pending = pending or content
        elif (g & 8) or c == 10:
            if pending:
                sentences += 1
                content = False
            pending = False
        elif not (g & 128):
            pending, content = False, True
        if c != 10:
            lh = (lh ^ uint64(c)) * uint64(0x100000001B3)
            llen += 1
            if g & 8:
                f[30] += 1
                token = 0
            else:
                if visible == 0:
                    first = c
                    a = at
                visible += 1
                b = i
                last, q1, q2 = c, p1, p2
                if token == 0:
                    tokens += 1
                token += 1
                longest = max(longest, token)
                curly = curly or c == 123
            p2, p1 = p1, c
            continue
        # a line ends here
        if i <= e:
            f[26] += 1
            f[30] += 1
        if visible > 0:
            if content:
                sentences += 1
            f[6] += 1
            f[32] += sentences
            f[50] = max(f[50], llen)
            if llen >= 200:
                f[49] += 1
            if first in (0x2022, 45):
                f[7] += 1
            if last == 0x2026 or (last == 46 and q1 == 46 and q2 == 46):
                f[8] += 1
            if last < uint32(0x34000) and flag[last] & 16:
                f[24] += 1
            if llen <= 30:
                f[25] += 1
            x = mix64(lh)
            p = _slot(keys, stamps, stamp, mask, x)
            if stamps[p] == stamp:
                f[10] += 1
                f[11] += llen
            else:
                stamps[p] = stamp
                keys[p] = x
            # C4's order: too long a word, no end of sentence, few words, then phrases
            if longest > 1000:
                f[37] += 1
            elif not _c4_terminal(buf, a, b):
                f[35] += 1
            elif tokens < 3:
                f[36] += 1
            elif phrases & 1:
                f[40] += 1
            elif phrases & 2:
                f[38] += 1
            elif curly:
                f[41] += 1
            elif phrases & 4:
                f[39] += 1
            else:
                f[34] += 1
                f[33] += sentences
            # RefinedWeb's line rules, first that holds
            is_counted = False
            for z in range(counted.shape[0]):
                is_counted = is_counted or counted[z] == last_word
            hit = -1
            if 2 * l_upper > visible:
                hit = 42
            elif l_letters == 0 and l_digits > 0:
                hit = 43
            elif l_words >= 2 and l_leading == l_words - 1 and is_counted:
                hit = 44
            elif l_words == 1:
                hit = 45
            elif l_words <= 10 and phrases & 8:
                hit = 46
            if hit >= 0:
                f[hit] += 1
                f[47] += l_words
            ph = (ph ^ x) * uint64(0x100000001B3)
            plen += llen + (1 if plen else 0)
        if (visible == 0 or i > e) and plen > 0:
            f[12] += 1
            x = mix64(ph ^ uint64(0x5555))
            p = _slot(keys, stamps, stamp, mask, x)
            if stamps[p] == stamp:
                f[13] += 1
                f[14] += plen
            else:
                stamps[p] = stamp
                keys[p] = x
            ph, plen = uint64(0x9E3779B97F4A7C15), 0
        lh = uint64(0x9E3779B97F4A7C15)
        llen, visible, l_letters, l_upper, l_digits, l_words, l_leading = 0, 0, 0, 0, 0, 0, 0
        first, last, p1, p2 = uint32(0), uint32(0), uint32(0), uint32(0)
        tokens, token, longest = 0, 0, 0
        state, phrases, curly = 0, 0, False
        content, pending, sentences = False, False, 0
    f[1] = nw
    while stop_mask != uint64(0):
        stop_mask &= stop_mask - uint64(1)
        f[9] += 1
    return nw


@njit(cache=True, nogil=True)
def ngrams(nw, wh, wl, cum, keys, stamps, stamp, mask, count, where, f):  # type: ignore[no-untyped-def]
    """Distinct words and their entropy (nats times words), Gopher's top 2- to 4-grams and repeated 5- to 10-grams.

    ``cum`` is int64, at least nw + 1; ``stamp`` to ``stamp + 9`` are fresh. Returns sum of c log c over words.
    """
    cum[0] = 0
    for w in range(nw):
        cum[w + 1] = cum[w] + wl[w]
    spread = 0.0
    for w in range(nw):
        p = _slot(keys, stamps, stamp, mask, wh[w])
        if stamps[p] != stamp:
            stamps[p] = stamp
            keys[p] = wh[w]
            count[p] = 0
            f[48] += 1
        count[p] += 1
        c = count[p]
        spread += c * np.log(c) - ((c - 1) * np.log(c - 1) if c > 1 else 0.0)
    multiplier = uint64(0xFF51AFD7ED558CCD)
    for n in range(2, 11):
        if nw < n:
            break
        top = uint64(1)
        for _ in range(n):
            top *= multiplier
        mark = stamp + n - 1
        rolled, best, best_count, best_first, repeated, next_start = uint64(0), 0, 0, 0, 0, 0
        for w in range(nw):
            rolled = rolled * multiplier + wh[w]
            if w >= n:
                rolled -= wh[w - n] * top
            if w < n - 1:
                continue
            a = w - n + 1
            if n > 4 and a < next_start:
                continue
            p = _slot(keys, stamps, mark, mask, rolled)
            fresh = stamps[p] != mark
            if fresh:
                stamps[p] = mark
                keys[p] = rolled
                count[p] = 0
                where[p] = a
            count[p] += 1
            if n > 4:
                if not fresh:
                    repeated += cum[w + 1] - cum[a]
                    next_start = a + n
            elif count[p] > best_count or (count[p] == best_count and where[p] < best_first):
                # the most frequent, of equals the one that stands first; its spaces count
                best_count, best_first = count[p], where[p]
                best = best_count * (cum[w + 1] - cum[a] + n - 1)
        f[13 + n] = best if n <= 4 else repeated
    return spread


@njit(cache=True, nogil=True)
def measure(buf, offsets, table, flag, step,  # type: ignore[no-untyped-def]
            seen, counted, stops, stop_offsets, langs, out, spread):
    """All documents: ``out`` int64[n, len(FIELDS)] zeroed, ``spread`` float64[n]; ``langs`` int32[n], -1 unknown."""
    longest = 0
    for d in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[d + 1] - offsets[d])
    wh = np.empty(longest + 1, np.uint64)
    wl = np.empty(longest + 1, np.int32)
    cum = np.empty(longest + 2, np.int64)
    size = 1024
    keys, stamps = np.empty(size, np.uint64), np.zeros(size, np.int32)
    count, where = np.empty(size, np.int32), np.empty(size, np.int32)
    stamp = int32(1)
    nothing = stops[:0]
    for d in range(offsets.shape[0] - 1):
        s, e = offsets[d], offsets[d + 1]
        newlines, spaces = 0, 0
        for q in range(s, e):
            newlines += buf[q] == 10
            spaces += buf[q] < 48 or buf[q] > 0xDF  # words are at most one more than what may separate them
        need = 2 * max(2 * newlines + 4, spaces + 2)
        if size < need or stamp > 2_000_000_000:
            while size < need:
                size *= 2
            keys, stamps = np.empty(size, np.uint64), np.zeros(size, np.int32)
            count, where = np.empty(size, np.int32), np.empty(size, np.int32)
            stamp = int32(1)
        small = 16
        while small < 4 * (newlines + 2):
            small *= 2
        lang = langs[d]
        mine = stops[stop_offsets[lang] : stop_offsets[lang + 1]] if lang >= 0 else nothing
        bits = uint64(0)
        for z in range(mine.shape[0]):
            bits |= uint64(1) << (mine[z] & uint64(63))
        nw = lines_and_words(buf, s, e, table, flag, step, seen, counted, mine, bits, out[d], wh, wl, keys, stamps,
                             stamp, uint64(small - 1))
        stamp += 1
        while small < 2 * (nw + 1):
            small *= 2
        if size < small:
            size = small
            keys, stamps = np.empty(size, np.uint64), np.zeros(size, np.int32)
            count, where = np.empty(size, np.int32), np.empty(size, np.int32)
        spread[d] = ngrams(nw, wh, wl, cum, keys, stamps, stamp, uint64(small - 1), count, where, out[d])
        stamp += 10
