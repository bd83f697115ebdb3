"""Base files as Arrow batches of the table's schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from lakebed.errors import UnsupportedError
from lakebed.formats.hudi.codec.internal_schema import Renames
from lakebed.formats.hudi.codec.timestamps import Units, mislabels
from lakebed.formats.hudi.read.conform import conform_to_table
from lakebed.formats.hudi.read.missing_files import expecting
from lakebed.kernel.decoding import decoding
from lakebed.kernel.files import Store
from lakebed.kernel.predicates.facts import Facts
from lakebed.kernel.predicates.ranges import can_hold
from lakebed.kernel.predicates.row_groups import leaf_of, row_group_facts
from lakebed.kernel.predicates.tree import Node

_BATCH_ROWS = 1 << 17


@dataclass(frozen=True, slots=True)
class BaseFileReader:
    """Reads one base file, which may differ from the table's schema.

    `renames` says what columns are called in the file, where the names differ. `units` are the timestamps that the
    file can label wrongly.

    All methods raise DataCleanedError when the file is gone, CorruptError when it cannot be read, and UnsupportedError
    for a file that is not Parquet.
    """

    store: Store
    path: str
    renames: Renames = field(default_factory=dict)
    units: Units = field(default_factory=dict)

    def batches(
        self,
        target: pa.Schema,
        groups: Sequence[int] | None = None,
        constants: Mapping[str, pa.Scalar] = {},
        batch_rows: int = _BATCH_ROWS,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of some row groups (None: of all) with exactly the columns of `target`.

        A column that the file lacks takes its value from `constants`, else null.
        """
        if groups is not None and not groups:
            return
        with self._opened() as file:
            in_file = set(file.schema_arrow.names)
            names = [self.renames.get((name,), name) for name in target.names]
            columns = [name for name in names if name in in_file]
            for batch in file.iter_batches(batch_rows, row_groups=groups, columns=columns, use_threads=False):
                yield conform_to_table(batch, target, constants, self.renames, self.units)

    def row_groups(self, predicate: Node, schema: pa.Schema) -> tuple[list[int], list[int]]:
        """The row groups that can hold rows for which the predicate is true, by their statistics, and the others.

        `schema` has the types in which the predicate compares values. All are kept where the file labels timestamps
        wrongly.
        """
        with self._opened() as file:
            all_groups = range(file.metadata.num_row_groups)
            if self.units and mislabels(file.schema_arrow, self.units):
                return list(all_groups), []

            def known(column: tuple[str, ...]) -> list[Facts]:
                facts = _group_facts(file, column[0], schema) if len(column) == 1 else None
                return [] if facts is None else [facts]

            may_match = can_hold(predicate, known, len(all_groups))
        return [group for group in all_groups if may_match[group]], [n for n in all_groups if not may_match[n]]

    def schema(self) -> pa.Schema:
        """The Arrow schema of the file."""
        with self._opened() as file:
            return file.schema_arrow

    @contextmanager
    def _opened(self) -> Iterator[pq.ParquetFile]:
        store, path = self.store, self.path
        if not path.endswith(".parquet"):
            raise UnsupportedError(
                f"lakebed does not read {path.rpartition('.')[2]} base files",
                table=store.location,
                file=path,
                todo="Rewrite the table with Parquet base files",
            )
        with expecting(store, path):
            opened = store.open_input(path)
        with (
            opened as source,
            decoding("cannot read a base file", table=store.location, file=path, todo="Restore the file from a copy"),
        ):
            yield pq.ParquetFile(source, page_checksum_verification=True)


def _group_facts(file: pq.ParquetFile, name: str, schema: pa.Schema) -> Facts | None:
    """What the footer says of a column in each row group. None where the file has no such column, or has it in a type
    whose order is not that of the type in `schema`."""
    place = file.schema_arrow.get_field_index(name)
    leaf = None if place < 0 else leaf_of(file.schema_arrow, place)
    if leaf is None or name not in schema.names:
        return None
    written, target = file.schema_arrow.field(place).type, schema.field(name).type
    if not _keeps_order(written, target):
        return None
    groups = range(file.metadata.num_row_groups)
    return row_group_facts(file.metadata, leaf, groups, written, lambda bounds: bounds.cast(target))


def _keeps_order(written: pa.DataType, target: pa.DataType) -> bool:
    """Whether bounds in one type, cast to the other, are bounds of the conformed values.

    A float is not a bound of the double that Hudi makes of its text.
    """
    if written == target:
        return True
    if pa.types.is_integer(written):
        return bool(pa.types.is_integer(target) or pa.types.is_floating(target) or pa.types.is_decimal(target))
    if pa.types.is_timestamp(written) and pa.types.is_timestamp(target):
        return bool(written.tz == target.tz)
    return bool(
        (pa.types.is_decimal(written) and pa.types.is_decimal(target))
        or (pa.types.is_large_string(written) and pa.types.is_string(target))
    )
