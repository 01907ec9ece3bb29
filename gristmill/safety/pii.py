"""Personal data in text, as spans: e-mail, telephone, payment cards, identity numbers, IBAN, IP addresses, secrets.

Belongs here: the patterns (RE2, on bytes, so no input makes them slow and offsets are right in any script), and what
decides between kinds that look alike. Does not belong here: check digits (``validators.py``), which regions are worth
looking at (``candidates.py``), replacing spans by placeholders (``tokens/release_text.py``), and names and addresses in
prose (``ner.py``).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import re2

from gristmill.errors import ParameterError
from gristmill.safety import candidates, validators

KINDS = ("email", "phone", "card", "us_ssn", "iban", "ip", "secret", *validators.NATIONAL)


class Span(NamedTuple):
    """Bytes ``start`` to ``end`` of the UTF-8 text are personal data of a kind."""

    start: int
    end: int
    kind: str


def _compile(pattern: str, ignore_case: bool = False) -> "re2._Regexp":
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1  # bytes are bytes: a match never depends on decoding
    options.case_sensitive = not ignore_case
    return re2.compile(pattern.encode(), options)


S = r"(?: |\xc2\xa0)"  # a space, or a no-break space in UTF-8
SEP = rf"(?:{S}|[.\-])"

_EMAIL = _compile(r"[a-z0-9][a-z0-9._%+'\-]{0,63}@(?:[a-z0-9](?:[a-z0-9\-]{0,61}[a-z0-9])?\.)+[a-z]{2,24}", True)
_FILE_SUFFIXES = frozenset(b"png jpg jpeg gif svg webp css js html php pdf zip exe".split())

# Formats that are telephone numbers without further evidence, by country. A country's plan is its regulator's.
PHONE_FORMATS: dict[str, str] = {
    "E164": rf"\+[1-9]\d{{0,2}}(?:{SEP}?\(\d{{1,4}}\))?(?:[ .\-/]?\d{{1,5}}){{0,5}}[ .\-/]?\d{{2,5}}"
            r"(?: ?(?:x|ext\.?) ?\d{1,6})?",
    "00": rf"00[1-9]\d{{0,2}}[ .\-]\(?\d{{1,4}}\)?(?:{SEP}\d{{2,5}}){{1,4}}(?: ?(?:x|ext\.?) ?\d{{1,6}})?",
    "US": rf"(?:1[ .\-])?(?:\([2-9]\d\d\){S}?|[2-9]\d\d[.\-])[2-9]\d\d[.\-]\d{{4}}(?: ?(?:x|ext\.?) ?\d{{1,6}})?"
          rf"|[2-9]\d\d [2-9]\d\d-\d{{4}}",
    "FR": rf"0[1-9](?:(?:{S}\d\d){{4}}|(?:\.\d\d){{4}}|(?:-\d\d){{4}})",
    "GB": rf"0\d{{4}}{S}\d{{3}}{S}\d{{3}}|0\d\d{S}\d{{4}}{S}\d{{4}}|07\d{{3}}{S}\d{{6}}"
          rf"|\(0\d{{2,4}}\){S}?\d{{3,4}}{S}?\d{{3,4}}",
    "DE": r"0[1-9]\d{1,4}/ ?\d{2,4}[ \-]?\d{2,5}",
    "CH": rf"0[2-9]\d{S}\d{{3}}{S}\d\d{S}\d\d",
    "AU": rf"\(0[2-8]\){S}?\d{{4}}{S}\d{{4}}|04\d\d{S}\d{{3}}{S}\d{{3}}",
    "BE": rf"04\d\d{S}\d\d{S}\d\d{S}\d\d",
    "BR": rf"\([1-9]\d\){S}?9?\d{{4}}-\d{{4}}",
    "CN": r"1[3-9]\d[ \-]\d{4}[ \-]\d{4}",
    "JP": r"0[789]0-\d{4}-\d{4}|0[1-9]-\d{4}-\d{4}",
    "IT": r"3\d\d[ .]\d{3}[ .]\d{2}[ .]\d{2}",
    "RU": r"8[ \-]?\(\d{3,4}\)[ \-]?\d{2,3}-\d\d-\d\d",
}
# With a word for telephone near it, any run of 7 to 13 digits in telephone grouping is one.
_ANY_NUMBER = _compile(rf"\(?\d{{1,5}}\)?(?:(?:{SEP}|/)?\(?\d{{2,10}}\)?){{1,5}}(?: ?(?:x|ext\.?) ?\d{{1,6}})?", True)
_PHONE_WORD = _compile(
    r"phone|\btels?\b|\btelef|\btél|fax|mobile|\bmobil|\bcell|\bcall (?:me|us|him|her|them|now|at|on|or)|\bdial|"
    r"\btext(?:ing)? me|\bsms\b|whats ?app|hotline|helpline|voice ?mail|\bdesk\b|\boffice\b|answering|"
    r"messages? (?:at|to|on)|\bring me|reach (?:me|us) (?:at|on)|\bcontact:|\bhandy|\bportable\b|celular|"
    "телефон|тел\\.|电话|電話|手机|전화|هاتف|טלפון|נייד|फ़ोन|โทร", True)
_PHONE_WORD_AFTER = _compile(r"^[ \-,(]{0,3}(?:office|fax|mobile|cell|phone|desk|home|work)\b", True)
_DATE = _compile(r"^(?:(?:19|20)\d\d ?- ?(?:19|20)\d\d"
                 r"|(?:19|20)\d\d[./\-](?:0?[1-9]|1[0-2])[./\-](?:0?[1-9]|[12]\d|3[01])"
                 r"|(?:0?[1-9]|[12]\d|3[01])[./\-](?:0?[1-9]|[12]\d|3[01])[./\-](?:19|20)?\d\d)(?:$|\D)")

_CARD = _compile(r"\d{4}(?:[ \-]\d{4}){2,3}(?:[ \-]\d{1,4})?|3\d{3}[ \-]\d{6}[ \-]\d{4,5}|\d{12,19}")
_CARD_WORD = _compile(r"card|credit|debit|visa|master|maestro|amex|carte|karte|tarjeta|carta\b|карт|卡", True)
_SSN = _compile(r"\d{3}-\d\d-\d{4}|\d{3} \d\d \d{4}|\d{9}")
_SSN_WORD = _compile(r"\bssn\b|social security|\bss ?#|soc\.? ?sec", True)
_IBAN = _compile(r"[a-z]{2}\d\d(?: ?[a-z0-9]{2,4}){3,8}(?: ?[a-z0-9]{1,4})?", True)
_IPV4 = _compile(r"(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\.){3}(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)")
_IPV6 = _compile(r"[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,7}", True)
_VERSION_WORD = _compile(r"(?:version|release|build|firmware|driver|\bv|\bver\.?|chrome/|firefox/|safari/|edge?/|opr/"
                         rf"|section|chapter|§|\boid\b|identifier)(?:[:=(\"']|{S}|§)*$", True)
_ADDRESS_WORD = _compile(r"\bip\b|\bipv4|address|\bhost|\bdns\b|server|\bping\b|client|\bfrom\b|gateway", True)

SECRET_FORMATS: dict[str, str] = {
    "aws": r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    "github": r"\bgh[pousr]_[A-Za-z0-9]{36,}\b|\bgithub_pat_[A-Za-z0-9_]{22,}\b",
    "gitlab": r"\bglpat-[A-Za-z0-9_\-]{20,}",
    "google": r"\bAIza[0-9A-Za-z_\-]{35}",
    "slack": r"\bxox[abeoprs]-[0-9A-Za-z\-]{10,}",
    "stripe": r"\b[rs]k_(?:live|test)_[0-9A-Za-z]{16,}\b",
    "model api": r"\bsk-(?:proj-|ant-)?[A-Za-z0-9_\-]{20,}",
    "jwt": r"\beyJ[A-Za-z0-9_\-]{8,}\.eyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{8,}",
    "private key": r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----[A-Za-z0-9+/=\s:,\-]*?"
                   r"-----END (?:[A-Z]+ )*PRIVATE KEY-----",
}
_SECRET = _compile("|".join(f"(?:{p})" for p in SECRET_FORMATS.values()))
_ASSIGNED = _compile(r"(?:api[_\-]?key|secret|access[_\-]?token|auth[_\-]?token|password|passwd|client[_\-]?secret)"
                     r"[\"']?[ ]?[:=][ ]?[\"']?([A-Za-z0-9_\-+/=]{16,128})", True)

_NATIONAL: dict[str, tuple["re2._Regexp", "re2._Regexp | None"]] = {
    # kind: (form, the word that must stand near it where the check digit alone is weak)
    "es_dni": (_compile(r"\b(?:\d{8}|[XYZ]\d{7})[ \-]?[A-HJ-NP-TV-Z]\b"),
               _compile(r"\bdni\b|\bnif\b|\bnie\b|identidad", True)),
    "it_cf": (_compile(r"\b[A-Z]{6}\d\d[A-EHLMPRST]\d\d[A-Z]\d{3}[A-Z]\b", True), None),
    "br_cpf": (_compile(r"\b\d{3}\.\d{3}\.\d{3}-\d\d\b"), None),
    "cn_id": (_compile(r"\b[1-9]\d{16}[\dXx]\b"), None),
    "fr_nir": (_compile(r"\b[12] ?\d\d ?(?:0[1-9]|1[0-2]) ?(?:\d\d|2[AB]) ?\d{3} ?\d{3} ?\d\d\b"), None),
    "pl_pesel": (_compile(r"\b\d{11}\b"), _compile("pesel", True)),
    "nl_bsn": (_compile(r"\b\d{9}\b"), _compile(r"\bbsn\b|burgerservice|sofinummer", True)),
    "in_aadhaar": (_compile(r"\b[2-9]\d{3} ?\d{4} ?\d{4}\b"), _compile("aadhaar|aadhar|uidai|आधार", True)),
}
# Cheap first looks: most regions hold none of them.
_ANY_NATIONAL = _compile(
    r"\b[1-9]\d{7,17}[A-Z]?\b|\b[XYZ]\d{7}|\b[A-Z]{6}\d\d[A-Z]|\d{3}\.\d{3}\.\d{3}-|\b[12] ?\d\d ?\d\d|"
    r"\b[2-9]\d{3} \d{4}|\b\d{8}[ \-][A-Z]\b", True)
_ANY_SECRET = _compile(
    r"AKIA|ASIA|gh[pousr]_|github_pat_|glpat-|AIza|xox[abeoprs]-|[rs]k_|sk-|eyJ|-----BEGIN|"
    r"(?i:api[_\-]?key|secret|token|passw)")


@dataclass(frozen=True)
class Rules:
    """What counts. ``countries`` names the national telephone formats that need no context."""

    private_ips: bool = False
    countries: tuple[str, ...] = tuple(PHONE_FORMATS)

    def __post_init__(self) -> None:
        unknown = sorted(set(self.countries) - PHONE_FORMATS.keys())
        if unknown or not self.countries:
            raise ParameterError(f"safety.phone_countries: {', '.join(unknown) or 'none'} is no telephone format: "
                                 f"there are {', '.join(PHONE_FORMATS)}")

    def phone(self) -> "re2._Regexp":
        """The alternation of the chosen countries' formats."""
        key = self.countries
        if key not in _PHONES:
            _PHONES[key] = _compile("|".join(f"(?:{PHONE_FORMATS[c]})" for c in key), True)
        return _PHONES[key]


