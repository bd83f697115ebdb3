"""Savepoints: completed commits whose files cleans leave alone, each under a name.

    <instant>.savepoint.inflight (empty) -> <instant>.savepoint (the names of the files, who made it, and a comment)

Hudi knows a savepoint by its commit's instant. The comment holds the name that it has here, so a table's tags are found
again, also by people who look at them with Hudi. The instant's own text names a savepoint too.

Rules: Hudi's `SavepointActionExecutor` and `SavepointHelpers`. Hudi refuses a commit from before the earliest one that
the newest clean retained. Here a clean that is under way is held against the files themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from lakebed.errors import (
    CommitConflictError,
    CommitUnknownError,
    DataCleanedError,
    LakebedError,
    UnsupportedError,
    UsageError,
)
from lakebed.formats.hudi.codec.plans import (
    CleanerPlan,
    SavepointMetadata,
    SavepointPartitionMetadata,
    decode,
    encode,
)
from lakebed.formats.hudi.commit.completion import complete_once
from lakebed.formats.hudi.commit.context import WriteContext
from lakebed.formats.hudi.commit.exclusive import StillHeld
from lakebed.formats.hudi.commit.restore import refuse_restored
from lakebed.formats.hudi.config import TableConfig
from lakebed.formats.hudi.timeline.active import Entry, Timeline
from lakebed.formats.hudi.timeline.savepoint_names import find_savepoint, savepoint_names
from lakebed.formats.hudi.timeline.writing import (
    completed_file,
    inflight,
    inflight_file,
    list_timeline,
    new_instant,
)
from lakebed.kernel import clock
from lakebed.kernel.decoding import decoding
from lakebed.kernel.files import Store

_ACTION = "savepoint"
_BY = "lakebed"
_OLDEST = 6
"""The oldest table version that lakebed writes to."""


def refuse_lifetime(time_retained: object, table: str) -> None:
    """Raise UsageError where a savepoint is to live for a time: it has no place for that."""
    if time_retained is not None:
        raise UsageError("a Hudi savepoint has no time to live", table=table, todo="Delete it when it is due")


def make_savepoint(
    context: WriteContext, seen: Timeline, entry: Entry, name: str, files: Mapping[str, tuple[str, ...]]
) -> None:
    """Keep a commit's files, which are names by partition, under a name.

    `seen` is the timeline by which the files were found. Raises UsageError for a name or a commit that is in use,
    DataCleanedError where a clean that is under way takes the files, CommitConflictError where a clean began since.
    """
    store, config = context.store, context.config
    check_version(store, config)
    if name.isdigit() and name != entry.time:
        raise UsageError(
            f"{name!r} cannot name a tag", table=store.location, todo="Use letters: a number names an instant"
        )
    with context.locked(chooses=True) as held:
        timeline = list_timeline(store, config)
        refuse_restored(store, seen, timeline, "the tag")
        if timeline.by_time.get(entry.time) != entry or _cleans(timeline) != _cleans(seen):
            raise CommitConflictError(
                "the commit was taken back, or a clean ran, while its files were looked at",
                table=store.location,
                instant=entry.time,
                todo="Make the tag again",
            )
        _check_free(store, timeline, entry, name)
        check_cleans(store, timeline, entry, files)
        metadata = SavepointMetadata(
            savepointed_by=_BY,
            savepointed_at=clock.now_ms(),
            comments=name,
            partition_metadata={
                partition: SavepointPartitionMetadata(partition_path=partition, savepoint_data_file=names)
                for partition, names in files.items()
            },
        )
        held()
        inflight(store, config, entry.time, _ACTION)
        completed = new_instant(config, timeline)
        complete_once(store, config, entry.time, completed, _ACTION, encode(metadata), held)
        _check_kept(context, held, timeline, completed_file(config, entry.time, completed, _ACTION), entry)


def _check_kept(context: WriteContext, held: StillHeld, before: Timeline, file: str, entry: Entry) -> None:
    """CommitConflictError where the lock was lost before the savepoint was there, and a clean or a restore that came
    meanwhile may have taken its files. The savepoint goes again; CommitUnknownError where that cannot be done."""
    try:
        held()
    except CommitConflictError as late:
        store = context.store
        try:
            now = list_timeline(store, context.config)
            if _cleans(now) == _cleans(before) and now.by_time.get(entry.time) == entry:
                return
            store.delete(file)
        except (LakebedError, OSError) as error:
            raise CommitUnknownError(
                "it is not known whether a clean has taken files of the tag",
                table=store.location,
                instant=entry.time,
                file=file,
                todo="Delete the tag, and make it again",
            ) from error
        raise CommitConflictError(
            "the commit was taken back, or a clean ran, while the tag was made",
            table=store.location,
            instant=entry.time,
            todo="Make the tag again",
        ) from late


def remove_savepoint(context: WriteContext, name: str) -> None:
    """Let the files of a savepoint go with the next clean. NotInHistoryError where there is none of that name.

    The completed file goes last, so a removal that was cut off can be run again.
    """
    store, config = context.store, context.config
    check_version(store, config)
    with context.locked() as held:
        timeline = list_timeline(store, config)
        instant = find_savepoint(store, timeline, name)
        entry = next(e for e in timeline.entries if e.action == _ACTION and e.time == instant)
        held()
        store.delete_in_order([inflight_file(config, instant, _ACTION), entry.file])


def check_version(store: Store, config: TableConfig) -> None:
    """UnsupportedError for a table that is too old for lakebed to change it."""
    if config.version < _OLDEST:
        raise UnsupportedError(
            f"lakebed does not change tables of version {config.version}",
            table=store.location,
            todo="Upgrade the table with Hudi's own engine",
        )


def _check_free(store: Store, timeline: Timeline, entry: Entry, name: str) -> None:
    names = savepoint_names(store, timeline)
    if name in names:
        raise UsageError(f"there is already a tag {name!r}", table=store.location, todo="Delete it first")
    taken = next((other for other, instant in names.items() if instant == entry.time), None)
    if taken is not None or entry.time in timeline.savepointed:
        raise UsageError(
            f"the commit {entry.time} has the tag {taken or entry.time!r}",
            table=store.location,
            why="Hudi keeps one savepoint for each commit",
            todo=f"Use that tag, or delete it first, or tag another commit than {entry.time}",
        )


def _cleans(timeline: Timeline) -> list[Entry]:
    return [entry for entry in timeline.entries if entry.action == "clean"]


def check_cleans(store: Store, timeline: Timeline, entry: Entry, files: Mapping[str, Collection[str]]) -> None:
    """DataCleanedError where a clean that has begun deletes one of the files."""
    for clean in _cleans(timeline):
        if clean.done or not clean.requested:
            continue
        todo = "Run the clean to its end, then tag a later commit"
        with decoding("the plan of a clean cannot be read", table=store.location, file=clean.requested, todo=todo):
            plan = decode(CleanerPlan, store.read(clean.requested))
        going = {
            (partition, str(info.file_path or "").rpartition("/")[2])
            for partition, infos in (plan.file_paths_to_be_deleted_per_partition or {}).items()
            for info in infos
        }
        for partition, paths in (plan.files_to_be_deleted_per_partition or {}).items():
            going |= {(partition, path.rpartition("/")[2]) for path in paths}
        lost = sorted(going & {(partition, name) for partition, names in files.items() for name in names})
        if lost:
            raise DataCleanedError(
                f"the clean {clean.time} takes a file of this commit",
                table=store.location,
                instant=entry.time,
                file="/".join(lost[0]).lstrip("/"),
                todo=todo,
            )
