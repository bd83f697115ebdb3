"""Columns of one data file, in the types of the schema that is read, whatever schema the file was written with.

Rule: Paimon's SchemaEvolutionUtil: a column is found in a file by its id in the file's own schema, then cast. A
column that the file's schema does not have is null.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from lakebed.errors import CorruptError, DataCleanedError, UnsupportedError
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.types import DataField, arrow_schema
from lakebed.formats.paimon.read.evolution import cast_column
from lakebed.kernel.files import Store

_BATCH_ROWS = 64 << 10


def read_batches(
    store: Store, path: str, written: TableSchema, wanted: Sequence[DataField], system: Sequence[DataField] = ()
) -> Iterator[pa.RecordBatch]:
    """The rows of a file, in order: `system` columns first (by their names), then `wanted` (by their ids).

    Raises DataCleanedError when the file is gone, CorruptError when it cannot be read.
    """
    own = {field.id: field for field in written.fields}
    sources = [own.get(field.id) for field in wanted]
    names = [field.name for field in system] + [field.name for field in sources if field is not None]
    schema = arrow_schema([*system, *wanted])
    for batch in _batches(store, path, names):
        columns = [batch.column(field.name) for field in system]
        for field, source in zip(wanted, sources, strict=True):
            columns.append(
                pa.nulls(len(batch), schema.field(field.name).type)
                if source is None
                else cast_column(batch.column(source.name), source.type, field.type)
            )
        yield pa.RecordBatch.from_arrays(
            [
                column.cast(f.type) if column.type != f.type else column
                for column, f in zip(columns, schema, strict=True)
            ],
            schema=schema,
        )


def _batches(store: Store, path: str, names: list[str]) -> Iterator[pa.RecordBatch]:
    kind = path.rpartition(".")[2]
    try:
        if kind != "parquet":
            raise UnsupportedError(f"lakebed does not read {kind} data files yet", table=store.location, file=path)
        with pq.ParquetFile(store.open_input(path)) as file:
            if not names:
                yield from _rowless(file.metadata.num_rows)
                return
            yield from file.iter_batches(_BATCH_ROWS, columns=names, use_threads=False)
    except FileNotFoundError as error:
        raise DataCleanedError(
            "a data file is gone", table=store.location, file=path, why="the snapshot that names it has expired",
            todo="Read a newer snapshot",
        ) from error  # fmt: skip
    except (pa.ArrowInvalid, OSError) as error:
        raise CorruptError("a data file cannot be read", table=store.location, file=path, why=str(error)) from error


def _rowless(rows: int) -> Iterator[pa.RecordBatch]:
    while rows > 0:
        some = min(rows, _BATCH_ROWS)
        yield pa.RecordBatch.from_struct_array(pa.array([{}] * some, pa.struct([])))
        rows -= some
