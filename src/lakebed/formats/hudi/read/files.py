"""Base files as Arrow batches of the table's schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from lakebed.errors import UnsupportedError
from lakebed.formats.hudi.codec.internal_schema import Renames
from lakebed.formats.hudi.codec.timestamps import NO_UNITS, Units, mislabels
from lakebed.formats.hudi.read.conform import conform, conform_table
from lakebed.formats.hudi.read.missing_files import needed
from lakebed.kernel.decoding import decoding
from lakebed.kernel.files import Store

_BATCH_ROWS = 1 << 17
_SAME_NAMES: Renames = MappingProxyType({})


def base_batches(
    store: Store,
    path: str,
    target: pa.Schema,
    groups: Sequence[int] | None = None,
    constants: Mapping[str, pa.Scalar] = {},
    renames: Renames = _SAME_NAMES,
    batch_rows: int = _BATCH_ROWS,
    units: Units = NO_UNITS,
) -> Iterator[pa.RecordBatch]:
    """The rows of a base file with exactly the columns of `target`; of some row groups only, where `groups` is given.

    A column that the file lacks takes its value from `constants`, else null. Raises DataCleanedError when the file is
    gone.
    """
    if groups is not None and not groups:
        return
    with _opened(store, path) as (file, _):
        there = set(file.schema_arrow.names)
        names = [renames.get((name,), name) for name in target.names]
        columns = [name for name in names if name in there]
        for batch in file.iter_batches(batch_rows, row_groups=groups, columns=columns, use_threads=False):
            yield fitted(batch, target, constants, renames, units)


def row_groups(
    store: Store, path: str, predicate: pc.Expression, units: Units = NO_UNITS
) -> tuple[list[int], list[int]]:
    """The row groups of a base file that can hold rows for which the predicate is true, by their statistics, and the
    others.

    All are kept where the predicate cannot be judged by this file's columns, as where it labels timestamps wrongly.
    """
    with _opened(store, path) as (file, source):
        everything = list(range(file.metadata.num_row_groups))
        if units and mislabels(file.schema_arrow, units):
            return everything, []
        try:
            fragment = ds.ParquetFileFormat().make_fragment(source)
            kept = [group.id for part in fragment.split_by_row_group(predicate) for group in part.row_groups]
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, KeyError):
            return everything, []
        return kept, [group for group in everything if group not in set(kept)]


@contextmanager
def _opened(store: Store, path: str) -> Iterator[tuple[pq.ParquetFile, pa.NativeFile]]:
    if not path.endswith(".parquet"):
        raise UnsupportedError(
            f"base files of format {path.rpartition('.')[2]} are not supported",
            table=store.location,
            file=path,
            todo="Rewrite the table with Parquet base files",
        )
    with needed(store, path):
        opened = store.open_input(path)
    with (
        opened as source,
        decoding("cannot read a base file", table=store.location, file=path, todo="Restore the file from a copy"),
    ):
        yield pq.ParquetFile(source, page_checksum_verification=True), source


def base_schema(store: Store, path: str) -> pa.Schema:
    """The Arrow schema of a base file."""
    with _opened(store, path) as (file, _):
        return file.schema_arrow


def fitted(
    batch: pa.RecordBatch | pa.Table,
    target: pa.Schema,
    constants: Mapping[str, pa.Scalar] = {},
    renames: Renames = _SAME_NAMES,
    units: Units = NO_UNITS,
) -> pa.RecordBatch | pa.Table:
    """The columns of `target`: each converted to its type (int to bigint, structs field by field), found under its
    older name where `renames` has one, the missing ones null or from `constants`.

    Raises SchemaError when a column's type cannot become the table's.
    """
    there = set(batch.schema.names)
    found = [field for field in target if renames.get((field.name,), field.name) in there]
    convert = conform_table if isinstance(batch, pa.Table) else conform
    known = convert(batch, pa.schema([field.with_nullable(True) for field in found]), renames, units)
    if len(found) == len(target) and known.schema.equals(target):
        return known
    arrays = []
    for field in target:
        place = known.schema.get_field_index(field.name)
        if place >= 0:
            arrays.append(known.column(place))
        elif field.name in constants:
            arrays.append(pa.repeat(constants[field.name].cast(field.type), batch.num_rows))
        else:
            arrays.append(pa.nulls(batch.num_rows, field.type))
    if not arrays:
        return batch.select([])
    kind = pa.Table if isinstance(batch, pa.Table) else pa.RecordBatch
    return kind.from_arrays(arrays, schema=target)
