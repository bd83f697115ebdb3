"""The table functions of the formats' own engines that read, such as `hudi_table_changes`.

Spark gives a table function that is written in Python one task, and takes its rows one by one: a function whose columns
depend on its arguments cannot hand over Arrow batches. So this is for ranges of few rows. The format's source reads the
same rows in parallel, as Arrow.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

import lakebed.formats as formats
from lakebed.errors import RetryableError
from lakebed.formats.opening import SOURCE_FUNCTIONS
from lakebed.spark.procedure import Given, Procedure, Row
from lakebed.spark.read import ReadTask, read_tasks
from lakebed.spark.source import load


def source_function(name: str) -> Procedure:
    """The function of this name. Its columns are those of the rows that the format's source reads."""
    format = SOURCE_FUNCTIONS[name]
    function = formats.native_source(format).functions[name]

    def tasks(given: Given) -> tuple[pa.Schema, list[ReadTask]]:
        options = {**given.options, **function.options(given.values), "path": given.table}
        loaded = load(options, format, 1).pinned()
        assert loaded.plan is not None, "a batch is planned"
        return loaded.rows_schema, read_tasks(loaded.plan, 1, 1, rows_only=True)

    def rows(given: Given) -> Iterator[Row]:
        promised = pa.ipc.read_schema(pa.py_buffer(given.columns))
        for task in tasks(given)[1]:
            if task.wire != promised:
                raise RetryableError(
                    "the table's columns changed meanwhile", table=given.table, todo="Run the query again"
                )
            for batch in task.batches():
                yield from zip(*(column.to_pylist(maps_as_pydicts="strict") for column in batch.columns), strict=True)

    return Procedure((*function.parameters, "options"), lambda given: tasks(given)[0], rows, function.required)
