"""From extracted text to the text that is released: boilerplate lines out, personal data replaced, in one pass.

Belongs here: that one transformation. Does not belong here: finding lines (``deduplicate/lines.py``) or personal data
(``safety/pii.py``). All spans refer to UTF-8 bytes of the extracted text, so they stay valid whatever is cut.
"""

from collections.abc import Collection, Iterable

Span = tuple[int, int, str]


def placeholder(kind: str) -> str:
    """What stands for a piece of personal data: its kind in capitals, in square brackets."""
    return f"[{kind.upper()}]"


def merge_spans(spans: Iterable[Span]) -> list[Span]:
    """Overlapping spans as one, of the kind of the longest (the first of equals); sorted by start."""
    out: list[Span] = []
    longest = 0
    for start, end, kind in sorted(spans, key=lambda s: (s[0], -s[1], s[2])):
        if end <= start:
            continue
        if out and start < out[-1][1]:
            before = out[-1]
            if end - start > longest:
                longest, winner = end - start, kind
            else:
                winner = before[2]
            out[-1] = (before[0], max(before[1], end), winner)
        else:
            out.append((start, end, kind))
            longest = end - start
    return out


def release_bytes(data: bytes, kept: list[tuple[int, int]], spans: Iterable[Span]) -> bytes:
    """``data`` restricted to ``kept`` ranges, with every span of it replaced by its placeholder, once.

    Args:
        data: UTF-8 bytes of the extracted text.
        kept: ascending, disjoint byte ranges that stay.
        spans: (start, end, kind); one that reaches over a cut is replaced where its first kept byte stands.
    """
    merged = merge_spans(spans)
    out: list[bytes] = []
    number = 0
    written = -1  # the last span whose placeholder has been written
    for start, end in kept:
        cursor = start
        while number < len(merged) and merged[number][1] <= cursor:
            number += 1
        at = number
        while at < len(merged) and merged[at][0] < end:
            span_start, span_end, kind = merged[at]
            if span_start > cursor:
                out.append(data[cursor:span_start])
            if at > written:
                out.append(placeholder(kind).encode())
                written = at
            cursor = min(max(cursor, span_end), end)
            if span_end > end:
                break
            at += 1
        out.append(data[cursor:end])
    return b"".join(out)


def release_text(text: str, removed: Collection[int], spans: Iterable[Span]) -> str:
    """The released form of one extracted text.

    Args:
        text: as extracted.
        removed: hashes of the boilerplate lines taken out of it (table ``lines``).
        spans: its personal data (table ``safety``).
    """
    spans = list(spans)
    if not removed and not spans:
        return text
    data = text.encode("utf-8")
    if removed:
        from gristmill.deduplicate.lines import kept_spans

        kept = kept_spans(data, set(removed))
    else:
        kept = [(0, len(data))]
    # A span always starts and ends at a character, so this cannot fail on the store's own tables.
    return release_bytes(data, kept, spans).decode("utf-8")
