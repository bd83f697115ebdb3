"""Small Iceberg tables for tests, and data files for them that are written with Arrow alone."""

import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import lakebed
from lakebed.formats.iceberg.codec.schema import arrow_schema
from lakebed.formats.iceberg.data_files import Content, DataFile, DeleteFile, Metrics
from lakebed.formats.iceberg.table import IcebergTable

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("p", pa.string())])
QUICK = {"commit.retry.min-wait-ms": "1", "commit.retry.max-wait-ms": "5", "commit.status-check.min-wait-ms": "1"}


def create(path: Any, version: int = 2, partition_by: Any = "p", **options: str) -> IcebergTable:
    table = lakebed.create(
        path, "iceberg", SCHEMA, (), partition_by, {"format-version": str(version), **QUICK, **options}
    )
    assert isinstance(table, IcebergTable)
    return table


def data_file(table: IcebergTable, ids: list[int], p: str = "a") -> DataFile:
    """A Parquet file with rows (id, p) in partition p."""
    metadata = table.table_metadata
    path = f"{metadata.location}/data/p={p}/{uuid.uuid4()}.parquet"
    rows = pa.table({"id": ids, "p": [p] * len(ids)}, schema=arrow_schema(metadata.schema, ids=True))
    with table.operations.files.open_output(path) as sink:
        pq.write_table(rows, sink)
    low, high = (number.to_bytes(8, "little", signed=True) for number in (min(ids), max(ids)))
    partition: tuple[Any, ...] = (p,) if metadata.spec.fields else ()
    size = table.operations.files.size(path)
    return DataFile(
        path, "PARQUET", metadata.default_spec_id, partition, len(ids), size, sort_order_id=0, split_offsets=(4,),
        metrics=Metrics({}, {1: len(ids)}, {1: 0}, {}, {1: low}, {1: high}),
    )  # fmt: skip


def position_deletes(table: IcebergTable, target: DataFile, positions: list[int]) -> DeleteFile:
    """A position delete file for one data file."""
    path = f"{table.table_metadata.location}/data/{uuid.uuid4()}-deletes.parquet"
    schema = pa.schema([
        pa.field("file_path", pa.string(), False, {"PARQUET:field_id": "2147483546"}),
        pa.field("pos", pa.int64(), False, {"PARQUET:field_id": "2147483545"}),
    ])  # fmt: skip
    with table.operations.files.open_output(path) as sink:
        pq.write_table(pa.table([[target.path] * len(positions), positions], schema=schema), sink)
    return DeleteFile(
        path, "PARQUET", Content.POSITION_DELETES, target.spec_id, target.partition, len(positions),
        table.operations.files.size(path), referenced_data_file=target.path,
    )  # fmt: skip


def equality_deletes(table: IcebergTable, ids: list[int], p: str = "a") -> DeleteFile:
    """An equality delete file on `id` in partition p."""
    path = f"{table.table_metadata.location}/data/{uuid.uuid4()}-eq.parquet"
    schema = pa.schema([pa.field("id", pa.int64(), False, {"PARQUET:field_id": "1"})])
    with table.operations.files.open_output(path) as sink:
        pq.write_table(pa.table([ids], schema=schema), sink)
    return DeleteFile(
        path, "PARQUET", Content.EQUALITY_DELETES, table.table_metadata.default_spec_id, (p,), len(ids),
        table.operations.files.size(path), equality_ids=(1,),
    )  # fmt: skip


def ids(table: IcebergTable, **options: Any) -> list[int]:
    found: list[int] = sorted(table.read(columns=["id"], **options).read_all()["id"].to_pylist())
    return found


def metadata_files(table: IcebergTable) -> set[str]:
    folder = Path(table.location) / "metadata"
    return {path.name for path in folder.iterdir() if path.suffix == ".avro"}
