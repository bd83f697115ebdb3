"""Draws the pictures of a report as SVG: self-contained, without scripts, in the light or dark colours of the reader.

All text is escaped. Every entry says what it is when it is pointed at, and the whole has a title and a description for
screen readers.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from functools import singledispatch
from html import escape

from lakebed.model.pictures import Bar, Bars, Columns, Look, Mark, Picture, State, Steps, Timeline, Unit
from lakebed.model.units import moment_text, short_count, short_size

WIDTH = 440
"""The width of a picture. It is made for a phone: wider pages put several side by side."""
_LEFT, _RIGHT, _LINE = 56, 14, 15
_PLOT, _LANE, _ROW = 140, 24, 20
_MINUTES = 600_000
"""Times that lie closer together are told to the second."""
_NAMES = 156
"""The room for names of bars."""

STYLE = """\
.lb { --bg: #ffffff; --ink: #1f2328; --mute: #59636e; --grid: #d8dee4; --bar: #2f6fde; --flag: #b35900; --hold: #c62828;
  color-scheme: light dark; font: 12px system-ui, sans-serif; }
@media (prefers-color-scheme: dark) { .lb { --bg: #161b22; --ink: #e6edf3; --mute: #9aa4af; --grid: #30363d;
  --bar: #6ea8fe; --flag: #f0a04b; --hold: #ff7b72; } }
.lb .card { fill: var(--bg); stroke: var(--grid); }
.lb text { fill: var(--mute); }
.lb .title { fill: var(--ink); font-weight: 600; font-size: 14px; }
.lb .grid { stroke: var(--grid); }
.lb .plain { fill: var(--bar); stroke: var(--bar); }
.lb .flagged { fill: var(--flag); fill-opacity: .45; stroke: var(--flag); stroke-dasharray: 3 2; }
.lb .target { stroke: var(--hold); stroke-dasharray: 5 3; stroke-width: 1.5; }
.lb .area { fill: var(--bar); fill-opacity: .18; }
.lb .step { fill: none; stroke: var(--bar); stroke-width: 2; }
.lb .done { fill: var(--bar); fill-opacity: .75; }
.lb .pending { fill: var(--bg); stroke: var(--flag); stroke-width: 2; }
.lb .held { fill: var(--hold); }
.lb .kept { fill: var(--flag); }
"""


def drawn(picture: Picture, styled: bool = True) -> str:
    """One picture as an `svg` element. `styled` puts the style inside, for an SVG that stands alone."""
    body, height = _drawn(picture)
    return _element(body, height, picture.title, picture.note, styled)


def stacked(pictures: Sequence[Picture], title: str) -> str:
    """Pictures one below the other, as one `svg` element that stands alone."""
    parts: list[str] = []
    top = 0.0
    for picture in pictures:
        body, height = _drawn(picture)
        parts.append(f'<g transform="translate(0 {top:g})">{body}</g>')
        top += height + 12
    return _element("".join(parts), max(top - 12, 1), title, "", True)


def plain_text(text: str) -> str:
    """Text that may stand in XML: escaped, and without characters that XML does not have."""
    kept = "".join(c if c.isprintable() or c in "\t\n" else "\ufffd" for c in text)
    return escape(kept.encode("utf-8", "replace").decode("utf-8"))


def _element(body: str, height: float, title: str, note: str, styled: bool) -> str:
    style = f"<style>{STYLE}</style>" if styled else ""
    label = f"<title>{plain_text(title)}</title>" + (f"<desc>{plain_text(note)}</desc>" if note else "")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="lb" role="img" viewBox="0 0 {WIDTH} {height:g}" '
        f'width="{WIDTH}" height="{height:g}">{label}{style}{body}</svg>'
    )


@singledispatch
def _drawn(picture: Picture) -> tuple[str, float]:
    """The SVG content of a picture, and its height."""
    raise TypeError(picture)


@_drawn.register
def _columns(picture: Columns) -> tuple[str, float]:
    head, top = _head(picture)
    scale, axis = _axis(max(bar.value for bar in picture.bars), picture.unit, top)
    slot = (WIDTH - _LEFT - _RIGHT) / len(picture.bars)
    every = -(-len(picture.bars) // 8)
    parts = [axis]
    for n, bar in enumerate(picture.bars):
        height = scale(bar.value)
        x = _LEFT + n * slot
        parts.append(_bar(bar, x + slot * 0.08, top + _PLOT - height, slot * 0.84, height))
        if n % every == 0:
            at = x if picture.edges else x + slot / 2
            parts.append(_text(bar.label, at, top + _PLOT + 16, "middle"))
    if picture.line is not None:
        position, label = picture.line
        x = _LEFT + position * slot
        side = "end" if x > WIDTH / 2 else "start"
        parts.append(f'<line class="target" x1="{x:.1f}" x2="{x:.1f}" y1="{top - 4}" y2="{top + _PLOT}"/>')
        parts.append(_text(label, x + (-5 if side == "end" else 5), top + 6, side))
    return _card(head + "".join(parts), top + _PLOT + 28)


@_drawn.register
def _bars(picture: Bars) -> tuple[str, float]:
    head, top = _head(picture)
    room = WIDTH - _NAMES - _RIGHT - 58
    most = max(max(bar.value for bar in picture.bars), 1)
    parts = []
    for n, bar in enumerate(picture.bars):
        y = top + n * _ROW
        width = max(room * bar.value / most, 1)
        parts.append(_text(_cut(bar.label, 21), _NAMES - 6, y + 13, "end"))
        parts.append(_bar(bar, _NAMES, y + 2, width, _ROW - 6))
        parts.append(_text(_short(picture.unit)(bar.value), _NAMES + width + 5, y + 13))
    return _card(head + "".join(parts), top + len(picture.bars) * _ROW + 8)


@_drawn.register
def _steps(picture: Steps) -> tuple[str, float]:
    head, top = _head(picture)
    scale, axis = _axis(max(value for _, value in picture.points), picture.unit, top)
    first, last = picture.points[0][0], picture.points[-1][0]
    x = _times(first, last)
    bottom = top + _PLOT
    path, at = [f"M{x(first):.1f} {bottom - scale(picture.points[0][1]):.1f}"], 0.0
    for time, value in picture.points[1:]:
        at = x(time)
        path.append(f"H{at:.1f}V{bottom - scale(value):.1f}")
    line = "".join(path)
    area = f"{line}V{bottom}H{x(first):.1f}Z"
    shapes = f'<path class="area" d="{area}"/><path class="step" d="{line}"/>'
    return _card(head + axis + shapes + _dates(first, last, bottom + 16), bottom + 28)


@_drawn.register
def _timeline(picture: Timeline) -> tuple[str, float]:
    head, top = _head(picture)
    lanes = list(dict.fromkeys(mark.lane for mark in picture.marks))
    first, last = picture.marks[0].time, picture.marks[-1].time
    left = 96
    x = _times(first, last, left + 8, WIDTH - _RIGHT - 8)
    parts = []
    for n, lane in enumerate(lanes):
        y = top + n * _LANE + _LANE / 2
        parts.append(f'<line class="grid" x1="{left}" x2="{WIDTH - _RIGHT}" y1="{y:g}" y2="{y:g}"/>')
        parts.append(_text(_cut(lane, 14), left - 8, y + 4, "end"))
    for mark in sorted(picture.marks, key=lambda mark: mark.state is not State.DONE):
        parts.append(_mark(mark, x(mark.time), top + lanes.index(mark.lane) * _LANE + _LANE / 2))
    bottom = top + len(lanes) * _LANE
    return _card(head + "".join(parts) + _dates(first, last, bottom + 14, left), bottom + 26)


def _mark(mark: Mark, x: float, y: float) -> str:
    label = f"<title>{plain_text(mark.told)}</title>"
    if mark.state in (State.DONE, State.PENDING):
        radius = 4 if mark.state is State.DONE else 5
        return f'<circle class="{mark.state}" cx="{x:.1f}" cy="{y:g}" r="{radius}">{label}</circle>'
    shape = "0,-7 6,0 0,7 -6,0" if mark.state is State.HELD else "0,-7 6,5 -6,5"
    return f'<polygon class="{mark.state}" points="{shape}" transform="translate({x:.1f} {y:g})">{label}</polygon>'


def _head(picture: Picture) -> tuple[str, int]:
    """The title and the note, and where the plot begins below them."""
    lines = textwrap.wrap(picture.note, 68)[:4]
    texts = [f'<text class="title" x="16" y="26">{plain_text(picture.title)}</text>']
    texts += [_text(line, 16, 45 + n * _LINE) for n, line in enumerate(lines)]
    return "".join(texts), 45 + len(lines) * _LINE


def _card(body: str, height: float) -> tuple[str, float]:
    card = f'<rect class="card" x=".5" y=".5" width="{WIDTH - 1}" height="{height - 1:g}" rx="8"/>'
    return card + body, height


def _axis(most: int, unit: Unit, top: int) -> tuple[Callable[[float], float], str]:
    """The height of a value, and the grid with its labels."""
    step = _step(most, unit)
    ceiling = step * -(-max(most, 1) // step)
    parts = []
    for value in range(0, ceiling + 1, step):
        y = top + _PLOT - _PLOT * value / ceiling
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(_text(_short(unit)(value), _LEFT - 6, y + 4, "end"))
    return lambda value: _PLOT * value / ceiling, "".join(parts)


def _step(most: int, unit: Unit) -> int:
    """A round distance of grid lines, of which at most four fit below a value: a power of two in bytes, else 1, 2, 5,
    10 and so on."""
    step, n = 1, 0
    while most > step * 4:
        n += 1
        step = 2**n if unit is Unit.BYTES else (1, 2, 5)[n % 3] * 10 ** (n // 3)
    return step


def _short(unit: Unit) -> Callable[[float], str]:
    return short_size if unit is Unit.BYTES else short_count


def _times(first: int, last: int, left: float = _LEFT, right: float = WIDTH - _RIGHT) -> Callable[[int], float]:
    """The place of a time between two edges; the middle where all times are one."""
    if first == last:
        return lambda _: (left + right) / 2
    return lambda time: left + (right - left) * (time - first) / (last - first)


def _dates(first: int, last: int, y: float, left: int = _LEFT) -> str:
    right, seconds = WIDTH - _RIGHT, last - first < _MINUTES
    if first == last:
        return _text(moment_text(first), (left + right) / 2, y, "middle")
    return _text(moment_text(first, seconds), left, y) + _text(moment_text(last, seconds), right, y, "end")


def _bar(bar: Bar, x: float, y: float, width: float, height: float) -> str:
    name = "flagged" if bar.look is Look.FLAGGED else "plain"
    label = plain_text(bar.told or bar.label)
    return (
        f'<rect class="{name}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{max(height, 0):.1f}" rx="2">'
        f"<title>{label}</title></rect>"
        if height
        else ""
    )


def _text(text: str, x: float, y: float, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{plain_text(text)}</text>'


def _cut(text: str, most: int) -> str:
    """A long name without its middle."""
    if len(text) <= most:
        return text
    half = (most - 1) // 2
    return f"{text[:half]}…{text[-half:]}"
