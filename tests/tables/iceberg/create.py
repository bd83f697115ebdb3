"""New Iceberg tables for tests, by path, with any spec, sort order and format version."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortField, SortOrder
from pyiceberg.transforms import parse_transform

from lakebed.formats.iceberg.catalog.table import HadoopTable
from lakebed.formats.iceberg.codec.metadata import metadata_from_json
from lakebed.formats.iceberg.table import IcebergTable
from lakebed.kernel.files import open_store


def make_table(
    folder: Path, schema: Schema, partition_by: Sequence[tuple[str, str]] = (), version: int = 2,
    properties: Mapping[str, str] = {}, sort_by: Sequence[SortField] = (), options: Mapping[str, str] = {},
) -> IcebergTable:  # fmt: skip
    """An empty table; `partition_by` are (column, transform). It is a hadoop table: `metadata/vN.metadata.json`."""
    fields = [
        PartitionField(schema.find_field(column).field_id, 1000 + n, parse_transform(transform), f"{column}_{n}")
        for n, (column, transform) in enumerate(partition_by)
    ]
    order = SortOrder(*sort_by, order_id=1) if sort_by else UNSORTED_SORT_ORDER
    made = new_table_metadata(
        schema, PartitionSpec(*fields), order, str(folder), {"format-version": str(min(version, 2)), **properties}
    )
    document: dict[str, Any] = json.loads(made.model_dump_json())
    if version == 3:
        document |= {"format-version": 3, "next-row-id": 0}
        for field, told in zip(document["schemas"][0]["fields"], schema.fields, strict=True):
            defaults = {"initial-default": told.initial_default, "write-default": told.write_default}
            field |= {key: value for key, value in defaults.items() if value is not None}  # pyiceberg leaves them out
    HadoopTable(open_store(folder)).create(document)
    assert metadata_from_json(json.dumps(document).encode()).format_version == version
    return IcebergTable(open_store(folder), options)
