"""What holds instants in the active timeline: each guard holds from an instant on, or some instants by name.

Rules: Hudi's `TimelineArchiverV1` and `TimelineArchiverV2`, `CompactionUtils` and
`ClusteringUtils.getEarliestInstantToRetain...`, `TimelineUtils.getEarliestInstantForMetadataArchival`. Layout 1 holds
every instant against the metadata table's compaction, layout 2 commits alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakebed.formats.hudi.archive.active import ActiveInstant
from lakebed.formats.hudi.options import ARCHIVE_STRICT, BEYOND_SAVEPOINT, COMPACTION_TRIGGER, MAX_DELTA_COMMITS
from lakebed.kernel.options import Options

_REPLACING = "replacecommit"


@dataclass(frozen=True, slots=True)
class LastClean:
    """The newest completed clean: the earliest instant whose files its plan retained ("" when not by commits), and the
    savepoints that it spared."""

    time: str
    retained: str
    savepoints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MetadataTable:
    """The table's own metadata table: the instant of its newest completed compaction, "" before the first."""

    compaction: str


@dataclass(frozen=True, slots=True)
class DataTable:
    """Where the table *is* a metadata table: what the data table that it serves holds back. Both "" for none."""

    earliest_commit: str
    earliest_pending: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a plan rests on: the timeline and the facts outside it. Times compare as text."""

    instants: tuple[ActiveInstant, ...]
    layout: int
    merge_on_read: bool
    clean: LastClean | None = None
    metadata: MetadataTable | None = None
    serves: DataTable | None = None


@dataclass(frozen=True, slots=True)
class Guard:
    """Holds instants from `bound` on, or just those in `only`; `services`: clean and rollback instants too."""

    reason: str
    remedy: str
    bound: str = ""
    only: frozenset[str] | None = None
    services: bool = False

    def holds(self, time: str) -> bool:
        """Whether an instant of that time must stay."""
        return time in self.only if self.only is not None else time >= self.bound


def guards_of(evidence: Evidence, options: Options, commits: Sequence[ActiveInstant]) -> list[Guard]:
    """All that holds something; `commits` are the completed instants that write, oldest first."""
    found = (
        _savepoint_guard(evidence, options),
        _pending_guard(evidence, commits),
        _compaction_guard(evidence, options, commits),
        _replace_guard(evidence),
        _metadata_guard(evidence, commits),
        _data_table_guard(evidence),
        _empty_guard(evidence, options),
    )
    return [guard for guard in found if guard is not None]


def _savepoint_guard(evidence: Evidence, options: Options) -> Guard | None:
    savepoints = sorted(i.time for i in evidence.instants if i.action == "savepoint" and i.done)
    if not savepoints:
        return None
    if options[BEYOND_SAVEPOINT]:
        return Guard(
            "a savepoint keeps this instant",
            "Delete the savepoint when nobody will restore to it (Hudi: call delete_savepoint)",
            only=frozenset(savepoints),
        )
    return Guard(
        f"the savepoint of {savepoints[0]} holds every commit from there on",
        f"Delete the savepoint of {savepoints[0]} when nobody will restore to it (Hudi: call delete_savepoint), or set "
        f"{BEYOND_SAVEPOINT.key}=true",
        bound=savepoints[0],
    )


def _pending_guard(evidence: Evidence, commits: Sequence[ActiveInstant]) -> Guard | None:
    """One completed commit before the oldest pending write stays too: without it readers would take what lies before
    the timeline's start, the pending write's files among it, for committed."""
    pending = next((i for i in evidence.instants if i.writes and not i.done), None)
    if pending is None:
        return None
    before = max((commit.time for commit in commits if commit.time < pending.time), default="")
    what = f"{pending.kind} {pending.time} is {pending.last.state}"
    reason = f"{what}: every commit from {before or pending.time} on stays until it ends"
    return Guard(reason, how_to_end(pending), bound=before or pending.time)


def _compaction_guard(evidence: Evidence, options: Options, commits: Sequence[ActiveInstant]) -> Guard | None:
    if not evidence.merge_on_read or options[COMPACTION_TRIGGER] not in ("NUM_COMMITS", "NUM_AND_TIME"):
        return None
    compaction = next((i for i in reversed(commits) if i.action == "commit"), None)
    deltas = [i for i in commits if i.action == "deltacommit" and _after(i, compaction, evidence.layout)]
    wanted = options[MAX_DELTA_COMMITS]
    if len(deltas) >= wanted:
        bound = deltas[len(deltas) - wanted].time
    elif compaction is not None:
        bound = compaction.time
    elif deltas:
        bound = deltas[0].time
    else:
        return None
    since = f"since the compaction {compaction.time}" if compaction else "and no compaction yet"
    return Guard(
        f"the next compaction counts delta commits: {len(deltas)} {since}, {MAX_DELTA_COMMITS.key}={wanted}",
        f"Compact the table, or set {MAX_DELTA_COMMITS.key} to what its writer uses",
        bound=bound,
    )


def _after(delta: ActiveInstant, compaction: ActiveInstant | None, layout: int) -> bool:
    if compaction is None:
        return True
    return (delta.completed if layout >= 2 else delta.time) > compaction.time


def _replace_guard(evidence: Evidence) -> Guard | None:
    replacing = [instant.time for instant in evidence.instants if instant.action == _REPLACING]
    if not replacing:
        return None
    remedy = "Run a clean, so that the files it replaced are removed (Hudi: call run_clean)"
    clean = evidence.clean
    if clean is None:
        return Guard(f"replace commit {replacing[0]} hides files that no clean has removed", remedy, bound=replacing[0])
    bound = clean.retained or clean.time
    saved = min(clean.savepoints, default="")
    if saved and bound > saved and any(saved <= time < bound for time in replacing):
        bound = saved
    first = next((time for time in replacing if time >= bound), None)
    if first is None:
        return None
    return Guard(
        f"replace commit {first} hides files that the clean {clean.time} left, which retained all from {bound} on",
        remedy,
        bound=first,
    )


def _metadata_guard(evidence: Evidence, commits: Sequence[ActiveInstant]) -> Guard | None:
    if evidence.metadata is None:
        return None
    compaction = evidence.metadata.compaction
    remedy = (
        "Let a writer compact the metadata table (hoodie.metadata.compact.max.delta.commits), or, where no writer "
        "keeps the metadata table any more, set hoodie.metadata.enable=false"
    )
    if not compaction:
        return Guard("the metadata table was never compacted", remedy, services=evidence.layout < 2)
    if evidence.layout < 2:
        return Guard(f"the metadata table was last compacted at {compaction}", remedy, bound=compaction, services=True)
    first = next((commit.time for commit in commits if commit.completed > compaction), None)
    if first is None:
        return None
    return Guard(f"commit {first} completed after the metadata table's compaction {compaction}", remedy, bound=first)


def _data_table_guard(evidence: Evidence) -> Guard | None:
    serves = evidence.serves
    if serves is None:
        return None
    bounds = [time for time in (serves.earliest_commit, serves.earliest_pending) if time]
    if not bounds:
        return None
    first = min(bounds)
    what = "pending instant" if first == serves.earliest_pending else "earliest commit"
    return Guard(
        f"the data table's {what} {first} needs the metadata table's instants from there on",
        f"End or roll back {first} of the data table" if what.startswith("pending") else "Archive the data table first",
        bound=first,
        services=evidence.layout < 2,
    )


def _empty_guard(evidence: Evidence, options: Options) -> Guard | None:
    """Lenient mode leaves an instant whose completed file is empty; strict mode lets the run stop at it."""
    empty = frozenset(i.time for i in evidence.instants if i.empty)
    if not empty or options[ARCHIVE_STRICT]:
        return None
    return Guard(
        "its completed file is empty, as a crash leaves it",
        "Restore the file from a copy, or roll the instant back (Hudi: call rollback_to_instant)",
        only=empty,
        services=True,
    )


def how_to_end(pending: ActiveInstant) -> str:
    """What ends a pending instant that writes."""
    if pending.kind in ("compaction", "logcompaction"):
        return f"Run {pending.kind} {pending.time} (Hudi: call run_compaction) or unschedule it (hudi-cli)"
    if pending.kind == "clustering" or pending.action == _REPLACING:
        return f"Run the pending {pending.kind} {pending.time} (Hudi: call run_clustering), or roll it back"
    return f"Let the writer of {pending.time} finish; if it is dead, roll {pending.time} back"
