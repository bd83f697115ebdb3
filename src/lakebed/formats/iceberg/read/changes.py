"""The changes between two snapshots: what has to be taken away and added to come from the rows of one to those of the
other.

Files that only one of the snapshots has, and files whose deletes differ, are what changed; what copy-on-write or a
rewrite carried over from a removed file into an added one is no change (the reference engine's changelog takes it out
the same way). Where format version 3 gives rows ids, a row that is there before and after is an update, -U and +U; else
it is -D and +I. What came and went again between the two snapshots does not show.

Files of one partition are compared with each other, their removed rows first; files of several specs together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import NotInHistoryError
from lakebed.formats.iceberg.codec.manifest import COLUMNS
from lakebed.formats.iceberg.codec.manifest_list import ManifestFile
from lakebed.formats.iceberg.codec.metadata import Snapshot, TableMetadata
from lakebed.formats.iceberg.codec.schema import arrow_schema
from lakebed.formats.iceberg.data_files import DeleteFile, FileTask, delete_files, partition_key
from lakebed.formats.iceberg.delete_index import DeleteIndex
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.manifests import iter_entries, manifests_of
from lakebed.formats.iceberg.read.context import ReadContext
from lakebed.formats.iceberg.read.matching import carried_over, row_numbers
from lakebed.formats.iceberg.read.plan import BySpec, chosen_entries, kept_manifests, unpartitioned
from lakebed.formats.iceberg.read.pruning import Pruning
from lakebed.formats.iceberg.read.task import live_positions, read_task
from lakebed.formats.iceberg.snapshot import Position, ancestors, milliseconds, snapshot_at
from lakebed.kernel.arrays import Bools, Int64s, Objects
from lakebed.kernel.predicates.where import keep
from lakebed.model.rowkind import ROW_KIND_FIELD, RowKind
from lakebed.model.split import Split
from lakebed.verbs.read import ReadPlan, filtered

_INSERT, _BEFORE, _AFTER, _DELETE = (kind.short for kind in RowKind)
_EXPANSION = 8
"""Bytes of memory that a byte of a data file is taken to need, at most."""


@dataclass(frozen=True, slots=True)
class Side:
    """Rows of a data file that one snapshot has: all that live in it, or with `other` those that no longer live where
    the file has these other deletes."""

    task: FileTask
    other: FileTask | None = None


@dataclass(frozen=True, slots=True)
class ChangeSplit(Split):
    """Rows taken away and rows added, which may be the same rows."""

    removed: tuple[Side, ...] = ()
    added: tuple[Side, ...] = ()


def plan_difference(
    files: Files, metadata: TableMetadata, before: Snapshot | None, after: Snapshot | None, context: ReadContext,
    columns: Sequence[str] | None, predicate: pc.Expression | None,
) -> ReadPlan[ChangeSplit]:  # fmt: skip
    """The changes that lead from the rows of one snapshot to those of another; None has no rows."""
    fields = context.columns(columns)
    names = tuple(field.name for field in fields)
    schema = arrow_schema(fields).append(ROW_KIND_FIELD)
    pruning = Pruning.of(predicate, context.schema)
    splits: tuple[ChangeSplit, ...] = ()
    if before is None or after is None or before.snapshot_id != after.snapshot_id:
        splits = tuple(_splits(*_sides(files, metadata, before, after, pruning)))
    return ReadPlan(schema, splits, ChangeReader(files, context, names, predicate))


def range_of(
    metadata: TableMetadata, after: Position, until: Position, branch: str
) -> tuple[Snapshot | None, Snapshot | None]:
    """The snapshots between which the changes in (after, until] lie; `after` None, or a time before the first snapshot,
    is the empty table.

    NotInHistoryError where a snapshot is expired, unknown, or `after` is on another line of history.
    """
    end = snapshot_at(metadata, until, branch)
    if after is None or end is None:
        return (None if after is None else snapshot_at(metadata, after, branch)), end
    line = list(ancestors(metadata, end))
    try:
        start = snapshot_at(metadata, after, branch)
    except NotInHistoryError:
        if not _is_before(metadata, after, line[-1]):
            raise
        return None, end
    if start is None or any(snapshot.snapshot_id == start.snapshot_id for snapshot in line):
        return start, end
    if any(snapshot.snapshot_id == end.snapshot_id for snapshot in ancestors(metadata, start)):
        return end, end
    cut = line[-1].parent_id is not None and start.timestamp_ms <= line[-1].timestamp_ms
    if not cut:
        raise NotInHistoryError(
            f"snapshot {start.snapshot_id} is no ancestor of {end.snapshot_id}", table=metadata.location,
            instant=str(start.snapshot_id), why="it is on another branch, or was rolled back",
            todo="Start from a snapshot of the same line of history",
        )  # fmt: skip
    return start, end


def _is_before(metadata: TableMetadata, after: Position, first: Snapshot) -> bool:
    """Whether a position is a time before a snapshot that has no parent."""
    if not isinstance(after, str) or after.isdigit() or after.startswith(("tag:", "branch:")):
        return False
    return first.parent_id is None and milliseconds(after, metadata.location) < first.timestamp_ms


# ---- planning --------------------------------------------------------------------------------------------------------


def _sides(
    files: Files, metadata: TableMetadata, before: Snapshot | None, after: Snapshot | None, pruning: Pruning
) -> tuple[list[Side], list[Side]]:
    """The files whose rows are taken away and added."""
    old, new = (_Version.of(files, metadata, snapshot, pruning) for snapshot in (before, after))
    same_deletes = old.deletes == new.deletes
    shared = {m.path for m in old.manifests} & {m.path for m in new.manifests} if same_deletes else set()
    was, now = (version.tasks(shared) for version in (old, new))
    removed = [Side(task) for path, task in was.items() if path not in now]
    added = [Side(task) for path, task in now.items() if path not in was]
    if not same_deletes:
        for path in was.keys() & now.keys():
            if _names(was[path].deletes) != _names(now[path].deletes):
                removed.append(Side(was[path], now[path]))
                if not _names(was[path].deletes) <= _names(now[path].deletes):
                    added.append(Side(now[path], was[path]))
    return removed, added


def _names(deletes: Sequence[DeleteFile]) -> set[tuple[str, int | None]]:
    return {(delete.path, delete.content_offset) for delete in deletes}


@dataclass(frozen=True, slots=True)
class _Version:
    """A snapshot's manifests of data files, and its deletes."""

    files: Files
    metadata: TableMetadata
    pruning: Pruning
    data: BySpec
    deletes: Mapping[tuple[str, int | None], DeleteFile]

    @classmethod
    def of(
        cls, files: Files, metadata: TableMetadata, snapshot: Snapshot | None, pruning: Pruning
    ) -> _Version:  # fmt: skip
        found = manifests_of(files, metadata, snapshot) if snapshot is not None else []
        data, deletes = kept_manifests(metadata, found, pruning)
        known = {}
        for some in deletes.values():
            for entries in iter_entries(files, metadata, some, (*COLUMNS, "lower_bounds", "upper_bounds")):
                known.update({(d.path, d.content_offset): replace(d, metrics=None) for d in delete_files(entries)})
        return cls(files, metadata, pruning, data, known)

    @property
    def manifests(self) -> list[ManifestFile]:
        return [manifest for some in self.data.values() for manifest in some]

    def tasks(self, without: set[str]) -> dict[str, FileTask]:
        """The data files, but of some manifests, each with its deletes, by path."""
        index = DeleteIndex(self.deletes.values(), unpartitioned(self.metadata))
        found: dict[str, FileTask] = {}
        for spec_id, some in self.data.items():
            wanted = [manifest for manifest in some if manifest.path not in without]
            spec = self.metadata.specs[spec_id]
            for entries in chosen_entries(self.files, self.metadata, wanted, spec, self.pruning):
                found.update((task.data.path, task) for task in index.tasks(entries))
        return found


