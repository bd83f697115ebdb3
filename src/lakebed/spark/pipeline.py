"""A pipeline: a source that streams, SQL over it, and a sink table, told in one TOML file.

    [source]                                table = a location; [source.options] the table's own keys
    [transform]                             sql = a query over the view `source`; left out: all rows as they are
    [sink]                                  table, format, and for a table that is not there yet primary_key,
    partition_by;
                                            [sink.options] the table's own keys
    [run]                                   checkpoint = a folder (default: beside the sink); trigger = "available-now"
    (default: take
                                            what is there and end) or "continuous"

Relative paths are meant from the working directory. The row kinds of the source pass through as `_row_kind`, unless the
SQL leaves them out.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import lakebed.formats as formats
from lakebed.errors import LakebedError, PipelineFileError, TableNotFoundError, UsageError
from lakebed.formats.opening import FORMATS
from lakebed.kernel.files import Store, open_store, parse_location
from lakebed.kernel.options import option_text
from lakebed.model.commit import Outcome
from lakebed.spark.failures import spoken_plainly
from lakebed.spark.read import plain_rows
from lakebed.spark.registration import register
from lakebed.spark.stream_sink import USER_FILE, BatchReport, reports, slow_start, write_stream
from lakebed.spark.types import arrow_schema

VIEW = "source"
"""The name that a pipeline's SQL knows its source by."""
AVAILABLE_NOW, CONTINUOUS = "available-now", "continuous"
_WAIT_SECONDS = 0.2
_STARTS = 3


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline file, checked. Locations are absolute; `file` is where it was read from."""

    file: str
    source: str
    source_options: Mapping[str, str]
    sql: str | None
    sink: str
    sink_format: str
    primary_key: tuple[str, ...]
    partition_by: tuple[str, ...]
    sink_options: Mapping[str, str]
    checkpoint: str
    trigger: str = AVAILABLE_NOW


@dataclass(frozen=True, slots=True)
class PipelineResult:
    """What a run did: rows that reached the sink's tasks, commits of the sink, and the snapshots (or instants) that
    those made, oldest first."""

    rows_in: int
    commits: int
    snapshots: tuple[str, ...]
    batches: tuple[BatchReport, ...] = field(default=(), repr=False)


def load(path: str | os.PathLike[str]) -> Pipeline:
    """Read and check a pipeline file; nothing is opened and no Spark is needed.

    Raises PipelineFileError with the file, the key and what was expected; an unknown key names the nearest known one.
    """
    file = os.fspath(path)
    try:
        with open(file, "rb") as stream:
            document = tomllib.load(stream)
    except FileNotFoundError:
        raise PipelineFileError("there is no such pipeline file", file=file, todo="Check the path") from None
    except (OSError, UnicodeDecodeError) as error:
        raise PipelineFileError("cannot read the pipeline file", file=file, why=str(error)) from error
    except tomllib.TOMLDecodeError as error:
        raise PipelineFileError("this is no TOML", file=file, why=str(error)) from error
    return _Document(file, document).pipeline()


def check(pipeline: Pipeline) -> None:
    """What can be seen without Spark: that the source is a table that streams, and that a sink which is there has the
    format named."""
    formats.open_table(pipeline.source, pipeline.source_options).stream()
    with suppress(TableNotFoundError):
        _check_format(pipeline, formats.open_table(pipeline.sink, pipeline.sink_options).format)


def run(
    pipeline: Pipeline, spark: SparkSession, on_progress: Callable[[BatchReport], None] | None = None
) -> PipelineResult:
    """Run a pipeline; makes the sink's table when it is not there. `on_progress` is called once for each batch, in
    order, in this thread.

    With trigger "available-now" it ends when what was there at the start is committed, with "continuous" when the query
    is stopped or at KeyboardInterrupt. What was committed stays committed: run it again and it goes on there.
    """
    register(spark)
    frame = _source(pipeline, spark)
    checkpoint = open_store(pipeline.checkpoint, pipeline.sink_options)
    _make_sink(pipeline, frame, checkpoint)
    last = max((report.batch_id for report in reports(checkpoint)), default=-1)
    trigger = {"availableNow": True} if pipeline.trigger == AVAILABLE_NOW else None
    seen: list[BatchReport] = []
    for starts_left in reversed(range(_STARTS)):
        with spoken_plainly():
            query = write_stream(frame, pipeline.sink, checkpoint.location, pipeline.sink_options, trigger=trigger)
        try:
            _follow(query, checkpoint, last, seen, on_progress)
            break
        except StreamingQueryException as error:
            if not starts_left or not slow_start(error):
                raise
    committed = [report for report in seen if report.outcome == Outcome.COMMITTED]
    return PipelineResult(
        rows_in=sum(report.rows for report in seen),
        commits=len(committed),
        snapshots=tuple(report.instant for report in committed),
        batches=tuple(seen),
    )


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
                why=str(error).strip().splitlines()[0],
                todo=f"The source's columns: {', '.join(rows.columns)}",
            ) from error


def _make_sink(pipeline: Pipeline, frame: DataFrame, checkpoint: Store) -> None:
    """Make the sink's table if there is none."""
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
        formats.create_table(pipeline.sink, pipeline.sink_format, schema, keys, partitions, pipeline.sink_options)
    else:
        _check_format(pipeline, table.format)


def _check_format(pipeline: Pipeline, found: str) -> None:
    if found != pipeline.sink_format:
        raise UsageError(
            f"the sink is a {found} table, the pipeline says {pipeline.sink_format}",
            table=pipeline.sink,
            file=pipeline.file,
            todo="Name another place, or that format",
        )


