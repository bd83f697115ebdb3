"""Look keys up in the record index of the metadata table: of the table itself no file is read.

Rules: Hudi's `SparkMetadataTableRecordIndex` (release 1.1: `SparkMetadataTableGlobalRecordLevelIndex`). Where the table
has no record index they look keys up as the index `GLOBAL_SIMPLE` does, with that one's options.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakebed.errors import CommitConflictError, CorruptError
from lakebed.formats.hudi.metadata_table.opened import UNUSABLE, maintains
from lakebed.formats.hudi.metadata_table.record_index import RECORD_INDEX, RecordIndex
from lakebed.formats.hudi.read.state import TableState
from lakebed.formats.hudi.slices import FileSlice
from lakebed.kernel.arrays import Int64s, from_numpy, one_chunk, to_numpy

_REMEDY = (
    "Write with hoodie.index.type GLOBAL_SIMPLE and hoodie.metadata.enable false: that ends the metadata table, and "
    "the next write builds it again"
)


@dataclass(frozen=True, slots=True)
class RecordIndexKeys:
    """Finds keys by the record index. `slices` are those of each partition. Picklable."""

    index: RecordIndex
    slices: Mapping[str, Sequence[FileSlice]]
    table: str

    def __call__(self, keys: pa.StringArray) -> Iterator[tuple[FileSlice, Int64s]]:
        """The slices that have some of the keys, and the places of these.

        CommitConflictError where files of the index were cleaned away meanwhile. CorruptError for a file group that the
        table does not have: its rows may be in any other.
        """
        located = self._located(keys)
        known = np.flatnonzero(to_numpy(located.column("file_id").is_valid()))
        if not len(known):
            return
        groups = {(each.partition, each.file_id): each for some in self.slices.values() for each in some}
        of_key, pairs = _distinct(located.take(from_numpy(known)))
        for number, (partition, file_id) in enumerate(pairs):
            file_slice = groups.get((partition, file_id))
            if file_slice is None:
                raise CorruptError(
                    f"the record index names the file group {file_id} of partition {partition!r}, which the table does "
                    "not have",
                    table=self.table,
                    todo=_REMEDY,
                )
            yield file_slice, known[of_key == number]

    def _located(self, keys: pa.StringArray) -> pa.Table:
        try:
            return self.index.locate(keys)
        except FileNotFoundError as error:
            raise CommitConflictError(
                "another writer compacted and cleaned the metadata table",
                table=self.table,
                why=f"a file of its record index is gone: {error}",
                todo="Write again; hoodie.write.num.retries.on.conflict.failures does so by itself",
            ) from error
        except CorruptError as error:
            raise CorruptError(
                "the record index of the metadata table is damaged", table=self.table, why=str(error), todo=_REMEDY
            ) from error


def record_index_of(state: TableState) -> RecordIndex | None:
    """The table's record index, None where it has none that can be relied on."""
    table = state.metadata_table
    if table is None or not maintains(state.config, RECORD_INDEX):
        return None
    index = RecordIndex(table)
    try:
        index.locate(pa.array([], pa.string()))
    except UNUSABLE:
        return None
    return index


def _distinct(located: pa.Table) -> tuple[Int64s, list[tuple[str, str]]]:
    """A number for each row's partition and file id, and these by number."""
    names = [one_chunk(located.column(name)).dictionary_encode() for name in ("partition", "file_id")]
    partitions, ids = (to_numpy(name.indices).astype(np.int64) for name in names)
    pairs, of_row = np.unique(partitions * len(names[1].dictionary) + ids, return_inverse=True)
    count = max(1, len(names[1].dictionary))
    texts = [
        (names[0].dictionary[at // count].as_py(), names[1].dictionary[at % count].as_py()) for at in pairs.tolist()
    ]
    return of_row.astype(np.int64), texts
