"""Equality deletes as a Flink job writes them, which no engine of these lives does: one file for each partition that
rows go from, whose columns are the key and the sources of the partition fields."""

from __future__ import annotations

import datetime
import uuid
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table import StaticTable
from pyiceberg.transforms import DayTransform, VoidTransform
from pyiceberg.types import DateType

from lakebed.formats.iceberg.data_files import Content, DeleteFile
from lakebed.formats.iceberg.table import IcebergTable
from tests.interop.iceberg_state import Column, Row, table_of
from tests.tables.iceberg import commits

_EPOCH = datetime.date(1970, 1, 1)


def global_spec(metadata: str) -> int | None:
    """A spec without partitions, whose equality deletes apply to all files; None where the table never had one."""
    specs = StaticTable.from_metadata(metadata).specs().values()
    return next((spec.spec_id for spec in specs if spec.is_unpartitioned()), None)


def delete_equal(
    table: IcebergTable, metadata: str, rows: Sequence[Row], columns: Sequence[Column], spec_id: int
) -> None:
    """Delete rows in one commit. With a spec that has partitions, they have to lie in files of this spec."""
    found = StaticTable.from_metadata(metadata)
    schema, spec = found.schema(), found.specs()[spec_id]
    by_name = {column.name: column for column in columns}
    partitions: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    sources: dict[str, None] = {"id": None}
    for row in rows:
        values = []
        for field in spec.fields:
            if isinstance(field.transform, VoidTransform):
                values.append(None)
                continue
            source = schema.find_field(field.source_id)
            sources[source.name] = None
            value = row.get(by_name[source.name].held, by_name[source.name].default)
            if isinstance(source.field_type, DateType) and not isinstance(field.transform, DayTransform):
                value = None if value is None else (value - _EPOCH).days
            day = isinstance(field.transform, DayTransform)  # its result is a date
            values.append(value if day else field.transform.transform(source.field_type)(value))
        partitions[tuple(values)].append(row)
    keys = [by_name[name] for name in sources]
    ids = [schema.find_field(name).field_id for name in sources]
    made = []
    for partition, gone in partitions.items():
        path = f"{table.table_metadata.location}/data/{uuid.uuid4()}-eq.parquet"
        local = Path(path.removeprefix("file://").removeprefix("file:"))
        local.parent.mkdir(parents=True, exist_ok=True)
        data = table_of(gone, keys)
        known = zip(data.schema, ids, strict=True)
        fields = [field.with_metadata({"PARQUET:field_id": str(id)}) for field, id in known]
        pq.write_table(data.cast(pa.schema(fields)), local)
        file = DeleteFile(
            path, "PARQUET", Content.EQUALITY_DELETES, spec_id, partition, len(gone), local.stat().st_size,
            equality_ids=tuple(ids),
        )  # fmt: skip
        made.append(file)
    commits.row_delta(table.operations, (), made)
