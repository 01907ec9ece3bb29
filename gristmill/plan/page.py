"""The plan as a person reads it: plain text, and one self-contained HTML page.

Belongs here: units, tables, escaping. Does not belong here: any number; all come from the sheet.
"""

import html
from collections.abc import Mapping

from gristmill.plan.assumptions import Assumption, values
from gristmill.plan.measured import DISAGREE, FEW, Measured, disagreements
from gristmill.plan.model import BANDS, SECTIONS, sheet
from gristmill.plan.sheet import Sheet

_STEPS = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def show(value: float, unit: str) -> str:
    """A value with its unit, short: 120 TB, $2,400, 6.1 %, 9.0e10 pages as 90 G pages."""
    if unit == "share":
        return f"{value * 100:.1f} %" if value >= 0.001 or value == 0 else f"{value * 100:.2g} %"
    if unit == "$":
        return f"${value:,.2f}" if abs(value) < 100 else f"${value:,.0f}"
    if unit in ("core-h", "GPU-h", "h", "machines", "epochs", "ratio", "days") and abs(value) < 1e6:
        return f"{value:,.2f} {unit}" if abs(value) < 10 else f"{value:,.0f} {unit}"
    for step, letter in _STEPS:
        if abs(value) >= step:
            gap = "" if unit in ("B", "B/s") else " "
            return f"{value / step:.3g} {letter}{gap}{unit}"
    return f"{value:.3g} {unit}"


class Report:
    """A plan under the assumptions and, where something was measured, under those values in their place."""

    def __init__(self, assumptions: dict[str, Assumption], measured: dict[str, Measured] | None = None) -> None:
        self.assumptions = assumptions
        self.measured = measured or {}
        self.assumed = sheet(values(assumptions))
        own = values(assumptions) | {n: m.value for n, m in self.measured.items()}
        self.own: Sheet | None = sheet(own) if self.measured else None
        self.differ = disagreements(assumptions, self.measured)

    def rows(self, section: str) -> list[tuple[str, str, str, str, bool]]:
        """(name, title, assumed, measured, do they disagree) of a section."""
        out = []
        for name, formula in self.assumed.formulas.items():
            if name.partition(".")[0] != section:
                continue
            first = self.assumed[name]
            second = self.own[name] if self.own else None
            off = second is not None and not (1 / DISAGREE <= (second / first if first else 1.0) <= DISAGREE)
            out.append((name, formula.title, show(first, formula.unit),
                        show(second, formula.unit) if second is not None else "", off))
        return out

    def caution(self) -> list[str]:
        """What to hold against the measured rates."""
        few = max((m.support for n, m in self.measured.items() if n.startswith("rates.")), default=FEW)
        return [f"rates rest on {few:,} documents at most: that is how stages start, not how they work"] * (few < FEW)

    def bands(self) -> list[str]:
        """Derived quantities that leave the reference's band."""
        out = []
        for name, (low, high) in BANDS.items():
            for what, own in (("assumed", self.assumed), ("measured", self.own)):
                if own is not None and not low <= own[name] <= high:
                    out.append(f"{name} as {what} is {show(own[name], 'share')}, outside {low:.0%} to {high:.0%}")
        return out


def text(report: Report) -> str:
    """The plan as plain text."""
    lines: list[str] = []
    both = report.own is not None
    for section, title in SECTIONS.items():
        lines += ["", title, f"{'':<34} {'assumed':>20}" + (f" {'measured here':>20}" if both else "")]
        for name, what, first, second, off in report.rows(section):
            short = name.partition(".")[2]
            mark = " *" if off else ""
            lines.append(f"  {short:<32} {first:>20}" + (f" {second:>20}" if both else "") + f"  {what}{mark}")
    lines += ["", *report.bands()]
    if both:
        lines += ["", f"* more than {DISAGREE:g} times apart. Assumptions that this installation contradicts:"]
        for d in report.differ:
            unit = d.assumption.unit
            lines.append(f"  {d.assumption.name:<28} assumed {show(d.assumption.value, unit)}, measured "
                         f"{show(d.measured.value, unit)} ({d.ratio:.2g} times; {d.measured.support:,} documents)")
        lines += [f"  {line}" for line in report.caution()]
        missing = sorted(n for n in report.assumptions if n.partition(".")[0] in ("yields", "rates")
                         and n not in report.measured)
        lines.append(f"  yields and rates that it cannot tell: {', '.join(missing) or 'none'}")
    return "\n".join(lines).strip() + "\n"


_STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;color:#1c2733}
h1{font-size:1.5rem}h2{font-size:1.1rem;margin-top:2rem}table{border-collapse:collapse;width:100%}
td,th{padding:.2rem .6rem;border-bottom:1px solid #dde4ea;text-align:left;vertical-align:top}
td.n,th.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
tr.off td.n{background:#fff1d6}code{font-size:.85em;color:#52606d}"""


def page(report: Report, crawls: Mapping[str, int] | None = None) -> str:
    """The plan as one HTML page: every number with its formula, every assumption with its source."""
    e = html.escape
    both = report.own is not None
    out = [f"<!doctype html><html lang=en><meta charset=utf-8><title>Plan of the corpus</title><style>{_STYLE}</style>",
           "<h1>Plan of the corpus</h1><p>Every number follows from the assumptions at the end of this page, by the "
           "formula beside it."]
    if both:
        seen = ", ".join(f"{e(c)} ({n:,} pages)" for c, n in (crawls or {}).items())
        out.append(f" The second column puts in what this installation measured{': ' + seen if seen else ''}; rows in "
                   f"yellow differ by more than {DISAGREE:g} times.")
    out.append("</p>")
    out += [f"<p>{e(line)}</p>" for line in (*report.bands(), *report.caution())]
    head = "<th class=n>assumed" + ("<th class=n>measured here" if both else "")
    for section, title in SECTIONS.items():
        out.append(f"<h2>{e(title)}</h2><table><tr><th>quantity{head}<th>formula")
        for name, what, first, second, off in report.rows(section):
            cells = f"<td class=n>{e(first)}" + (f"<td class=n>{e(second)}" if both else "")
            formula = report.assumed.formulas[name].expression
            out.append(f"<tr{' class=off' if off else ''} id={name}><td>{e(what)}<br><code>{name}</code>{cells}"
                       f"<td><code>{e(formula)}</code>")
        out.append("</table>")
    out.append(f"<h2>Assumptions</h2><table><tr><th>name{head}<th>from")
    off_names = {d.assumption.name for d in report.differ}
    for name, a in report.assumptions.items():
        found = report.measured.get(name)
        own = f"<td class=n>{e(show(found.value, a.unit)) if found else ''}" if both else ""
        out.append(f"<tr{' class=off' if name in off_names else ''} id={name}><td><code>{name}</code>"
                   f"<td class=n>{e(show(a.value, a.unit))}{own}<td>{e(a.source)}")
    out.append("</table></html>")
    return "\n".join(out) + "\n"
