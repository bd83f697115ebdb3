"""The changes between two snapshots: the rows to remove and to add to get from one snapshot to the other.

The rows of files that only one of the snapshots has, and of files whose deletes differ, may have changed. A row that
copy-on-write or a rewrite carried over from a removed file into an added one did not change (the reference engine's
changelog removes such rows the same way). `read/change_task.py` compares the rows. A row that was added and removed
again between the two snapshots does not appear.

The files of one partition are compared with each other. When they have several specs, all files are compared together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lakebed.errors import NotInHistoryError
from lakebed.formats.iceberg.codec.manifest import COLUMNS
from lakebed.formats.iceberg.codec.manifest_list import ManifestFile
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.codec.schema import arrow_schema
from lakebed.formats.iceberg.codec.snapshots import Snapshot
from lakebed.formats.iceberg.data_files import DeleteFile, FileTask, delete_files, partition_key
from lakebed.formats.iceberg.delete_index import DeleteIndex
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.manifests import iter_entries, lists_ahead, manifests_ahead, manifests_of
from lakebed.formats.iceberg.read.change_task import ChangeReader
from lakebed.formats.iceberg.read.context import ReadRequest
from lakebed.formats.iceberg.read.plan import BySpec, chosen_entries, kept_manifests, unpartitioned
from lakebed.formats.iceberg.read.pruning import Pruning
from lakebed.formats.iceberg.read.split import ChangeSplit, Side
from lakebed.formats.iceberg.snapshot import Position, ancestors, milliseconds, snapshot_at
from lakebed.kernel.predicates.where import unread_parts
from lakebed.model.rowkind import ROW_KIND_FIELD
from lakebed.verbs.read import ReadPlan


def plan_difference(
    files: Files, metadata: TableMetadata, before: Snapshot | None, after: Snapshot | None, request: ReadRequest
) -> ReadPlan[ChangeSplit]:
    """Plan a read of the changes that lead from the rows of one snapshot to the rows of another; None has no rows."""
    fields = request.context.columns(request.columns)
    schema = arrow_schema(fields).append(ROW_KIND_FIELD)
    pruning = Pruning(request.predicate, request.context.schema)
    splits: tuple[ChangeSplit, ...] = ()
    if before is None or after is None or before.snapshot_id != after.snapshot_id:
        splits = tuple(_splits(*_sides(files, metadata, before, after, pruning)))
    names = tuple(field.name for field in fields)
    reader = ChangeReader(files, request.context, names, request.predicate)
    home = files.home
    return ReadPlan(schema, splits, reader, unread_parts(request.predicate), home.at_once, home.in_flight)


def range_of(
    metadata: TableMetadata, after: Position, until: Position, branch: str
) -> tuple[Snapshot | None, Snapshot | None]:
    """The two snapshots whose difference is the changes in (after, until].

    When `after` is None or a time before the first snapshot, the changes start from the empty table. NotInHistoryError
    when a snapshot is expired or unknown, or `after` is on another line of history.
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
            f"snapshot {start.snapshot_id} is not an ancestor of {end.snapshot_id}",
            table=metadata.location,
            instant=str(start.snapshot_id),
            why="it is on another branch, or was rolled back",
            todo="Start from a snapshot of the same line of history",
        )
    return start, end


def _is_before(metadata: TableMetadata, after: Position, first: Snapshot) -> bool:
    """Whether a position is a time before the first snapshot of a table, which has no parent."""
    if not isinstance(after, str) or after.isdigit() or after.startswith(("tag:", "branch:")):
        return False
    return first.parent_id is None and milliseconds(after, metadata.location) < first.timestamp_ms


# ---- planning --------------------------------------------------------------------------------------------------------


def _sides(
    files: Files, metadata: TableMetadata, before: Snapshot | None, after: Snapshot | None, pruning: Pruning
) -> tuple[list[Side], list[Side]]:
    """The files with removed rows, and those with added rows."""
    files = lists_ahead(files, (before, after))
    kept = [
        kept_manifests(metadata, manifests_of(files, metadata, snapshot) if snapshot is not None else [], pruning)
        for snapshot in (before, after)
    ]
    files = manifests_ahead(files, _likely_read(*kept))
    old, new = (_Version.of(files, metadata, pruning, *manifests) for manifests in kept)
    same_deletes = old.deletes == new.deletes
    shared = {m.path for m in old.manifests} & {m.path for m in new.manifests} if same_deletes else set()
    old_tasks, new_tasks = (version.tasks(excluding=shared) for version in (old, new))
    removed = [Side(task) for path, task in old_tasks.items() if path not in new_tasks]
    added = [Side(task) for path, task in new_tasks.items() if path not in old_tasks]
    if not same_deletes:
        for path in old_tasks.keys() & new_tasks.keys():
            old_task, new_task = old_tasks[path], new_tasks[path]
            old_deletes, new_deletes = _identities(old_task.deletes), _identities(new_task.deletes)
            if old_deletes != new_deletes:
                removed.append(Side(old_task, new_task))
                if not old_deletes <= new_deletes:
                    added.append(Side(new_task, old_task))
    return removed, added