_PHONES: dict[tuple[str, ...], "re2._Regexp"] = {}
_WORD_BYTES = frozenset(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")


def _bounded(text: bytes, start: int, end: int) -> bool:
    """Does nothing that would belong to the same token touch text[start:end]."""
    if start and text[start - 1] in _WORD_BYTES:
        return False
    if start > 1 and text[start - 1] in b"-./" and text[start - 2] in b"0123456789":
        return False
    if end < len(text) and text[end] in _WORD_BYTES:
        return False
    return not (end + 1 < len(text) and text[end] in b"-./:" and text[end + 1] in b"0123456789")


def _digits(raw: bytes) -> str:
    return "".join(chr(b) for b in raw if 48 <= b <= 57)


def _emails(text: bytes, rules: Rules) -> Iterable[Span]:
    for m in _EMAIL.finditer(text):
        start, end = m.span()
        if text[end - 24 : end].rsplit(b".", 1)[-1].lower() in _FILE_SUFFIXES:
            continue
        if b".." in text[start:end]:
            continue
        yield Span(start, end, "email")


def _secrets(text: bytes, rules: Rules) -> Iterable[Span]:
    if not _ANY_SECRET.search(text):
        return
    for m in _SECRET.finditer(text):
        yield Span(m.start(), m.end(), "secret")
    for m in _ASSIGNED.finditer(text):
        value = m.group(1)
        kinds = [any(low <= b <= high for b in value) for low, high in ((48, 57), (65, 90), (97, 122))]
        if kinds[0] and sum(kinds) >= 2 and len(set(value)) >= 10:
            yield Span(m.start(1), m.end(1), "secret")


def _ibans(text: bytes, rules: Rules) -> Iterable[Span]:
    for m in _IBAN.finditer(text):
        start, end = m.span()
        raw = text[start:end]
        size = validators.IBAN_LENGTH.get(raw[:2].decode("ascii").upper(), 0)
        seen = 0
        for i, byte in enumerate(raw):  # the match may run on into the next word: cut at the country's length
            seen += byte != 32
            if seen == size:
                end = start + i + 1
                break
        if size and seen >= size and _bounded(text, start, end) and validators.iban(text[start:end].decode("ascii")):
            yield Span(start, end, "iban")


def _addresses(text: bytes, rules: Rules) -> Iterable[Span]:
    for m in _IPV4.finditer(text):
        start, end = m.span()
        if not _bounded(text, start, end) or _VERSION_WORD.search(text[max(0, start - 16) : start]):
            continue
        if end < len(text) and text[end : end + 1] == b"." and text[end + 1 : end + 2].isdigit():
            continue
        # 7.8.2.20 is a section, or a version: three digits that stand alone need a word for an address near them
        if all(len(octet) == 1 for octet in text[start:end].split(b".")[:3]) and not _near(_ADDRESS_WORD, text, start):
            continue
        if validators.ip_address(text[start:end].decode("ascii"), rules.private_ips):
            yield Span(start, end, "ip")


def _addresses6(text: bytes, rules: Rules) -> Iterable[Span]:
    for m in _IPV6.finditer(text):
        start, end = m.span()
        raw = text[start:end]
        if len(raw) < 8 or not _bounded(text, start, end):
            continue
        if sum(c in b"abcdefABCDEF" for c in raw) + raw.count(b"::") == 0 and raw.count(b":") < 7:
            continue  # a time, not an address
        if validators.ip_address(raw.decode("ascii"), rules.private_ips):
            yield Span(start, end, "ip")


def _near(word: "re2._Regexp", text: bytes, start: int, before: int = 48) -> bool:
    return word.search(text[max(0, start - before) : start]) is not None


def _cards(text: bytes, rules: Rules) -> Iterable[Span]:
    for m in _CARD.finditer(text):
        start, end = m.span()
        digits = _digits(text[start:end])
        if len(digits) < 12 or not _bounded(text, start, end) or not validators.luhn(digits):
            continue
        # A tenth of all numbers pass Luhn: short ones, Maestro's wide ranges, unknown issuers need a word beside them.
        strong = len(digits) >= 14 and validators.card_brand(digits) and (
            digits[0] == "4" or digits[:2] in ("34", "37") or "51" <= digits[:2] <= "55")
        if not strong and not _near(_CARD_WORD, text, start, 64):
            continue
        yield Span(start, end, "card")


def _identities(text: bytes, rules: Rules) -> Iterable[Span]:
    for m in _SSN.finditer(text):
        start, end = m.span()
        raw = text[start:end]
        if _bounded(text, start, end) and validators.us_ssn(_digits(raw)) and (
                raw[3:4] == b"-" or _near(_SSN_WORD, text, start, 40)):
            yield Span(start, end, "us_ssn")
    for kind, (form, word) in _NATIONAL.items() if _ANY_NATIONAL.search(text) else ():
        for m in form.finditer(text):
            start, end = m.span()
            if not _bounded(text, start, end) or (word is not None and not _near(word, text, start)):
                continue
            if validators.NATIONAL[kind](text[start:end].decode("ascii")):
                yield Span(start, end, kind)


def _phones(text: bytes, rules: Rules) -> Iterable[Span]:
    for m in rules.phone().finditer(text):
        start, end = m.span()
        raw = text[start:end]
        if not _bounded(text, start, end) or _DATE.search(raw):
            continue
        bare = _digits(raw.split(b"x")[0].split(b"X")[0].split(b"e")[0])
        if raw[:1] == b"+" and not validators.e164(bare):
            continue
        if raw[:2] == b"00" and not validators.e164(bare[2:]):
            continue
        yield Span(start, end, "phone")
    if not (_PHONE_WORD.search(text)):
        return
    for m in _ANY_NUMBER.finditer(text):
        start, end = m.span()
        bare = _digits(text[start:end].split(b"x")[0])
        if not 7 <= len(bare) <= 13 or not _bounded(text, start, end) or _DATE.search(text[start:end]):
            continue
        if (start and text[start - 1] in b"$#%") or text[max(0, start - 3) : start] in (b"\xe2\x82\xac", b"\xc2\xa3"):
            continue  # an amount or a ticket
        if not (_near(_PHONE_WORD, text, start, 40) or _PHONE_WORD_AFTER.search(text[end : end + 12])):
            continue
        yield Span(start, end, "phone")


_Finder = Callable[[bytes, Rules], Iterable[Span]]
# In order of precedence: what an earlier one took, a later one leaves.
_FINDERS: tuple[tuple[int, _Finder], ...] = (
    (candidates.TOKEN | candidates.DIGITS, _secrets), (candidates.AT, _emails), (candidates.DIGITS, _ibans),
    (candidates.HEX, _addresses6), (candidates.QUAD, _addresses), (candidates.DIGITS, _cards),
    (candidates.DIGITS | candidates.TOKEN, _identities), (candidates.DIGITS, _phones),
)


def _resolve(found: list[Span]) -> list[Span]:
    """Spans without overlaps, in order of position; of two that overlap the one found first stays."""
    out: list[Span] = []
    for span in found:
        if all(span.end <= other.start or other.end <= span.start for other in out):
            out.append(span)
    return sorted(out)


def find(text: bytes, rules: Rules = Rules(), triggers: int = 31) -> list[Span]:
    """Spans of personal data in UTF-8 bytes, in order, without overlaps."""
    found: list[Span] = []
    for mask, finder in _FINDERS:
        if mask & triggers:
            found.extend(finder(text, rules))
    return _resolve(found)


def scan(buf: np.ndarray, offsets: np.ndarray, rules: Rules = Rules()) -> list[list[Span]]:
    """Spans of many documents, looked for only around triggers.

    Args:
        buf: uint8, UTF-8 of all documents, one after the other.
        offsets: int64 (n + 1).
        rules: what counts.

    Returns:
        For each document its spans, with offsets from its own first byte.
    """
    where, counts = candidates.regions(buf, offsets)
    out: list[list[Span]] = []
    row = 0
    for d, count in enumerate(counts.tolist()):
        base = int(offsets[d])
        spans: list[Span] = []
        for start, end, triggers in where[row : row + count].tolist():
            text = buf[start:end].tobytes()
            shift = start - base
            spans.extend(Span(s.start + shift, s.end + shift, s.kind) for s in find(text, rules, triggers))
        row += count
        out.append(spans)
    return out
