"""A two-phase writer that learns the columns of its rows from the first of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from lakebed.formats.hudi.write.sink import HudiSink
from lakebed.verbs.two_phase import TableWriter


class FirstRowsWriter(TableWriter):
    """Its first rows say which columns a table gets, where the table's options let a write change them. Later rows have
    columns of these.

    `sink_for` makes the sink for rows of some columns, and `columns` are those of the table.
    """

    def __init__(self, sink_for: Callable[[pa.Schema], HudiSink], columns: pa.Schema) -> None:
        first = sink_for(columns)
        super().__init__(first)
        self._first, self._sink_for = first, sink_for

    def write(self, data: Any) -> None:
        """Write rows: a pyarrow Table, RecordBatch or RecordBatchReader, or anything with `__arrow_c_stream__`."""
        if not isinstance(getattr(data, "schema", None), pa.Schema) and hasattr(data, "__arrow_c_stream__"):
            data = pa.RecordBatchReader.from_stream(data)
        if self._writer is None and isinstance(getattr(data, "schema", None), pa.Schema):
            self._sink = self._first.followed_by(self._sink_for(data.schema))
        super().write(data)
