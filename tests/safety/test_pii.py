import json
import random
import time
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.errors import ParameterError
from gristmill.safety import candidates, pii
from tests.quality.pages import gold_texts

KINDS = {"PHONE_NUMBER": "phone", "CREDIT_CARD": "card", "EMAIL_ADDRESS": "email", "US_SSN": "us_ssn",
    "IBAN_CODE": "iban",
         "IP_ADDRESS": "ip"}


def scan(*texts: str, **rules: object) -> list[list[pii.Span]]:
    encoded = [t.encode() for t in texts]
    offsets = np.zeros(len(texts) + 1, np.int64)
    offsets[1:] = np.cumsum([len(e) for e in encoded])
    return pii.scan(np.frombuffer(b"".join(encoded) or b"", np.uint8), offsets, pii.Rules(**rules))


def found(text: str, **rules: object) -> list[tuple[str, str]]:
    data = text.encode()
    return [(s.kind, data[s.start : s.end].decode()) for s in scan(text, **rules)[0]]


@pytest.mark.shared
def test_recall_and_precision_on_synthetic_records_with_gold_spans(shared):
    rows = [json.loads(line) for line in (shared / "09_pii_toxicity" / "presidio_synth.jsonl").open(encoding="utf-8")]
    hit, gold_count, ours_count, right = Counter(), Counter(), Counter(), Counter()
    for row, spans in zip(rows, scan(*(r["text"] for r in rows)), strict=True):
        text = row["text"]
        gold = [(len(text[: s["start"]].encode()), len(text[: s["end"]].encode()), KINDS[s["type"]])
                for s in row["spans"] if s["type"] in KINDS]
        for start, end, kind in gold:
            gold_count[kind] += 1
            hit[kind] += any(s.kind == kind and s.start <= start and s.end >= end for s in spans)
        for s in spans:
            ours_count[s.kind] += 1
            right[s.kind] += any(s.kind == kind and s.start < end and start < s.end for start, end, kind in gold)
    assert set(gold_count) == set(KINDS.values())
    for kind in gold_count:
        assert hit[kind] / gold_count[kind] >= 0.95, kind
        assert right[kind] / ours_count[kind] >= 0.95, kind


