"""Commits of hand-made files to an Iceberg table, one function per kind, and the live files of a snapshot."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakebed.formats.iceberg.catalog.operations import TableOperations
from lakebed.formats.iceberg.codec.manifest import COLUMNS
from lakebed.formats.iceberg.codec.metadata import MAIN, TableMetadata
from lakebed.formats.iceberg.codec.snapshots import Snapshot
from lakebed.formats.iceberg.commit.kinds import Append, Overwrite, Replace, RowDelta, commit
from lakebed.formats.iceberg.commit.options import CommitOptions
from lakebed.formats.iceberg.data_files import DataFile, DeleteFile, Partition
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.manifests import ALL_COLUMNS, manifests_of, read_entries
from lakebed.model.commit import CommitResult


def append(
    operations: TableOperations,
    added: Iterable[DataFile],
    *,
    branch: str = MAIN,
    summary: Mapping[str, str] = {},
    properties: Mapping[str, str] = {},
) -> CommitResult:
    """Add data files."""
    return commit(operations, Append(tuple(added)), CommitOptions(branch, summary, properties, start=MAIN))


def overwrite(
    operations: TableOperations,
    added: Iterable[DataFile],
    partitions: Collection[tuple[int, Partition]] | None = None,
    *,
    dynamic: bool = False,
) -> CommitResult:
    """Replace all files, or those of some partitions."""
    return commit(operations, Overwrite(tuple(added), partitions, dynamic))


def row_delta(
    operations: TableOperations,
    added: Iterable[DataFile],
    deletes: Iterable[DeleteFile],
    *,
    removed: Iterable[DataFile | DeleteFile] = (),
    referenced: Iterable[str] = (),
) -> CommitResult:
    """Add data files and delete files, and remove files."""
    return commit(operations, RowDelta(tuple(added), tuple(deletes), tuple(removed), tuple(referenced)))


def replace(
    operations: TableOperations,
    start_snapshot_id: int | None,
    removed: Iterable[DataFile | DeleteFile],
    added: Iterable[DataFile],
    *,
    keeps_sequence_number: bool = True,
    added_deletes: Iterable[DeleteFile] = (),
) -> CommitResult:
    """Replace files by others with the same rows."""
    kind = Replace(start_snapshot_id, tuple(removed), tuple(added), tuple(added_deletes), keeps_sequence_number)
    return commit(operations, kind)


@dataclass(frozen=True, slots=True)
class Scan:
    """The live entries of a snapshot, by spec id, in the order of the manifests."""

    data: dict[int, pa.Table]
    deletes: dict[int, pa.Table]


def scan(files: Files, metadata: TableMetadata, snapshot: Snapshot | None, columns: Sequence[str] = COLUMNS) -> Scan:
    """The live entries of a snapshot; None has none. `columns` are those of data files: delete files have all."""
    manifests = [m for m in manifests_of(files, metadata, snapshot) if m.has_live] if snapshot is not None else []

    def entries(content: int, columns: Sequence[str]) -> dict[int, pa.Table]:
        spec_ids = dict.fromkeys(m.spec_id for m in manifests if m.content == content)
        groups = {id: [m for m in manifests if (m.content, m.spec_id) == (content, id)] for id in spec_ids}
        return {spec_id: read_entries(files, metadata, group, columns) for spec_id, group in groups.items()}

    return Scan(entries(0, columns), entries(1, ALL_COLUMNS))
