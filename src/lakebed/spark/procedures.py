"""What the SQL table functions do: `SELECT * FROM lakebed_rewrite('TABLE', map('KEY', 'VALUE'), dry_run => true)`.

A function that changes a table opens it, runs the verb in its task, with the threads of that worker, and gives one row:
the fields of the verb's result. It runs once for each analyzed query (`kernel/commit/calls.py`). A function that only
reads gives a row per instant, file or finding, and may run as often as Spark likes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark

from lakebed.errors import RetryableError, UsageError, nearest_of
from lakebed.kernel.commit.calls import Call
from lakebed.model.refs import Ref
from lakebed.model.upkeep import (
    AddFilesResult,
    ArchiveResult,
    ExpireResult,
    PartitionStatsResult,
    RepairResult,
    RewriteResult,
    RollbackResult,
    TablePathResult,
    TableStatsResult,
)
from lakebed.spark import worker
from lakebed.spark.catalogs import Catalogs, with_catalog
from lakebed.spark.new_table_procedures import NEW_TABLES
from lakebed.spark.procedure import Given, Procedure, Row
from lakebed.spark.procedure_results import result_row, result_schema
from lakebed.spark.source_functions import source_function
from lakebed.spark.types import conform, spark_schema, wire_schema
from lakebed.verbs.table import Table

_FLAGS = ("dry_run", "archived", "delete")
"""Parameters that are true or false. `options` and `columns` are maps of texts, all others are texts."""


def analyzed(
    name: str, catalogs: Catalogs, given: Sequence[tuple[bool, Any]], named: Mapping[str, tuple[bool, Any]]
) -> tuple[spark.StructType, bytes]:
    """The columns of a call, and the call, packed for `run`.

    Raises UsageError for arguments that the function does not take, that are no constants or have the wrong type.
    """
    procedure = _procedure(name)
    values = _bound(name, procedure, given, named)
    table, options = values.pop("table", None) or values["folder"], values.pop("options", {})
    call = Given(name, table, with_catalog(catalogs, table, options), values)
    if isinstance(procedure.columns, spark.StructType):
        return procedure.columns, worker.pack(call)
    arrow = procedure.columns(call)
    packed = Given(name, table, call.options, values, wire_schema(arrow).serialize().to_pybytes(), call.token)
    return spark_schema(arrow), worker.pack(packed)


def run(packed: bytes) -> Iterator[tuple[Any, ...]]:
    """The rows of a call."""
    given: Given = worker.unpack(packed)
    procedure = _procedure(given.function)
    if procedure.changes and not given.dry_run:
        store, folder = procedure.place(given)
        call = Call(store, folder, given.token)
        rows: Iterable[Row] = call.once(lambda: [*procedure.rows(given)])
    else:
        rows = procedure.rows(given)
    return (tuple(row) for row in rows)


def _procedure(name: str) -> Procedure:
    return PROCEDURES[name] if name in PROCEDURES else source_function(name)


def _bound(
    name: str, procedure: Procedure, given: Sequence[tuple[bool, Any]], named: Mapping[str, tuple[bool, Any]]
) -> dict[str, Any]:
    """The values of the parameters by name."""
    usage = f"{name}({', '.join(procedure.parameters)})"
    if len(given) > len(procedure.parameters):
        raise UsageError(f"{name} takes at most {len(procedure.parameters)} arguments", todo=f"Call {usage}")
    arguments = dict(zip(procedure.parameters, given, strict=False))
    for key, argument in named.items():
        parameter = key.lower()
        if parameter not in procedure.parameters:
            near = nearest_of(parameter, procedure.parameters)
            guess = f"Did you mean {near}? " if near else ""
            raise UsageError(f"{name} has no argument {key!r}", todo=f"{guess}Call {usage}")
        if parameter in arguments:
            raise UsageError(f"{name} is given {parameter} twice", todo=f"Call {usage}")
        arguments[parameter] = argument
    values = {}
    for parameter, (is_constant, value) in arguments.items():
        if not is_constant:
            raise UsageError(
                f"the argument {parameter} of {name} is not a constant",
                why="the function runs once for the query, not for each row",
                todo="Give a literal, or a parameter of the query",
            )
        if value is not None:
            values[parameter] = _typed(name, parameter, value)
    for parameter in procedure.required:
        if not values.get(parameter):
            raise UsageError(f"{name} is not given {parameter}", todo=f"Call {usage}")
    return values


def _typed(name: str, parameter: str, value: Any) -> Any:
    if parameter in ("options", "columns"):
        if isinstance(value, dict) and all(isinstance(key, str) and item is not None for key, item in value.items()):
            return {key: str(item).lower() if isinstance(item, bool) else str(item) for key, item in value.items()}
        wanted = "a map of texts, such as map('key', 'value')"
    elif parameter in _FLAGS:
        if isinstance(value, bool):
            return value
        wanted = "true or false"
    elif isinstance(value, str) or (parameter in ("to", "at", "begin", "end") and type(value) is int):
        return value if isinstance(value, str) else str(value)
    else:
        wanted = "a text"
    raise UsageError(f"the argument {parameter} of {name} is {value!r}", why=f"expected {wanted}")


# ---- the functions ---------------------------------------------------------------------------------------------------


def _rewrite(given: Given) -> Iterator[Row]:
    table, where = given.open(True), given.values.get("where")
    yield result_row(table.rewrite(where=where, dry_run=given.dry_run, options=given.verb_options))


def _expire(given: Given) -> Iterator[Row]:
    yield result_row(given.open(True).expire(dry_run=given.dry_run, options=given.verb_options))


def _archive(given: Given) -> Iterator[Row]:
    yield result_row(given.open(True).archive(dry_run=given.dry_run, options=given.verb_options))


def _repair(given: Given) -> Iterator[Row]:
    yield result_row(given.open(True).repair(dry_run=given.dry_run, options=given.verb_options))


def _add_files(given: Given) -> Iterator[Row]:
    table, path = given.open(True), given.values["path"]
    yield result_row(table.add_files(path, dry_run=given.dry_run, options=given.verb_options))


def _rewrite_table_path(given: Given) -> Iterator[Row]:
    values = given.values
    done = given.open().rewrite_table_path(
        values["target"], values["staging"], values.get("since", ""), dry_run=given.dry_run
    )
    yield result_row(done)


def _compute_table_stats(given: Given) -> Iterator[Row]:
    names = given.values.get("column_names")
    columns = [name.strip() for name in names.split(",")] if names else None
    snapshot = _position(given.values.get("at"))
    yield result_row(given.open().compute_table_stats(columns, snapshot, given.dry_run))


def _compute_partition_stats(given: Given) -> Iterator[Row]:
    yield result_row(given.open().compute_partition_stats(_position(given.values.get("at")), given.dry_run))


def _rollback(given: Given) -> Iterator[Row]:
    yield result_row(given.open().rollback(_position(given.values["to"]), dry_run=given.dry_run))


def _tag(given: Given) -> Iterator[Row]:
    table, name = given.open(), given.values["name"]
    if given.values.get("delete"):
        table.delete_tag(name)
    else:
        table.tag(name, _position(given.values.get("at")))
    return _refs_of(table, "tag")


def _branch(given: Given) -> Iterator[Row]:
    table, name = given.open(), given.values["name"]
    if given.values.get("delete"):
        table.delete_branch(name)
    else:
        table.branch(name, _position(given.values.get("at")))
    return _refs_of(table, "branch")


def _fast_forward(given: Given) -> Iterator[Row]:
    table = given.open()
    table.fast_forward(given.values["name"])
    return _refs_of(table, "branch")


def _refs(given: Given) -> Iterator[Row]:
    return _refs_of(given.open(), "")


def _refs_of(table: Table, kind: str) -> Iterator[Row]:
    return (result_row(ref) for ref in table.refs() if kind in ("", ref.kind))


def _history(given: Given) -> Iterator[Row]:
    for instant in given.open().history(archived=bool(given.values.get("archived"))):
        summary = {key: str(value) for key, value in instant.summary.items()}
        yield instant.time, instant.completed or None, instant.action, instant.state, instant.archived, summary


def _inspect(given: Given) -> Iterator[Row]:
    report = given.open(True).inspect(options=given.verb_options)
    for section, figures in report.figures.items():
        for name, figure in figures.items():
            yield "figure", section, name, None if figure is None else str(figure), None, None
    for finding in report.findings:
        yield "finding", str(finding.health), finding.what, None, finding.why or None, finding.remedy or None
    for blocker in report.blockers:
        yield "blocker", None, blocker.instant, None, blocker.reason or None, blocker.remedy or None


def _metadata(given: Given) -> Iterator[Row]:
    wire = pa.ipc.read_schema(pa.py_buffer(given.columns))
    system_table = _system_table(given)
    if system_table.schema.names != wire.names:
        raise RetryableError("the table's columns changed meanwhile", table=given.table, todo="Run the query again")
    for batch in system_table.batches():
        for row in conform(batch, wire).to_pylist(maps_as_pydicts="strict"):
            yield [*row.values()]


def _system_table(given: Given) -> Any:
    return given.open().system_table(given.values.get("name", given.function.removeprefix("lakebed_")))


def _position(value: str | None) -> str | int | None:
    """An instant, a snapshot id, a time or a tag. Up to 13 digits are a snapshot id, as on the command line."""
    return int(value) if value is not None and value.isdigit() and len(value) < 14 else value


def _columns(*names: str, **types: spark.DataType) -> spark.StructType:
    """Columns of text, but for those whose type is given."""
    return spark.StructType([spark.StructField(name, types.get(name, spark.StringType())) for name in names])


_HISTORY = _columns(
    "time", "completed", "action", "state", "archived", "summary",
    archived=spark.BooleanType(), summary=spark.MapType(spark.StringType(), spark.StringType()),
)  # fmt: skip
_REPORT = _columns("kind", "section", "name", "value", "why", "remedy")
_UPKEEP = ("table", "options", "dry_run")
_NAMED = ("table", "name", "at", "options", "delete")


def _changing(parameters: tuple[str, ...], kind: type[Any], rows: Any, *required: str) -> Procedure:
    return Procedure(parameters, result_schema(kind), rows, ("table", *required), changes=True)


def _reading(name: str = "") -> Procedure:
    parameters = ("table", *([name] if name else []), "options")
    required = ("table", *([name] if name else []))
    return Procedure(parameters, lambda given: _system_table(given).schema, _metadata, required)


PROCEDURES: Mapping[str, Procedure] = {
    "lakebed_rewrite": _changing((*_UPKEEP, "where"), RewriteResult, _rewrite),
    "lakebed_expire": _changing(_UPKEEP, ExpireResult, _expire),
    "lakebed_archive": _changing(_UPKEEP, ArchiveResult, _archive),
    "lakebed_repair": _changing(_UPKEEP, RepairResult, _repair),
    **NEW_TABLES,
    "lakebed_compute_table_stats": _changing(
        ("table", "column_names", "at", "options", "dry_run"), TableStatsResult, _compute_table_stats
    ),
    "lakebed_compute_partition_stats": _changing(
        ("table", "at", "options", "dry_run"), PartitionStatsResult, _compute_partition_stats
    ),
    "lakebed_add_files": _changing(("table", "path", "options", "dry_run"), AddFilesResult, _add_files, "path"),
    "lakebed_rewrite_table_path": _changing(
        ("table", "target", "staging", "options", "dry_run", "since"), TablePathResult, _rewrite_table_path, "target",
        "staging",
    ),
    "lakebed_rollback": _changing(("table", "to", "options", "dry_run"), RollbackResult, _rollback, "to"),
    "lakebed_tag": _changing(_NAMED, Ref, _tag, "name"),
    "lakebed_branch": _changing(_NAMED, Ref, _branch, "name"),
    "lakebed_fast_forward": _changing(("table", "name", "options"), Ref, _fast_forward, "name"),
    "lakebed_refs": Procedure(("table", "options"), result_schema(Ref), _refs),
    "lakebed_history": Procedure(("table", "options", "archived"), _HISTORY, _history),
    "lakebed_inspect": Procedure(("table", "options"), _REPORT, _inspect),
    "lakebed_metadata": _reading("name"),
    "lakebed_files": _reading(),
    "lakebed_partitions": _reading(),
    "lakebed_snapshots": _reading(),
}  # fmt: skip
"""Every SQL function by its name."""
