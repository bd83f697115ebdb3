"""Write a DataFrame as one commit: route the rows so that each (partition, bucket) is in one task, write, commit.

There is one shuffle (`routing`). Each task writes its buckets and returns its commit messages as one small row. Only
the messages of attempts that Spark accepts are committed. So a retried or speculative task does no harm: its files stay
invisible, and rows that it staged are removed when the write ends. Once the commit has begun, no file of the table is
deleted here.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from lakebed.errors import OptionError, SchemaError
from lakebed.kernel.observers import watching
from lakebed.kernel.options import option_texts
from lakebed.kernel.predicates.where import find_column
from lakebed.kernel.rows.conform import check_input
from lakebed.model.commit import BATCH_IDENTIFIER, CommitMessage, CommitResult
from lakebed.model.rowkind import ROW_KIND_COLUMN, ROW_KIND_FIELD
from lakebed.spark import worker
from lakebed.spark.catalogs import open_in_session
from lakebed.spark.engine import SparkEngine, collected, default_parallelism, run_workers_here
from lakebed.spark.failures import explained_errors, translated_errors
from lakebed.spark.hand_over import batches_by_rows, joined
from lakebed.spark.routing import routed
from lakebed.spark.types import arrow_schema, conform, fits
from lakebed.verbs.write import Mode, Sink, WritePlan, finalize_and_commit, swept

PARALLELISM_OPTION = "sink.parallelism"
"""How many tasks write, by default the session's parallelism. The name is Flink's."""

_WRITTEN = StructType([StructField("messages", BinaryType(), False), StructField("rows", LongType(), False)])
_WRITTEN_ARROW = pa.schema([pa.field("messages", pa.binary(), False), pa.field("rows", pa.int64(), False)])


def write(df: DataFrame, location: str, mode: str = "append", options: Mapping[str, object] = {}) -> CommitResult:
    """Write a DataFrame as one commit.

        lakebed.spark.write(df, "s3://bucket/orders", mode="upsert")

    Each bucket gets a bounded number of files, whatever the number of tasks. `mode` is "append", "overwrite", "upsert"
    or "delete", as in `Table.write`. A column `_row_kind` holds the kind of each row (+I -U +U -D); it is not data.
    Columns are matched by name, in any case. `options` are the table's own, and `sink.parallelism`: the number of
    writing tasks, by default the session's parallelism.

    Raises what `Table.write` raises; SchemaError comes before any row is computed when a column cannot fit the table.
    """
    texts = {key.lower(): text for key, text in option_texts(options).items()}
    run_workers_here(df.sparkSession)
    parallelism = sink_parallelism(texts) or default_parallelism(df.sparkSession)
    with explained_errors():
        own = {k: text for k, text in option_texts(options).items() if k.lower() != PARALLELISM_OPTION}
        table, _ = open_in_session(df.sparkSession, location, own)
    rows = arrow_schema(df.schema)
    with watching("write", table.format, table.location) as watched:
        sink = table.sink_for(rows, Mode.parse(mode))
        with swept(sink):
            plan = sink.plan(parallelism)
            written = write_files(df, plan, SinkInput.of(rows, sink, table.location), parallelism)
            engine = SparkEngine(df.sparkSession, parallelism)
            result = finalize_and_commit(sink, plan, written.messages, engine, BATCH_IDENTIFIER)
        watched.result = result
        return result


@dataclass(frozen=True, slots=True)
class Written:
    """What the tasks of one write returned: the messages to commit, and how many rows they took."""

    messages: tuple[CommitMessage, ...]
    rows: int


@dataclass(frozen=True, slots=True)
class SinkInput:
    """How batches of a DataFrame become batches of the sink.

    `names` are the table's spelling of the DataFrame's columns, in order. `schema` is the form in which the sink takes
    them.
    """

    names: tuple[str, ...]
    schema: pa.Schema

    @classmethod
    def of(cls, given: pa.Schema, sink: Sink, location: str) -> SinkInput:
        """For a DataFrame of the schema `given`. SchemaError names the first column that does not fit."""
        wanted = sink.input_schema
        columns = [*wanted.names, ROW_KIND_COLUMN]
        names = [find_column(name, columns) or name for name in given.names]
        check_input(
            pa.schema(
                [
                    field.with_name(name)
                    for field, name in zip(given, names, strict=True)
                    if name not in sink.left_out or name in wanted.names
                ]
            ),
            wanted,
            table=location,
            extra={ROW_KIND_COLUMN: pa.string()},
        )
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled:
            raise SchemaError(f"columns given twice: {', '.join(doubled)}", table=location, todo="Give each one once")
        # Columns that are not given are left out: the sink knows their defaults.
        fields = [field for field in [*wanted, ROW_KIND_FIELD] if field.name in names]
        for field in fields:
            kind = given.field(names.index(field.name)).type
            if not fits(kind, field.type):
                raise SchemaError(
                    f"column {field.name!r} is {kind}, the table has {field.type}",
                    table=location,
                    todo="Cast it in the query",
                )
        return cls(tuple(names), pa.schema(fields))

    def of_columns(self, columns: Sequence[str]) -> SinkInput:
        """The input with some of the sink's columns only."""
        names = tuple(name for name in self.names if name in columns)
        return SinkInput(names, pa.schema([field for field in self.schema if field.name in columns]))

    def take(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch of the DataFrame in the sink's form, without columns that were added behind (the channel)."""
        return conform(batch.select(range(len(self.names))).rename_columns(list(self.names)), self.schema)


def write_files(df: DataFrame, plan: WritePlan, taken: SinkInput, parallelism: int) -> Written:
    """Route the rows and write files. Nothing is visible yet. A task that fails removes its own files, and its error is
    raised here."""
    df = by_place(df, taken)
    if plan.routing is not None:
        names = plan.routing.columns
        narrow = taken.of_columns(names)
        places = [place for place, name in enumerate(taken.names) if name in names]
        df = routed(df, plan.routing, places, narrow.take, parallelism)
    writing = worker.over_batches(worker.pack(_WriteTask(plan, taken)))
    with translated_errors(), batches_by_rows(df.sparkSession):
        written = collected(df.mapInArrow(writing, _WRITTEN), _WRITTEN_ARROW)
    messages = [message for packed in written.column("messages") for message in pickle.loads(packed.as_buffer())]
    return Written(tuple(messages), sum(written.column("rows").to_pylist()))


def by_place(df: DataFrame, taken: SinkInput) -> DataFrame:
    """The DataFrame with columns that are found by their place: mapInArrow finds none whose name has a dot."""
    return df.toDF(*(f"_{place}" for place in range(len(taken.names))))


def sink_parallelism(options: Mapping[str, str]) -> int | None:
    """The number of writing tasks that options (keys in lower case) ask for, None when they do not."""
    text = options.get(PARALLELISM_OPTION)
    if text is None:
        return None
    if not text.isdigit() or int(text) < 1:
        raise OptionError.ill_typed(PARALLELISM_OPTION, text, "a whole number of at least 1")
    return int(text)


def write_task(
    plan: WritePlan, batches: Iterator[pa.RecordBatch], threads: int | None = None
) -> tuple[Sequence[CommitMessage], int]:
    """Write batches in the sink's form. Returns the messages and the number of rows; on failure, files are removed.
    `threads` are those of the write's only task."""
    writer = plan.task_writer(threads)
    rows = 0
    try:
        for batch in batches:
            rows += batch.num_rows
            writer.write(batch)
        return writer.finish(), rows
    except BaseException:
        writer.abort()
        raise


@dataclass(frozen=True, slots=True)
class _WriteTask:
    """Writes the rows of one task and yields one row with its messages."""

    plan: WritePlan
    taken: SinkInput

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        messages, rows = write_task(self.plan, map(self.taken.take, joined(batches)))
        packed = pa.array([pickle.dumps(list(messages))], pa.binary())
        yield pa.RecordBatch.from_arrays([packed, pa.array([rows])], schema=_WRITTEN_ARROW)
