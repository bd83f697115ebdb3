"""The health of a Hudi table: what `table.inspect()` reports.

Everything comes from listings, the timeline's small files and the plan of a snapshot; no data file is opened. Ages come
from instant times, which are clock times in the table's time zone, and never from a file's modification time.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from lakebed.errors import LakebedError, counted
from lakebed.formats.hudi.archive.bounds import check_given
from lakebed.formats.hudi.archive.delete import MARKERS
from lakebed.formats.hudi.archive.options import COMMITS_RETAINED
from lakebed.formats.hudi.archive.pending import fix_of, how_to_end
from lakebed.formats.hudi.archive.report import TimelineReport, timelines_of
from lakebed.formats.hudi.archive.state_files import ActiveInstant
from lakebed.formats.hudi.archive.unreadable import UnreadableFile, unreadable_files
from lakebed.formats.hudi.config import TableConfig
from lakebed.formats.hudi.expire.orphans import orphan_files
from lakebed.formats.hudi.layout import HEARTBEATS, HOODIE, clock_time
from lakebed.formats.hudi.pictures import pictures_of_files, pictures_of_timeline
from lakebed.formats.hudi.read.plan import plan_snapshot
from lakebed.formats.hudi.read.request import ReadRequest
from lakebed.formats.hudi.read.split import HudiSplit
from lakebed.formats.hudi.read.state import TableState
from lakebed.formats.hudi.timeline.active import Timeline
from lakebed.formats.hudi.write.settings import MAX_FILE
from lakebed.kernel import clock
from lakebed.kernel.options import Options
from lakebed.model.fixes import Fix
from lakebed.model.report import Figure, Finding, Health, TableReport
from lakebed.model.upkeep import Blocker

MANY_LOGS = 10
"""A file slice with so many log files is worth a compaction."""
SMALL_BYTES = 32 << 20
"""File groups with fewer bytes are small."""
MANY_SMALL = 10
"""A partition with so many small file groups is worth a clustering."""
_WORKING = datetime.timedelta(hours=1)
"""A pending instant that is older waits for something; a younger one may have a writer at work."""
_STALE = datetime.timedelta(days=1)
"""The age for an instant with a heartbeat file, which outlives its writer if that one dies."""
_SHOWN = 5
_FAILED = "lakebed expire TABLE --option lakebed.expire.what=failed-writes"


def inspect_table(
    state: TableState,
    instants: tuple[ActiveInstant, ...],
    options: Options,
    storage: Mapping[str, str],
    upkeep: Mapping[str, object] = {},
) -> TableReport:
    """The report of a table as it is now. Nothing is changed. `instants` are those of its active timeline. `options`
    are those of its reads, `upkeep` those of its archival.

    The sections are table, timeline, archive, metadata table's timeline (if there is such a table) and files. A section
    that cannot be determined is left out, and a finding says why.
    """
    store, config = state.store, state.config
    check_given(upkeep)
    acts: list[Callable[[], Any]] = [
        lambda: _timelines(state, instants, storage, upkeep),
        lambda: unreadable_files(store, instants),
        lambda: _splits(state, options),
        lambda: store.list_many([HEARTBEATS, MARKERS]),
        lambda: store.exists(f"{HOODIE}/lock"),
        lambda: _orphans(state),
    ]
    seen = store.together(lambda act: act(), acts)
    (reports, unknown), (checked, broken), (splits, unreadable), (heartbeats, markers), is_locked, orphans = seen
    figures: dict[str, Mapping[str, Figure]] = {
        "table": _table(config, instants),
        "timeline": {**_last(instants), "completed files read": checked},
    }
    for report in reports:
        if report.name == "data":
            figures["timeline"] = {**_timeline(report), **figures["timeline"]}
            figures["archive"] = _archive(report)
        else:
            figures[f"{report.name} table's timeline"] = _timeline(report)
    if splits is not None:
        figures["files"] = _files(splits)
    findings = [
        *_broken_files(broken, instants),
        *_lost(state.timeline),
        *unknown,
        *unreadable,
        *_pending({*heartbeats.names}, config, instants),
        *(finding for report in reports for finding in (*_savepoints(report), *_archival(report), *_legacy(report))),
        *_cleaning(instants, reports),
        *_layout(splits or ()),
        *_leftovers(markers.folders, is_locked, instants),
        *orphans,
    ]
    blockers = tuple(blocker for report in reports for blocker in _named(report))
    target = MAX_FILE.read(config.properties.get(MAX_FILE.key, "") or str(MAX_FILE.default))
    pictures = (
        *pictures_of_files(splits or (), config, target, SMALL_BYTES),
        pictures_of_timeline(instants, blockers),
    )
    return TableReport(
        table=store.location,
        format="hudi",
        figures=figures,
        findings=tuple(sorted(findings, key=lambda finding: -finding.health.rank)),
        blockers=blockers,
        drawn=tuple(picture for picture in pictures if picture is not None),
        inspected=clock.now_ms(),
    )


# ---- figures ---------------------------------------------------------------------------------------------------------


def _table(config: TableConfig, instants: Iterable[ActiveInstant]) -> Mapping[str, Figure]:
    return {
        "name": config.name,
        "type": "merge-on-read" if config.merge_on_read else "copy-on-write",
        "version": config.version,
        "timeline layout": config.layout,
        "record key": ", ".join(config.record_keys),
        "partitioned by": ", ".join(config.partition_fields),
        "savepoints": sum(i.action == "savepoint" and i.done for i in instants),
    }


def _timeline(report: TimelineReport) -> Mapping[str, Figure]:
    return {
        "instants": report.size,
        "pending": report.pending,
        "oldest": report.oldest,
        "due to be archived": report.due,
        "held": len(report.blockers),
        **{key: report.settings[key] for key in ("hoodie.keep.min.commits", "hoodie.keep.max.commits")},
    }


def _last(instants: Iterable[ActiveInstant]) -> Mapping[str, Figure]:
    done = [instant for instant in instants if instant.done]
    return {
        "last commit": max((i.time for i in done if i.writes), default=""),
        "last clean": max((i.time for i in done if i.action == "clean"), default=""),
        "last compaction": max((i.time for i in done if i.action == "commit" and _was_compaction(i)), default=""),
    }


def _was_compaction(instant: ActiveInstant) -> bool:
    return any(file.action == "compaction" for file in instant.files)


def _archive(report: TimelineReport) -> Mapping[str, Figure]:
    return {
        "files": report.archive_files,
        "bytes": report.archive_bytes,
        "last archived": report.last_archived,
        "files in older folders": len(report.legacy),
    }


def _files(splits: Iterable[HudiSplit]) -> Mapping[str, Figure]:
    slices = [(part, split.size) for split in splits for part in split.slices]
    logs = [len(part.logs) for part, _ in slices]
    return {
        "partitions": len({part.partition for part, _ in slices}),
        "file groups": len(slices),
        "bytes": sum(size for _, size in slices),
        "file groups without a base file": sum(not part.base for part, _ in slices),
        "log files": sum(logs),
        "most log files of a file group": max(logs, default=0),
        "small file groups": sum(size < SMALL_BYTES for _, size in slices),
    }


# ---- findings --------------------------------------------------------------------------------------------------------


def _broken_files(unreadable: Iterable[UnreadableFile], instants: Iterable[ActiveInstant]) -> Iterator[Finding]:
    first = {instant.last.path: instant._replace(files=instant.files[:1]) for instant in instants}
    for file in unreadable:
        remedy = "Restore the file from a copy, or roll the instant back (Hudi: call rollback_to_instant)"
        if file.is_empty:
            remedy = f"Restore the file from a copy, or end the instant. {how_to_end(first[file.path])}"
        what = f"the completed file {file.path} is empty" if file.is_empty else f"{file.path} cannot be read"
        yield Finding(Health.BROKEN, what, "a crash leaves such files" if file.is_empty else file.why, remedy)


def _lost(timeline: Timeline) -> Iterator[Finding]:
    for time in timeline.lost:
        yield Finding(
            Health.BROKEN,
            f"savepoint {time} names an instant that is not there as completed",
            f"its completed file in {timeline.folder} was removed or emptied, and reads leave its rows out",
            "Restore the file from a copy, or delete the savepoint",
        )


def _timelines(
    state: TableState, instants: tuple[ActiveInstant, ...], storage: Mapping[str, str], upkeep: Mapping[str, object]
) -> tuple[tuple[TimelineReport, ...], list[Finding]]:
    """The reports of both timelines; where they cannot be made, none and a finding that says why."""
    try:
        return timelines_of(state.store, upkeep, storage, state.config, instants), []
    except LakebedError as error:
        return (), [Finding(Health.BROKEN, f"the timelines cannot be judged: {error.what}", error.why, error.todo)]


def _splits(state: TableState, options: Options) -> tuple[tuple[HudiSplit, ...] | None, list[Finding]]:
    """The newest snapshot's file slices; where it cannot be planned, None and a finding that says why."""
    try:
        return tuple(plan_snapshot(state, ReadRequest(options), None).splits), []
    except LakebedError as error:
        return None, [Finding(Health.BROKEN, f"a snapshot cannot be read: {error.what}", error.why, error.todo)]


