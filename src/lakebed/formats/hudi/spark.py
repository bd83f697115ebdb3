"""Hudi's own Spark source, for `spark.read.format("hudi")` and `df.write.format("hudi")`: its options differ from those
of `lakebed.open`.

Rules of writes: Hudi's `HoodieSparkSqlWriter` and `DataSourceWriteOptions`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakebed.errors import CommitUnknownError, LakebedError, UnsupportedError, UsageError
from lakebed.formats.hudi.definition import remove_without_commits
from lakebed.formats.hudi.index.options import INDEXES
from lakebed.formats.hudi.layout import RECORD_KEY
from lakebed.formats.hudi.options import (
    AS_OF,
    BEGIN,
    BYTES_LIMIT,
    COMMITS_LIMIT,
    END,
    INCREMENTAL_FORMAT,
    QUERY_TYPE,
    READ,
    SPARK,
    SPLITS_LIMIT,
)
from lakebed.formats.hudi.read.spark_options import plan_spark_read, spark_stream
from lakebed.formats.hudi.table import HudiTable
from lakebed.formats.hudi.table_options import RECORD_KEYS, TABLE
from lakebed.formats.hudi.upkeep import UPKEEP
from lakebed.formats.hudi.write.evolution import spelled
from lakebed.formats.hudi.write.operation import Operation
from lakebed.formats.hudi.write.settings import COMBINE_INSERT, COMBINE_UPSERT, OPERATION, SIZING, WRITE
from lakebed.kernel.engine import Engine
from lakebed.kernel.files import Store, open_store
from lakebed.kernel.options import Options
from lakebed.model.commit import CommitMessage, CommitResult
from lakebed.model.rowkind import ROW_KIND_COLUMN
from lakebed.verbs.native_source import NativeSource, SinkRequest, SourceFunction, SourceRequest
from lakebed.verbs.read import ReadPlan
from lakebed.verbs.stream import StreamReader
from lakebed.verbs.write import Mode, Prepared, Sink, WritePlan

_LIMITS = frozenset(option.key for option in (COMMITS_LIMIT, SPLITS_LIMIT, BYTES_LIMIT))
"""Keys of `lakebed.open` that bound one batch of a stream. Hudi's source has none of them; a batch ignores them."""

_WRITTEN = WRITE + UPKEEP


def _opens_table(key: str) -> bool:
    return key.lower().startswith(READ.prefixes)


def _plan(table: HudiTable, request: SourceRequest) -> ReadPlan[Any]:
    given = {key: value for key, value in _of_reads(request).items() if key.lower() not in _LIMITS}
    options = SPARK.parse(given)
    if request.pin is not None and not options.given(AS_OF) and options[QUERY_TYPE] == "snapshot":
        given[AS_OF.key] = request.pin.time
    return plan_spark_read(table.state(), given, request.columns, request.where)


def _stream(table: HudiTable, request: SourceRequest) -> StreamReader:
    return spark_stream(table.state, _of_reads(request), request.columns, request.where)


def _of_reads(request: SourceRequest) -> dict[str, object]:
    """The options without those of writes only, which jobs give beside: they say nothing of a read."""
    return {key: value for key, value in request.options.items() if SPARK.knows(key) or not _WRITTEN.knows(key)}


