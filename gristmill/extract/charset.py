"""From bytes to text: which character encoding a page is in, in the order of the HTML standard.

Belongs here: byte order mark, HTTP header, ``meta``, detection; decoding; repair of mojibake; the share of characters
that could not be decoded. Does not belong here: HTML (``sanitize.py``) and what is done with a page that fails.

The standard (https://html.spec.whatwg.org/#determining-the-character-encoding) lets a byte order mark override the
transport's header, then reads ``meta``, then detects. Two liberties: a declared encoding under which
the bytes are damaged gives way to a detected one under which they are less so (tagged), and UTF-32, which browsers no
longer know, is read.
"""

import codecs
import re
from dataclasses import dataclass, field, replace

from resiliparse.parse.encoding import detect_encoding

from gristmill.extract import labels, prescan

REPLACEMENT = "\ufffd"
TOLERATED = 0.001  # a declared encoding may damage one character in a thousand before detection is asked

_BOMS = (  # the four-byte ones first: UTF-32LE begins like UTF-16LE
    (codecs.BOM_UTF32_LE, "utf-32le"), (codecs.BOM_UTF32_BE, "utf-32be"),
    (codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16le"), (codecs.BOM_UTF16_BE, "utf-16be"),
)


@dataclass(frozen=True)
class Decoded:
    """Text, and how it was read.

    Attributes:
        text: without a byte order mark.
        charset: the standard's name in lower case (``labels.py``).
        source: bom, header, meta, xml or detected.
        replaced: share of characters that are U+FFFD.
        tags: charset_conflict where the declaration was overridden.
        utf8: the text in UTF-8, where the page came so.
    """

    text: str
    charset: str
    source: str
    replaced: float
    tags: tuple[str, ...] = field(default=())
    utf8: bytes | None = field(default=None, repr=False)


def decode(data: bytes, header: str | None = None) -> Decoded:
    """Decode a page's bytes.

    Args:
        data: the body, without transfer or content encoding.
        header: charset parameter of the HTTP Content-Type, or None.
    """
    for bom, marked in _BOMS:
        if data.startswith(bom):
            return _decoded(data[len(bom):], marked, "bom")
    said = labels.name_of(header.strip("\"' ")) if header else None
    first: Decoded | None = None
    for declare in (lambda: (said, "header"), lambda: prescan.declared(data) or (None, "")):
        name, source = declare()
        if name is None:
            continue
        found = _decoded(data, name, source)
        if found.replaced <= TOLERATED:
            return found if first is None else _conflict(found)
        first = first or found
    found = _decoded(data, _detect(data), "detected")
    if first is None:
        return found
    return _conflict(found) if found.replaced < first.replaced else first


def _conflict(found: Decoded) -> Decoded:
    return replace(found, tags=("charset_conflict",))


def _detect(data: bytes) -> str:
    sample = data[:4096]
    if sample.count(0) * 8 > len(sample):
        wide = _wide(sample)
        if wide is not None:
            return wide
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        # A page cut in the middle of a character is still UTF-8.
        if len(data) - error.start < 4 and error.start > 0:
            return "utf-8"
    else:
        return "utf-8" if b"\x1b" not in sample else _stateful(sample)
    found = detect_encoding(data, max_len=1 << 16, html5_compatible=True)
    return labels.from_python(found) if found else "windows-1252"


def _wide(sample: bytes) -> str | None:
    """UTF-32 or UTF-16 without a mark: where the zeros of its ASCII characters are."""
    zeros = [sample[i::4].count(0) for i in range(4)]
    most = 0.8 * (len(sample) // 4)
    for name, filled in (("utf-32le", (1, 2, 3)), ("utf-32be", (0, 1, 2))):
        if all(zeros[i] > most for i in filled) and _reads(sample, name):
            return name
    little, big = zeros[1] + zeros[3], zeros[0] + zeros[2]
    if max(little, big) > 4 * min(little, big) and max(little, big) * 4 > len(sample):
        return "utf-16le" if little > big else "utf-16be"
    return None


def _reads(sample: bytes, name: str) -> bool:
    try:
        sample[: len(sample) // 4 * 4].decode(labels.codec_of(name))
    except UnicodeDecodeError:
        return False
    return True


def _stateful(sample: bytes) -> str:
    if b"\x1b$)C" in sample:
        return "iso-2022-kr"
    return "iso-2022-jp" if any(e in sample for e in (b"\x1b$B", b"\x1b$@", b"\x1b(J")) else "utf-8"


def _decoded(data: bytes, name: str, source: str) -> Decoded:
    text = data.decode(labels.codec_of(name), "replace")
    if name == "windows-1252" and REPLACEMENT in text:
        text = data.decode("latin-1").translate(_CP1252)  # the standard reads the five unused bytes as controls
    bad = text.count(REPLACEMENT)
    return Decoded(text, name, source, bad / len(text) if text else 0.0,
                   utf8=data if name == "utf-8" and not bad else None)


_CP1252 = {b: bytes([b]).decode("windows-1252", "replace").replace(REPLACEMENT, chr(b)) for b in range(0x80, 0xA0)}


# -- mojibake ------------------------------------------------------------------------------------------------------

def repair(text: str) -> tuple[str, bool]:
    """Undo UTF-8 that was read as another encoding somewhere upstream (ftfy), and only that.

    Returns:
        The text, and whether anything changed. Quotes, ligatures and widths stay as they are.
    """
    if text.isascii():
        return text, False
    import ftfy
    from ftfy.badness import is_bad

    if (_AFTER_LEAD.search(text) is None and _ODD_LEAD.search(text) is None) or (
            _CONTROLS.search(text) is None and not is_bad(text)):
        return text, False
    lines = text.split("\n")
    changed = False
    for number, line in enumerate(lines):
        if not line.isascii():
            fixed = ftfy.fix_text(line, _config()).rstrip("\n")
            if fixed != line:
                lines[number], changed = fixed, True
    return "\n".join(lines), changed


_CONTROLS = re.compile("[\x80-\x9f]")
# What mojibake cannot do without: the letter of a lead byte before the sign of a continuation byte, in the usual code
# pages, or a control; the test of ftfy itself is slow on clean text. Each pattern begins with a set of characters,
# which Python looks for fast: of a pair it is the rarer one.
_ODD_LEAD = re.compile("[\u221a\u201a\u251c\u2568\u2564\u252c\u0192\u2206\u0393][^\\x00-\x7f]")
_AFTER_LEAD = re.compile(
    "[\u0080-\u00bf\u0152-\u0178\u017d\u017e\u0192\u02c6-\u02dd\u2010-\u2122]"
    "(?:(?<=[\u00c0-\u00ff\u0100-\u017f\u0400-\u045f].)|(?<=[\x80-\x9f]))"
)


def _config() -> "ftfy.TextFixerConfig":  # type: ignore[name-defined]  # noqa: F821
    import ftfy

    return ftfy.TextFixerConfig(
        unescape_html=False, remove_terminal_escapes=False, fix_encoding=True, restore_byte_a0=True,
        replace_lossy_sequences=True, decode_inconsistent_utf8=True, fix_c1_controls=True, fix_latin_ligatures=False,
        fix_character_width=False, uncurl_quotes=False, fix_line_breaks=False, fix_surrogates=False,
        remove_control_chars=False, normalization=None, explain=False,
    )
