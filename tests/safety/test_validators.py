import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.safety import validators as v


@given(st.text("0123456789", min_size=8, max_size=18))
def test_exactly_one_check_digit_satisfies_luhn(digits):
    assert sum(v.luhn(digits + d) for d in "0123456789") == 1


@given(st.text("0123456789", min_size=8, max_size=18), st.integers(0, 17), st.integers(1, 9))
def test_luhn_sees_every_single_wrong_digit(digits, place, change):
    whole = next(digits + d for d in "0123456789" if v.luhn(digits + d))
    place %= len(whole)
    wrong = whole[:place] + str((int(whole[place]) + change) % 10) + whole[place + 1 :]
    assert not v.luhn(wrong)


@pytest.mark.parametrize("number", ["4111111111111111", "5555555555554444", "378282246310005", "6011111111111117",
                                    "3530111333300000", "30569309025904", "2223003122003222"])
def test_test_numbers_of_card_brands_are_cards(number):
    assert v.card(number)


@pytest.mark.parametrize("number", ["4111111111111112", "0000000000000000", "1234567812345670", "4111111111"])
def test_other_numbers_are_not(number):
    assert not v.card(number)


@pytest.mark.parametrize("text", ["GB82 WEST 1234 5698 7654 32", "DE89370400440532013000",
    "FR1420041010050500013M02606",
                                  "NO9386011117947", "MT84MALT011000012345MTLCAST001S", "gb82west12345698765432"])
def test_examples_of_the_iban_registry_hold(text):
    assert v.iban(text)
    digit = next(i for i, c in enumerate(text) if i > 3 and c.isdigit())
    assert not v.iban(text[:digit] + str((int(text[digit]) + 1) % 10) + text[digit + 1 :])
    assert not v.iban(text[:-1])


@pytest.mark.parametrize(("kind", "number", "wrong"), [
    ("es_dni", "12345678Z", "12345678A"), ("es_dni", "X1234567L", "X1234567M"),
    ("it_cf", "RSSMRA85T10A562S", "RSSMRA85T10A562T"), ("br_cpf", "529.982.247-25", "529.982.247-26"),
    ("br_cpf", "111.444.777-35", "111.111.111-11"), ("pl_pesel", "44051401359", "44051401358"),
    ("cn_id", "11010519491231002X", "110105194912310021"), ("nl_bsn", "111222333", "111222334"),
    ("in_aadhaar", "2341 2341 2346", "2341 2341 2345"), ("fr_nir", "255081416802538", "255081416802539"),
])
def test_national_numbers_carry_their_check(kind, number, wrong):
    assert v.NATIONAL[kind](number)
    assert not v.NATIONAL[kind](wrong)


@pytest.mark.parametrize(("digits", "valid"), [("536228721", True), ("000123456", False), ("666123456", False),
    ("900123456", False),
                                               ("536008721", False), ("536220000", False), ("078051120", False)])
def test_social_security_numbers_are_in_the_ranges_that_are_issued(digits, valid):
    assert v.us_ssn(digits) is valid


def test_private_and_reserved_addresses_need_the_switch():
    for text in ("10.0.0.1", "192.168.1.1", "172.16.5.5", "169.254.1.1", "fe80::1", "fd00::1", "192.0.2.1"):
        assert not v.ip_address(text, private=False)
        assert v.ip_address(text, private=True)
    for text in ("8.8.8.8", "2001:4860:4860::8888"):
        assert v.ip_address(text, private=False)
        assert ipaddress.ip_address(text).is_global
    for text in ("256.1.1.1", "1.2.3", "127.0.0.1", "0.0.0.0", "::1", "x"):
        assert not v.ip_address(text, private=True)


def test_international_numbers_begin_with_a_calling_code():
    assert v.e164("442079460958")
    assert v.e164("4930901820")
    assert not v.e164("2101234567")  # no country has 210
    assert not v.e164("4420")
    assert not v.e164("1" * 16)