def _follow(
    query: StreamingQuery,
    checkpoint: Store,
    last: int,
    seen: list[BatchReport],
    on_progress: Callable[[BatchReport], None] | None,
) -> None:
    """Wait for the query, and tell of each batch after `last` when it is committed; `seen` grows by them."""

    def look() -> None:
        for report in reports(checkpoint, seen[-1].batch_id if seen else last):
            seen.append(report)
            if on_progress:
                on_progress(report)

    try:
        with spoken_plainly():
            while not query.awaitTermination(_WAIT_SECONDS):  # type: ignore[arg-type]  # fractions are taken
                look()
    except KeyboardInterrupt:
        query.stop()
    finally:
        if query.isActive:
            query.stop()
        look()


# ---- the file --------------------------------------------------------------------------------------------------------

_SECTIONS: Mapping[str, tuple[str, ...]] = {
    "source": ("table", "options"),
    "transform": ("sql",),
    "sink": ("table", "format", "primary_key", "partition_by", "options"),
    "run": ("checkpoint", "trigger"),
    "upkeep": ("rewrite", "expire", "archive"),
}
"""Every section and its keys."""


class _Document:
    """One file's content, checked key by key."""

    def __init__(self, file: str, content: Mapping[str, Any]) -> None:
        self._file, self._content = file, content

    def pipeline(self) -> Pipeline:
        """All keys, typed; the first mistake is raised."""
        self._known("", self._content, tuple(_SECTIONS))
        for section, keys in _SECTIONS.items():
            self._known(section, self._section(section), keys)
        if "upkeep" in self._content:
            raise self._error(
                "upkeep",
                "is not possible yet",
                why="no sink of this version can rewrite, expire or archive",
                todo="Leave [upkeep] out",
            )
        sink = self._location("sink", "table")
        trigger = self._text("run", "trigger", AVAILABLE_NOW)
        if trigger not in (AVAILABLE_NOW, CONTINUOUS):
            raise self._expected("run.trigger", trigger, f'"{AVAILABLE_NOW}" or "{CONTINUOUS}"')
        format_name = self._text("sink", "format")
        if format_name.lower() not in FORMATS:
            raise self._expected("sink.format", format_name, f"one of {', '.join(FORMATS)}")
        return Pipeline(
            file=self._file,
            source=self._location("source", "table"),
            source_options=self._options("source"),
            sql=self._text("transform", "sql") if "transform" in self._content else None,
            sink=sink,
            sink_format=format_name.lower(),
            primary_key=self._names("sink", "primary_key"),
            partition_by=self._names("sink", "partition_by"),
            sink_options=self._options("sink"),
            checkpoint=self._location("run", "checkpoint", f"{sink}.checkpoint"),
            trigger=trigger,
        )

    def _known(self, section: str, content: Mapping[str, Any], keys: tuple[str, ...]) -> None:
        for key in content:
            if key not in keys:
                near = difflib.get_close_matches(key.lower(), keys, n=1, cutoff=0.5)
                what = f"unknown key {key!r} in [{section}]" if section else f"unknown section [{key}]"
                raise PipelineFileError(
                    what,
                    key=f"{section}.{key}".lstrip("."),
                    file=self._file,
                    todo=f"Did you mean {near[0]!r}?" if near else f"Expected: {', '.join(keys)}",
                )

    def _section(self, name: str) -> Mapping[str, Any]:
        content = self._content.get(name, {})
        if not isinstance(content, dict):
            raise self._expected(name, content, f"a section, [{name}]")
        return content

    def _text(self, section: str, key: str, default: str | None = None) -> str:
        value = self._section(section).get(key, default)
        if value is None:
            raise self._error(f"{section}.{key}", "is missing", why="expected a text")
        if not isinstance(value, str) or not value.strip():
            raise self._expected(f"{section}.{key}", value, "a text that is not empty")
        return value

    def _location(self, section: str, key: str, default: str | None = None) -> str:
        text = self._text(section, key, default)
        try:
            return parse_location(text).text
        except LakebedError as error:
            raise self._error(f"{section}.{key}", "is no location", why=str(error)) from error

    def _names(self, section: str, key: str) -> tuple[str, ...]:
        value = self._section(section).get(key, [])
        if not isinstance(value, list) or not all(isinstance(name, str) and name for name in value):
            raise self._expected(f"{section}.{key}", value, "a list of texts")
        return tuple(value)

    def _options(self, section: str) -> dict[str, str]:
        """Options as texts. A key without quotes, `a.b = 1`, is a table inside a table in TOML: it means the same
        here."""
        value = self._section(section).get("options", {})
        if not isinstance(value, dict):
            raise self._expected(f"{section}.options", value, f"a section, [{section}.options]")
        return dict(self._flat(f"{section}.options", "", value))

    def _flat(self, place: str, prefix: str, content: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        for key, value in content.items():
            if isinstance(value, dict):
                yield from self._flat(place, f"{prefix}{key}.", value)
            elif isinstance(value, str | int | float | bool):
                yield f"{prefix}{key}", option_text(value)
            else:
                raise self._expected(f"{place}.{prefix}{key}", value, "a text, a number, true or false")

    def _expected(self, key: str, value: object, expected: str) -> PipelineFileError:
        return self._error(key, f"is {value!r}", why=f"expected {expected}")

    def _error(self, key: str, what: str, why: str = "", todo: str = "") -> PipelineFileError:
        return PipelineFileError(f"{key} {what}", key=key, file=self._file, why=why, todo=todo)
