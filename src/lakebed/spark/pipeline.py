"""A pipeline: a source that streams, SQL over it, and a sink table with its upkeep, on one Spark session.

`pipeline_file` says what the TOML file holds. The row kinds of the source pass through as `_row_kind`, unless the SQL
leaves them out.
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
from lakebed.errors import LakebedError, PipelineFileError, TableNotFoundError, UnsupportedError, UsageError, first_line
from lakebed.kernel.files import Store, open_store
from lakebed.model.commit import Outcome
from lakebed.spark.failures import spoken_plainly
from lakebed.spark.first_run import FirstRun
from lakebed.spark.pipeline_file import AVAILABLE_NOW, CONTINUOUS, Pipeline, load
from lakebed.spark.read import plain_rows
from lakebed.spark.registration import register
from lakebed.spark.slow_start import despite_slow_start
from lakebed.spark.stream_sink import USER_FILE, BatchReport, reports, write_stream
from lakebed.spark.types import arrow_schema
from lakebed.spark.upkeep import Upkeep, refuse_impossible
from lakebed.verbs.table import Table

__all__ = ["AVAILABLE_NOW", "CONTINUOUS", "Interrupted", "Pipeline", "PipelineResult", "check", "load", "run"]

VIEW = "source"
"""The name that a pipeline's SQL knows its source by."""
_WAIT_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class PipelineResult:
    """What a run did: rows that reached the sink's tasks, commits of the sink, and the snapshots (or instants) that
    those made, oldest first."""

    rows_in: int
    commits: int
    snapshots: tuple[str, ...]
    batches: tuple[BatchReport, ...] = field(default=(), repr=False)


class Interrupted(KeyboardInterrupt):
    """A run that was interrupted, by Ctrl-C say; `result` is what it did before."""

    def __init__(self, result: PipelineResult) -> None:
        super().__init__(f"interrupted after {result.commits} commits")
        self.result = result


def check(pipeline: Pipeline) -> None:
    """What can be seen without Spark: that the source is a table that streams, and that the sink has the format named
    and can have the upkeep asked for, whether it is there or has yet to be made."""
    formats.open_table(pipeline.source, pipeline.source_options).stream()
    try:
        sink = formats.open_table(pipeline.sink, pipeline.sink_options)
    except TableNotFoundError:
        _check_new_sink(pipeline)
        return
    _check_format(pipeline, sink.format)
    refuse_impossible(sink, pipeline.upkeep, pipeline.file)


def _check_new_sink(pipeline: Pipeline) -> None:
    """Make a table of that kind in a folder of its own and see what it can have. Its columns are not known yet: where
    they matter for more, the run itself tells."""
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
            return  # it may be for columns that are not there
        refuse_impossible(table, pipeline.upkeep, pipeline.file, pipeline.sink)


def run(
    pipeline: Pipeline,
    spark: SparkSession,
    on_progress: Callable[[BatchReport], None] | None = None,
    stop: Event | None = None,
) -> PipelineResult:
    """Run a pipeline; makes the sink's table when it is not there. `on_progress` is called once for each batch, in
    order, in this thread.

    With trigger "available-now" it ends when what was there at the start is committed, with "continuous" when the query
    is stopped. A KeyboardInterrupt stops it, and so does the event `stop`: Interrupted is raised, with what was done.
    What was committed stays committed: run it again and it resumes there. A first run that fails before its first
    commit leaves no table and no checkpoint.
    """
    register(spark)
    frame = _source(pipeline, spark)
    checkpoint = open_store(pipeline.checkpoint, pipeline.sink_options)
    first = FirstRun.of(checkpoint)
    with first.or_nothing():
        sink = _sink(pipeline, frame, checkpoint, first)
        last_batch = max((report.batch_id for report in reports(checkpoint)), default=-1)
        progress = _Progress(checkpoint, Upkeep(sink, pipeline.upkeep, checkpoint), last_batch, on_progress, stop)
        trigger = {"availableNow": True} if pipeline.trigger == AVAILABLE_NOW else None

        def start_and_follow() -> None:
            with spoken_plainly():
                query = write_stream(frame, pipeline.sink, checkpoint.location, pipeline.sink_options, trigger=trigger)
            progress.follow(query)

        try:
            despite_slow_start(start_and_follow)
        except KeyboardInterrupt:
            raise Interrupted(progress.result()) from None
    return progress.result()


@dataclass(slots=True)
class _Progress:
    """Follows the queries of one run: the batches that were committed so far, after the batch `last_batch` that an
    earlier run committed."""

    checkpoint: Store
    upkeep: Upkeep
    last_batch: int
    on_progress: Callable[[BatchReport], None] | None
    stop: Event | None
    batches: list[BatchReport] = field(default_factory=list)

    def follow(self, query: StreamingQuery) -> None:
        """Wait until the query ends; after each batch that it commits, do the sink's upkeep and report the batch."""
        try:
            with spoken_plainly():
                while not query.awaitTermination(_WAIT_SECONDS):  # type: ignore[arg-type]  # fractions are taken
                    self._report_new_batches()
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
        """What the run did so far."""
        committed = [report for report in self.batches if report.outcome == Outcome.COMMITTED]
        return PipelineResult(
            rows_in=sum(report.rows for report in self.batches),
            commits=len(committed),
            snapshots=tuple(report.instant for report in committed),
            batches=tuple(self.batches),
        )

    def _report_new_batches(self) -> None:
        for committed in reports(self.checkpoint, self.batches[-1].batch_id if self.batches else self.last_batch):
            report = self.upkeep.after(committed)
            self.batches.append(report)
            if self.on_progress:
                self.on_progress(report)


def _source(pipeline: Pipeline, spark: SparkSession) -> DataFrame:
    """The rows that the SQL gives, or those of the source."""
    with spoken_plainly():
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
    """The sink's table, made if there is none."""
    created = False
    try:
        table = formats.open_table(pipeline.sink, pipeline.sink_options)
    except TableNotFoundError:
        if checkpoint.exists(USER_FILE):
            raise UsageError(
                "the checkpoint is that of an earlier run, but its sink is gone",
                table=pipeline.sink,
                file=pipeline.checkpoint,
                why="the query would go on after the rows that were committed to the old table",
                todo="Delete the checkpoint folder to begin anew, or name another one in [run] checkpoint",
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


def _check_format(pipeline: Pipeline, found: str) -> None:
    if found != pipeline.sink_format:
        raise UsageError(
            f"the sink is a {found} table, the pipeline says {pipeline.sink_format}",
            table=pipeline.sink,
            file=pipeline.file,
            todo="Name another place, or that format",
        )
