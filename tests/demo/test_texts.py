"""The English texts: real documentation, each piece used once, the same in every run."""

import re

import pytest

from gristmill.demo.texts import Block, Supply, blocks_of, docstrings, folders, is_prose, plain


def test_each_block_is_handed_out_once():
    supply = Supply()
    seen: set[str] = set()
    for number in range(40):
        article = supply.article(200) if number % 2 else supply.documentation(200)
        for block in article.blocks:
            if block.kind in ("p", "pre"):
                key = " ".join(block.text.casefold().split())
                assert key not in seen, block.text
                seen.add(key)
    assert supply.paragraph(20, 60) not in seen


def test_two_supplies_agree():
    one, two = Supply(), Supply()
    assert [one.article(150) for _ in range(10)] == [two.article(150) for _ in range(10)]
    assert [one.documentation(150) for _ in range(10)] == [two.documentation(150) for _ in range(10)]


@pytest.mark.parametrize("words", [60, 200, 500])
def test_lengths_are_what_was_asked_for(words: int):
    supply = Supply()
    for article in (supply.article(words), supply.documentation(words)):
        assert words <= len(article.text.split()) <= 3 * words + 400


def test_the_standard_library_is_read_without_importing_it():
    import sys

    before = set(sys.modules)
    name, library = folders()[0]
    assert name == ""
    found = dict(docstrings_of(library, 60))
    assert set(sys.modules) - before <= {"ast"}
    assert all(text.strip() for text in found.values())
    assert any("." in n for n in found)


def docstrings_of(library, count):
    source = docstrings(library, "")
    return [next(source) for _ in range(count)]


def test_no_address_of_an_author_gets_into_the_demo():
    supply = Supply()
    text = "\n".join(supply.documentation(200).text for _ in range(60))
    assert not re.search(r"[\w.+-]+@[\w-]+\.\w|https?://", text)


def test_docstrings_are_cut_into_what_they_are_made_of():
    blocks = blocks_of(
        """Do a thing with :func:`~os.path.join` and ``x``.

        Parameters
        ----------
        x : int
            A number.

        - first item
          goes on
        - second item

        >>> thing(1)
        2

        .. versionadded:: 1.2
        """
    )
    assert [b.kind for b in blocks] == ["p", "h2", "p", "li", "li", "pre"]
    assert blocks[0].text == "Do a thing with os.path.join and x."
    assert blocks[1] == Block("h2", "Parameters")
    assert blocks[3].text == "first item goes on"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The quick brown fox jumps over the lazy dog while the farmer sleeps in the barn.", True),
        ("Too short.", False),
        ("x = np.zeros((3, 4)); y = x[0] + 1; print(y.sum()); z = {1: 2}; f(z, y=3, q=[1, 2, 3]).", False),
        ("the sentence that begins without a capital letter is no prose for the purposes of the demo crawl.", False),
    ],
)
def test_prose(text: str, expected: bool):
    assert is_prose(text) is expected


def test_marks_come_off():
    assert plain("see `the docs <there>`_ for :class:`A` and ``b_c``\n  now") == "see the docs for A and b_c now"
