"""Base files as Arrow batches of the table's schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from lakebed.errors import UnsupportedError
from lakebed.formats.hudi.codec.internal_schema import Renames
from lakebed.formats.hudi.codec.timestamps import Units, mislabels
from lakebed.formats.hudi.read.conform import conform_to_table
from lakebed.formats.hudi.read.missing_files import expecting
from lakebed.kernel.decoding import decoding
from lakebed.kernel.files import Store

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
        with self._opened() as (file, _):
            in_file = set(file.schema_arrow.names)
            names = [self.renames.get((name,), name) for name in target.names]
            columns = [name for name in names if name in in_file]
            for batch in file.iter_batches(batch_rows, row_groups=groups, columns=columns, use_threads=False):
                yield conform_to_table(batch, target, constants, self.renames, self.units)

    def row_groups(self, predicate: pc.Expression) -> tuple[list[int], list[int]]:
        """The row groups that can hold rows for which the predicate is true, by their statistics, and the others.

        All are kept where this file's columns cannot decide the predicate, and where it labels timestamps wrongly.
        """
        with self._opened() as (file, source):
            everything = list(range(file.metadata.num_row_groups))
            if self.units and mislabels(file.schema_arrow, self.units):
                return everything, []
            try:
                fragment = ds.ParquetFileFormat().make_fragment(source)
                kept = [group.id for part in fragment.split_by_row_group(predicate) for group in part.row_groups]
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, KeyError):
                return everything, []
            return kept, [group for group in everything if group not in set(kept)]

    def schema(self) -> pa.Schema:
        """The Arrow schema of the file."""
        with self._opened() as (file, _):
            return file.schema_arrow

    @contextmanager
    def _opened(self) -> Iterator[tuple[pq.ParquetFile, pa.NativeFile]]:
        store, path = self.store, self.path
        if not path.endswith(".parquet"):
            raise UnsupportedError(
                f"base files of format {path.rpartition('.')[2]} are not supported",
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
            yield pq.ParquetFile(source, page_checksum_verification=True), source
