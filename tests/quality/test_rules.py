import html
import re

import numpy as np
import pyarrow as pa
import pytest

from gristmill.quality import heuristics, rules
from gristmill.quality.plain import c4_line, refinedweb_line, repeated_grams, sentences, top_gram
from gristmill.quality.stopwords import STOP_WORDS
from gristmill.text_units import words
from tests.quality.pages import gold_texts


def gopher_quality(text: str) -> bool:
    """Rae et al. 2021, appendix A.1.1, read off the page."""
    tokens, lines = words(text), [line for line in text.split("\n") if line.strip()]
    n = len(tokens)
    if not 50 <= n <= 100_000 or not 3 <= sum(map(len, tokens)) / n <= 10:
        return False
    if text.count("#") / n > 0.1 or (text.count("...") + text.count("…")) / n > 0.1:
        return False
    if sum(s.lstrip().startswith(("•", "-")) for s in lines) / len(lines) > 0.9:
        return False
    if sum(s.rstrip().endswith(("...", "…")) for s in lines) / len(lines) > 0.3:
        return False
    if sum(any(c.isalpha() for c in w) for w in tokens) / n < 0.8:
        return False
    return len(set(tokens) & set(words(STOP_WORDS["eng"]))) >= 2


def gopher_repetition(text: str) -> bool:
    """The same, table A1."""
    lines = [line for line in text.split("\n") if line.strip()]
    paras, block = [], []
    for line in [*text.split("\n"), ""]:
        if line.strip():
            block.append(line)
        elif block:
            paras.append("\n".join(block))
            block = []
    for parts in (lines, paras):
        first = set()
        repeated = [p for p in parts if p in first or first.add(p)]
        if parts and (len(repeated) / len(parts) > 0.3 or sum(map(len, repeated)) / len(text) > 0.2):
            return False
    tokens = words(text)
    if any(top_gram(tokens, n) / max(len(text), 1) > bound for n, bound in ((2, 0.2), (3, 0.18), (4, 0.16))):
        return False
    return all(repeated_grams(tokens, n) / max(len(text), 1) <= (20 - n) / 100 for n in range(5, 11))


def fineweb(text: str) -> bool:
    """Penedo et al. 2024, section 3.6."""
    lines = [line for line in text.split("\n") if line.strip()]
    marks = '.!?"\'…”’»」』。！？．｡؟۔।॥'
    if not lines or sum(line.rstrip()[-1] in marks for line in lines) / len(lines) < 0.12:
        return False
    if sum(len(line) <= 30 for line in lines) / len(lines) > 0.67:
        return False
    first = set()
    repeated = [p for p in lines if p in first or first.add(p)]
    if sum(map(len, repeated)) / len(text.replace("\n", "")) > 0.01:
        return False
    return text.count("\n") / max(len(words(text)), 1) <= 0.3


def c4(text: str) -> bool:
    """Raffel et al. 2020, section 2.2."""
    verdicts = [(c4_line(line), line) for line in text.split("\n") if line.strip()]
    kept = sum(sentences(line) for verdict, line in verdicts if verdict == "c4_lines")
    return kept >= 5 and not {"c4_lorem", "c4_curly"} & {verdict for verdict, _ in verdicts}


def refinedweb(text: str) -> bool:
    """Penedo et al. 2023, appendix G.2."""
    gone = sum(len(words(line)) for line in text.split("\n") if line.strip() and refinedweb_line(line))
    return gone / max(len(words(text)), 1) <= 0.05


def mc4(text: str) -> bool:
    """Xue et al. 2021, section 3.1."""
    return sum(len(line) >= 200 for line in text.split("\n") if line.strip()) >= 3


DEFINITIONS = {"gopher_quality": gopher_quality, "gopher_repetition": gopher_repetition, "fineweb": fineweb, "c4": c4,
               "refinedweb": refinedweb, "mc4": mc4}


@pytest.mark.shared
@pytest.mark.parametrize("name", rules.RULE_SETS)
def test_verdicts_equal_the_published_definitions_on_500_real_pages(shared, name):
    texts = gold_texts(shared, "wcxb", "zyte", "daniel")[:500]
    table = heuristics.measure(pa.array(texts, pa.large_string()), ["eng"] * len(texts))
    ours = rules.passes(table, rules.RULE_SETS[name]).tolist()
    theirs = [DEFINITIONS[name](t) for t in texts]
    assert ours == theirs
    assert 0 < sum(ours) < len(ours)


@pytest.mark.shared
def test_the_declaration_of_human_rights_passes_in_the_scripts_without_spaces_and_published_bounds_refuse_it(shared):
    folder = shared / "03_langid" / "udhr_html"
    named = {"cmn_hans": "cmn", "tha2": "tha", "mya": "mya", "shn": "shn", "fon": "fon", "rus": "rus", "hin": "hin"}
    texts = []
    for name in named:
        page = re.sub(r"(?s).*<body[^>]*>|<(script|style).*?</\\1>", "", (folder / f"{name}.html").read_text("utf-8"))
        lines = html.unescape(re.sub("<[^>]+>", "", re.sub("</(p|h[1-6]|li|div)>", "\n", page))).split("\n")
        texts.append("\n".join(line.strip() for line in lines if line.strip()))
    table = heuristics.measure(pa.array(texts, pa.large_string()), list(named.values()))
    chosen = [*rules.RULE_SETS["gopher_quality"], *rules.RULE_SETS["gopher_repetition"]]
    assert rules.passes(table, chosen).tolist() == [False] * 5 + [True] * 2
    assert rules.passes(table, chosen, list(named.values())).tolist() == [True] * 7
    assert rules.first_failed(table, chosen, list(named.values())) == [None] * 7
    noise = heuristics.measure(pa.array(["ก็ " * 400, "字" * 400], pa.large_string()), ["tha", "cmn"])
    assert not rules.passes(noise, chosen, ["tha", "cmn"]).any()


def test_every_bound_of_a_language_is_one_of_a_published_rule():
    known = {f"{r.measure} {r.op}" for chosen in rules.RULE_SETS.values() for r in chosen}
    assert {name for own in rules.BOUNDS.values() for name in own} <= known


def test_first_failed_rule_names_the_measure_and_its_bound():
    table = heuristics.measure(pa.array(["word " * 20, "The end of it."], pa.large_string()), ["eng", "eng"])
    failed = rules.first_failed(table, rules.RULE_SETS["gopher_quality"])
    assert [str(f) for f in failed] == ["n_words >= 50", "n_words >= 50"]
    repeated = rules.first_failed(table, rules.RULE_SETS["gopher_repetition"])
    assert str(repeated[0]) == "top_2gram_char_frac <= 0.2"


def test_a_document_passes_a_rule_whose_measure_is_unknown():
    rule = rules.Rule("stop_words", ">=", 2)
    assert rule.holds(np.array([np.nan, 1, 2], np.float32)).tolist() == [True, False, True]


def test_bounds_hold_at_the_bound_itself():
    # 3 of 10 lines repeated is 0.3, which the papers let pass
    rule = rules.Rule("dup_line_frac", "<=", 0.3)
    assert rule.holds(np.array([3 / 10], np.float32)).tolist() == [True]
