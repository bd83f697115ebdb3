"""A health report as one HTML page that needs no network: no scripts, and no external style sheets or pictures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from string import Template

from lakebed.cli.blockers import HEADINGS, grouped
from lakebed.model.report import Figure, TableReport


def report_page(report: TableReport) -> str:
    """The HTML text of the page. All text from the table is escaped."""
    parts = [
        _section(name, _table((), ([key, figure_text(key, value)] for key, value in figures.items())))
        for name, figures in report.figures.items()
    ]
    findings = [
        f'<li class="{finding.health.value}"><b>{escape(finding.what)}</b>'
        f"{_line('', finding.why)}{_line('What to do: ', finding.remedy)}</li>"
        for finding in report.findings
    ]
    return _PAGE.substitute(
        table=escape(report.table),
        format=escape(report.format),
        health=report.health.value,
        findings=f"<ul>{''.join(findings)}</ul>" if findings else "<p>No problems found.</p>",
        figures="".join(parts),
        blockers=_section("what stays and why", _table(HEADINGS, grouped(report.blockers))) if report.blockers else "",
    )


def figure_text(name: str, value: Figure) -> str:
    """The text of a figure: sizes in a fitting unit, digits grouped by thousands, a dash for no value."""
    if value is None or value == "":
        return "-"
    if isinstance(value, str):
        return value
    if name == "bytes" or name.endswith(" bytes"):
        return _size(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def _size(value: float) -> str:
    for unit in ("bytes", "KB", "MB", "GB"):
        if value < 1024:
            return f"{value:,.0f} {unit}" if unit == "bytes" else f"{value:,.1f} {unit}"
        value /= 1024
    return f"{value:,.1f} TB"


def _line(label: str, text: str) -> str:
    return f"<br>{label}{escape(text)}" if text else ""


def _section(title: str, content: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{content}</section>"


def _table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "".join(f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table>{f'<tr>{head}</tr>' if headings else ''}{body}</table>"


_PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$table</title>
<style>
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.3rem; overflow-wrap: anywhere; }
h2 { font-size: 1rem; margin: 1.5rem 0 .3rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .2rem .8rem .2rem 0; overflow-wrap: anywhere; }
td:first-child { color: GrayText; white-space: nowrap; }
tr { border-bottom: 1px solid color-mix(in srgb, GrayText 30%, transparent); }
ul { list-style: none; padding: 0; }
li { border-left: .3rem solid; padding: .2rem .8rem; margin: .4rem 0; }
.health { padding: .1rem .6rem; border-radius: .3rem; color: white; }
li.good { border-color: #2e7d32; } .health.good { background: #2e7d32; }
li.attention { border-color: #b26a00; } .health.attention { background: #b26a00; }
li.broken { border-color: #c62828; } .health.broken { background: #c62828; }
</style>
</head>
<body>
<h1>$table <small>($format)</small> <span class="health $health">$health</span></h1>
$findings
$figures
$blockers
</body>
</html>
""")
