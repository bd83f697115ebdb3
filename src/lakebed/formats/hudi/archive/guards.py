"""Guards: what keeps instants in the active timeline. A guard holds every instant from one on, or some by name.

Rules: Hudi's `TimelineArchiverV1` and `TimelineArchiverV2`, `CompactionUtils` and
`ClusteringUtils.getEarliestInstantToRetain...`, `TimelineUtils.getEarliestInstantForMetadataArchival`. In layout 1
the metadata table's compaction holds every kind of instant, in layout 2 only commits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakebed.formats.hudi.archive.evidence import Evidence, LastClean, MetadataTable
from lakebed.formats.hudi.archive.options import ARCHIVE_STRICT, BEYOND_SAVEPOINT, COMPACTION_TRIGGER, MAX_DELTA_COMMITS
from lakebed.formats.hudi.archive.pending import how_to_end, never_ended, requested
from lakebed.formats.hudi.archive.state_files import ActiveInstant
from lakebed.kernel.options import Options

_REPLACING = "replacecommit"


@dataclass(frozen=True, slots=True)
class Guard:
    """Holds the instants from `bound` on, or where `only` is given just those.

    With `services` it holds clean and rollback instants too. `reason` and `remedy` are for the blockers that name it.
    """

    reason: str
    remedy: str
    bound: str = ""
    only: frozenset[str] | None = None
    services: bool = False

    def holds(self, time: str) -> bool:
        """Whether an instant of that time has to stay."""
        return time in self.only if self.only is not None else time >= self.bound


def guards_of(evidence: Evidence, options: Options, commits: Sequence[ActiveInstant]) -> list[Guard]:
    """Every guard that holds something. `commits` are the completed instants that write data files, oldest first."""
    guards = (
        _restore_guard(evidence),
        _savepoint_guard(evidence, options),
        _pending_guard(evidence, commits),
        _compaction_guard(evidence, options, commits),
        _replace_guard(evidence),
        _metadata_guard(evidence, commits),
        _data_table_guard(evidence),
        _empty_guard(evidence, options),
    )
    return [guard for guard in guards if guard is not None]


def _restore_guard(evidence: Evidence) -> Guard | None:
    """A restore that was cut off holds everything: an instant that it takes back must not reach the archive."""
    restore = next((i for i in evidence.instants if i.action == "restore" and not i.done), None)
    if restore is None:
        return None
    reason = f"restore {restore.time} was cut off: every instant stays until it ends"
    return Guard(reason, how_to_end(restore), services=True)


def _savepoint_guard(evidence: Evidence, options: Options) -> Guard | None:
    savepoints = sorted(i.time for i in evidence.instants if i.action == "savepoint" and i.done)
    if not savepoints:
        return None
    if options[BEYOND_SAVEPOINT]:
        return Guard(
            "a savepoint keeps this instant",
            "Delete the savepoint when it is no longer needed for a restore (Hudi: call delete_savepoint)",
            only=frozenset(savepoints),
        )
    return Guard(
        f"the savepoint of {savepoints[0]} holds every commit from there on",
        f"Delete the savepoint of {savepoints[0]} when it is no longer needed for a restore (Hudi: call "
        f"delete_savepoint), or set {BEYOND_SAVEPOINT.key}=true",
        bound=savepoints[0],
    )


def _pending_guard(evidence: Evidence, commits: Sequence[ActiveInstant]) -> Guard | None:
    """Holds everything from the last completed commit before the oldest pending write on.

    Readers take what is older than the timeline's start for committed. Without that one commit the pending write would
    be the start, and its files would count.
    """
    pending = evidence.pending_write
    if pending is None:
        return None
    before = max((commit.time for commit in commits if commit.time < pending.time), default="")
    what = f"{pending.kind} {pending.time} is {pending.last.state}"
    began = requested(pending, evidence.timezone)
    reason = f"{what}: every commit from {before or pending.time} on stays until it ends{began}"
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
    reason = f"the next compaction counts delta commits: {len(deltas)} {since}, {MAX_DELTA_COMMITS.key}={wanted}"
    waiting = evidence.pending_of("compaction")
    if waiting is not None:
        return Guard(f"{reason}; {never_ended(waiting, evidence.timezone)}", how_to_end(waiting), bound=bound)
    return Guard(reason, f"Compact the table, or set {MAX_DELTA_COMMITS.key} to what its writer uses", bound=bound)


def _after(delta: ActiveInstant, compaction: ActiveInstant | None, layout: int) -> bool:
    if compaction is None:
        return True
    return (delta.completed if layout >= 2 else delta.time) > compaction.time


def _replace_guard(evidence: Evidence) -> Guard | None:
    replacing = [instant.time for instant in evidence.instants if instant.action == _REPLACING]
    if not replacing:
        return None
    clean = evidence.clean
    because, remedy = _why_not_cleaned(evidence, clean)
    if clean is None:
        reason = f"replace commit {replacing[0]} hides files that no clean has removed"
        return Guard(f"{reason}{because}", remedy, bound=replacing[0])
    bound = clean.retained or clean.time
    saved = min(clean.savepoints, default="")
    if saved and bound > saved and any(saved <= time < bound for time in replacing):
        bound = saved
    first = next((time for time in replacing if time >= bound), None)
    if first is None:
        return None
    return Guard(
        f"replace commit {first} hides files that the clean {clean.time} left, which retained all from {bound} on"
        f"{because}",
        remedy,
        bound=first,
    )


def _why_not_cleaned(evidence: Evidence, clean: LastClean | None) -> tuple[str, str]:
    """Why cleans do not remove the replaced files, and what helps. A clean may never have ended; or a write is pending,
    and cleans retain everything from before it."""
    begun = evidence.pending_of("clean")
    if begun is not None:
        return f"; {never_ended(begun, evidence.timezone)}", how_to_end(begun)
    pending = evidence.pending_write
    if pending is not None and (clean is None or clean.retained <= pending.time):
        return f"; cleans retain everything from before {never_ended(pending, evidence.timezone)}", how_to_end(pending)
    return "", "Run a clean, so that the files it replaced are removed (Hudi: call run_clean)"


def _metadata_guard(evidence: Evidence, commits: Sequence[ActiveInstant]) -> Guard | None:
    if evidence.metadata is None:
        return None
    compaction = evidence.metadata.compaction
    because, remedy = _why_not_compacted(evidence, evidence.metadata)
    if not compaction:
        return Guard(f"the metadata table was never compacted{because}", remedy, services=evidence.layout < 2)
    if evidence.layout < 2:
        reason = f"the metadata table was last compacted at {compaction}{because}"
        return Guard(reason, remedy, bound=compaction, services=True)
    first = next((commit.time for commit in commits if commit.completed > compaction), None)
    if first is None:
        return None
    reason = f"commit {first} completed after the metadata table's compaction {compaction}{because}"
    return Guard(reason, remedy, bound=first)


def _why_not_compacted(evidence: Evidence, metadata: MetadataTable) -> tuple[str, str]:
    """Why writers do not compact the metadata table, and what helps.

    A compaction of it that has not ended comes first. In layout 1 writers also plan none while the data table has a
    pending instant (`HoodieBackedTableMetadataWriter.validateTimelineBeforeSchedulingCompaction`).
    """
    if metadata.pending is not None:
        remedy = f"Let a writer end the metadata table's {metadata.pending.kind} {metadata.pending.time}"
        return f"; there {never_ended(metadata.pending, evidence.timezone)}", remedy
    waiting = next((instant for instant in evidence.instants if not instant.done), None)
    if evidence.layout < 2 and waiting is not None:
        return f"; writers do not compact it while {never_ended(waiting, evidence.timezone)}", how_to_end(waiting)
    return "", (
        "Let a writer compact the metadata table (hoodie.metadata.compact.max.delta.commits), or, where no writer "
        "keeps the metadata table any more, set hoodie.metadata.enable=false"
    )


def _data_table_guard(evidence: Evidence) -> Guard | None:
    serves = evidence.serves
    if serves is None:
        return None
    pending, earliest = serves.pending, serves.earliest_commit
    if pending is None and not earliest:
        return None
    services = evidence.layout < 2
    needs = "needs the metadata table's instants from there on"
    if pending is not None and (not earliest or pending.time <= earliest):
        reason = f"the data table's pending instant {pending.time} {needs}: {never_ended(pending, evidence.timezone)}"
        return Guard(reason, f"In the data table: {how_to_end(pending)}", bound=pending.time, services=services)
    because, remedy = "", "Archive the data table first"
    if pending is not None:
        because = f"; it stays there while {never_ended(pending, evidence.timezone)}"
        remedy = f"In the data table: {how_to_end(pending)}"
    elif serves.savepoint:
        because, remedy = f"; the data table's savepoint of {serves.savepoint} holds it", "Delete that savepoint"
    reason = f"the data table's earliest commit {earliest} {needs}{because}"
    return Guard(reason, remedy, bound=earliest, services=services)


def _empty_guard(evidence: Evidence, options: Options) -> Guard | None:
    """In lenient mode, holds instants whose completed file is empty. In strict mode the run stops at such a file."""
    empty = frozenset(i.time for i in evidence.instants if i.empty)
    if not empty or options[ARCHIVE_STRICT]:
        return None
    return Guard(
        "its completed file is empty, as a crash leaves it",
        "Restore the file from a copy, or roll the instant back (Hudi: call rollback_to_instant)",
        only=empty,
        services=True,
    )
