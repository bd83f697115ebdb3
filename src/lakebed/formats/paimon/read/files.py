"""Batches of one data file, conformed from the schema that the file was written with to the schema that is read.

Rule: Paimon's SchemaEvolutionUtil. A column's id in the file's own schema gives its name there; its values are then
cast. A column that the file's schema does not have is null.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from lakebed.errors import SchemaError, UnsupportedError
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.types import DataField, arrow_schema, timestamp_unit
from lakebed.formats.paimon.read.conform import as_written, cast_column
from lakebed.formats.paimon.read.formats import file_batches
from lakebed.kernel.decoding import UNSTATED, Stated
from lakebed.kernel.files import Store


def read_batches(
    store: Store,
    path: str,
    written: TableSchema,
    wanted: Sequence[DataField],
    system: Sequence[DataField] = (),
    stated: Stated = UNSTATED,
) -> Iterator[pa.RecordBatch]:
    """Read the rows of a file in order: the `system` columns by name, then the `wanted` columns by id.

    `written` is the schema that the file was written with. Raises DataCleanedError when the file is gone, and
    CorruptError when it cannot be read or does not have the size and row count that the manifest stated. Raises
    UnsupportedError or SchemaError where a column's type changed and its values cannot be read in the new type.
    """
    own = {field.id: field for field in written.fields}
    sources = [own.get(field.id) for field in wanted]
    names = [field.name for field in system] + [field.name for field in sources if field is not None]
    schema = arrow_schema([*system, *wanted])
    coarse = {field.name for field in sources if field is not None and _is_coarse_time(field)}
    for batch in file_batches(store, path, names, coarse, stated):
        columns = [batch.column(place) for place in range(len(system))]
        at = len(system)
        for field, source in zip(wanted, sources, strict=True):
            if source is None:
                columns.append(pa.nulls(len(batch), schema.field(field.name).type))
                continue
            given = as_written(batch.column(at), source.type)
            try:
                columns.append(cast_column(given, source.type, field.type))
            except (SchemaError, UnsupportedError) as error:
                what = error.what.replace("a column", f"column {field.name!r}", 1)
                raise type(error)(what, table=store.location, file=path, why=error.why, todo=error.todo) from error
            at += 1
        yield pa.RecordBatch.from_arrays(
            [
                column.cast(f.type) if column.type != f.type else column
                for column, f in zip(columns, schema, strict=True)
            ],
            schema=schema,
        )


def _is_coarse_time(field: DataField) -> bool:
    return field.type.root in ("TIMESTAMP", "TIMESTAMP_LTZ") and timestamp_unit(field.type) != "ns"
