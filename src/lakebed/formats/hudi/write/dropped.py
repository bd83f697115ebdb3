"""Tables whose files leave out the partition columns: only the paths of partitions hold their values.

So a write takes no value that its path does not give back: readers would see another one.

Rules: Hudi's `HoodieSparkSqlWriter` (`hoodie.datasource.write.drop.partition.columns`: files and commits have a schema
without the columns), `HoodieTableConfig`.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import SchemaError
from lakebed.formats.hudi.codec.avro_schema import without_fields
from lakebed.formats.hudi.config import TableConfig
from lakebed.formats.hudi.read.partitions import PartitionColumns
from lakebed.kernel.arrays import one_chunk


def stored_columns(config: TableConfig, schema: pa.Schema) -> pa.Schema:
    """The table's columns that its files have."""
    left_out = config.partition_fields if config.drops_partition_columns else ()
    return pa.schema([field for field in schema if field.name not in left_out])


def stored_avro(config: TableConfig, avro: str) -> str:
    """The Avro schema of what files have, "" for none."""
    return without_fields(avro, config.partition_fields) if config.drops_partition_columns else avro


def check_paths(config: TableConfig, rows: pa.Table, paths: pa.StringArray, table: str) -> None:
    """Raise SchemaError for rows whose partition columns have values that their path does not give back."""
    if not config.drops_partition_columns:
        return
    columns = PartitionColumns.of(config, table)
    places = paths.dictionary_encode()
    constants = [columns.constants(path, rows.schema) for path in places.dictionary.to_pylist()]
    for name in config.partition_fields:
        column = one_chunk(rows.column(name))
        back = pa.array([values[name].as_py() for values in constants], column.type).take(places.indices)
        same = pc.or_kleene(pc.equal(column, back), pc.and_(column.is_null(), back.is_null())).fill_null(False)
        if not pc.all(same).as_py():
            at = same.index(False).as_py()
            raise SchemaError(
                f"partition column {name!r} has the value {column[at].as_py()!r}, which its path does not keep",
                table=table,
                why=f"files leave the column out, and the path {paths[at].as_py()!r} gives {back[at].as_py()!r} back",
                todo="Write another value, or keep partition columns in the files",
            )