def _splits(removed: Sequence[Side], added: Sequence[Side]) -> Iterator[ChangeSplit]:
    """Files that must be compared with each other are one split; each other file is one of its own."""
    together = len({side.task.data.spec_id for side in (*removed, *added)}) > 1
    units: dict[object, tuple[list[Side], list[Side]]] = {}
    for number, sides in enumerate((removed, added)):
        for side in sides:
            place = None if together else partition_key(side.task.data.partition)
            units.setdefault(place, ([], []))[number].append(side)
    for gone, come in units.values():
        if gone and come:
            yield ChangeSplit(gone[0].task.data.path, _size(gone) + _size(come), tuple(gone), tuple(come))
            continue
        for side in gone:
            yield ChangeSplit(side.task.data.path, side.task.data.size, removed=(side,))
        for side in come:
            yield ChangeSplit(side.task.data.path, side.task.data.size, added=(side,))


def _size(sides: Sequence[Side]) -> int:
    return sum(side.task.data.size for side in sides)


# ---- reading ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChangeReader:
    """Reads splits: the picklable function of a plan."""

    files: Files
    context: ReadContext
    columns: tuple[str, ...]
    predicate: pc.Expression | None

    def __call__(self, split: ChangeSplit) -> Iterator[pa.RecordBatch]:
        """The changes of one split."""
        if not split.removed or not split.added:
            kind, sides = (_INSERT, split.added) if split.added else (_DELETE, split.removed)
            for side in sides:
                for batch in self._rows(side, self.columns, self.predicate):
                    yield _of_kind(batch, kind)
            return
        ids = [self._row_ids(sides) for sides in (split.removed, split.added)]
        if ids[0] is not None and ids[1] is not None:
            yield from self._by_id(split, ids[0], ids[1])
        else:
            yield from self._by_value(split)

    def _rows(
        self, side: Side, columns: Sequence[str], predicate: pc.Expression | None = None, lineage: bool = False
    ) -> Iterator[pa.RecordBatch]:
        only = None
        if side.other is not None:
            live, still = (live_positions(self.files, self.context, task) for task in (side.task, side.other))
            only = np.setdiff1d(live, still, assume_unique=True)
            if not len(only):
                return
        yield from read_task(
            self.files, self.context, side.task, columns, lineage=lineage, predicate=predicate, only=only
        )

    # ---- rows with ids ----

    def _row_ids(self, sides: Sequence[Side]) -> Int64s | None:
        """The ids and last changes of the rows in their order, as two columns; None where rows have no ids."""
        if any(side.task.data.first_row_id is None for side in sides):
            return None
        found = [np.empty((0, 2), np.int64)]
        for side in sides:
            for batch in self._rows(side, (), lineage=True):
                if batch.column(0).null_count or batch.column(1).null_count:
                    return None
                found.append(np.column_stack([column.to_numpy() for column in batch.columns]))
        return np.concatenate(found)

    def _by_id(self, split: ChangeSplit, old: Int64s, new: Int64s) -> Iterator[pa.RecordBatch]:
        """A row with the same id and last change was carried over; with another last change it was updated."""
        for sides, mine, others, alone, both in (
            (split.removed, old, new, _DELETE, _BEFORE),
            (split.added, new, old, _INSERT, _AFTER),
        ):
            changes = _last_changes(mine[:, 0], others)
            kinds = np.where(changes < 0, alone, both).astype(object)
            wanted = changes != mine[:, 1]
            yield from self._emitted(sides, wanted, kinds)

    def _emitted(self, sides: Sequence[Side], wanted: Bools, kinds: Objects) -> Iterator[pa.RecordBatch]:
        """The rows of some sides that are wanted, each with its kind."""
        needed = tuple(dict.fromkeys([*self.columns, *self.context.names]))
        names = needed if self.predicate is not None else self.columns
        start = 0
        for side in sides:
            for batch in self._rows(side, names, lineage=True):
                here = slice(start, start + len(batch))
                start = here.stop
                if not wanted[here].any():
                    continue
                batch = batch.select(names).append_column(ROW_KIND_FIELD, pa.array(kinds[here], pa.string()))
                batch = batch.filter(pa.array(wanted[here]))
                kept = batch if self.predicate is None else keep(batch, self.predicate)
                yield from filtered(iter([kept]), None, [*self.columns, ROW_KIND_FIELD.name])

    # ---- rows without ids ----

    def _by_value(self, split: ChangeSplit) -> Iterator[pa.RecordBatch]:
        """Rows that are the same before and after were carried over. A part of the rows at a time is compared, those
        whose values make some numbers; all removed rows come before the first added one."""
        parts = 1 + split.size * _EXPANSION // max(self.context.delete_memory, 1)
        kept: tuple[pa.Table, ...] = ()
        for number, kind in enumerate((_DELETE, _INSERT)):
            for part in range(parts):
                if parts > 1 or number == 0:
                    tables = [self._part(sides, part, parts) for sides in (split.removed, split.added)]
                    same = carried_over(*(table.select(list(self.context.names)) for table in tables))
                    kept = tuple(t.filter(pa.array(~m)) for t, m in zip(tables, same, strict=True))
                for batch in kept[number].select(list(self.columns)).to_batches():
                    if len(batch):
                        yield _of_kind(batch, kind)

    def _part(self, sides: Sequence[Side], part: int, parts: int) -> pa.Table:
        names = tuple(dict.fromkeys([*self.columns, *self.context.names]))
        batches = []
        for side in sides:
            for batch in self._rows(side, names, self.predicate):
                if parts > 1:
                    chosen = row_numbers(batch) % np.uint64(parts) == part
                    batch = batch.filter(pa.array(chosen))
                batches.append(batch)
        return pa.Table.from_batches(batches, arrow_schema(self.context.columns(names)))


def _last_changes(ids: Int64s, others: Int64s) -> Int64s:
    """The last change that each row has on the other side, -1 where it is not there."""
    if not len(others):
        return np.full(len(ids), -1, np.int64)
    order = np.argsort(others[:, 0], kind="stable")
    there = others[order]
    place = np.minimum(np.searchsorted(there[:, 0], ids), len(there) - 1)
    return np.where(there[place, 0] == ids, there[place, 1], -1)


def _of_kind(batch: pa.RecordBatch, kind: str) -> pa.RecordBatch:
    return batch.append_column(ROW_KIND_FIELD, pa.repeat(pa.scalar(kind), len(batch)))
