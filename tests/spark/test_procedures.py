"""What the SQL table functions do with their arguments, and the rows that they give, without Spark's engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as spark

import lakebed
from lakebed.errors import CommitUnknownError, LakebedError, OptionError, UnsupportedError, UsageError
from lakebed.spark.procedures import PROCEDURES, analyzed, run

ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})


@pytest.fixture(params=["hudi", "paimon", "iceberg"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> lakebed.Table:
    table = lakebed.create(tmp_path / "t", request.param, ROWS.schema, *([["id"]] if request.param == "hudi" else []))
    for _ in range(2):
        table.write(ROWS, mode="upsert" if request.param == "hudi" else "append")
    return table


def packed(name: str, *given: Any, **named: Any) -> tuple[spark.StructType, bytes]:
    constants = {key: (True, value) for key, value in named.items()}
    return analyzed(f"lakebed_{name}", {}, [(True, value) for value in given], constants)


def rows(name: str, *given: Any, **named: Any) -> list[dict[str, Any]]:
    schema, call = packed(name, *given, **named)
    return [dict(zip(schema.names, schema.toInternal(row), strict=True)) for row in run(call)]


def test_a_verb_gives_its_result_once(table: lakebed.Table) -> None:
    (plan,) = rows("expire", table.location, {}, True)
    assert plan["dry_run"] and not (Path(table.location.removeprefix("file:")) / table.own_folder / "calls").exists()
    before = table.history()
    schema, call = packed("tag", table.location, "now")
    first, second = ([*run(call)] for _ in range(2))
    assert first == second and [row[0] for row in first] == ["now"]
    assert schema.names == ["name", "kind", "instant", "ends"]
    assert [ref.name for ref in table.refs() if ref.kind == "tag"] == ["now"]
    assert {instant.time for instant in before} <= {instant.time for instant in table.history()}
    with pytest.raises(LakebedError):
        rows("tag", table.location, "now")  # another call; the tag is there
    assert rows("tag", table.location, "now", delete=True) == []


def test_a_rollback_is_not_repeated_over_another_commit(table: lakebed.Table) -> None:
    to = table.history()[0].time
    _, call = packed("rollback", table.location, to)
    first = [*run(call)]
    table.write(ROWS, mode="upsert" if table.format == "hudi" else "append")
    newest = table.newest_commit()
    assert [*run(call)] == first and table.newest_commit() == newest


def test_a_call_whose_worker_died_says_so(table: lakebed.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    _, call = packed("tag", table.location, "now")

    class Killed(BaseException):
        pass

    def killed(*_: Any, **__: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(type(table), "tag", killed)
        with pytest.raises(Killed):
            run(call)
    monkeypatch.setattr("lakebed.kernel.commit.calls.clock.steady", iter(range(0, 10**6, 40)).__next__)
    with pytest.raises(CommitUnknownError, match="ended without an answer"):
        run(call)
    assert not [ref for ref in table.refs() if ref.kind == "tag"]


def test_rows_of_what_only_reads(table: lakebed.Table) -> None:
    history = rows("history", table.location)
    assert [row["time"] for row in history] == [instant.time for instant in table.history()]
    report = rows("inspect", table.location)
    assert {row["kind"] for row in report} >= {"figure"} and all(row["section"] for row in report)


@pytest.mark.parametrize(
    ("name", "given", "named", "said"),
    [
        ("rewrite", [], {}, r"is not given table. Call lakebed_rewrite\(table, options, dry_run, where\)"),
        ("rewrite", ["t", {}, True, "a = 1", 5], {}, "takes at most 4 arguments"),
        ("rewrite", ["t"], {"dryrun": True}, "no argument 'dryrun'.*Did you mean dry_run"),
        ("rewrite", ["t", {}], {"options": {}}, "options twice"),
        ("rewrite", ["t", {}, "yes"], {}, "dry_run of lakebed_rewrite is 'yes'.*expected true or false"),
        ("rewrite", ["t", ["a"]], {}, "expected a map of texts"),
        ("rewrite", [3], {}, "table of lakebed_rewrite is 3.*expected a text"),
        ("rewrite", [None], {}, "is not given table"),
        ("rollback", ["t"], {}, "is not given to"),
        ("metadata", ["t"], {}, "is not given name"),
    ],
)
def test_wrong_arguments(name: str, given: list[Any], named: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        packed(name, *given, **named)


def test_arguments_are_constants() -> None:
    with pytest.raises(UsageError, match="the argument table of lakebed_files is not a constant"):
        analyzed("lakebed_files", {}, [(False, None)], {})


def test_errors_keep_their_types(table: lakebed.Table) -> None:
    with pytest.raises(OptionError, match="target-file-size-byte"):
        rows("rewrite", table.location, {"target-file-size-byte": 1})
    if table.format != "hudi":
        with pytest.raises(UnsupportedError, match="no archive"):
            rows("archive", table.location)


def test_each_function_has_columns() -> None:
    for name, procedure in PROCEDURES.items():
        first = "folder" if name in {"lakebed_snapshot", "lakebed_migrate"} else "table"
        assert name.startswith("lakebed_") and procedure.parameters[0] == first
        if isinstance(procedure.columns, spark.StructType):
            assert procedure.columns.fields
