"""From bytes to text: which character encoding a page is in, in the order of the HTML standard.

Belongs here: byte order mark, HTTP header, ``meta``, detection; decoding; repair of mojibake; the share of characters
that could not be decoded. Does not belong here: HTML (``sanitize.py``) and what is done with a page that fails.

The standard (https://html.spec.whatwg.org/#determining-the-character-encoding) lets a byte order mark override the
transport's header, then prescans 1,024 bytes for ``meta``, then detects. Two liberties: a declared encoding under which
the bytes are damaged gives way to a detected one under which they are less so (tagged), and UTF-32, which browsers no
longer know, is read.
"""

import codecs
import re
from dataclasses import dataclass, field

from resiliparse.parse.encoding import bytes_to_str, detect_encoding, map_encoding_to_html5

PRESCAN = 1024
REPLACEMENT = "\ufffd"
TOLERATED = 0.001  # a declared encoding may damage one character in a thousand before detection is asked

_BOMS = (  # the four-byte ones first: UTF-32LE begins like UTF-16LE
    (codecs.BOM_UTF32_LE, "utf-32-le"), (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_META = re.compile(
    rb"""<meta[^>]{0,500}?charset\s*=\s*["']?\s*([A-Za-z0-9_:.\-]{2,40})""", re.IGNORECASE)
_XML = re.compile(rb"""^\s*<\?xml[^>]{0,200}?encoding\s*=\s*["']([A-Za-z0-9_:.\-]{2,40})["']""")
_COMMENT = re.compile(rb"<!--.*?(?:-->|\Z)", re.DOTALL)


@dataclass(frozen=True)
class Decoded:
    """Text, and how it was read.

    Attributes:
        text: without a byte order mark.
        charset: WHATWG name in lower case (or utf-32-le, utf-32-be).
        source: bom, header, meta, xml or detected.
        replaced: share of characters that are U+FFFD.
        tags: charset_conflict where the declaration was overridden.
    """

    text: str
    charset: str
    source: str
    replaced: float
    tags: tuple[str, ...] = field(default=())


def decode(data: bytes, header: str | None = None) -> Decoded:
    """Decode a page's bytes.

    Args:
        data: the body, without transfer or content encoding.
        header: charset parameter of the HTTP Content-Type, or None.
    """
    for bom, marked in _BOMS:
        if data.startswith(bom):
            return _decoded(data[len(bom):], marked, "bom")
    candidates: list[tuple[str | None, str]] = [(_label(header), "header"), *_declared(data)]
    first: Decoded | None = None
    for name, source in candidates:
        if name is None:
            continue
        found = _decoded(data, name, source)
        if found.replaced <= TOLERATED:
            return found if first is None else _conflict(found)
        first = first or found
    detected = _detect(data)
    found = _decoded(data, detected, "detected")
    if first is None:
        return found
    return _conflict(found) if found.replaced < first.replaced else first


def _conflict(found: Decoded) -> Decoded:
    return Decoded(found.text, found.charset, found.source, found.replaced, ("charset_conflict",))


def _declared(data: bytes) -> list[tuple[str | None, str]]:
    head = _COMMENT.sub(b"", data[:PRESCAN])
    out: list[tuple[str | None, str]] = []
    meta = _META.search(head)
    if meta:
        name = _label(meta.group(1).decode("ascii"))
        # A declaration that could be read byte by byte cannot be in UTF-16: the standard says UTF-8 then.
        out.append(("utf-8" if name in ("utf-16le", "utf-16be") else name, "meta"))
    xml = _XML.match(head)
    if xml:
        name = _label(xml.group(1).decode("ascii"))
        out.append(("utf-8" if name in ("utf-16le", "utf-16be") else name, "xml"))
    return out


def _label(name: str | None) -> str | None:
    """WHATWG's name of a label, or None where it is none."""
    if not name:
        return None
    return map_encoding_to_html5(name.strip().strip("\"'").lower(), fallback_utf8=False)


def _detect(data: bytes) -> str:
    sample = data[:4096]
    if sample.count(0) * 8 > len(sample):  # every second (or three in four) byte of Latin text is zero in UTF-16 (-32)
        zeros = [sample[i::4].count(0) for i in range(4)]
        quarter = max(len(sample) // 4, 1)
        if zeros[1] > 0.8 * quarter and zeros[2] > 0.8 * quarter:
            return "utf-32-le" if zeros[3] > 0.8 * quarter and zeros[0] < zeros[3] else "utf-32-be"
        return "utf-16-le" if zeros[1] + zeros[3] > zeros[0] + zeros[2] else "utf-16-be"
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        # A page cut in the middle of a character is still UTF-8.
        if len(data) - error.start < 4 and error.start > 0:
            return "utf-8"
    else:
        return "utf-8" if b"\x1b" not in sample else _detect_stateful(sample)
    return detect_encoding(data, max_len=1 << 16, html5_compatible=True) or "windows-1252"


def _detect_stateful(sample: bytes) -> str:
    if b"\x1b$)C" in sample:
        return "iso-2022-kr"
    if b"\x1b$B" in sample or b"\x1b$@" in sample or b"\x1b(J" in sample:
        return "iso-2022-jp"
    return "utf-8"


# WHATWG name -> Python codec, where they differ.
_CODECS = {
    "iso-8859-8-i": "iso-8859-8", "windows-874": "cp874", "x-mac-cyrillic": "mac_cyrillic", "macintosh": "mac_roman",
    "gbk": "gb18030", "shift_jis": "cp932", "euc-kr": "cp949", "big5": "big5hkscs", "utf-16le": "utf-16-le",
    "utf-16be": "utf-16-be", "iso-8859-1": "windows-1252", "us-ascii": "windows-1252",
}


def _decoded(data: bytes, name: str, source: str) -> Decoded:
    codec = _CODECS.get(name, name)
    try:
        text = data.decode(codec, "replace")
    except LookupError:  # x-user-defined and the like: the standard's own decoder
        text = bytes_to_str(data, name, errors="replace")
    if codec == "windows-1252" and REPLACEMENT in text:
        text = data.decode("latin-1").translate(_CP1252)  # WHATWG decodes the five unused bytes to control characters
    bad = text.count(REPLACEMENT)
    return Decoded(text, name, source, bad / len(text) if text else 0.0)


_CP1252 = {b: bytes([b]).decode("windows-1252", "replace").replace(REPLACEMENT, chr(b)) for b in range(0x80, 0xA0)}


# -- mojibake ------------------------------------------------------------------------------------------------------

# UTF-8 read as a single-byte encoding leaves a lead byte's letter followed by a continuation byte's sign.
_SUSPECT = re.compile(
    "[\u00c2-\u00f4\u0102-\u0111\u0400-\u045f]"
    "[\u0080-\u00bf\u0152-\u0178\u0192\u02c6-\u02dc\u2010-\u2122]"
)


def repair(text: str) -> tuple[str, bool]:
    """Undo UTF-8 that was read as another encoding somewhere upstream (ftfy), and only that.

    Returns:
        The text, and whether anything changed. Quotes, ligatures and widths stay as they are.
    """
    if not _SUSPECT.search(text):
        return text, False
    import ftfy

    lines = text.split("\n")
    changed = False
    for number, line in enumerate(lines):
        if _SUSPECT.search(line):
            fixed = ftfy.fix_text(line, _config()).rstrip("\n")
            if fixed != line:
                lines[number], changed = fixed, True
    return "\n".join(lines), changed


def _config() -> "ftfy.TextFixerConfig":  # type: ignore[name-defined]  # noqa: F821
    import ftfy

    return ftfy.TextFixerConfig(
        unescape_html=False, remove_terminal_escapes=False, fix_encoding=True, restore_byte_a0=True,
        replace_lossy_sequences=True, decode_inconsistent_utf8=True, fix_c1_controls=True, fix_latin_ligatures=False,
        fix_character_width=False, uncurl_quotes=False, fix_line_breaks=False, fix_surrogates=False,
        remove_control_chars=False, normalization=None, explain=False,
    )