def _likely_read(old: tuple[BySpec, BySpec], new: tuple[BySpec, BySpec]) -> Iterator[ManifestFile]:
    """The manifests of two snapshots that `_sides` reads: those that only one of them has, and all where their deletes
    differ. Which deletes differ is known for certain only after the manifests of deletes were read."""
    (old_data, old_deletes), (new_data, new_deletes) = ([_by_path(of_spec) for of_spec in kept] for kept in (old, new))
    yield from (old_deletes | new_deletes).values()
    shared = old_data.keys() & new_data.keys() if old_deletes.keys() == new_deletes.keys() else set()
    yield from (manifest for path, manifest in (old_data | new_data).items() if path not in shared)


def _by_path(manifests: BySpec) -> dict[str, ManifestFile]:
    return {manifest.path: manifest for of_spec in manifests.values() for manifest in of_spec}


def _identities(deletes: Sequence[DeleteFile]) -> set[_DeleteId]:
    return {_identity(delete) for delete in deletes}


_DeleteId = tuple[str, int | None]
"""The path of a delete file, and the offset of a deletion vector in it."""


def _identity(delete: DeleteFile) -> _DeleteId:
    return delete.path, delete.content_offset


@dataclass(frozen=True, slots=True)
class _Version:
    """One of the two snapshots of a range: its manifests of data files, and its deletes."""

    files: Files
    metadata: TableMetadata
    pruning: Pruning
    data: BySpec
    deletes: Mapping[_DeleteId, DeleteFile]

    @classmethod
    def of(
        cls, files: Files, metadata: TableMetadata, pruning: Pruning, data: BySpec, delete_manifests: BySpec
    ) -> _Version:
        deletes = {}
        for of_spec in delete_manifests.values():
            for entries in iter_entries(files, metadata, of_spec, (*COLUMNS, "lower_bounds", "upper_bounds")):
                deletes.update({_identity(delete): replace(delete, metrics=None) for delete in delete_files(entries)})
        return cls(files, metadata, pruning, data, deletes)

    @property
    def manifests(self) -> list[ManifestFile]:
        return [manifest for of_spec in self.data.values() for manifest in of_spec]

    def tasks(self, excluding: set[str]) -> dict[str, FileTask]:
        """The data files by path, each with its deletes. Manifests at the paths `excluding` are not read."""
        index = DeleteIndex(self.deletes.values(), unpartitioned(self.metadata))
        tasks: dict[str, FileTask] = {}
        for spec_id, of_spec in self.data.items():
            manifests = [manifest for manifest in of_spec if manifest.path not in excluding]
            spec = self.metadata.specs[spec_id]
            for entries in chosen_entries(self.files, self.metadata, manifests, spec, self.pruning):
                tasks.update((task.data.path, task) for task in index.tasks(entries))
        return tasks


def _splits(removed: Sequence[Side], added: Sequence[Side]) -> Iterator[ChangeSplit]:
    """One split per partition that has removed and added rows, which must be compared; else one per file."""
    several_specs = len({side.task.data.spec_id for side in (*removed, *added)}) > 1
    partitions: dict[object, tuple[list[Side], list[Side]]] = {}
    for number, sides in enumerate((removed, added)):
        for side in sides:
            key = None if several_specs else partition_key(side.task.data.partition)
            partitions.setdefault(key, ([], []))[number].append(side)
    for old, new in partitions.values():
        if old and new:
            yield ChangeSplit(old[0].task.data.path, _size(old) + _size(new), tuple(old), tuple(new))
            continue
        for side in old:
            yield ChangeSplit(side.task.data.path, side.task.data.size, removed=(side,))
        for side in new:
            yield ChangeSplit(side.task.data.path, side.task.data.size, added=(side,))


def _size(sides: Sequence[Side]) -> int:
    return sum(side.task.data.size for side in sides)
