"""The data sources that `register` adds: a table, loaded by a DataFrame's options and pinned to one snapshot.

The name `lakebed` takes lakebed's own keys and gives row kinds. Each other name is that of a format: it takes the keys
and gives the rows of that format's own Spark source, as its `verbs.native_source.NativeSource` says.

Spark asks a source for its schema once and for its reader at every action. So the plan of a batch is made with the
schema and kept. Everything that a task needs is packed into its partition.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NoReturn

import pyarrow as pa
from pyspark.sql.types import StructType

import lakebed.formats as formats
from lakebed.errors import OptionError, SchemaError, TableNotFoundError, UnsupportedError, UsageError
from lakebed.kernel.engine import LocalEngine
from lakebed.kernel.options import boolean
from lakebed.kernel.predicates.where import both, parse_where
from lakebed.model.commit import BATCH_IDENTIFIER, CommitMessage
from lakebed.model.instant import Instant
from lakebed.model.rowkind import ROW_KIND_COLUMN
from lakebed.redaction import redacting_logger
from lakebed.spark import worker
from lakebed.spark.catalogs import Catalogs, with_catalog
from lakebed.spark.pushdown import predicate_of
from lakebed.spark.read import plain_rows, read_tasks
from lakebed.spark.release import HAS_STREAMS, needs
from lakebed.spark.sink import SinkInput, write_task
from lakebed.spark.stream import TABLE_LIMITS, Stream, StreamOptions
from lakebed.spark.types import arrow_schema, spark_schema
from lakebed.verbs.native_source import NativeSource, SinkRequest, SourceRequest
from lakebed.verbs.read import ReadPlan
from lakebed.verbs.stream import StreamReader
from lakebed.verbs.table import Table
from lakebed.verbs.write import Mode, Sink, WritePlan, finalize_and_commit, swept

_log = redacting_logger("lakebed.spark")

LAKEBED = "lakebed"
"""The short name of lakebed's own source, whose keys and rows are lakebed's."""
STREAMING_OPTION = "lakebed.streaming"
"""True for a stream. Spark does not say whether it asks for the schema of a batch or of a stream, and a stream's rows
have kinds too."""
_OWN_NATIVE = {"path": "location", "columns": "columns", "where": "where", STREAMING_OPTION: "streaming"}
_OWN = {**_OWN_NATIVE, "as-of": "as_of", "as_of": "as_of", "after": "after", "until": "until"}
"""The options of the source itself, in lower case, and what each is. All other options are the table's."""
_CREATES_TABLE = "owner"
"""The key, in lower case, that Spark adds to the options where `CREATE TABLE ... USING` names a source."""
_NO_CATALOGS: Catalogs = {}


def load(options: Mapping[str, str], short_name: str, parallelism: int, catalogs: Catalogs = _NO_CATALOGS) -> Loaded:
    """The table that a DataFrame's options name. `catalogs` are those of the session.

    Raises UsageError when they name no path, or a table of another format than the short name says; OptionError for
    keys that the table does not know.
    """
    keys = _OWN if short_name == LAKEBED else _OWN_NATIVE
    own = {keys[key.lower()]: value for key, value in options.items() if key.lower() in keys}
    if any(key.lower() == _CREATES_TABLE for key in options):
        raise UsageError(
            "Spark's catalog cannot hold a table of this source",
            why="Spark does not hand the table's place to a source that is written in Python",
            todo=f"Write CREATE TEMPORARY VIEW name USING {short_name} OPTIONS (path '...')",
        )
    rest = {key: value for key, value in options.items() if key.lower() not in keys}
    named = None if short_name == LAKEBED else formats.native_source(short_name).location(options)
    own["location"] = named or own.get("location", "")
    if not own.get("location"):
        raise UsageError("no path is given", todo=f'Write .format("{short_name}").load(path)')
    limits, table_options = StreamOptions.split(with_catalog(catalogs, own["location"], rest))
    if named and not formats.native_source(short_name).has_catalog(named.partition(":")[0], table_options):
        raise UsageError(
            f"the session has no catalog {named.partition(':')[0]!r} of {short_name} tables",
            todo="Set spark.sql.catalog.NAME and its settings before lakebed.spark.register(spark), or give options "
            "lakebed.catalog.metastore and its like",
        )
    if (own.get("after") or own.get("until")) and own.get("as_of"):
        raise UsageError("as-of reads a snapshot, after and until read changes", todo="Give one or the other")
    try:
        streaming = boolean(own.pop("streaming", "false"))
    except KeyError:
        raise OptionError.ill_typed(STREAMING_OPTION, options[STREAMING_OPTION], "true or false") from None
    if streaming and not HAS_STREAMS and limits.bounded:
        raise needs(
            "4.2",
            f"a stream whose batches have at most so many {' and '.join(limits.bounded)}",
            "Leave the bound out: a batch takes what is there when it begins. Or read what changed between two commits"
            " in batches: option after, or Table.changes",
        )
    columns = _column_names(own.pop("columns", None))
    loaded = Loaded(
        options=table_options,
        limits=limits,
        parallelism=parallelism,
        short_name=short_name,
        streaming=streaming,
        columns=columns,
        location=own["location"],
        where=own.get("where"),
        as_of=own.get("as_of"),
        after=own.get("after"),
        until=own.get("until"),
    )
    try:
        table = loaded.table()
    except TableNotFoundError:
        if loaded.native is None or loaded.native.sink is None:
            raise
        return loaded  # a write may create it; a read opens it again, and says so
    loaded = replace(loaded, opened=table)
    if loaded.rows_only and table.format != short_name:
        raise UsageError(
            f"this is {'an' if table.format == 'iceberg' else 'a'} {table.format} table, read as {short_name}",
            table=table.location,
            todo=f'Write .format("{table.format}") or .format("lakebed")',
        )
    return loaded


