"""Presentation MathML as LaTeX.

Belongs here: the conversion, element by element, of https://www.w3.org/TR/mathml-core/. Does not belong here: finding
formulae in pages (``maths.py``). Markup that is no MathML gives its text.
"""

import re
from collections.abc import Callable

from lxml import etree

MAX_DEPTH = 100
_LETTERS = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ϵ", "varepsilon": "ε", "zeta": "ζ", "eta": "η",
    "theta": "θ", "vartheta": "ϑ", "iota": "ι", "kappa": "κ", "lambda": "λ", "mu": "μ", "nu": "ν", "xi": "ξ", "pi": "π",
    "varpi": "ϖ", "rho": "ρ", "varrho": "ϱ", "sigma": "σ", "varsigma": "ς", "tau": "τ", "upsilon": "υ", "phi": "ϕ",
    "varphi": "φ", "chi": "χ", "psi": "ψ", "omega": "ω", "Gamma": "Γ", "Delta": "Δ", "Theta": "Θ", "Lambda": "Λ",
    "Xi": "Ξ",
    "Pi": "Π", "Sigma": "Σ", "Upsilon": "Υ", "Phi": "Φ", "Psi": "Ψ", "Omega": "Ω", "ell": "ℓ", "hbar": "ℏ", "Re": "ℜ",
    "Im": "ℑ", "wp": "℘", "aleph": "ℵ", "infty": "∞", "partial": "∂", "nabla": "∇", "forall": "∀", "exists": "∃",
    "nexists": "∄", "emptyset": "∅", "imath": "ı", "jmath": "ȷ",
}
_OPERATORS = {
    "leq": "≤", "geq": "≥", "neq": "≠", "approx": "≈", "equiv": "≡", "sim": "∼", "simeq": "≃", "cong": "≅",
    "propto": "∝",
    "ll": "≪", "gg": "≫", "prec": "≺", "succ": "≻", "times": "×", "div": "÷", "cdot": "⋅", "pm": "±", "mp": "∓",
    "ast": "∗",
    "star": "⋆", "circ": "∘", "bullet": "∙", "oplus": "⊕", "ominus": "⊖", "otimes": "⊗", "odot": "⊙", "cap": "∩",
    "cup": "∪",
    "sqcap": "⊓", "sqcup": "⊔", "wedge": "∧", "vee": "∨", "neg": "¬", "in": "∈", "notin": "∉", "ni": "∋", "subset": "⊂",
    "supset": "⊃", "subseteq": "⊆", "supseteq": "⊇", "setminus": "∖", "to": "→", "leftarrow": "←",
    "leftrightarrow": "↔",
    "Rightarrow": "⇒", "Leftarrow": "⇐", "Leftrightarrow": "⇔", "mapsto": "↦", "uparrow": "↑", "downarrow": "↓",
    "longrightarrow": "⟶", "longmapsto": "⟼", "hookrightarrow": "↪", "sum": "∑", "prod": "∏", "coprod": "∐", "int": "∫",
    "iint": "∬", "oint": "∮", "bigcup": "⋃", "bigcap": "⋂", "bigoplus": "⨁", "bigotimes": "⨂", "langle": "⟨",
    "rangle": "⟩",
    "lfloor": "⌊", "rfloor": "⌋", "lceil": "⌈", "rceil": "⌉", "ldots": "…", "cdots": "⋯", "vdots": "⋮", "ddots": "⋱",
    "prime": "′", "mid": "∣", "parallel": "∥", "perp": "⊥", "top": "⊤", "vdash": "⊢", "models": "⊨", "angle": "∠",
    "triangle": "△", "square": "□", "dagger": "†", "ddagger": "‡", "therefore": "∴", "because": "∵", "degree": "°",
}
_NAMES = {symbol: f"\\{name}" for table in (_LETTERS, _OPERATORS) for name, symbol in table.items()}
_NAMES |= {
    "·": "\\cdot", "−": "-", "‖": "\\|", "ε": "\\varepsilon", "{": "\\{", "}": "\\}", "%": "\\%", "#": "\\#",
    "&": "\\&", "_": "\\_", "$": "\\$", "\u2061": "", "\u2062": "", "\u2063": "", "\u2064": "",
    "\u00a0": " ", "\u2009": "\\,",
    "∗": "*", "‘": "'", "’": "'", "≔": ":=", "˙": ".", "〈": "\\langle", "〉": "\\rangle",
}
_SPACED = frozenset(_OPERATORS[n] for n in (  # what people write between spaces
    "leq", "geq", "neq", "approx", "equiv", "sim", "simeq", "cong", "propto", "ll", "gg", "prec", "succ", "oplus",
    "ominus", "otimes", "odot", "cap", "cup", "sqcap", "sqcup", "wedge", "vee", "in", "notin", "ni", "subset",
    "supset", "subseteq", "supseteq", "setminus", "to", "leftarrow", "leftrightarrow", "Rightarrow", "Leftarrow",
    "Leftrightarrow", "mapsto", "longrightarrow", "longmapsto", "hookrightarrow", "mid", "parallel", "perp",
    "vdash", "models", "therefore", "because",
))
_FUNCTIONS = frozenset((
    "sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh", "coth", "arcsin", "arccos", "arctan", "log",
    "ln", "lg", "exp", "min", "max", "sup", "inf", "lim", "limsup", "liminf", "det", "dim", "ker", "gcd", "deg",
    "arg", "Pr", "hom",
))
_VARIANTS = {"bold": "mathbf", "double-struck": "mathbb", "script": "mathcal", "fraktur": "mathfrak",
             "monospace": "mathtt",
             "sans-serif": "mathsf", "bold-italic": "boldsymbol", "-tex-calligraphic": "mathcal",
             "-tex-mathit": "mathit"}