def _orphans(state: TableState) -> list[Finding]:
    """The orphan files, where the table's commits can be read."""
    try:
        paths = orphan_files(state)
    except LakebedError:
        return []  # another finding says why
    if not paths:
        return []
    why = f"no commit has them: {', '.join(paths[:_SHOWN])}"
    call = "lakebed expire TABLE --option lakebed.expire.what=orphan-files"
    fix = Fix("expire", (("lakebed.expire.what", "orphan-files"),))
    remedy = f"{call} removes those older than a day"
    return [
        Finding(Health.GOOD, f"{counted(len(paths), 'orphan file takes', 'orphan files take')} room", why, remedy, fix)
    ]


def _pending(alive: Collection[str], config: TableConfig, instants: Iterable[ActiveInstant]) -> Iterator[Finding]:
    for instant in instants:
        if instant.done:
            continue
        age = _age(instant.time, config.timezone)
        beats = instant.time in alive
        waits = age is None or age > (_STALE if beats else _WORKING)
        what = f"{instant.kind} {instant.time} {_pending_since(instant, age)}"
        if not instant.writes:
            why = ""
        elif instant.kind in ("compaction", "logcompaction", "clustering", "replacecommit"):
            why = "archival waits for it"
        else:
            why = "its writer has a heartbeat file" if beats else "no heartbeat file: its writer ended, or keeps none"
        if waits:
            yield Finding(Health.ATTENTION, what, why, how_to_end(instant), fix_of(instant))
        else:
            yield Finding(Health.GOOD, what, why)