PERSONAL = [
    ("email", "jane.doe+news@mail.example.co.uk"), ("email", "o'brien@example.ie"), ("phone", "+44 20 7946 0958"),
    ("phone", "+1 (415) 555-2671"), ("phone", "(415) 555-2671"), ("phone", "415-555-2671"), ("phone", "01 23 45 67 89"),
    ("phone", "+49 30 901820"), ("phone", "+81-3-1234-5678"), ("card", "4111 1111 1111 1111"), ("card",
    "4111111111111111"),
    ("card", "3782 822463 10005"), ("us_ssn", "536-22-8721"), ("iban", "DE89 3704 0044 0532 0130 00"),
    ("iban", "GB82WEST12345698765432"), ("ip", "81.2.69.160"), ("ip", "2001:4860:4860::8888"), ("br_cpf",
    "529.982.247-25"), ("cn_id", "11010519491231002X"), ("it_cf", "RSSMRA85T10A562S"),
    ("secret", "AKIAIOSFODNN7EXAMPLE"), ("secret", "ghp_" + "a1B2c3D4" * 5), ("secret", "sk-proj-" + "a1B2c3D4e5" * 3),
    ("secret", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"),
]


@pytest.mark.parametrize(("kind", "value"), PERSONAL)
@pytest.mark.parametrize("around", ["{}", "see {}.", "({}),", "Мой номер: {} — спасибо", "联系我们 {} 谢谢", "'{}'",
    "\u202eمرحبا {} شكرا",
                                    "x\n{}\ny", "<{}>", "\u00a0{}\u00a0"])
def test_every_kind_is_found_in_any_surroundings_with_exact_offsets(kind, value, around):
    assert (kind, value) in found(around.format(value))


@pytest.mark.parametrize("text", [
    "version 10.2.3.4 of the driver", "v1.2.3.4", "Chrome/120.0.6099.109 Safari", "section 3.2.1.1",
    "192.168.0.1 and 10.1.2.3",
    "logo@2x.png", "at 12:30:45 on 2026-09-01", "ISBN 978-3-16-148410-0", "2020-2021", "1,234,567,890",
    "pi is 3.14159265358979",
    "@handle and user@ only", "1234567890123456", "born 12.03.1985", "2024/05/17 10:00", "10.1000/182",
    "arXiv:2406.17557v2",
    "12345678", "order 20260901123", "E = mc^2", "0x7fffffff", "550e8400-e29b-41d4-a716-446655440000",
    "sha256 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "$1,250,000 in 2019", "1:2:3:4",
    "a::b::c", "std::vector::size",
    "Section\u00a07.8.2.2", "ObjectIdentifier('2.5.29.37')", "as 8.2.4.45 says", "Decimal('+35236450.6')",
    "FHC/ABJ/03/095/2018",
    "phone bills rose in 2019-2020", "tel. 12",
])
def test_what_looks_alike_is_left_alone(text):
    assert found(text) == []


def test_private_addresses_are_found_when_asked_for():
    assert found("host 192.168.0.1", private_ips=True) == [("ip", "192.168.0.1")]


def test_national_formats_can_be_chosen():
    text = "Ligne 01 23 45 67 89 ouverte"
    assert found(text) == [("phone", "01 23 45 67 89")]
    assert found(text, countries=("E164", "US")) == []
    with pytest.raises(ParameterError, match="ZZ is no telephone format"):
        pii.Rules(countries=("US", "ZZ"))


def test_words_near_a_number_decide_what_it_is():
    assert found("my BSN is 111222333") == [("nl_bsn", "111222333")]
    assert found("part 111222333 fits") == []
    assert found("DNI: 12345678Z") == [("es_dni", "12345678Z")]
    assert found("doi 10081232X") == []
    assert found("the name server 8.8.4.4 answers") == [("ip", "8.8.4.4")]
    assert found("PESEL 44051401359") == [("pl_pesel", "44051401359")]
    assert found("call me on 467 3395")[0] == ("phone", "467 3395")
    assert found("it holds 467 3395 parts") == []


def test_a_key_block_is_one_span_to_its_end():
    block = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEowIBAAKCAQEA7b3\n" * 24 + "-----END RSA PRIVATE KEY-----"
    assert found(f"before\n{block}\nafter") == [("secret", block)]


def test_spans_are_in_order_and_do_not_overlap():
    spans = scan(" ".join(value for _, value in PERSONAL) * 3)[0]
    assert all(a.end <= b.start for a, b in pairwise(spans))
    assert spans == sorted(spans)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(st.text(st.characters(exclude_categories=["Cs"]), max_size=30),
    st.sampled_from([p[1] for p in PERSONAL])),
                max_size=12))
def test_spans_lie_on_characters_of_any_text(parts):
    text = " ".join(parts)
    data = text.encode()
    for start, end, _ in scan(text)[0]:
        assert 0 <= start < end <= len(data)
        data[:start].decode()
        data[start:end].decode()


@pytest.mark.shared
def test_regions_miss_nothing_that_the_patterns_find_in_whole_real_pages(shared):
    texts = gold_texts(shared, "wcxb", "traf")
    total = 0
    for text, spans in zip(texts, scan(*texts), strict=True):
        whole = {s for s in pii.find(text.encode()) if s.kind != "phone"}  # context words reach across regions
        assert whole <= set(spans)
        total += len(spans)
    assert total > 20


def test_documents_do_not_see_each_other():
    assert scan("call 415-555", "-2671 now", "jane@exam", "ple.org") == [[], [], [], []]


@pytest.mark.parametrize("text", ["", "1" * 200_000, "1-" * 100_000, "a@" * 100_000, "a." * 100_000 + "@",
    "1.1." * 50_000, ":" * 200_000,
                                  "a1" * 100_000, "(" * 200_000, "-----BEGIN PRIVATE KEY-----" + "A" * 200_000,
                                  "+1 " * 60_000, "😀1" * 40_000,
                                  "12345678 " * 25_000, "GB82 " * 40_000, "call 1234567 " * 15_000],
                                  ids=lambda t: repr(t[:6]))
def test_bad_input_takes_linear_time(text):
    scan("warm up 415-555-2671")
    start = time.process_time()
    scan(text)
    assert time.process_time() - start < 6.0


def test_regions_hold_every_trigger():
    rng = random.Random(1)
    for _ in range(50):
        words = ["word"] * rng.randrange(400)
        place = rng.randrange(len(words) + 1)
        text = " ".join([*words[:place], "jane@example.org", *words[place:]]).encode()
        regions, counts = candidates.regions(np.frombuffer(text, np.uint8), np.array([0, len(text)], np.int64))
        assert counts.tolist() == [1]
        start, end, triggers = regions[0].tolist()
        assert b"jane@example.org" in text[start:end]
        assert triggers & candidates.AT
        assert end - start < 700
