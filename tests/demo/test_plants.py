"""What is planted is what the truth says, looked at with plain string and HTML tools."""

import re
import subprocess
import sys
from html import unescape
from html.parser import HTMLParser

import pytest

from gristmill.demo import hostile, plants
from gristmill.demo.benchmark import PROBLEMS, items, leaked
from gristmill.demo.crawl import SPRING, WINTER, Builder
from gristmill.demo.shingles import jaccard, words
from gristmill.demo.texts import Supply


@pytest.fixture(scope="module")
def builder() -> Builder:
    b = Builder(300)
    for step in (plants.near_copies, plants.template_farm, plants.languages, plants.personal_data, plants.leaks,
                 plants.held_out, hostile.mojibake, hostile.hidden, hostile.oversized, hostile.slow, hostile.degenerate,
                 hostile.trap):  # fmt: skip
        step(b)
    return b


def body(b: Builder, name: str) -> bytes:
    return next(f.body for fetches in b.fetched.values() for f in fetches if f.name == name)


class Text(HTMLParser):
    """All character data outside scripts and styles."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._skip = 0

    def handle_starttag(self, tag, attrs):
        self._skip += tag in ("script", "style")

    def handle_endtag(self, tag):
        self._skip -= tag in ("script", "style")

    def handle_data(self, data):
        if not self._skip:
            self.parts.append(data)


def shown(html: bytes, encoding: str = "utf-8") -> str:
    parser = Text()
    parser.feed(html.decode(encoding))
    return " ".join(" ".join(parser.parts).split())


def test_several_pairs_a_level_and_the_original_is_older(builder: Builder):
    pairs = builder.truth.plants["near_copy"]
    for level in plants.LEVELS:
        found = [p["jaccard"] for p in pairs if p["target"] == level]
        assert len(found) >= 4
        assert all(abs(j - level) < 0.02 for j in found)
    times = {f["name"]: f["fetch_ts"] for f in builder.truth.fetches}
    hosts = {f["name"]: f["host"] for f in builder.truth.fetches}
    for pair in pairs:
        assert times[pair["first"]] < times[pair["copy"]]
        assert hosts[pair["first"]] != hosts[pair["copy"]]


def test_pages_of_the_farm_are_alike_but_under_070(builder: Builder):
    (farm,) = builder.truth.plants["template_farm"]
    texts = [builder.articles[n].text for n in farm["pages"]]
    pairs = [jaccard(a, b) for i, a in enumerate(texts) for b in texts[i + 1 :]]
    assert max(pairs) == pytest.approx(farm["max_jaccard"], abs=1e-6)
    assert 0.4 < min(pairs) <= max(pairs) <= 0.7


@pytest.mark.parametrize("form", ["verbatim", "rewrapped", "embedded", "short", "partial"])
def test_forms_of_a_leak(form):
    item = items(Supply(), 1, 1)[1 if form == "short" else 0]
    text, html = leaked(item, form, ("A sentence stands before it.", "Another follows."))
    question, said = words(item.question), words(text)
    joined, inside = f" {' '.join(said)} ", f" {' '.join(question)} "
    assert (inside in joined) is (form != "partial")
    if form == "rewrapped":
        assert item.question not in text
        assert "<br>" in html
    if form == "embedded":
        assert said[: len(question)] != question


def test_word_problems_are_no_templates_of_each_other():
    grams = [set(zip(*(words(p)[i:] for i in range(8)))) for p in PROBLEMS]
    assert all(not a & b for i, a in enumerate(grams) for b in grams[i + 1 :])
    assert all(len(p.split()) >= 26 for p in PROBLEMS)


def test_addresses_and_numbers_are_reserved_ones(builder: Builder):
    for plant in builder.truth.plants["pii"]:
        if plant["kind"] == "email":
            assert re.fullmatch(r"[\w.]+@example\.(com|org|net)", plant["value"])
        else:
            assert re.search(r"555-01\d\d$", plant["value"])
        assert plant["value"] in shown(body(builder, plant["page"]))


def test_hidden_text_is_in_the_page_and_not_in_its_text(builder: Builder):
    for kind in ("hidden_removed", "hidden_quarantined"):
        for plant in builder.truth.plants[kind]:
            assert plant["hidden"] in " ".join(unescape(body(builder, plant["page"]).decode()).split())
            assert plant["hidden"] not in builder.articles[plant["page"]].text
            assert (plant["share"] > 0.05) is (kind == "hidden_quarantined")


def test_mojibake_is_utf8_read_as_windows_1252(builder: Builder):
    for plant in builder.truth.plants["mojibake"]:
        assert plant["broken"].encode("windows-1252").decode("utf-8") == plant["mended"]
        assert plant["broken"] in shown(body(builder, plant["page"]))


def test_old_encodings_are_what_they_claim(builder: Builder):
    old = [p for p in builder.truth.plants["language"] if p["charset"] != "utf-8"]
    assert {p["charset"] for p in old} == {"iso-8859-1", "windows-1251", "shift_jis"}
    for plant in old:
        page = body(builder, plant["page"])
        assert builder.articles[plant["page"]].blocks[1].text in shown(page, plant["charset"])
        with pytest.raises(UnicodeDecodeError):
            page.decode("utf-8")


def test_the_oversized_page_is_over_the_cap_and_no_bomb(builder: Builder):
    (plant,) = builder.truth.plants["oversized"]
    import zlib

    page = body(builder, plant["page"])
    assert len(page) > 8 << 20
    assert len(page) < 100 * len(zlib.compress(page))
    assert page.find(plant["kept"][:40].encode()) < 8 << 20 < page.find(plant["lost"][:40].encode())


def test_the_trap_says_few_things_at_many_addresses(builder: Builder):
    (plant,) = builder.truth.plants["trap"]
    pages = [f for f in builder.fetched[SPRING] if f.name in set(plant["pages"])]
    assert len({f.url for f in pages}) == len(pages) >= 200
    assert len({f.body for f in pages}) == plant["texts"]


def test_late_pages_are_later_than_all_others(builder: Builder):
    late = {p["page"] for p in builder.truth.plants["time_forward"]}
    times = {f.name: f.time for f in builder.fetched[SPRING]}
    assert min(times[n] for n in late) > max(t for n, t in times.items() if n not in late)
    assert not late & {f.name for f in builder.fetched[WINTER]}


@pytest.mark.slow
def test_the_slow_page_takes_trafilatura_over_five_seconds(builder: Builder, tmp_path):
    page = tmp_path / "slow.html"
    page.write_bytes(body(builder, "slow"))
    assert page.stat().st_size < 8 << 20
    code = (
        "import resource, sys, pathlib, trafilatura\n"
        "html = pathlib.Path(sys.argv[1]).read_text()\n"
        "used = int(resource.getrusage(resource.RUSAGE_SELF).ru_utime) + 1\n"
        "resource.setrlimit(resource.RLIMIT_CPU, (used + 6, used + 6))\n"
        "trafilatura.extract(html)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(page)], capture_output=True, timeout=250, check=False)
    assert ended.returncode < 0, "it was done before the limit"  # killed by the kernel at its CPU limit
