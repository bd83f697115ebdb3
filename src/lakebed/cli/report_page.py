"""A health report as one HTML page that needs no network: no scripts, and no external style sheets or pictures.

The pictures are SVG in the page. Each has its numbers as a table below, which opens by mouse or keyboard.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from string import Template

from lakebed.cli.blockers import HEADINGS, grouped
from lakebed.model.drawing import STYLE, drawn, plain_text
from lakebed.model.pictures import Picture, numbers
from lakebed.model.report import Figure, Finding, TableReport
from lakebed.model.units import moment_text, size_text
from lakebed.version import VERSION


def report_page(report: TableReport) -> str:
    """The HTML text of the page. All text from the table is escaped."""
    parts = [
        _section(name, _table((), ([key, figure_text(key, value)] for key, value in figures.items())))
        for name, figures in report.figures.items()
    ]
    findings = [
        f'<li class="{finding.health.value}"><b>{plain_text(finding.what)}</b>'
        f"{_line('', finding.why)}{_line('What to do: ', finding.remedy)}{_fix(finding, report.table)}</li>"
        for finding in report.findings
    ]
    pictures = report.pictures
    when = f"Inspected {moment_text(report.inspected)} UTC" if report.inspected is not None else "Inspected"
    return _PAGE.substitute(
        style=STYLE,
        table=plain_text(report.table),
        format=escape(report.format),
        health=report.health.value,
        findings=f"<ul>{''.join(findings)}</ul>" if findings else "<p>No problems found.</p>",
        pictures=f'<div class="pictures">{"".join(map(_figure, pictures))}</div>' if pictures else "",
        figures=f'<div class="figures">{"".join(parts)}</div>',
        blockers=_section("what stays and why", _table(HEADINGS, grouped(report.blockers, report.table)))
        if report.blockers
        else "",
        made=f"{when} by lakebed {VERSION}",
    )


def figure_text(name: str, value: Figure) -> str:
    """The text of a figure: sizes in a fitting unit, digits grouped by thousands, a dash for no value."""
    if value is None or value == "":
        return "-"
    if isinstance(value, str):
        return value
    if name == "bytes" or name.endswith(" bytes"):
        return size_text(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def _fix(finding: Finding, table: str) -> str:
    """The call that ends a finding, to be pasted."""
    if finding.fix is None:
        return ""
    spelled = finding.fix.command(table), finding.fix.sql(table), finding.fix.python(table)
    rows = zip(("Terminal", "SQL", "Python"), spelled, strict=True)
    texts = "".join(f"<dt>{name}</dt><dd><code>{plain_text(text)}</code></dd>" for name, text in rows)
    return f"<details><summary>Calls to paste</summary><dl>{texts}</dl></details>"


def _figure(picture: Picture) -> str:
    headings, rows = numbers(picture)
    details = f"<details><summary>The numbers: {plain_text(picture.title)}</summary>{_table(headings, rows)}</details>"
    return f"<figure>{drawn(picture, styled=False)}{details}</figure>"


def _line(label: str, text: str) -> str:
    return f"<br>{label}{plain_text(text)}" if text else ""


def _section(title: str, content: str) -> str:
    return f"<section><h2>{plain_text(title)}</h2>{content}</section>"


def _table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    head = "".join(f'<th scope="col">{plain_text(heading)}</th>' for heading in headings)
    body = "".join(f"<tr>{''.join(f'<td>{plain_text(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table>{f'<tr>{head}</tr>' if headings else ''}{body}</table>"


_PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$table: $health</title>
<style>
$style
:root { color-scheme: light dark; --soft: #59636e; }
@media (prefers-color-scheme: dark) { :root { --soft: #9aa4af; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 92rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.3rem; overflow-wrap: anywhere; }
h2 { font-size: 1rem; margin: 1.5rem 0 .3rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .2rem .8rem .2rem 0; overflow-wrap: anywhere; }
tr { border-bottom: 1px solid color-mix(in srgb, GrayText 30%, transparent); }
.pictures { columns: 23rem; column-gap: 1rem; }
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 22rem), 1fr)); gap: 0 2rem; }
.figures td:first-child { color: var(--soft); width: 45%; }
figure { margin: 0 0 1rem; break-inside: avoid; }
figure svg { display: block; width: 100%; height: auto; overflow: visible; }
summary { cursor: pointer; font-size: .85rem; color: var(--soft); padding: .2rem 0; }
dl { margin: 0; font-size: .85rem; } dt { color: var(--soft); } dd { margin: 0 0 .3rem; }
code { font: .85rem ui-monospace, monospace; user-select: all; }
details table { font-size: .85rem; }
ul { list-style: none; padding: 0; }
li { border-left: .3rem solid; padding: .2rem .8rem; margin: .4rem 0; overflow-wrap: anywhere; }
footer { margin: 2rem 0 1rem; color: var(--soft); font-size: .85rem; }
.health { padding: .1rem .6rem; border-radius: .3rem; color: white; white-space: nowrap; }
li.good { border-color: #2e7d32; } .health.good { background: #2e7d32; }
li.attention { border-color: #a35f00; } .health.attention { background: #a35f00; }
li.broken { border-color: #c62828; } .health.broken { background: #c62828; }
</style>
</head>
<body>
<main>
<h1>$table <small>($format)</small> <span class="health $health">$health</span></h1>
$findings
$pictures
$figures
$blockers
</main>
<footer>$made</footer>
</body>
</html>
""")
