from hypothesis import given
from hypothesis import strategies as st

from gristmill.deduplicate.lines import clean, line_hash
from gristmill.tokens.release_text import merge_spans, placeholder, release_bytes, release_text

LINES = st.lists(st.text("ab\u00e9\u65e5@. ", max_size=6), max_size=8)


def test_lines_go_and_personal_data_is_replaced_in_one_pass():
    text = "Menu Home About\nWrite to jo@x.org or 555-1234.\nCookie notice\nThe end.\n"
    data = text.encode()
    mail, phone = data.index(b"jo@x.org"), data.index(b"555-1234")
    spans = [(phone, phone + 8, "phone"), (mail, mail + 8, "email")]
    removed = [line_hash(b"Menu Home About"), line_hash(b"Cookie notice")]
    assert release_text(text, removed, spans) == "Write to [EMAIL] or [PHONE].\nThe end.\n"


def test_spans_refer_to_bytes_of_the_extracted_text():
    text = "\u65e5\u672c\u8a9e\u3001jo@x.org\u3001\u7d42"
    start = text.encode().index(b"jo")
    assert release_text(text, [], [(start, start + 8, "email")]) == "\u65e5\u672c\u8a9e\u3001[EMAIL]\u3001\u7d42"


def test_personal_data_on_a_removed_line_leaves_no_placeholder():
    text = "a@b.co\nrest\n"
    assert release_text(text, [line_hash(b"a@b.co")], [(0, 6, "email")]) == "rest\n"


def test_a_span_over_a_cut_is_replaced_once():
    text = "aXX\nmid\nXXb\n"
    assert release_text(text, [line_hash(b"mid")], [(1, 10, "address")]) == "a[ADDRESS]b\n"


def test_overlapping_spans_become_one_of_the_longest_kind():
    assert merge_spans([(5, 9, "phone"), (0, 6, "email"), (20, 22, "ip"), (3, 3, "none")]) == [
        (0, 9, "email"),
        (20, 22, "ip"),
    ]
    assert merge_spans([(0, 3, "a"), (1, 9, "b")]) == [(0, 9, "b")]


@given(LINES, st.data())
def test_without_personal_data_it_is_the_cleaned_text(lines, data):
    text = "\n".join(lines)
    gone = data.draw(st.sets(st.sampled_from(lines))) if lines else set()
    removed = {line_hash(x.encode()) for x in gone}
    assert release_text(text, removed, []) == clean(text, removed)


@given(st.binary(max_size=60), st.data())
def test_one_pass_is_what_two_careful_passes_are(data, draw):
    n = len(data)
    edges = sorted(draw.draw(st.sets(st.integers(0, n), max_size=8)))
    kept = [(a, b) for a, b in zip(edges[::2], edges[1::2]) if b > a]
    points = sorted(draw.draw(st.sets(st.integers(0, n), max_size=8)))
    spans = [(a, b, "email") for a, b in zip(points[::2], points[1::2]) if b > a]
    # Reference: mark every byte, then walk.
    keep = [any(a <= i < b for a, b in kept) for i in range(n)]
    span_of = [next((k for k, (a, b, _) in enumerate(spans) if a <= i < b), None) for i in range(n)]
    out, shown = b"", set()
    for i in range(n):
        if not keep[i]:
            continue
        if span_of[i] is None:
            out += data[i : i + 1]
        elif span_of[i] not in shown:
            shown.add(span_of[i])
            out += placeholder("email").encode()
    assert release_bytes(data, kept, spans) == out