_ACCENTS = {"^": "hat", "ˆ": "hat", "~": "tilde", "˜": "tilde", "¯": "bar", "‾": "overline", "→": "vec", "⃗": "vec",
            "˙": "dot", "¨": "ddot", "ˇ": "check", "˘": "breve", "´": "acute", "`": "grave", "_": "underline",
            "―": "overline",
            "⏞": "overbrace", "⏟": "underbrace"}
_COMMAND_END = re.compile(r"\\[A-Za-z]+$")
_SCRIPT_END = re.compile(r"[_^]\w$")
_SPACE = re.compile(r"\s+")


def to_latex(markup: bytes) -> str:
    """LaTeX of a ``math`` element given as HTML or XML bytes; empty where nothing is in it."""
    parser = etree.HTMLParser(encoding="utf-8", huge_tree=False, remove_comments=True)
    root = etree.fromstring(b"<body>" + markup + b"</body>", parser)
    if root is None:
        return ""
    math = root.find(".//math")
    return _SPACE.sub(" ", _row(math if math is not None else root, 0)).strip()


def _name(node: "etree._Element") -> str:
    tag = node.tag
    return tag.rpartition("}")[2].rpartition(":")[2] if isinstance(tag, str) else ""


def _join(parts: list[str]) -> str:
    """Concatenate, with a space where a command, or a script of one character, would run into what follows."""
    out = ""
    for part in parts:
        if not part:
            continue
        if part[0].isalnum() and (_SCRIPT_END.search(out) or (part[0].isalpha() and _COMMAND_END.search(out))):
            out += " "
        out += part
    return out


def _row(node: "etree._Element", depth: int) -> str:
    parts = [] if node.text is None or _name(node) not in ("body", "math") else [node.text.strip()]
    children = [c for c in node if isinstance(c.tag, str)]
    parts += [_one(child, depth + 1) for child in children]
    return _join(parts)


def _characters(text: str) -> str:
    return _join([_NAMES.get(ch, ch) for ch in text])


def _group(text: str) -> str:
    return text if len(text) == 1 or re.fullmatch(r"\\[A-Za-z]+", text) else "{" + text + "}"


def _identifier(node: "etree._Element") -> str:
    text = "".join(node.itertext()).strip()
    if text in _FUNCTIONS:
        return "\\" + text
    body = _characters(text)
    variant = _VARIANTS.get(node.get("mathvariant", ""))
    if variant and body:
        return f"\\{variant}{{{body}}}"
    if len(text) > 1 and text.isascii() and text.isalpha():
        return f"\\mathrm{{{text}}}" if node.get("mathvariant") == "normal" else f"\\mathit{{{text}}}"
    return body


def _operator(node: "etree._Element") -> str:
    """An operator; named relations and binary operators stand between spaces, as people write them."""
    text = "".join(node.itertext()).strip()
    if text in _FUNCTIONS:
        return "\\" + text
    body = _characters(text)
    return f" {body} " if text in _SPACED else body


def _text(node: "etree._Element") -> str:
    text = "".join(node.itertext()).replace("\u00a0", " ")
    return f"\\text{{{text}}}" if text.strip() else " " if text else ""


def _scripts(node: "etree._Element", depth: int, low: bool, high: bool) -> str:
    kids = [_one(c, depth + 1) for c in node if isinstance(c.tag, str)]
    if not kids:
        return ""
    base, rest = kids[0], kids[1:]
    if len(base) > 1 and not re.fullmatch(r"\\[A-Za-z]+(?:\{[^{}]*\})?|[\d.]+|\\?[^\w\s]", base):
        base = "{" + base + "}"
    base = base or "{}"
    if low and rest:
        base += "_" + _group(rest.pop(0))
    if high and rest:
        top = rest.pop(0)
        base += "'" * top.count("\\prime") if top and not top.replace("\\prime", "") else "^" + _group(top)
    return base


