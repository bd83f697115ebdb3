"""The report of a table's health, the same for every format: figures, findings, blockers and advice."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from html import escape

from lakebed.errors import UsageError
from lakebed.model.drawing import STYLE, drawn, stacked
from lakebed.model.fixes import Fix, with_table
from lakebed.model.notebooks import Shown
from lakebed.model.pictures import Picture
from lakebed.model.upkeep import Blocker
from lakebed.redaction import redacted

Figure = int | float | str | None


class Health(StrEnum):
    """How healthy a table is. `rank` orders the values."""

    GOOD = "good"
    ATTENTION = "attention"
    """Maintenance is due or held back. Reads are right, but cost more than they need to."""
    BROKEN = "broken"
    """Something is lost or unreadable, or soon will be."""

    @property
    def rank(self) -> int:
        """0 for good, higher for worse."""
        return list(Health).index(self)


@dataclass(frozen=True, slots=True, repr=False)
class Finding(Shown):
    """One observation: `what` was seen, `why` it is so or matters, and the `remedy`, "" when there is nothing to do.

    `fix` is the remedy as a call, None where no call alone is one.
    """

    health: Health
    what: str
    why: str = ""
    remedy: str = ""
    fix: Fix | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Pictures:
    """The pictures of a report, which a notebook draws. They need neither a network nor scripts."""

    title: str
    pictures: tuple[Picture, ...]

    def _repr_html_(self) -> str:
        each = "".join(f"<div>{drawn(picture, styled=False)}</div>" for picture in self.pictures)
        row = "display:flex;flex-wrap:wrap;gap:12px"
        return f'<div><style>{STYLE}</style><div style="{row}">{each}</div></div>'

    def _repr_svg_(self) -> str:
        return stacked(self.pictures, self.title)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the pictures to a file: one below the other as `.svg`, side by side as `.html`.

        UsageError for another ending, and for a file that cannot be written.
        """
        ending = os.path.splitext(path)[1].lower()
        if ending not in (".svg", ".html"):
            raise UsageError(f"pictures cannot be saved as {os.fspath(path)!r}", todo="End the name with .svg or .html")
        text = self._repr_svg_() if ending == ".svg" else _PAGE.format(escape(self.title), self._repr_html_())
        try:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            why = error.strerror or str(error)
            raise UsageError(
                f"cannot write {os.fspath(path)!r}", why=why, todo="Name a file in a folder that exists"
            ) from error


_PAGE = (
    '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
    '<meta name="viewport" content="width=device-width, initial-scale=1"><title>{0}</title></head>'
    '<body style="color-scheme: light dark; font-family: system-ui, sans-serif"><h1>{0}</h1>{1}</body></html>\n'
)


def _nothing_more() -> tuple[Picture, ...]:
    return ()


@dataclass(frozen=True, slots=True, repr=False)
class TableReport(Shown):
    """What `table.inspect()` returns.

    `figures` are named numbers and texts by section ("table", "timeline", "files", ...). Sizes are in bytes, times as
    the format writes them. Each of `blockers` is an instant or snapshot that maintenance cannot remove yet, with the
    reason and what frees it. `pictures` are what `plot` draws: those that the report was made with, `drawn`, and those
    that `draw` makes of what it reads then.
    """

    table: str
    format: str
    figures: Mapping[str, Mapping[str, Figure]] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    blockers: tuple[Blocker, ...] = ()
    drawn: tuple[Picture, ...] = field(default=(), repr=False)
    inspected: int | None = field(default=None, repr=False, compare=False)
    """When it was made, milliseconds since 1970."""
    draw: Callable[[], tuple[Picture, ...]] = field(default=_nothing_more, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "table", redacted(self.table))
        findings = tuple(replace(one, remedy=with_table(one.remedy, self.table)) for one in self.findings)
        object.__setattr__(self, "findings", findings)

    def _repr_html_(self) -> str:
        plot = self.plot()
        pictures = plot._repr_html_() if plot.pictures else ""
        return f"<p>health: <b>{self.health}</b></p>{pictures}{Shown._repr_html_(self)}"

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """What `plot` draws. Some formats read what a picture shows when it is asked for."""
        return (*self.drawn, *self.draw())

    def plot(self) -> Pictures:
        """The report's pictures: file sizes against the target, the timeline and what holds it, where the bytes lie,
        how old deletes are, and the growth. A notebook shows them; `save` writes a file."""
        return Pictures(self.table, self.pictures)

    @property
    def health(self) -> Health:
        """The worst health among the findings; good when there are none."""
        return max((finding.health for finding in self.findings), key=lambda health: health.rank, default=Health.GOOD)

    @property
    def fixes(self) -> tuple[Fix, ...]:
        """The calls that end findings, those of the worst first and each once."""
        ordered = sorted(self.findings, key=lambda finding: -finding.health.rank)
        return tuple(dict.fromkeys(finding.fix for finding in ordered if finding.fix is not None))

    @property
    def advice(self) -> tuple[str, ...]:
        """The remedies of findings and blockers, without repeats. Those of findings come first."""
        held = (with_table(blocker.remedy, self.table) for blocker in self.blockers)
        remedies = [*(finding.remedy for finding in self.findings), *held]
        return tuple(dict.fromkeys(remedy for remedy in remedies if remedy))
