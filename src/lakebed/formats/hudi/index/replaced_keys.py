"""The keys of file groups that a commit takes out of use: the record index must not find them there any longer.

They are all keys that the newest slice of a group names: those of its rows, and those that its log deletes, since a
delete that may lose leaves its key in the index. Only the table's metadata table asks for them, and only where it has a
record index: then each replaced group is read once, its keys alone.

Rules: Hudi's `HoodieBackedTableMetadataWriter.getRecordIndexReplacedRecords`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from lakebed.formats.hudi.layout import RECORD_KEY
from lakebed.formats.hudi.options import READ
from lakebed.formats.hudi.read.partitions import list_named
from lakebed.formats.hudi.read.plan import reader_of
from lakebed.formats.hudi.read.split import SlicePaths
from lakebed.formats.hudi.read.state import TableState
from lakebed.formats.hudi.slices import live_slices


@dataclass(frozen=True)
class ReplacedKeys:
    """The keys of some file groups, by partition and file id, in one state of a table."""

    state: TableState
    replaced: Mapping[str, tuple[str, ...]]

    def __call__(self) -> pa.Array:
        """Read them: a string array, some keys perhaps twice."""
        state = self.state
        view = state.view()
        reader = reader_of(state, READ.parse({}), state.schema(), view)
        written = state.written(view)
        keys = [pa.array([], pa.string())]
        for partition, files in list_named(state.store, [p for p, ids in self.replaced.items() if ids]).items():
            wanted = {*self.replaced[partition]}
            for each in live_slices(partition, files, view, written, state.was_replaced):
                if each.file_id not in wanted:
                    continue
                merged = reader.open(SlicePaths.of(each), (RECORD_KEY,))
                keys += (batch.column(RECORD_KEY).cast(pa.string()) for batch in merged.rows())
                if merged.merged is not None:
                    keys.append(merged.merged.keys.cast(pa.string()))
        return pa.concat_arrays(keys)