def _sink(request: SinkRequest[HudiTable]) -> Sink:
    """The sink of `df.write.format("hudi")`.

    A table that is not there is created, as the options describe it. Mode append upserts where no operation is named,
    or inserts in bulk into a table without a record key.
    Mode overwrite replaces all rows in one commit, where Hudi's sink deletes the folder first: so a write that fails
    loses nothing, and the table's history stays.
    """
    storage = {key: text for key, text in request.options.items() if _opens_table(key)}
    # Jobs share their options between reads and writes: those of reads say nothing here.
    given = {
        key: text
        for key, text in request.options.items()
        if key not in storage and (_WRITTEN.knows(key) or not SPARK.knows(key))
    }
    options = _WRITTEN.parse(given)
    operation = _operation(request, options)
    if request.overwrite:
        if operation is Operation.DELETE:
            raise UnsupportedError(
                "mode overwrite cannot delete rows by key",
                table=request.location,
                todo='Write them with mode("append")',
            )
        if not operation.replaces:  # what becomes of rows with the same key is left as the operation has it
            combines = options[COMBINE_UPSERT if operation is Operation.UPSERT else COMBINE_INSERT]
            given = {key: text for key, text in given.items() if SIZING.spelled(key) != COMBINE_INSERT.key}
            given[COMBINE_INSERT.key] = str(combines).lower()
            operation = Operation.INSERT_OVERWRITE_TABLE
    given = {key: text for key, text in given.items() if SIZING.spelled(key) != OPERATION.key}
    own = {**given, OPERATION.key: operation.value}
    table = request.table
    if table is None:
        columns = pa.schema([field for field in request.schema if field.name != ROW_KIND_COLUMN])
        described = {key: text for key, text in given.items() if TABLE.knows(key) or INDEXES.knows(key)}
        table = HudiTable.create(open_store(request.location, storage), columns, options={**described, **storage})
        with _or_no_table(table.store):
            return _NewTable(table.sink(Mode.APPEND, options=own, rows=request.schema), table.store)
    rows = spelled(request.schema, table.schema)
    return table.sink(Mode.APPEND, options=own, rows=rows, evolution="evolve")


def _operation(request: SinkRequest[HudiTable], options: Options) -> Operation:
    """The operation that the options name, or Hudi's default. Rows that nothing finds in the table are added to it.

    Rule: Hudi's `HoodieSparkSqlWriter.deduceOperation`, `AutoRecordGenWrapperKeyGenerator`.
    """
    named = options[OPERATION]
    known = request.table.state().config.record_keys if request.table is not None else options[RECORD_KEYS]
    if known or RECORD_KEY in request.schema.names:
        return Operation(named or Operation.UPSERT)
    operation = Operation(named or Operation.BULK_INSERT)
    return Operation.INSERT if operation is Operation.UPSERT else operation


@dataclass(frozen=True, slots=True)
class _NewTable:
    """The sink of a table that was created for it: a write that fails takes the table away again."""

    sink: Sink
    store: Store

    @property
    def input_schema(self) -> pa.Schema:
        return self.sink.input_schema

    @property
    def knows_batches(self) -> bool:
        return self.sink.knows_batches

    @property
    def left_out(self) -> frozenset[str]:
        return self.sink.left_out

    def plan(self, tasks: int = 1) -> WritePlan:
        return self.sink.plan(tasks)

    def finalize(self, plan: Any, messages: Sequence[CommitMessage], engine: Engine) -> Prepared:
        with _or_no_table(self.store):
            return self.sink.finalize(plan, messages, engine)

    def commit(self, identifier: int, messages: Sequence[CommitMessage], origin: str = "") -> CommitResult:
        with _or_no_table(self.store):
            return self.sink.commit(identifier, messages, origin)

    def abort(self, messages: Sequence[CommitMessage]) -> None:
        self.sink.abort(messages)
        self.sink.sweep()
        remove_without_commits(self.store)

    def sweep(self) -> None:
        self.sink.sweep()


@contextmanager
def _or_no_table(store: Store) -> Iterator[None]:
    """Remove the table when the block fails, unless something was committed to it or may have been."""
    try:
        yield
    except CommitUnknownError:
        raise
    except BaseException:
        with suppress(LakebedError, OSError):  # the first error is the one that matters
            remove_without_commits(store)
        raise


def _of_table_changes(given: Mapping[str, str]) -> Mapping[str, str]:
    """The source's keys for `hudi_table_changes(table, query_type, begin, end)`.

    Rule: Hudi's `HoodieTableChangesOptionsParser`.
    """
    kind = given["query_type"].lower()
    if kind not in ("latest_state", "cdc"):
        raise UsageError(
            f"hudi_table_changes has no query type {given['query_type']!r}",
            todo="Give 'latest_state' for the newest row of each key that changed, 'cdc' for the rows before and after",
        )
    options = {QUERY_TYPE.key: "incremental", INCREMENTAL_FORMAT.key: kind, BEGIN.key: given["begin"]}
    return options | ({END.key: given["end"]} if given.get("end") else {})


_FUNCTIONS = {
    "hudi_table_changes": SourceFunction(
        ("table", "query_type", "begin", "end"), ("table", "query_type", "begin"), _of_table_changes
    )
}
SOURCE = NativeSource(_opens_table, _plan, _stream, _sink, functions=_FUNCTIONS)
