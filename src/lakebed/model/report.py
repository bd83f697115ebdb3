"""One report of a table's health, the same for every format: figures, what holds things back, what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from lakebed.model.upkeep import Blocker
from lakebed.redaction import redacted

Figure = int | float | str | None


class Health(StrEnum):
    """How a table does, the worst of its findings; ordered by `Health.rank`."""

    GOOD = "good"
    ATTENTION = "attention"
    """Upkeep is due or held back; reads are right, but cost more than they need."""
    BROKEN = "broken"
    """Something is lost, unreadable or about to be."""

    @property
    def rank(self) -> int:
        """0 for good, growing with trouble."""
        return list(Health).index(self)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something worth knowing: `what` is so, `why` it is so or matters, and the `remedy`, "" when nothing is to do."""

    health: Health
    what: str
    why: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class TableReport:
    """What `table.inspect()` gives.

    `figures` are named numbers and texts by section ("table", "timeline", "files", ...), sizes in bytes and times as
    the format writes them. `blockers` name each instant or snapshot that upkeep cannot take, why, and what frees it.
    """

    table: str
    format: str
    figures: Mapping[str, Mapping[str, Figure]] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    blockers: tuple[Blocker, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "table", redacted(self.table))

    @property
    def health(self) -> Health:
        """The worst of the findings; good without any."""
        return max((finding.health for finding in self.findings), key=lambda health: health.rank, default=Health.GOOD)

    @property
    def advice(self) -> tuple[str, ...]:
        """The remedies of findings and blockers, each once, the findings' first."""
        remedies = [finding.remedy for finding in self.findings] + [blocker.remedy for blocker in self.blockers]
        return tuple(dict.fromkeys(remedy for remedy in remedies if remedy))
