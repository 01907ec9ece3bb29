"""Check digits and ranges that tell a number of one kind from any other number.

Belongs here: Luhn, IBAN, national identity numbers, address ranges of IP, calling codes. Does not belong here: where
such numbers are looked for (``pii.py``).
"""

import ipaddress
from collections.abc import Callable


def luhn(digits: str) -> bool:
    """ISO/IEC 7812-1 check digit. ``digits`` holds ASCII digits only."""
    total = 0
    for place, char in enumerate(reversed(digits)):
        value = int(char)
        if place % 2:
            value = value * 2 - 9 if value > 4 else value * 2
        total += value
    return total % 10 == 0


def card(digits: str) -> bool:
    """A payment card: issuer prefix and length of a known brand (ISO/IEC 7812), and Luhn."""
    return card_brand(digits) and luhn(digits)


def card_brand(digits: str) -> bool:
    """Issuer prefix and length of a known brand (ISO/IEC 7812)."""
    length = len(digits)
    return len(set(digits)) > 1 and (
        (digits[0] == "4" and length in (13, 16, 19))  # Visa
        or (length == 16 and ("51" <= digits[:2] <= "55" or "2221" <= digits[:4] <= "2720"))  # Mastercard
        or (length == 15 and digits[:2] in ("34", "37"))  # American Express
        or (length in (14, 16, 19) and (digits[:2] in ("36", "38", "39", "30")))  # Diners Club
        or (length in (16, 19) and (digits[:2] in ("65", "62") or digits[:4] == "6011" or "644" <= digits[:3] <= "649"))
        or (length == 16 and "3528" <= digits[:4] <= "3589")  # JCB
        or (length == 15 and digits[:4] in ("1800", "2131"))  # JCB, old
        or (12 <= length <= 19 and (digits[:2] == "50" or "56" <= digits[:2] <= "69"))  # Maestro
    )


IBAN_LENGTH = {
    "AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22, "BR": 29, "BY": 28,
    "CH": 21, "CR": 22, "CY": 28, "CZ": 24, "DE": 22, "DK": 18, "DO": 28, "EE": 20, "EG": 29, "ES": 24, "FI": 18,
    "FO": 18, "FR": 27, "GB": 22, "GE": 22, "GI": 23, "GL": 18, "GR": 27, "GT": 28, "HR": 21, "HU": 28, "IE": 22,
    "IL": 23, "IQ": 23, "IS": 26, "IT": 27, "JO": 30, "KW": 30, "KZ": 20, "LB": 28, "LC": 32, "LI": 21, "LT": 20,
    "LU": 20, "LV": 21, "LY": 25, "MC": 27, "MD": 24, "ME": 22, "MK": 19, "MR": 27, "MT": 31, "MU": 30, "NL": 18,
    "NO": 15, "PK": 24, "PL": 28, "PS": 29, "PT": 25, "QA": 29, "RO": 24, "RS": 22, "SA": 24, "SC": 31, "SE": 24,
    "SI": 19, "SK": 24, "SM": 27, "ST": 25, "SV": 28, "TL": 23, "TN": 24, "TR": 26, "UA": 29, "VA": 22, "VG": 24,
    "XK": 20,
}  # the registry of ISO 13616


def iban(text: str) -> bool:
    """ISO 13616: the country's length, and remainder 1 modulo 97. Spaces are ignored."""
    code = "".join(text.split()).upper()
    if IBAN_LENGTH.get(code[:2]) != len(code) or not code.isalnum() or not code.isascii():
        return False
    return int("".join(str(int(char, 36)) for char in code[4:] + code[:4])) % 97 == 1


def us_ssn(digits: str) -> bool:
    """The ranges that the Social Security Administration may issue (since 2011)."""
    area, group, serial = digits[:3], digits[3:5], digits[5:]
    return area not in ("000", "666") and area[0] != "9" and group != "00" and serial != "0000" and \
        digits not in ("078051120", "219099999", "123456789")  # printed on sample cards


