"""The dashboard shows every stage by its band, and nothing of a crawled page as markup."""

import re
from html.parser import HTMLParser

from gristmill.observe import dashboard
from gristmill.observe.history import Report
from gristmill.params import ObserveParams

EVIL = '<script>alert(1)</script>"><img src=x onerror=y>'
SETTINGS = {"digest": "d", "models": {}}


def report(crawl="C-2", language=600, host="www.example.org"):
    cells = {str(b): [1000, language, 1_000_000, 1000 * language, 0, 1.0] for b in range(4)}
    return {
        "crawl": crawl, "stages": {"language": {"buckets": cells, "reasons": {"no_language": 400}, "by": {},
                                                "looks_back": False, "settings": SETTINGS}},
        "scores": {"score_classifier": [10] * 50},
        "drift": {"score_classifier": {"divergence": 0.0, "index": 0.0, "allowed": 0.02, "crawls": 1, "passed": True}},
        "tokens": {"cc": {"eng": [10, 5000], EVIL: [1, 1]}}, "top_hosts": [[host, 4000]],
        "new_hosts": {"hosts": 10, "new": 2, "records": 100, "new_records": 20, "rate": 0.2, "against": ["C-1"]},
        "total": {"documents": 10, "tokens": 5001, "bytes": 9}, "mean_tokens": 500.1,
        "sources": {"cc": {"in a shard": 10}},
    }


class Rows(HTMLParser):
    """Class of every table row, its cells, and every tag."""

    def __init__(self):
        super().__init__()
        self.rows, self.tags, self.attributes = [], set(), set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {a for a, _ in attrs}
        if tag == "tr":
            self.rows.append([dict(attrs).get("class"), []])
        if tag == "td":
            self.rows[-1][1].append("")

    def handle_data(self, data):
        if self.rows and self.rows[-1][1]:
            self.rows[-1][1][-1] += data


def shown(data, past=()):
    parser = Rows()
    parser.feed(dashboard.page(data, [Report(r["crawl"], "x", r) for r in past], ObserveParams()))
    return parser


def funnel_row(parser):
    return next(r for r in parser.rows if r[1][:1] == ["language"] and len(r[1]) > 6)


def test_one_row_a_stage_coloured_by_band_beside_the_last_crawls():
    past = [report(f"C-{n}") for n in range(3)]
    assert funnel_row(shown(report(language=600), past))[0] == "in"
    bad = funnel_row(shown(report(language=300), past))
    assert bad[0] == "out"
    assert bad[1][3] == "30.00%"
    assert bad[1].count("60.00%") == 4  # the median, and each of the three crawls before
    assert "encoding regression" in bad[1][-1]
    assert funnel_row(shown(report(language=600)))[0] == "none"


def test_a_change_that_was_acknowledged_begins_a_new_past_here_too():
    past = [report(f"C-{n}") for n in range(3)]
    now = report(language=300)
    now["stages"] = {s: {**now["stages"]["language"], "settings": {"digest": "new", "models": {}}}
                     for s in ("language", "end_to_end")}
    for r in past:
        r["stages"]["end_to_end"] = r["stages"]["language"]

    def out(data):
        found = dashboard.judged(data, [Report(r["crawl"], "x", r) for r in past], ObserveParams())
        return {stage for stage, v in found.items() if v.worst}

    assert out(now) == {"language", "end_to_end"}
    assert out(now | {"acknowledged": ["language"]}) == set()
    assert out(now | {"acknowledged": ["near"]}) == {"language", "end_to_end"}


def test_text_of_pages_is_text():
    parser = shown(report(host=EVIL), [report("C-1", host=EVIL)])
    assert not {"script", "img"} & parser.tags
    assert not {a for a in parser.attributes if a.startswith("on")}
    assert any(EVIL in cell for _, cells in parser.rows for cell in cells)  # and it is all there


def test_the_page_asks_for_nothing_from_outside():
    parser = shown(report(), [report("C-1")])
    assert not parser.attributes & {"src", "href", "srcset", "data", "action", "background"}
    assert not re.search(r"url\(|@import", dashboard.STYLE)


def test_markdown_cells_cannot_break_out():
    data = report(host="a|b\n<b>`*")
    out = dashboard.metadata(data, [], dashboard.judged(data, [], ObserveParams()))
    row = out["top hosts"].splitlines()[-1]
    assert row == "| a\\|b &lt;b&gt;\\`\\* | 4,000 |"
    assert out["funnel picture"].startswith("![Funnel](data:image/svg+xml;base64,")


def test_stages_stand_in_the_order_of_the_funnel_however_the_report_was_stored():
    data = report()
    cells = data["stages"]["language"]
    data["stages"] = dict.fromkeys(("end_to_end", "exact", "language", "text"), cells)  # by name, as JSON keeps them
    assert list(dashboard.judged(data, [], ObserveParams())) == ["text", "language", "exact", "end_to_end"]