def _pending_since(instant: ActiveInstant, age: datetime.timedelta | None) -> str:
    """`was requested 12 hours ago and has not run`."""
    begun = ("requested", "run") if instant.last.state == "requested" else ("begun", "ended")
    return f"was {begun[0]}{_ago(age)} and has not {begun[1]}"


def _age(time: str, zone: str) -> datetime.timedelta | None:
    """How long ago an instant was requested; None where its name is not a clock time."""
    began = clock_time(time)
    return None if began is None else clock.moment(datetime.UTC if zone == "UTC" else None) - began


def _ago(age: datetime.timedelta | None) -> str:
    if age is None or age < datetime.timedelta(0):
        return ""
    hours = int(age.total_seconds() // 3600)
    if not hours:
        return " less than an hour ago"
    return f" {counted(hours // 24, 'day')} ago" if hours >= 48 else f" {counted(hours, 'hour')} ago"


def _savepoints(report: TimelineReport) -> Iterator[Finding]:
    for savepoint in report.savepoints:
        what = f"savepoint {savepoint.instant}"
        if savepoint.missing:
            files = ", ".join(savepoint.missing[:_SHOWN])
            why = f"{len(savepoint.missing)} of its files are gone: {files}"
            yield Finding(
                Health.BROKEN, f"{what} cannot be restored", why, "Delete the savepoint, or restore the files"
            )
        elif savepoint.archived_after:
            after = counted(savepoint.archived_after, "commit after it is", "commits after it are")
            why = f"{after} archived, which no restore can take back"
            remedy = "Delete the savepoint, or read the table as of it"
            yield Finding(Health.ATTENTION, f"{what} cannot be restored", why, remedy)
        else:
            yield Finding(Health.GOOD, f"{what} can be restored")


def _archival(report: TimelineReport) -> Iterator[Finding]:
    whose = "the active timeline" if report.name == "data" else f"the {report.name} table's active timeline"
    if report.due:
        yield Finding(
            Health.ATTENTION,
            f"{counted(report.due, 'instant')} of {whose} could be archived",
            f"it has {report.size}, the oldest is {report.oldest}",
            f"lakebed archive {report.location}",
            Fix("archive") if report.name == "data" else None,
        )
    held = [blocker for blocker in report.blockers if not blocker.remedy.startswith("Nothing to do")]
    if held:
        reasons = list(dict.fromkeys(blocker.reason for blocker in held))
        more = f" and {len(reasons) - _SHOWN} more reasons" if len(reasons) > _SHOWN else ""
        yield Finding(
            Health.ATTENTION,
            f"{counted(len(held), 'old instant')} of {whose} cannot be archived",
            "; ".join(reasons[:_SHOWN]) + more,
            held[0].remedy,
        )


def _cleaning(instants: Iterable[ActiveInstant], reports: Iterable[TimelineReport]) -> Iterator[Finding]:
    done = [instant for instant in instants if instant.done]
    last = max((i.time for i in done if i.action == "clean"), default="")
    since = sum(i.writes and i.time > last for i in done)
    setting = next((report.settings[COMMITS_RETAINED.key] for report in reports if report.name == "data"), "10:")
    retained = int(setting.partition(":")[0])
    if since > 2 * retained:
        what = (
            f"no clean in the last {counted(since, 'commit')}"
            if last
            else f"{counted(since, 'commit')} and no clean in the timeline"
        )
        why = "old file versions are kept, and replace commits cannot be archived"
        yield Finding(
            Health.ATTENTION, what, why, "Clean the table: lakebed expire TABLE (Hudi: call run_clean)", Fix("expire")
        )


def _layout(splits: Iterable[HudiSplit]) -> Iterator[Finding]:
    slices = [(part, split.size) for split in splits for part in split.slices]
    heavy = [part for part, _ in slices if len(part.logs) >= MANY_LOGS]
    if heavy:
        groups = ", ".join(f"{part.partition}/{part.file_id}".lstrip("/") for part in heavy[:_SHOWN])
        why = f"each read merges them: {groups}"
        remedy = "Compact the table: lakebed rewrite TABLE (Hudi: call run_compaction)"
        fix = Fix("rewrite", (("lakebed.rewrite.what", "compaction"),))
        has = counted(len(heavy), "file group has", "file groups have")
        yield Finding(Health.ATTENTION, f"{has} {MANY_LOGS} or more log files", why, remedy, fix)
    skeletons = [f"{part.partition}/{part.file_id}".lstrip("/") for part, _ in slices if part.is_skeleton]
    if skeletons:
        of = "of a METADATA_ONLY bootstrap"
        held = counted(len(skeletons), f"file group {of} holds", f"file groups {of} hold")
        what = f"{held} the meta columns alone"
        why = f"lakebed does not read the source files with the other columns: {', '.join(skeletons[:_SHOWN])}"
        yield Finding(Health.ATTENTION, what, why, "Rewrite them with Hudi's own engine (an upsert, run_compaction)")
    small: dict[str, int] = {}
    for part, size in slices:
        if size < SMALL_BYTES:
            small[part.partition] = small.get(part.partition, 0) + 1
    many = sorted(name for name, count in small.items() if count >= MANY_SMALL)
    if many:
        partitions = ", ".join(name or "the table's root" for name in many[:_SHOWN])
        has = counted(len(many), "partition has", "partitions have")
        what = f"{has} {MANY_SMALL} or more file groups below {SMALL_BYTES >> 20} MB"
        remedy = "Cluster them (Hudi: call run_clustering), or write with fewer, larger file groups"
        yield Finding(
            Health.ATTENTION, what, partitions, remedy, Fix("rewrite", (("lakebed.rewrite.what", "clustering"),))
        )


def _legacy(report: TimelineReport) -> Iterator[Finding]:
    if report.legacy:
        why = "readers need them" if report.legacy_needed else "an upgrade copied them, and readers no longer need them"
        remedy = "" if report.legacy_needed else f"Remove {', '.join(report.legacy[:_SHOWN])} when you like"
        yield Finding(
            Health.GOOD,
            f"{counted(len(report.legacy), 'archive file lies', 'archive files lie')} in an older folder",
            why,
            remedy,
        )


def _leftovers(markers: Iterable[str], is_locked: bool, instants: Iterable[ActiveInstant]) -> Iterator[Finding]:
    pending = {instant.time for instant in instants if not instant.done}
    left = [time for time in markers if time not in pending and time[:1].isdigit()]
    if left:
        why = f"of instants that are not pending: {', '.join(left[:_SHOWN])}"
        yield Finding(
            Health.GOOD,
            f"{counted(len(left), 'marker folder is', 'marker folders are')} left",
            why,
            f"The next archival removes them, or {_FAILED}",
            Fix("expire", (("lakebed.expire.what", "failed-writes"),)),
        )
    if is_locked:
        why = "a writer or archiver is at work, or it died"
        yield Finding(
            Health.GOOD, f"the lock file {HOODIE}/lock is there", why, "If nobody is at work, remove it by hand"
        )


def _named(report: TimelineReport) -> Iterator[Blocker]:
    """The blockers of a timeline; those of the metadata table's timeline say so."""
    for blocker in report.blockers:
        if report.name == "data":
            yield blocker
        else:
            yield Blocker(blocker.instant, f"{report.name} table: {blocker.reason}", blocker.remedy)
