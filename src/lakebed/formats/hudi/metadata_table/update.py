"""Keep a table's metadata table right in the commit that changes the table's files.

Rules: Hudi's `HoodieBackedTableMetadataWriter.update`. Readers and writers use those parts of the metadata table that
the property `hoodie.table.metadata.partitions` names. Each part that lakebed keeps gets the change as a delta commit of
the same instant, which is completed before the table's own: readers take from it only what the table completed. A part
that is not kept is taken out of that property before the commit completes, so no engine trusts what it says of a table
that moved on. In table version 6 all others go with it: while an instant is pending, Hudi's own writers add nothing to
a metadata table that lacks a part which they are told to have, and their readers go on with it
(`HoodieBackedTableMetadataWriterTableVersionSix.initializeIfNeeded`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from lakebed.formats.hudi.config import TableConfig, load_config
from lakebed.formats.hudi.metadata_table.bootstrap import build, can_build, walked_files
from lakebed.formats.hudi.metadata_table.change import MetadataChange
from lakebed.formats.hudi.metadata_table.compact import look_after
from lakebed.formats.hudi.metadata_table.definitions import forget_definitions
from lakebed.formats.hudi.metadata_table.grouped import NotKeptError
from lakebed.formats.hudi.metadata_table.named import INFLIGHT, PARTITIONS, partitions_of
from lakebed.formats.hudi.metadata_table.opened import UNUSABLE
from lakebed.formats.hudi.metadata_table.options import COMPACT_AFTER, METADATA_ENABLE
from lakebed.formats.hudi.metadata_table.parts import PARTS
from lakebed.formats.hudi.metadata_table.records import FILES, GroupRecords, Sizes
from lakebed.formats.hudi.metadata_table.statistics import COLUMN_STATS, PARTITION_STATS
from lakebed.formats.hudi.metadata_table.target import Target
from lakebed.formats.hudi.metadata_table.turn import Turn
from lakebed.formats.hudi.metadata_table.undo import settle, take_back, unfold
from lakebed.formats.hudi.metadata_table.write import delta_commit
from lakebed.formats.hudi.timeline.active import Timeline
from lakebed.formats.hudi.timeline.properties import update_properties
from lakebed.formats.hudi.timeline.writing import list_timeline
from lakebed.kernel.files import Store
from lakebed.kernel.options import Options

_CUT_OFF = "a restore of it was cut off, and no engine writes it until that ends; the next write builds it again"


class Indexed(Protocol):
    """The parts of a changed table that an update of the metadata table needs."""

    @property
    def store(self) -> Store:
        """The table's files."""

    @property
    def config(self) -> TableConfig:
        """The table's settings."""

    @property
    def options(self) -> Options:
        """The options of the write, with those of the metadata table among them."""


def update(table: Indexed, instant: str, change: MetadataChange) -> tuple[str, ...]:
    """Bring the metadata table to the state after an instant. Notes about what is no longer maintained.

    Call it under the table's lock, before the completed file of the instant is put: readers take from the metadata
    table only what the table's own timeline completed.
    """
    config = load_config(table.store)
    named, building = partitions_of(config, PARTITIONS), partitions_of(config, INFLIGHT)
    if not named and not building:
        return ()
    kept = tuple(name for name in named if name in PARTS and name not in building)
    partly = not config.completion_times and len(kept) < len(named)
    if not table.options[METADATA_ENABLE] or FILES not in kept or partly:
        return _leave(table.store, named)
    notes = _leave(table.store, named, kept) if len(kept) < len(named) or building else ()
    try:
        target = Target.open(table.store, config, kept)
        if any(entry.action == "restore" and not entry.done for entry in target.timeline.entries):
            return (*notes, *_leave(table.store, kept, why=_CUT_OFF))
        settle(target, bool(building))
        notes += _write(target, instant, change, table.options[COMPACT_AFTER])
    except UNUSABLE as error:
        return (*notes, *_leave(table.store, kept, why=f"it cannot be used: {error}"))
    return notes


