"""Encodings: the standard's order, its prescan tests, real pages in many encodings, mojibake and its look-alikes."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.extract import labels
from gristmill.extract.charset import decode, repair


def test_the_order_of_the_standard() -> None:
    body = '<meta charset="iso-8859-2"><p>é'.encode()
    assert decode(body, "windows-1251").source == "header"
    assert decode(b"\xef\xbb\xbf" + body, "windows-1251").charset == "utf-8"
    assert decode(b"\xef\xbb\xbf" + body, "windows-1251").source == "bom"
    assert (decode(body).charset, decode(body).source) == ("iso-8859-2", "meta")
    assert decode("<p>é".encode()).source == "detected"


def test_a_declaration_that_damages_gives_way_to_one_that_does_not() -> None:
    text = "Příliš žluťoučký kůň úpěl ďábelské ódy. " * 20
    found = decode(text.encode("utf-8"), "euc-jp")
    assert found.text == text
    assert found.tags == ("charset_conflict",)
    assert decode(text.encode("cp1250"), "utf-8").charset == "windows-1250"


def test_bytes_that_are_no_text_are_counted() -> None:
    assert (
        decode(b"abc\xff\xfe" * 100, "utf-8").replaced > 0.02
        or decode(b"abc\xff\xfe" * 100, "utf-8").charset != "utf-8"
    )


def test_meta_cannot_declare_utf_16() -> None:
    assert decode(b'<meta charset="utf-16"><p>x').charset == "utf-8"


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00\ufeff"), min_size=1, max_size=300))
def test_utf_8_survives_with_and_without_its_header(text: str) -> None:
    assert decode(text.encode(), "utf-8").text == text
    assert decode(b"\xef\xbb\xbf" + text.encode()).text == text


@given(st.binary(max_size=2000), st.sampled_from([None, "utf-8", "shift_jis", "gb18030", "nonsense", "utf-16"]))
def test_no_bytes_raise(data: bytes, header: str | None) -> None:
    assert 0.0 <= decode(data, header).replaced <= 1.0


def test_every_name_has_a_codec() -> None:
    for name in set(labels._NAMES.values()):
        b"abc\xff\x81".decode(labels.codec_of(name), "replace")
    assert labels.name_of(" UTF8 ") == "utf-8"
    assert labels.name_of("latin1") == "windows-1252"
    assert labels.name_of("klingon") is None


@pytest.mark.shared
def test_the_prescan_passes_the_html5lib_tests(shared: Path) -> None:
    data = (shared / "08_robustness" / "html5lib_encoding" / "tests1.dat").read_bytes()
    cases = data.split(b"#data\n")[1:]
    assert len(cases) == 59
    for case in cases:
        body, _, wanted = case.rpartition(b"\n#encoding\n")
        found = decode(body)
        name = wanted.strip().decode().lower()
        # The tests say windows-1252 where nothing is declared; we detect, and UTF-8 and ASCII are detected as UTF-8.
        assert found.charset == name or (name == "windows-1252" and found.source == "detected"), body[:200]


@pytest.mark.shared
def test_real_files_in_many_encodings(shared: Path) -> None:
    """Each file is read as what it is, or enough of it is undecodable that it is set aside by name."""
    unknown = {"EUC-TW", "IBM855", "Johab", "MacCyrillic"}  # no browser reads the first three
    codecs = {
        "TIS-620": "cp874",
        "iso-8859-1": "cp1252",
        "GB2312": "gb18030",
        "Big5": "big5hkscs",
        "EUC-KR": "cp949",
        "SHIFT_JIS": "cp932",
    }
    for folder in sorted((shared / "08_robustness" / "encodings").iterdir()):
        for file in folder.iterdir():
            found = decode(file.read_bytes())
            if folder.name in unknown:
                assert found.replaced > 0.02, folder.name
                continue
            parts = folder.name.split("-")
            name = (
                folder.name
                if parts[-1][0].isdigit() or len(parts) == 1 or not parts[-1].islower()
                else "-".join(parts[:-1])
            )
            if folder.name in ("utf-8-sig", "iso-2022-jp", "iso-2022-kr"):
                name = folder.name
            want = file.read_bytes().decode(codecs.get(folder.name, name), "replace").lstrip("\ufeff")
            same = sum(a == b for a, b in zip(want, found.text, strict=False)) / max(len(want), 1)
            assert same > 0.99, (folder.name, found.charset, found.source)


@pytest.mark.shared
def test_mojibake_is_repaired_and_what_looks_like_it_is_left(shared: Path) -> None:
    for name in ("in-the-wild.json", "negative.json"):
        for case in json.loads((shared / "08_robustness" / "mojibake" / name).read_text()):
            if case.get("expect") == "pass":
                assert repair(case["original"])[0] in (case.get("fixed-encoding"), case["fixed"]), case["label"]


def test_clean_text_is_left_alone() -> None:
    text = "Æsop’s naïve café — “quoted” ﬁne ½ … Ελληνικά"
    assert repair(text) == (text, False)
    assert repair("plain") == ("plain", False)
    assert repair("schÃ¶n\nund klar") == ("schön\nund klar", True)
