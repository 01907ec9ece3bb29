"""Words are found where Python finds them, whatever their case and wherever they begin."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.extract.literals import Literals

WORDS = (b"smf", b"og:type", b"add-to-cart", b"addto", b"<math", b"mjx-", b"aab", b"aaa")
PIECES = (*WORDS, b"a", b"s", b"SMF", b"AAB", b"x", b"<", b"-", b"og:", b"\xc3\xa9", b"mjx")


@given(st.lists(st.sampled_from(PIECES), max_size=30))
def test_first_places(pieces: list[bytes]) -> None:
    page = b"".join(pieces)
    assert Literals(WORDS).places(page) == [page.lower().find(word) for word in WORDS]


def test_words_are_long_enough_and_in_lower_case() -> None:
    for word in (b"ab", b"Abc"):
        with pytest.raises(ValueError, match="three bytes"):
            Literals((word,))
