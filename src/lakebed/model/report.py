"""The report of a table's health, the same for every format: figures, findings, blockers and advice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from lakebed.model.notebooks import Shown
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
    """One observation: `what` was seen, `why` it is so or matters, and the `remedy`, "" when there is nothing to do."""

    health: Health
    what: str
    why: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class TableReport(Shown):
    """What `table.inspect()` returns.

    `figures` are named numbers and texts by section ("table", "timeline", "files", ...). Sizes are in bytes, times as
    the format writes them. Each of `blockers` is an instant or snapshot that maintenance cannot remove yet, with the
    reason and what frees it.
    """

    table: str
    format: str
    figures: Mapping[str, Mapping[str, Figure]] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    blockers: tuple[Blocker, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "table", redacted(self.table))

    def _repr_html_(self) -> str:
        return f"<p>health: <b>{self.health}</b></p>{Shown._repr_html_(self)}"

    @property
    def health(self) -> Health:
        """The worst health among the findings; good when there are none."""
        return max((finding.health for finding in self.findings), key=lambda health: health.rank, default=Health.GOOD)

    @property
    def advice(self) -> tuple[str, ...]:
        """The remedies of findings and blockers, without repeats. Those of findings come first."""
        remedies = [finding.remedy for finding in self.findings] + [blocker.remedy for blocker in self.blockers]
        return tuple(dict.fromkeys(remedy for remedy in remedies if remedy))