def ip_address(text: str, private: bool) -> bool:
    """A routable IPv4 or IPv6 address; with ``private`` also addresses of private and reserved ranges."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    if address.is_unspecified or address.is_loopback:
        return False
    return private or address.is_global


def es_dni(text: str) -> bool:
    """Spain: eight digits (or X, Y, Z and seven) and a letter, modulo 23."""
    code = text.upper().replace("-", "").replace(" ", "")
    number = code[:-1].replace("X", "0").replace("Y", "1").replace("Z", "2")
    return len(code) == 9 and number.isdigit() and code[-1] == "TRWAGMYFPDXBNJZSQVHLCKE"[int(number) % 23]


def it_codice_fiscale(text: str) -> bool:
    """Italy: sixteen characters, the last a check over odd and even places."""
    code = text.upper()
    odd = {**dict(zip("0123456789", (1, 0, 5, 7, 9, 13, 15, 17, 19, 21))),
           **dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", (1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12,
                                                     14, 16, 10, 22, 25, 24, 23)))}
    total = sum(odd[c] if i % 2 == 0 else int(c, 36) - (10 if c.isalpha() else 0) for i, c in enumerate(code[:15]))
    return chr(65 + total % 26) == code[15]


def br_cpf(text: str) -> bool:
    """Brazil: two check digits modulo 11."""
    digits = [int(c) for c in text if c.isdigit()]
    if len(digits) != 11 or len(set(digits)) == 1:
        return False
    for n in (9, 10):
        check = sum(d * w for d, w in zip(digits[:n], range(n + 1, 1, -1))) * 10 % 11 % 10
        if check != digits[n]:
            return False
    return True


def pl_pesel(text: str) -> bool:
    """Poland: eleven digits, the first six a birth date, weights 1 3 7 9."""
    if len(text) != 11 or not text.isdigit() or not 1 <= int(text[2:4]) % 20 <= 12 or not 1 <= int(text[4:6]) <= 31:
        return False
    return (10 - sum(int(c) * w for c, w in zip(text[:10], (1, 3, 7, 9) * 3)) % 10) % 10 == int(text[10])


def cn_resident(text: str) -> bool:
    """China: eighteen characters, GB 11643."""
    code = text.upper()
    if not code[:17].isdigit() or not "1900" <= code[6:10] <= "2099" or not 1 <= int(code[10:12]) <= 12:
        return False
    weights = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
    return "10X98765432"[sum(int(c) * w for c, w in zip(code[:17], weights)) % 11] == code[17]


def fr_nir(text: str) -> bool:
    """France: thirteen digits (2A and 2B for Corsica) and a key, 97 minus the remainder modulo 97."""
    code = "".join(text.split()).upper().replace("2A", "19", 1).replace("2B", "18", 1)
    return len(code) == 15 and code.isdigit() and code[0] in "12" and 97 - int(code[:13]) % 97 == int(code[13:])


def nl_bsn(text: str) -> bool:
    """Netherlands: nine digits, the eleven test."""
    weights = (9, 8, 7, 6, 5, 4, 3, 2, -1)
    return len(text) == 9 and text != "000000000" and sum(int(c) * w for c, w in zip(text, weights)) % 11 == 0


_VERHOEFF_D = (
    "0123456789", "1234067895", "2340178956", "3401289567", "4012395678",
    "5987604321", "6598710432", "7659821043", "8765932104", "9876543210",
)
_VERHOEFF_P = (
    "0123456789", "1576283094", "5803796142", "8916043527", "9453126870", "4286573901", "2793806415", "7046913258",
)


def in_aadhaar(text: str) -> bool:
    """India: twelve digits not beginning with 0 or 1, Verhoeff's check digit."""
    digits = [c for c in text if c.isdigit()]
    if len(digits) != 12 or digits[0] in "01":
        return False
    c = 0
    for i, d in enumerate(reversed(digits)):
        c = int(_VERHOEFF_D[c][int(_VERHOEFF_P[i % 8][int(d)])])
    return c == 0


# Kind of a number -> its check. Context decides where the check alone is weak: see pii.py.
NATIONAL: dict[str, Callable[[str], bool]] = {
    "es_dni": es_dni, "it_cf": it_codice_fiscale, "br_cpf": br_cpf, "pl_pesel": pl_pesel, "cn_id": cn_resident,
    "fr_nir": fr_nir, "nl_bsn": nl_bsn, "in_aadhaar": in_aadhaar,
}

# Calling codes of ITU-T E.164; a number that begins with none of them is not a telephone number.
CALLING_CODES = frozenset((
    "1", "7", "20", "27", "30", "31", "32", "33", "34", "36", "39", "40", "41", "43", "44", "45", "46", "47", "48",
    "49", "51", "52", "53", "54", "55", "56", "57", "58", "60", "61", "62", "63", "64", "65", "66", "81", "82", "84",
    "86", "90", "91", "92", "93", "94", "95", "98", "211", "212", "213", "216", "218", "220", "221", "222", "223",
    "224", "225", "226", "227", "228", "229", "230", "231", "232", "233", "234", "235", "236", "237", "238", "239",
    "240", "241", "242", "243", "244", "245", "246", "248", "249", "250", "251", "252", "253", "254", "255", "256",
    "257", "258", "260", "261", "262", "263", "264", "265", "266", "267", "268", "269", "290", "291", "297", "298",
    "299", "350", "351", "352", "353", "354", "355", "356", "357", "358", "359", "370", "371", "372", "373", "374",
    "375", "376", "377", "378", "380", "381", "382", "383", "385", "386", "387", "389", "420", "421", "423", "500",
    "501", "502", "503", "504", "505", "506", "507", "508", "509", "590", "591", "592", "593", "594", "595", "596",
    "597", "598", "599", "670", "672", "673", "674", "675", "676", "677", "678", "679", "680", "681", "682", "683",
    "685", "686", "687", "688", "689", "690", "691", "692", "800", "850", "852", "853", "855", "856", "880", "886",
    "960", "961", "962", "963", "964", "965", "966", "967", "968", "970", "971", "972", "973", "974", "975", "976",
    "977", "979", "992", "993", "994", "995", "996", "998",
))


def e164(digits: str) -> bool:
    """Does an international number begin with a calling code and have 8 to 15 digits in all."""
    return 8 <= len(digits) <= 15 and any(digits[:n] in CALLING_CODES for n in (1, 2, 3))