@dataclass(frozen=True, slots=True)
class Loaded:
    """A table with the options of one DataFrame. Picklable.

    `plan` is the plan of a batch, made when Spark asked for the schema. `pin` is the instant that it is planned as of,
    for actions that plan again. `opened` is the table for the calls of this process; it does not travel.
    """

    location: str
    options: Mapping[str, str]
    limits: StreamOptions
    parallelism: int
    short_name: str = LAKEBED
    streaming: bool = False
    columns: tuple[str, ...] | None = None
    where: str | None = None
    as_of: str | None = None
    after: str | None = None
    until: str | None = None
    plan: ReadPlan[Any] | None = None
    pin: Instant | None = None
    opened: Table | None = field(default=None, repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return Loaded, tuple(getattr(self, column.name) for column in fields(self) if column.name != "opened")

    @property
    def native(self) -> NativeSource[Any] | None:
        """The format's own Spark source that the short name stands for; None for lakebed's."""
        return None if self.short_name == LAKEBED else formats.native_source(self.short_name)

    @property
    def rows_only(self) -> bool:
        """Whether rows come without kinds, as they do from the formats' own Spark sources."""
        return self.short_name != LAKEBED

    def table(self) -> Table:
        """The table, opened anew where this process has not opened it."""
        return self.opened if self.opened is not None else self._open(self.options)

    def _table_if_any(self) -> Table | None:
        try:
            return self.table()
        except TableNotFoundError:
            return None

    def pinned(self) -> Loaded:
        """This source with its batch already planned. A stream is planned from its offsets instead."""
        if self.streaming:
            return self
        table = self.table()
        pin = table.newest()
        return replace(self, pin=pin, plan=self._planned(table, self.where), opened=table)

    def spark_schema(self) -> StructType:
        """The schema of the rows. Those of streams and of changes have `_row_kind`."""
        schema = self._reader().schema if self.streaming else self._plan().schema
        return spark_schema(plain_rows(schema) if self.rows_only else schema)

    @property
    def rows_schema(self) -> pa.Schema:
        """The columns of a batch's rows."""
        schema = self._plan().schema
        return plain_rows(schema) if self.rows_only else schema

    def batch(self, schema: StructType) -> Batch:
        """The reader of a batch."""
        plan = self._plan()
        self._check(schema, plan.schema)
        return Batch(self, plan)

    def stream(self, schema: StructType) -> Stream:
        """The reader of a stream."""
        reader = self._reader()
        self._check(schema, reader.schema)
        return Stream(reader, self.limits, self.parallelism, self.rows_only)

    def sink(self, schema: StructType, overwrite: bool) -> WriteJob:
        """The writer of one commit."""
        given = arrow_schema(schema)
        if self.native is not None and self.native.sink is not None:
            sink = self.native.sink(SinkRequest(self._table_if_any(), self.location, given, self.options, overwrite))
        else:
            sink = self.table().sink_for(given, Mode.OVERWRITE if overwrite else Mode.APPEND)
        try:
            taken = SinkInput.of(given, sink, self.location)
            return WriteJob(sink, sink.plan(), taken, self.location)
        except BaseException:
            sink.abort(())
            raise

    def stream_sink(self) -> NoReturn:
        """Refuse: Spark would not route the rows, and does not tell a source which checkpoint it belongs to."""
        raise UnsupportedError(
            'writeStream.format("lakebed") cannot write a stream',
            todo="Use lakebed.spark.write_stream(df, location, checkpoint): it commits each batch exactly once",
        )

    def push(self, filters: Sequence[Any]) -> ReadPlan[Any] | None:
        """The plan of the same snapshot with filters that Spark pushed; None when none of them is of use."""
        table = self.table()
        schema = table.schema
        predicate = predicate_of(filters, schema)
        return None if predicate is None else self._planned(table, both(parse_where(self.where, schema), predicate))

    def _reader(self) -> StreamReader:
        if self.as_of or self.after or self.until:
            raise UsageError(
                "as-of, after and until are for a batch, not for a stream",
                table=self.location,
                todo="Set the table's own options to say where a stream starts",
            )
        # Spark's admission control bounds the batches: a stream that did so itself could not tell what is there now.
        unbounded = {key: value for key, value in self.options.items() if key.lower() not in TABLE_LIMITS}
        table = self._open(unbounded)
        if self.native is None:
            return table.stream(self.columns, self.where)
        return self.native.stream(table, SourceRequest(unbounded, self.columns, self.where))

    def _open(self, options: Mapping[str, str]) -> Table:
        if self.native is not None:
            options = {key: value for key, value in options.items() if self.native.opens_table(key)}
        return formats.open_table(self.location, options)

    def _plan(self) -> ReadPlan[Any]:
        return self.plan if self.plan is not None else self._planned(self.table(), self.where)

    def _planned(self, table: Table, where: Any) -> ReadPlan[Any]:
        if self.native is not None:
            return self.native.plan(table, SourceRequest(self.options, self.columns, where, self.pin))
        if self.after or self.until:
            return table.plan_changes(self.columns, where, self.after, self.until)
        return table.plan_read(self.columns, where, self.as_of or self.pin)

    def _check(self, given: StructType, rows: pa.Schema) -> None:
        """Raise SchemaError for a schema that the caller gave and that is not the table's, and for a stream that would
        lose its row kinds."""
        actual = spark_schema(plain_rows(rows) if self.rows_only else rows)
        if given == actual:
            return
        if ROW_KIND_COLUMN in actual.names and ROW_KIND_COLUMN not in given.names:
            raise SchemaError(
                "the row kinds would be lost",
                table=self.location,
                why="Spark read the schema of a batch, which has no kinds",
                todo=f'Add .option("{STREAMING_OPTION}", "true"), or call lakebed.spark.register(spark) here',
            )
        raise SchemaError(
            "the schema given is not the table's",
            table=self.location,
            why=f"the table has {actual.simpleString()}",
            todo='Leave .schema(...) out; choose columns with .option("columns", ...)',
        )


@dataclass(slots=True)
class Batch:
    """The reader of one action: its plan, narrowed by the filters that Spark pushed."""

    loaded: Loaded
    plan: ReadPlan[Any]

    def tasks(self) -> list[bytes]:
        """The tasks of the read, packed."""
        tasks = read_tasks(self.plan, self.loaded.limits.tasks, self.loaded.parallelism, self.loaded.rows_only)
        return [worker.pack(task) for task in tasks]

    def push(self, filters: Sequence[Any]) -> list[Any]:
        """Use filters to open fewer files. All of them are returned: Spark evaluates each one again."""
        if self.loaded.after is None and self.loaded.until is None:
            self.plan = self.loaded.push(filters) or self.plan
        return list(filters)


@dataclass(frozen=True, slots=True)
class WriteJob:
    """One commit of a DataFrame without routing: each task writes its own files of each bucket, and the driver merges
    small ones.

    The notes of the commit go to the log, since a DataFrame's writer returns nothing.
    """

    sink: Sink
    plan: WritePlan
    taken: SinkInput
    location: str

    def write(self, batches: Iterator[pa.RecordBatch]) -> bytes:
        """Write the rows of one task, and return its commit messages, packed."""
        messages, _ = write_task(self.plan, (self.taken.take(batch) for batch in batches if batch.num_rows))
        return worker.pack(list(messages))

    def commit(self, messages: Sequence[Sequence[CommitMessage]]) -> None:
        """Publish the messages of all tasks."""
        with swept(self.sink):
            written = [message for task in messages for message in task]
            notes = finalize_and_commit(self.sink, self.plan, written, LocalEngine(), BATCH_IDENTIFIER).notes
        for note in notes:
            _log.warning("%s: %s", self.location, note)

    def abort(self, messages: Sequence[Sequence[CommitMessage]]) -> None:
        """Remove the files of tasks that succeeded in a job that failed."""
        with swept(self.sink):
            self.sink.abort([message for task in messages for message in task])


def _column_names(text: str | None) -> tuple[str, ...] | None:
    """The option `columns`: names separated by commas, or a JSON list of names. None when it is not given."""
    if text is None:
        return None
    if text.lstrip().startswith("["):
        try:
            names = json.loads(text)
        except json.JSONDecodeError:
            names = None
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise OptionError.ill_typed("columns", text, "names separated by commas, or a JSON list of names")
    else:
        names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise OptionError.ill_typed("columns", text, "at least one name")
    return tuple(names)
