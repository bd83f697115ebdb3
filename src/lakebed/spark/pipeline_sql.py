"""What can be said of a pipeline's SQL without Spark: whether it parses, which columns it names, and which it gives.

sqlglot reads it in Spark's dialect. What it cannot follow is left to Spark, which says so when the run starts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import sqlglot
from sqlglot import expressions as sql
from sqlglot.errors import OptimizeError, ParseError, SqlglotError
from sqlglot.optimizer.qualify import qualify

import lakebed.formats as formats
from lakebed.errors import PipelineFileError, TableNotFoundError, known_columns
from lakebed.kernel.sql_mistakes import mistake_in
from lakebed.spark.pipeline_file import Pipeline
from lakebed.verbs.table import Table

_VIEW = "source"
_MADE_UP = re.compile(r"_col_\d+")
"""sqlglot's names of columns without one: Spark has others."""
_UNKNOWN = re.compile(r"Column '\"?([^'\"]+)\"?' could not be resolved|Unknown column: (\S+)")


def check_query(pipeline: Pipeline) -> tuple[str, ...]:
    """Check the SQL against the source, and its columns against the sink's keys, partitions and columns.

    The names of the columns that reach the sink, () where only Spark can tell. Raises PipelineFileError.
    """
    source = formats.open_table(pipeline.source, pipeline.source_options)
    source_columns = [*source.schema.names, "_row_kind"]
    given = source_columns if pipeline.sql is None else _given(pipeline, source_columns)
    if given is None:
        return ()
    for key, names in (("primary_key", pipeline.primary_key), ("partition_by", pipeline.partition_by)):
        for name in names:
            column = name.rpartition(",")[2].strip(" )") if "(" in name else name
            if column.lower() not in map(str.lower, given):
                raise PipelineFileError(
                    f"sink.{key} names the unknown column {column!r}", key=f"sink.{key}", file=pipeline.file,
                    why="the rows that reach the sink do not have it", todo=known_columns(column, given),
                )  # fmt: skip
    sink = _sink(pipeline)
    if sink is not None:
        columns = [name.lower() for name in sink.schema.names]
        extra = [name for name in given if name.lower() not in columns and name != "_row_kind"]
        if extra and not any(key.lower().replace("-", "").endswith("mergeschema") for key in pipeline.sink_options):
            raise PipelineFileError(
                f"the sink has no column {extra[0]!r}", key="transform.sql", file=pipeline.file, table=pipeline.sink,
                todo=known_columns(extra[0], sink.schema.names),
            )  # fmt: skip
    return tuple(given)


def _sink(pipeline: Pipeline) -> Table | None:
    try:
        return formats.open_table(pipeline.sink, pipeline.sink_options)
    except TableNotFoundError:
        return None


def _given(pipeline: Pipeline, there: Sequence[str]) -> list[str] | None:
    """The columns that the SQL gives. None where only Spark can tell. PipelineFileError for what cannot be right."""
    assert pipeline.sql is not None
    try:
        tree = sqlglot.parse_one(pipeline.sql, read="spark")
    except ParseError as error:
        raise _mistake(pipeline, "is not SQL", mistake_in(error, lines=True), "") from error
    except SqlglotError:
        return None
    if not isinstance(tree, sql.Query):
        raise _mistake(pipeline, "is not a query", "", f"Example: select * from {_VIEW}")
    own = {cte.alias_or_name.lower() for cte in tree.find_all(sql.CTE)} | {_VIEW}
    tables = {table.name.lower() for table in tree.find_all(sql.Table)}
    if _VIEW not in tables:
        raise _mistake(pipeline, f"does not read {_VIEW}", "", f"The source's rows are the view {_VIEW}")
    if not tables <= own or tree.find(sql.Lateral) is not None:
        return None  # of tables that only Spark knows
    try:
        whole = qualify(
            tree, schema={_VIEW: dict.fromkeys(there, "unknown")}, dialect="spark", validate_qualify_columns=True
        )
    except OptimizeError as error:
        match = _UNKNOWN.search(str(error))
        if match is None:
            return None
        name = match[1] or match[2]
        raise _mistake(pipeline, f"names the unknown column {name!r}", "", known_columns(name, there)) from error
    except SqlglotError:
        return None
    names = [name.lower() for name in whole.named_selects] if isinstance(whole, sql.Query) else []
    unnamed = any(name in ("", "*") or _MADE_UP.fullmatch(name) for name in names)
    return None if unnamed or not names else names


def _mistake(pipeline: Pipeline, what: str, why: str, todo: str) -> PipelineFileError:
    return PipelineFileError(f"transform.sql {what}", key="transform.sql", file=pipeline.file, why=why, todo=todo)