def _write(target: Target, instant: str, change: MetadataChange, compact_after: int) -> tuple[str, ...]:
    before = target.timeline.by_time.get(instant)
    if before is not None:  # an attempt at the same instant that did not complete
        take_back(target, before)
    if change.undone and _undo(target, instant, change):
        if not change.added and target.config.completion_times:
            return ()
        change = replace(change, undone=())
    look_after(target, compact_after, instant)
    records: list[GroupRecords] = []
    unkept: dict[str, str] = {}
    for part in target.listed:
        try:
            records += PARTS[part].records(target, instant, change)
        except NotKeptError as error:
            unkept[part] = error.what
    if COLUMN_STATS in unkept and PARTITION_STATS in target.listed:
        unkept[PARTITION_STATS] = unkept[COLUMN_STATS]
    delta_commit(target, instant, records)
    if not unkept:
        return ()
    left = tuple(part for part in target.listed if part not in unkept) if target.config.completion_times else ()
    return _leave(target.outer, tuple(target.listed), left, "; ".join(dict.fromkeys(unkept.values())))


def _undo(target: Target, instant: str, change: MetadataChange) -> bool:
    """Take back the delta commits of the instants that the change takes back. Whether nothing is left of them: what
    a compaction has put into base files stays, and needs records of what is gone."""
    whole = True
    restoring = any(entry.action == "restore" and not entry.done for entry in target.data.entries)
    unfold(target, min(change.undone))
    for time in change.undone:
        last = max((e.time for e in target.timeline.commits if e.action == "commit"), default="")
        entry = target.timeline.by_time.get(time)
        if entry is None:
            whole = whole and not restoring  # what it did was there when the metadata table was built, or is archived
        elif not entry.done or target.completed(time) > last:
            alone = len(change.undone) == 1 and not change.added
            take_back(target, entry, instant if alone or not target.config.completion_times else "")
        else:
            whole = False
    return whole


def _leave(store: Store, named: tuple[str, ...], kept: tuple[str, ...] = (), why: str = "") -> tuple[str, ...]:
    """Let the table's properties name only the parts that are `kept`, and no index be defined that a user made and that
    is not among them."""
    before = load_config(store)
    gone = [name for name in named if name not in kept]
    users = [name for name in (*gone, *partitions_of(before, INFLIGHT)) if name not in PARTS]
    if users and before.completion_times:
        forget_definitions(store, before, users)
    update_properties(store, {PARTITIONS: ",".join(sorted(kept)), INFLIGHT: ""})
    if not gone:
        return ()
    why = why or (
        "lakebed does not maintain it; Hudi's own writers build it again with hoodie.metadata.enable=true, and the "
        "index of a user with CREATE INDEX"
    )
    return (f"the metadata table is no longer used ({', '.join(gone)}): {why}",)


def needs_building(table: Indexed) -> bool:
    """Whether a write is to build the metadata table of a table, which has none."""
    return table.options[METADATA_ENABLE] and FILES not in partitions_of(table.config, PARTITIONS)


def walked(table: Indexed) -> tuple[Timeline, dict[str, Sizes]] | None:
    """The table's files as one walk finds them, with the timeline before it. None where instants are pending, so that
    nothing can be built now."""
    timeline = list_timeline(table.store, table.config)
    if not _can_build(table.config, timeline):
        return None
    return timeline, walked_files(table.store, bool(table.config.partition_fields)) if timeline.entries else {}


def _can_build(config: TableConfig, timeline: Timeline) -> bool:
    """Whether a part can be built now. In table version 6 no instant may be pending."""
    return can_build(timeline) and (config.completion_times or all(entry.done for entry in timeline.entries))


def build_from(
    table: Indexed, timeline: Timeline, before: Timeline, files: dict[str, Sizes], turn: Turn
) -> TableConfig:
    """Build the metadata table, unless the table changed since `before`, or an instant is pending: then a later write
    does. The `turn` is the table's lock. The table's settings after that. CommitConflictError where the turn ends."""
    config = load_config(table.store)
    built = FILES in partitions_of(config, PARTITIONS)
    if built or not _can_build(config, timeline) or timeline.entries != before.entries:
        return config
    return build(table.store, config, timeline, files, turn)
