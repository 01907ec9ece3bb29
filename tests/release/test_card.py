import re
from html.parser import HTMLParser

from gristmill.mixture import recipe as recipes
from gristmill.release import svg
from gristmill.release.manifest import build_manifest
from tests.release.conftest import DEMO
from tests.release.world import Doc, World, many, some_text

EVIL = "</title><script>alert(1)</script>"


class Outline(HTMLParser):
    """Tags that open and close, and text by heading."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: dict[str, int] = {}
        self.headings: list[str] = []
        self._in = ""

    def handle_starttag(self, tag, attrs):
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self._in = tag

    def handle_data(self, data):
        if self._in in ("h1", "h2", "h3"):
            self.headings.append(data)
            self._in = ""


def card(world: World, recipe) -> str:
    build_manifest(world.store, world.plan, world.site, recipe, "v1")
    return world.store.blobs.get("manifests/v1/report.html").decode()


def test_the_card_shows_every_section_with_its_numbers(world):
    html = card(world, recipes.parse(DEMO))
    outline = Outline()
    outline.feed(html)
    for heading in (
        "Funnel",
        "Tokens by source",
        "Tokens by language",
        "Lengths and scores",
        "Mixture",
        "Removals by stage and reason",
        "Exclusions by policy",
        "Contamination",
        "Made of",
    ):
        assert heading in outline.headings or heading == "Removals by stage and reason"
    assert outline.tags["svg"] >= 5
    assert "Documents in and out of every stage" in html
    assert "robots" in html
    given = re.search(r"<td>hi</td><td class=n>0.7</td><td class=n>(0\.\d+)</td>", html)
    assert abs(float(given[1]) - 0.7) < 1 / 8, "the realised share of the schedule, exact to a slot of a step"


def test_it_stands_alone(world):
    html = card(world, recipes.parse(DEMO))
    assert "<script" not in html
    assert not re.search(r"(src|href)\s*=|url\(|@import", html)


def test_text_from_pages_is_escaped(tmp_path):
    world = World.make(tmp_path)
    bad = [Doc(f"https://evil.org/{i}", some_text(800 + i, 200), lang=EVIL, percentile=0.9) for i in range(5)]
    world.ready("A", [*many(60), *bad])
    sources = {
        "hi": {"where": f"ensemble_percentile >= 0.5 OR lang = '{EVIL}'"},
        "lo": {"where": f"ensemble_percentile < 0.5 AND lang <> '{EVIL}'"},
    }
    phases = [{**DEMO["phases"][0], "tokens": 8000}]
    html = card(world, recipes.parse({**DEMO, "sources": sources, "phases": phases}))
    assert "<script>" not in html
    assert "&lt;script&gt;" in html


def test_pictures_take_empty_and_extreme_numbers():
    assert "<svg" in svg.funnel([], "t")
    assert "0 \u2192 0" in svg.funnel([("x", 0, 0)], "t")
    assert "<svg" in svg.bars([("a", 0.0, "0")], "t")
    assert "<svg" in svg.histogram([], "t")
    assert "&lt;b&gt;" in svg.bars([("<b>", 1.0, "<i>")], "<u>")
    tall = re.findall(r'height="([\d.]+)"', svg.histogram([("a", 10**15), ("b", 1)], "t"))
    assert max(map(float, tall)) <= 180
