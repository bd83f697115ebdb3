"""Run a pipeline on a Spark session: a table that streams, SQL over its rows, and a sink table with its maintenance.

`pipeline_file` describes the TOML file. The source's row kinds pass through as `_row_kind`, unless the SQL drops that
column.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import lakebed.formats as formats
from lakebed.errors import (
    LakebedError,
    PipelineFileError,
    TableNotFoundError,
    UnsupportedError,
    UsageError,
    counted,
    first_line,
)
from lakebed.kernel.files import Store, open_store
from lakebed.model.commit import Outcome
from lakebed.spark.failures import translated_errors
from lakebed.spark.first_run import FirstRun
from lakebed.spark.pipeline_file import AVAILABLE_NOW, CONTINUOUS, Pipeline, load
from lakebed.spark.read import plain_rows
from lakebed.spark.registration import register
from lakebed.spark.slow_start import despite_slow_start
from lakebed.spark.stream_sink import USER_FILE, BatchReport, last_reported, reports, write_stream
from lakebed.spark.types import arrow_schema
from lakebed.spark.upkeep import Upkeep, refuse_impossible
from lakebed.verbs.table import Table

__all__ = ["AVAILABLE_NOW", "CONTINUOUS", "Interrupted", "Pipeline", "PipelineResult", "check", "load", "run"]

VIEW = "source"
"""The name of the source in a pipeline's SQL."""
_WAIT_SECONDS = 0.2
_LOOK_EVERY = 10
"""How often Spark's silence about its batches is waited for before the checkpoint is looked at anyway."""


@dataclass(frozen=True, slots=True)
class PipelineResult:
    """What a run did: how many rows reached the sink's tasks, how many commits it made, and the snapshots (or instants)
    of these, oldest first."""

    rows_in: int
    commits: int
    snapshots: tuple[str, ...]
    batches: tuple[BatchReport, ...] = field(default=(), repr=False)


class Interrupted(KeyboardInterrupt):
    """A run was interrupted, for example by Ctrl-C. `result` is what it had done before."""

    def __init__(self, result: PipelineResult) -> None:
        super().__init__(f"interrupted after {counted(result.commits, 'commit')}")
        self.result = result


def check(pipeline: Pipeline) -> None:
    """Check what can be checked without Spark.

    The source must be a table that streams. The sink must have the format that the file names, and must allow the
    maintenance that it asks for, also when the run has yet to create it. Raises the error that the run would raise.
    """
    formats.open_table(pipeline.source, pipeline.source_options).stream()
    try:
        sink = formats.open_table(pipeline.sink, pipeline.sink_options)
    except TableNotFoundError:
        _check_new_sink(pipeline)
        return
    _check_format(pipeline, sink.format)
    refuse_impossible(sink, pipeline.upkeep, pipeline.file)


def _check_new_sink(pipeline: Pipeline) -> None:
    """Create a table like the sink in a temporary folder, and see which maintenance it allows.

    Only the names of its key and partition columns are known yet. What depends on other columns, the run checks.
    """
    names = dict.fromkeys((*pipeline.primary_key, *pipeline.partition_by)) or {"a": None}
    schema = pa.schema([pa.field(name, pa.string(), False) for name in names])
    with tempfile.TemporaryDirectory(prefix="lakebed-check-") as folder:
        place = f"{folder}/check.db/sink"
        try:
            table = formats.create_table(
                place, pipeline.sink_format, schema, pipeline.primary_key, (), pipeline.sink_options
            )
        except LakebedError as error:
            if isinstance(error, UnsupportedError) and not pipeline.sink_options:
                raise
            return  # perhaps only since columns are missing here
        refuse_impossible(table, pipeline.upkeep, pipeline.file, pipeline.sink)


def run(
    pipeline: Pipeline,
    spark: SparkSession,
    on_progress: Callable[[BatchReport], None] | None = None,
    stop: Event | None = None,
) -> PipelineResult:
    """Run a pipeline. Creates the sink's table when there is none. Calls `on_progress` once per batch, in order, in
    this thread.

    With the trigger "available-now" the run ends when everything that was there at the start is committed, with
    "continuous" when the query is stopped. A KeyboardInterrupt or the event `stop` stops it: Interrupted is raised,
    with what the run has done. Committed batches stay committed, and the next run resumes after them. A first run that
    fails before its first commit leaves no table and no checkpoint.
    """
    register(spark)
    frame = _source(pipeline, spark)
    checkpoint = open_store(pipeline.checkpoint, pipeline.sink_options)
    first = FirstRun.of(checkpoint)
    with first.or_nothing():
        sink = _sink(pipeline, frame, checkpoint, first)
        last_batch = last_reported(checkpoint)
        progress = _Progress(checkpoint, Upkeep(sink, pipeline.upkeep, checkpoint), last_batch, on_progress, stop)
        trigger = {"availableNow": True} if pipeline.trigger == AVAILABLE_NOW else None

        def start_and_follow() -> None:
            with translated_errors():
                query = write_stream(frame, pipeline.sink, checkpoint.location, pipeline.sink_options, trigger=trigger)
            progress.follow(query)

        try:
            despite_slow_start(start_and_follow)
        except KeyboardInterrupt:
            raise Interrupted(progress.result()) from None
    return progress.result()


