"""An Iceberg table that a test fills file by file, with deletes of every kind."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

import lakebed
from lakebed.formats.iceberg.codec.schema import arrow_schema
from lakebed.formats.iceberg.data_files import Content, DataFile, DeleteFile, FileTask, Metrics, Partition, data_files
from lakebed.formats.iceberg.manifests import ALL_COLUMNS
from lakebed.formats.iceberg.read.deletes import deleted_positions
from lakebed.formats.iceberg.read.plan import scan_tasks
from lakebed.formats.iceberg.table import IcebergTable
from lakebed.formats.iceberg.write.files import RollingWriter, WriteTarget
from lakebed.formats.iceberg.write.row_deletes import DeleteWriter
from lakebed.formats.iceberg.write.statistics.leaves import leaves_of
from lakebed.formats.iceberg.write.statistics.metrics import parquet_metrics
from lakebed.formats.iceberg.write.statistics.modes import MetricsMode
from tests.tables.iceberg import commits
from tests.tables.iceberg.commits import scan
from tests.tables.iceberg.create import make_table


class Lake:
    """A hadoop table, and helpers that write its files."""

    def __init__(self, folder: Path, schema: Schema, **how: Any) -> None:
        self.folder = folder
        self.table: IcebergTable = make_table(folder, schema, **how)

    @classmethod
    def at(cls, folder: str) -> Lake:
        """Open an existing table."""
        found = cls.__new__(cls)
        found.folder, found.table = Path(folder), cast(IcebergTable, lakebed.open(folder))
        return found

    def write(
        self, rows: Sequence[Mapping[str, Any]] | pa.Table, partition: Partition = (), files: int = 1,
        spec_id: int | None = None, properties: Mapping[str, str] = {},
    ) -> list[DataFile]:  # fmt: skip
        """Data files that are not committed yet, all of one partition, whose values the caller knows."""
        metadata = self.table.table_metadata
        schema = arrow_schema(metadata.schema)
        data = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(list(rows), schema)
        made = []
        for part in np.array_split(np.arange(len(data)), files):
            target = WriteTarget.of(self.table.operations.files, metadata, spec_id, properties=properties)
            writer = RollingWriter(target, str(uuid.uuid4()), 1 << 40)
            stored = data.take(pa.array(part)).select([field.name for field in target.fields])
            try:
                for batch in stored.combine_chunks().to_batches():
                    writer.write(batch, partition)
                made += writer.finish()
            except BaseException:
                writer.abort()
                raise
        return made

    def append(
        self, rows: Sequence[Mapping[str, Any]] | pa.Table, partition: Partition = (), files: int = 1, **how: Any
    ) -> list[DataFile]:
        """The same, committed."""
        made = self.write(rows, partition, files, **how)
        commits.append(self.table.operations, made)
        return made

    @property
    def tasks(self) -> list[FileTask]:
        """The live data files, each with its deletes."""
        metadata = self.table.table_metadata
        return list(scan_tasks(self.table.operations.files, metadata, metadata.head()))

    @property
    def sizes(self) -> list[int]:
        """Bytes of the live data files."""
        return [task.data.size for task in self.tasks]

    @property
    def deletes(self) -> dict[str, DeleteFile]:
        """The live delete files that apply to some data, by path."""
        return {delete.path: delete for task in self.tasks for delete in task.deletes}

    @staticmethod
    def metrics_of(lake: Lake) -> dict[str, Metrics]:
        """The figures of the live data files, by path."""
        metadata = lake.table.table_metadata
        found = scan(lake.table.operations.files, metadata, metadata.head(), ALL_COLUMNS)
        files = [file for entries in found.data.values() for file in data_files(entries)]
        return {file.path: file.metrics for file in files if file.metrics is not None}

    def rows(self, as_of: Any = None) -> list[str]:
        """All rows, as texts, sorted: NaN equals itself."""
        return sorted(map(str, self.table.read(as_of=as_of).read_all().to_pylist()))

    def delete_positions(self, positions: Mapping[str, Sequence[int]], granularity: str = "file") -> None:
        """Delete rows of data files by position: vectors in format version 3, else position delete files."""
        metadata = self.table.table_metadata
        found = []
        for task in self.tasks:
            if task.data.path in positions:
                numbers = np.array(sorted(positions[task.data.path]), np.int64)
                before = deleted_positions(self.table.operations.files, task) if metadata.format_version > 2 else None
                found.append((task, numbers if before is None else np.union1d(before, numbers)))
        made = DeleteWriter.of(self.table.operations.files, metadata, granularity).write(found)
        commits.row_delta(self.table.operations, (), made.added, removed=made.replaced, referenced=made.data_files)

    def delete_equal(
        self, keys: Sequence[Mapping[str, Any]], partition: Partition = (), spec_id: int = 0, bounds: bool = True
    ) -> None:
        """Delete rows by the values of some columns, whose bounds may be left out: then they rule nothing out."""
        metadata = self.table.table_metadata
        fields = [field for field in metadata.schema.fields if field.name in keys[0]]
        data = pa.Table.from_pylist(list(keys), arrow_schema(fields, ids=True))
        path = self.folder / "data" / f"{uuid.uuid4()}-equality.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(data, path)
        file = DeleteFile(
            str(path), "PARQUET", Content.EQUALITY_DELETES, spec_id, partition, len(data), path.stat().st_size,
            equality_ids=tuple(field.field_id for field in fields),
            metrics=self._metrics(path, fields) if bounds else None,
        )  # fmt: skip
        commits.row_delta(self.table.operations, (), (file,))

    @staticmethod
    def _metrics(path: Path, fields: Sequence[NestedField]) -> Metrics:
        """Whole bounds and counts of a Parquet file."""
        leaves = leaves_of(fields)
        modes = {leaf.id: MetricsMode.parse("full", "") for leaf in leaves}
        return parquet_metrics(pq.read_metadata(path), leaves, modes, {})

    @property
    def orphans(self) -> set[str]:
        """Data files on disk that no snapshot knows."""
        metadata = self.table.table_metadata
        known: set[str] = set()
        for snapshot in metadata.snapshots.values():
            for task in scan_tasks(self.table.operations.files, metadata, snapshot):
                known |= {task.data.path, *(delete.path for delete in task.deletes)}
        there = {str(path) for path in (self.folder / "data").rglob("*") if path.is_file()}
        return {path for path in there - known if "-deletes." not in path and "-equality." not in path}