def _stacked(node: "etree._Element", depth: int, low: bool, high: bool) -> str:
    kids = [c for c in node if isinstance(c.tag, str)]
    if len(kids) == 2:
        mark = "".join(kids[1].itertext()).strip()
        if mark in _ACCENTS and (low or high):
            name = _ACCENTS[mark]
            if low and name in ("bar", "overline"):
                name = "underline"
            return f"\\{name}{{{_one(kids[0], depth + 1)}}}"
    base = _one(kids[0], depth + 1) if kids else ""
    if re.fullmatch(r"\\(?:sum|prod|int|lim|max|min|sup|inf|bigcup|bigcap|coprod|bigoplus|limsup|liminf)", base):
        return _scripts(node, depth, low, high)
    out = base
    rest = [_one(c, depth + 1) for c in kids[1:]]
    if low and rest:
        out = f"\\underset{{{rest.pop(0)}}}{{{out}}}"
    if high and rest:
        out = f"\\overset{{{rest.pop(0)}}}{{{out}}}"
    return out


def _fraction(node: "etree._Element", depth: int) -> str:
    kids = [_one(c, depth + 1) for c in node if isinstance(c.tag, str)] + ["", ""]
    if re.fullmatch(r"0+(?:\.0+)?(?:px|pt|em)?", node.get("linethickness", "")):
        return f"\\binom{{{kids[0]}}}{{{kids[1]}}}"
    return f"\\frac{{{kids[0]}}}{{{kids[1]}}}"


def _root(node: "etree._Element", depth: int) -> str:
    kids = [_one(c, depth + 1) for c in node if isinstance(c.tag, str)] + ["", ""]
    return f"\\sqrt[{kids[1]}]{{{kids[0]}}}"


def _table(node: "etree._Element", depth: int) -> str:
    rows = []
    for row in node:
        if _name(row) in ("mtr", "mlabeledtr"):
            rows.append(" & ".join(_row(cell, depth + 2) for cell in row if _name(cell) == "mtd"))
    return "\\begin{matrix}" + " \\\\ ".join(rows) + "\\end{matrix}"


def _fenced(node: "etree._Element", depth: int) -> str:
    marks = (node.get("separators", ",").strip() or ",")[0]
    kids = [_one(c, depth + 1) for c in node if isinstance(c.tag, str)]
    return _characters(node.get("open", "(")) + marks.join(kids) + _characters(node.get("close", ")"))


def _multiscripts(node: "etree._Element", depth: int) -> str:
    kids = [c for c in node if isinstance(c.tag, str)]
    if not kids:
        return ""
    base, out, before = _one(kids[0], depth + 1), "", False
    front = ""
    rest = kids[1:]
    at = 0
    while at < len(rest):
        if _name(rest[at]) == "mprescripts":
            before, at = True, at + 1
            continue
        pair = [_one(c, depth + 1) if _name(c) != "none" else "" for c in rest[at : at + 2]] + [""]
        text = ("_" + _group(pair[0]) if pair[0] else "") + ("^" + _group(pair[1]) if pair[1] else "")
        front, out = (front + "{}" + text, out) if before else (front, out + text)
        at += 2
    return front + base + out


_CONVERT: dict[str, Callable[["etree._Element", int], str]] = {
    "mi": lambda n, d: _identifier(n),
    "mn": lambda n, d: _characters("".join(n.itertext()).strip()),
    "mo": lambda n, d: _operator(n),
    "mtext": lambda n, d: _text(n),
    "ms": lambda n, d: _text(n),
    "mspace": lambda n, d: " ",
    "mfrac": _fraction,
    "msqrt": lambda n, d: f"\\sqrt{{{_row(n, d)}}}",
    "mroot": _root,
    "msub": lambda n, d: _scripts(n, d, True, False),
    "msup": lambda n, d: _scripts(n, d, False, True),
    "msubsup": lambda n, d: _scripts(n, d, True, True),
    "munder": lambda n, d: _stacked(n, d, True, False),
    "mover": lambda n, d: _stacked(n, d, False, True),
    "munderover": lambda n, d: _stacked(n, d, True, True),
    "mtable": _table,
    "mfenced": _fenced,
    "mmultiscripts": _multiscripts,
    "semantics": lambda n, d: _one(n[0], d + 1) if len(n) else "",
    "annotation": lambda n, d: "",
    "annotation-xml": lambda n, d: "",
    "mphantom": lambda n, d: "",
    "none": lambda n, d: "",
}


def _one(node: "etree._Element", depth: int) -> str:
    if depth > MAX_DEPTH:
        return _characters("".join(node.itertext()))
    convert = _CONVERT.get(_name(node))
    return convert(node, depth) if convert is not None else _row(node, depth)