@dataclass(slots=True)
class _Progress:
    """Follows the query of a run, which may be started more than once, and collects the reports of its batches.

    `last_batch` is the last batch of earlier runs.
    """

    checkpoint: Store
    upkeep: Upkeep
    last_batch: int
    on_progress: Callable[[BatchReport], None] | None
    stop: Event | None
    batches: list[BatchReport] = field(default_factory=list)
    _heard: str = ""
    _silences: int = 0

    def follow(self, query: StreamingQuery) -> None:
        """Wait until the query ends. After each batch, maintain the sink and report the batch."""
        try:
            with translated_errors():
                while not query.awaitTermination(_WAIT_SECONDS):  # type: ignore[arg-type]  # fractions are taken
                    self._look(query)
                    if self.stop is not None and self.stop.is_set():
                        raise KeyboardInterrupt
        except KeyboardInterrupt:
            self.upkeep.ended = True
            raise
        finally:
            if query.isActive:
                query.stop()
            self._report_new_batches()

    def result(self) -> PipelineResult:
        """What the run has done so far."""
        committed = [report for report in self.batches if report.outcome == Outcome.COMMITTED]
        return PipelineResult(
            rows_in=sum(report.rows for report in self.batches),
            commits=len(committed),
            snapshots=tuple(report.instant for report in committed),
            batches=tuple(self.batches),
        )

    def _look(self, query: StreamingQuery) -> None:
        """Report the batches that have ended by what Spark says of its progress. The checkpoint is asked only for their
        reports, and now and then where Spark keeps no progress."""
        progress = query.lastProgress
        if progress is None:
            self._silences += 1
            if self._silences % _LOOK_EVERY == 0:
                self._report_new_batches()
        elif progress["timestamp"] != self._heard:
            self._heard = progress["timestamp"]
            self._report_new_batches(progress["batchId"])

    def _report_new_batches(self, through: int | None = None) -> None:
        after = self.batches[-1].batch_id if self.batches else self.last_batch
        for committed in reports(self.checkpoint, after, through):
            report = self.upkeep.after(committed)
            self.batches.append(report)
            if self.on_progress:
                self.on_progress(report)


def _source(pipeline: Pipeline, spark: SparkSession) -> DataFrame:
    """The rows that the SQL gives; without SQL those of the source."""
    with translated_errors():
        rows = spark.readStream.format("lakebed").options(**pipeline.source_options).load(pipeline.source)
        if pipeline.sql is None:
            return rows
        rows.createOrReplaceTempView(VIEW)
        try:
            return spark.sql(pipeline.sql)
        except AnalysisException as error:
            raise PipelineFileError(
                "[transform] sql does not fit the source",
                key="transform.sql",
                file=pipeline.file,
                why=first_line(error),
                todo=f"The source's columns: {', '.join(rows.columns)}",
            ) from error


def _sink(pipeline: Pipeline, frame: DataFrame, checkpoint: Store, first: FirstRun) -> Table:
    """The sink's table, which is created when there is none."""
    created = False
    try:
        table = formats.open_table(pipeline.sink, pipeline.sink_options)
    except TableNotFoundError:
        if checkpoint.exists(USER_FILE):
            raise UsageError(
                "the checkpoint belongs to an earlier run, but its sink is gone",
                table=pipeline.sink,
                file=pipeline.checkpoint,
                why="the query would continue after the rows that were committed to the old table",
                todo="Delete the checkpoint folder to start over, or name another one in [run] checkpoint",
            ) from None
        schema = plain_rows(arrow_schema(frame.schema))
        keys, partitions = pipeline.primary_key, pipeline.partition_by
        table = formats.create_table(
            pipeline.sink, pipeline.sink_format, schema, keys, partitions, pipeline.sink_options
        )
        created = True
    first.writes_to(table, created)
    _check_format(pipeline, table.format)
    refuse_impossible(table, pipeline.upkeep, pipeline.file)
    return table


def _check_format(pipeline: Pipeline, actual: str) -> None:
    if actual != pipeline.sink_format:
        raise UsageError(
            f"the sink is a {actual} table, but the pipeline says {pipeline.sink_format}",
            table=pipeline.sink,
            file=pipeline.file,
            todo=f"Set [sink] format to {actual}, or name another location",
        )
