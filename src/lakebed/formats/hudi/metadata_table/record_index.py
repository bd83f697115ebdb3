"""Look keys up in the record index: the part of the metadata table that says which file group holds each key.

A key's file group of the index follows from a hash of its text. There the newest record of the key counts; a delete
says that the table has it no longer. A file id that is a UUID and a number is kept as its two halves and the number.

Rules: Hudi's `HoodieMetadataPayload.createRecordIndexUpdate` and `getRecordGlobalLocation`,
`HoodieBackedTableMetadata.readRecordIndex`, `HoodieTableMetadataUtil.mapRecordKeyToFileGroupIndex`.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import UnsupportedError
from lakebed.formats.hudi.codec.metadata_keys import file_groups_of
from lakebed.formats.hudi.metadata_table.entries import Entries, entries_in, keyed_entries
from lakebed.formats.hudi.metadata_table.named import REBUILD
from lakebed.formats.hudi.metadata_table.opened import MetadataTable
from lakebed.formats.hudi.slices import FileSlice
from lakebed.kernel.arrays import from_numpy

RECORD_INDEX = "record_index"
NO_INDEX = -1
"""The number of a file id that has none."""
_GROUP = re.compile(r"^record-index-(\d{4})-\d+$")
_FEW_KEYS = 2000
"""So many keys are looked up block by block; for more of them all blocks are read."""
_SCHEMA = pa.schema([("partition", pa.string()), ("file_id", pa.string())])


@dataclass(frozen=True, slots=True)
class RecordIndex:
    """The record index of one state of a table. Picklable."""

    table: MetadataTable

    def locate(self, keys: pa.Array) -> pa.Table:
        """Where each key is: columns `partition` and `file_id`, null for a key that the table does not have.

        `keys` is a string array without nulls. Raises what `opened.UNUSABLE` has where the index cannot be read.
        """
        groups = self._groups()
        of_key = file_groups_of(keys, len(groups))
        places = np.full(len(keys), -1)
        tables: list[pa.Table] = [_SCHEMA.empty_table()]
        rows = 0
        for number, file_slice in groups.items():
            at = np.flatnonzero(of_key == number)
            if not len(at):
                continue
            wanted = keys.take(from_numpy(at)).cast(pa.binary())
            for entries in self._entries(file_slice, wanted):
                hits = pc.index_in(wanted, value_set=entries.keys)
                mine = at[hits.is_valid().to_numpy(zero_copy_only=False)]
                located = _located(entries, hits.drop_null())
                places[mine] = -1 if located is None else np.arange(rows, rows + len(mine))
                if located is not None:
                    tables.append(located)
                    rows += len(mine)
        return pa.concat_tables(tables).take(pa.array(places, mask=places < 0))

    def _groups(self) -> Mapping[int, FileSlice]:
        """The file groups by number. UnsupportedError where the index is kept by partition, or one is missing."""
        groups = {}
        for file_slice in self.table.slices(RECORD_INDEX):
            parsed = _GROUP.match(file_slice.file_id)
            if parsed is None:
                raise UnsupportedError("a record index that is kept by partition is not read", todo=REBUILD)
            groups[int(parsed[1])] = file_slice
        if not groups or sorted(groups) != list(range(len(groups))):
            raise UnsupportedError("the record index lacks a file group", todo=REBUILD)
        return groups

    def _entries(self, file_slice: FileSlice, keys: pa.Array) -> Iterator[Entries]:
        if len(keys) > _FEW_KEYS:
            return entries_in(self.table, file_slice)
        return keyed_entries(self.table, file_slice, keys.to_pylist())


def _located(entries: Entries, rows: pa.Array) -> pa.Table | None:
    """The file groups that records name; None for deletes."""
    if entries.values is None:
        return None
    info = Entries(entries.keys.take(rows), entries.values.take(rows), entries.schema).decoded("recordIndexMetadata")
    if not len(rows):
        return _SCHEMA.empty_table()
    if info is None:
        raise UnsupportedError("a record of the record index is of another kind", todo=REBUILD)
    return pa.table([info["partitionName"].texts(), _file_ids(info, len(rows))], schema=_SCHEMA)


def _file_ids(info: Mapping[str, Any], count: int) -> pa.Array:
    """The file ids: of a UUID's halves and a number, or as they are."""
    whole = np.asarray(info["fileIdEncoding"]) != 0 if "fileIdEncoding" in info else np.zeros(count, np.bool_)
    halves = np.column_stack([info[name].filled(NO_INDEX) for name in ("fileIdHighBits", "fileIdLowBits", "fileIndex")])
    combined, of_row = np.unique(halves, axis=0, return_inverse=True)
    file_ids = pa.array([_file_id(*map(int, each)) for each in combined], pa.string()).take(
        from_numpy(of_row.reshape(-1))
    )
    if not whole.any():
        return file_ids
    return pc.if_else(pa.array(whole), info["fileId"].texts().cast(pa.string()), file_ids)


def _file_id(high: int, low: int, number: int) -> str:
    text = str(uuid.UUID(int=((high & _HALF) << 64) | (low & _HALF)))
    return text if number == NO_INDEX else f"{text}-{number}"


_HALF = (1 << 64) - 1


def halves_of(file_id: str) -> tuple[int, int, int] | None:
    """The signed halves and the number of a file id that is a UUID and perhaps a number, None for another one."""
    parsed = _UUID.match(file_id)
    if parsed is None:
        return None
    number = uuid.UUID(parsed[1]).int
    high, low = number >> 64, number & _HALF
    return _signed(high), _signed(low), int(parsed[2]) if parsed[2] is not None else NO_INDEX


_UUID = re.compile(r"^([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})(?:-(0|[1-9]\d{0,8}))?$")


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word
