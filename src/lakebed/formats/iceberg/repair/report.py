"""What a repair says of each lost file: its rows, its partition, the snapshots that name it, and where its rows still
are.

A `replace` snapshot holds the same rows as its parent (the specification's "Snapshots"). So where such a snapshot added
a lost file, the files that it removed still have the rows, as long as the parent has not expired.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.iceberg.codec.manifest import DELETED
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.codec.snapshots import Snapshot
from lakebed.formats.iceberg.data_files import Content, DataFile, DeleteFile
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.layout import partition_path
from lakebed.formats.iceberg.manifests import iter_entries, manifests_of
from lakebed.formats.iceberg.repair.check import NAMED_COLUMNS, Checker, check_all
from lakebed.formats.iceberg.repair.options import EXISTENCE
from lakebed.formats.iceberg.repair.scan import Findings, list_verdict, naming
from lakebed.kernel.engine import Engine
from lakebed.model.upkeep import LostFile

_DELETES = {Content.POSITION_DELETES: "position deletes", Content.EQUALITY_DELETES: "equality deletes"}


def lost_files(
    files: Files, metadata: TableMetadata, findings: Findings, in_copy: Mapping[str, str], engine: Engine
) -> tuple[LostFile, ...]:
    """What is lost, manifest lists and manifests first. `in_copy` has what can be restored, by path."""
    named = naming(files, metadata, findings.paths)
    older = _Older(files, metadata, engine)

    def ids(path: str) -> tuple[str, ...]:
        return tuple(str(snapshot.snapshot_id) for snapshot in named[path])

    def remedy(path: str, otherwise: str = "") -> str:
        return f"it is whole in the copy, as {in_copy[path]}" if path in in_copy else otherwise

    def place(file: DataFile | DeleteFile) -> str:
        return partition_path(metadata.specs[file.spec_id], file.partition)

    lost = [
        LostFile(path, "manifest list", reason, 0, 0, "", ids(path), remedy(path, _readable_parent(metadata, snapshot)))
        for path, (snapshot, reason) in findings.lists.items()
    ]
    for manifest, reason in findings.manifests.items():
        rows = (manifest.added_rows_count or 0) + (manifest.existing_rows_count or 0)
        kind = "manifest of deletes" if manifest.content else "manifest"
        path = manifest.path
        lost.append(LostFile(path, kind, reason, rows, manifest.length, "", ids(path), remedy(path)))
    for path, (file, reason) in findings.data.items():
        rows_in = remedy(path) or older.remedy(file)
        lost.append(LostFile(path, "data", reason, file.record_count, file.size, place(file), ids(path), rows_in))
    for (path, _), (delete, reason) in findings.deletes.items():
        kind = "deletion vector" if delete.is_vector else _DELETES[delete.content]
        lost.append(
            LostFile(path, kind, reason, delete.record_count, delete.size, place(delete), ids(path), remedy(path))
        )
    return tuple(lost)


def _readable_parent(metadata: TableMetadata, snapshot: Snapshot) -> str:
    if snapshot.parent_id is None or snapshot.parent_id not in metadata.snapshots:
        return ""
    return f"snapshot {snapshot.parent_id} is the one before it"


class _Older:
    """Older snapshots that have the rows of lost files. Each snapshot is looked at once."""

    def __init__(self, files: Files, metadata: TableMetadata, engine: Engine) -> None:
        self._files, self._metadata, self._engine = files, metadata, engine
        self._whole: dict[int, bool] = {}

    def remedy(self, file: DataFile) -> str:
        """Where the rows of a lost data file still are; "" where nobody knows."""
        made_by = self._metadata.snapshots.get(file.snapshot_id or 0)
        if made_by is None or made_by.operation != "replace" or made_by.parent_id not in self._metadata.snapshots:
            return ""
        if made_by.snapshot_id not in self._whole:
            self._whole[made_by.snapshot_id] = self._sources_exist(made_by)
        if not self._whole[made_by.snapshot_id]:
            return ""
        return f"snapshot {made_by.parent_id} has its rows in other files, as they were before they were rewritten"

    def _sources_exist(self, snapshot: Snapshot) -> bool:
        """Whether all data files that a snapshot removed are still there."""
        files, metadata = self._files, self._metadata
        if list_verdict(files, snapshot) is not None:
            return False
        written = [
            m for m in manifests_of(files, metadata, snapshot)
            if m.content == 0 and m.added_snapshot_id == snapshot.snapshot_id
        ]  # fmt: skip
        columns = ("status", "snapshot_id", *NAMED_COLUMNS)
        sources: list[pa.Table] = []
        for spec_id in {m.spec_id for m in written}:
            for entries in iter_entries(
                files, metadata, [m for m in written if m.spec_id == spec_id], columns, live_only=False
            ):
                removed = pc.and_(
                    pc.equal(entries["status"], DELETED), pc.equal(entries["snapshot_id"], snapshot.snapshot_id)
                )
                sources.append(entries.filter(removed))
        checker = Checker(files, EXISTENCE)
        missing = next(check_all(checker, sources, self._engine, lambda _: None), None)
        return missing is None and any(len(piece) for piece in sources)


def share_lost(findings: Findings) -> int:
    """The percentage of checked files that are lost, rounded down."""
    lost: Sequence[object] = [*findings.data, *findings.deletes]
    return len(lost) * 100 // findings.checked if findings.checked else 0
