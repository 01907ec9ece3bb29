"""Formulae survive as LaTeX, whoever wrote them, in sentences, displays and tables."""

import html
import json
import re
from collections import defaultdict
from pathlib import Path

import pytest

from gristmill.extract import mathml, sanitize
from gristmill.extract.engines import Page, load

KATEX = (
    '<span class="katex"><span class="katex-mathml"><math><semantics><mrow><mi>E</mi></mrow><annotation '
    'encoding="application/x-tex">E = m c^2</annotation></semantics></math></span>'
    '<span class="katex-html" aria-hidden="true"><span>E=mc2</span></span></span>'
)


@pytest.mark.shared
@pytest.mark.parametrize("engine", ["two_pass", "blocks", "trafilatura", "resiliparse"])
def test_the_gold_formulae(shared: Path, engine: str) -> None:
    """Where the page carries the source, the source; where it carries MathML alone, the same symbols."""
    folder = shared / "07_texts" / "math_html"
    gold = defaultdict(list)
    for line in (folder / "formulas.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        gold[row["page"]].append(" ".join(row["latex"].split()))
    assert sum(map(len, gold.values())) == 144
    for page, formulae in gold.items():
        clean = sanitize.clean((folder / page).read_text("utf-8"))
        text = load(engine).extract(Page(clean.html, "https://a.example/", clean.title, clean.traits)).text
        if "chtml" in page:
            loose = re.sub(r"\s+", "", text)
            assert sum(re.sub(r"\s+", "", f) in loose for f in formulae) >= 11, page
        else:
            assert [f for f in formulae if f not in text] == [], page
        assert "appears inside the sentence" in text


def test_formulae_in_tables_and_attributes() -> None:
    rows = "".join(f"<tr><td>energy {i}</td><td>{KATEX}</td></tr>" for i in range(4))
    clean = sanitize.clean(f"<article><p>Some words before the table of formulae.</p><table>{rows}</table></article>")
    assert clean.html.count("<td>$E = m c^2$</td>") == 4
    assert "E=mc2" not in clean.html


def test_wikipedia_and_mathjax_2() -> None:
    wiki = (
        '<span class="mwe-math-element"><span class="mwe-math-mathml-inline" style="display: none;"><math alttext='
        '"{\\displaystyle a&lt;b}"><mi>a</mi></math></span><img class="mwe-math-fallback-image-inline" alt="x"></span>'
    )
    assert sanitize.clean(f"<p>let {wiki} be</p>").html == "<p>let $a&lt;b$ be</p>"
    jax = (
        '<span class="MathJax_Preview"></span><span class="MathJax" id="e1"><span>rendered</span></span>'
        '<script type="math/tex; mode=display">\\sum_i x_i</script>'
    )
    assert sanitize.clean(f"<p>let {jax} be</p>").html == "<p>let $$\\sum_i x_i$$ be</p>"


@pytest.mark.parametrize(
    ("markup", "latex"),
    [
        ("<mfrac><mn>1</mn><mrow><mi>n</mi><mo>+</mo><mn>1</mn></mrow></mfrac>", r"\frac{1}{n+1}"),
        ("<msubsup><mi>C</mi><mn>0</mn><mi>E</mi></msubsup>", "C_0^E"),
        ("<msup><mn>10</mn><mrow><mn>18</mn></mrow></msup>", "10^{18}"),
        ("<msqrt><msub><mi>d</mi><mi>k</mi></msub></msqrt>", r"\sqrt{d_k}"),
        ("<mroot><mi>x</mi><mn>3</mn></mroot>", r"\sqrt[3]{x}"),
        (
            "<munderover><mo>∑</mo><mrow><mi>i</mi><mo>=</mo><mn>1</mn></mrow><mi>n</mi></munderover><mi>i</mi>",
            r"\sum_{i=1}^n i",
        ),
        ("<mover><mi>x</mi><mo>^</mo></mover>", r"\hat{x}"),
        ("<mi mathvariant='double-struck'>R</mi>", r"\mathbb{R}"),
        ("<mi>log</mi><mi>n</mi>", r"\log n"),
        ("<mi>x</mi><mo>∈</mo><mi>K</mi>", r"x \in K"),
        (
            "<mtable><mtr><mtd><mn>1</mn></mtd><mtd><mn>0</mn></mtd></mtr><mtr><mtd><mn>0</mn></mtd><mtd><mn>1</mn></mtd></mtr></mtable>",
            r"\begin{matrix}1 & 0 \\ 0 & 1\end{matrix}",
        ),
        ("<mi>α</mi><mi>β</mi>", r"\alpha\beta"),
        ("<mtext>if </mtext><mi>x</mi>", r"\text{if }x"),
    ],
)
def test_mathml_as_people_write_it(markup: str, latex: str) -> None:
    assert mathml.to_latex(f"<math>{markup}</math>".encode()) == latex


def test_deep_and_broken_mathml_gives_something() -> None:
    assert mathml.to_latex(b"<math>" + b"<mrow>" * 5000 + b"<mi>x</mi>") is not None
    assert mathml.to_latex(b"<math><mfrac><mi>x") == r"\frac{x}{}"
    assert html.unescape(sanitize.clean("<math><mi>x</mi>").html) == "$x$"
