"""Plans of scans that a REST catalog answers: whole, later, in pieces, never, and wrong ones. (Those of the reference's
own planner are in tests/interop.)"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import CorruptError, LakebedError, RetryableError, StorageError, UnsupportedError
from tests.tables.iceberg import commits
from tests.tables.iceberg.rest_server import RestCatalog
from tests.tables.iceberg.small import create, data_file, ids, position_deletes
from tests.unit.iceberg.catalog.conftest import options_of

Plan = dict[str, Any]


@pytest.fixture
def table(rest: RestCatalog) -> Any:
    """A table whose scans the catalog plans: data files `first` and `second`, and the deletes `gone` of the first."""
    options = options_of(rest)
    table: Any = create("cat:db.t", 2, **options)
    files = [data_file(table, [1, 2]), data_file(table, [3, 4])]
    deletes = position_deletes(table, files[0], [0])
    commits.row_delta(table.operations, files, [deletes])
    rest.config, rest.plans = {"scan-planning-mode": "server"}, [{}]
    opened: Any = lakebed.open("cat:db.t", {**options, "lakebed.catalog.rest-scan-planning.poll-timeout-ms": "200"})
    _ = opened.schema
    rest.plans.clear()
    opened.first, opened.second, opened.gone = *map(content, files), content(deletes, "position-deletes")
    return opened


def content(file: Any, kind: str = "data") -> Plan:
    return {
        "spec-id": 0, "content": kind, "file-path": file.path, "file-format": file.format.lower(),
        "partition": list(file.partition), "file-size-in-bytes": file.size, "record-count": file.record_count,
    }  # fmt: skip


def completed(*files: Plan, deletes: tuple[Plan, ...] = (), **more: Any) -> Plan:
    tasks = [{"data-file": file, "delete-file-references": [*range(len(deletes))]} for file in files]
    return {"status": "completed", "file-scan-tasks": tasks, "delete-files": [*deletes], **more}


def test_a_plan_that_is_there_at_once(rest: RestCatalog, table: Any) -> None:
    rest.plans += [
        completed(table.first, deletes=(table.gone,), **{"plan-tasks": ["a b"]}),
        {"file-scan-tasks": [{"data-file": table.second}], "plan-tasks": []},
    ]
    assert ids(table) == [2, 3, 4]
    (plan, body), (tasks, more) = rest.asked
    assert (plan, tasks) == ("POST t/plan", "POST t/tasks") and more == {"plan-task": "a b"}
    assert body["snapshot-id"] == int(table.history()[0].time) and body["select"] == ["id"] and "filter" not in body


def test_rows_are_checked_where_the_catalog_keeps_more(rest: RestCatalog, table: Any) -> None:
    residual = {"type": "gt", "term": "id", "value": 3}
    plan = completed(table.first, table.second)
    plan["file-scan-tasks"][1]["residual-filter"] = residual
    rest.plans += [plan]
    assert table.read(["p"], "id > 3").read_all().num_rows == 1
    assert rest.asked[0][1]["filter"] == residual and sorted(rest.asked[0][1]["select"]) == ["id", "p"]


def test_a_plan_after_a_column_was_renamed(rest: RestCatalog, table: Any) -> None:
    """It is asked for in the schema that the snapshot has, and a column that came later is not asked for."""
    rest.config = {}
    table.alter([lakebed.rename_column("id", "key"), lakebed.add_column("more", pa.int32())])
    rest.config = {"scan-planning-mode": "server"}
    rest.plans += [completed(table.first, table.second)]
    found = table.read(["more", "key"], "key > 3 and more is null").read_all()
    assert found.to_pylist() == [{"more": None, "key": 4}]
    body = rest.asked[0][1]
    assert body["select"] == ["id"] and body["filter"] == {"type": "gt", "term": "id", "value": 3}
    assert body["use-snapshot-schema"]


def test_a_plan_that_takes_its_time(rest: RestCatalog, table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("lakebed.formats.iceberg.catalog.planning.time.sleep", waits.append)
    submitted = {"status": "submitted", "plan-id": "x/y"}
    rest.plans += [submitted, submitted, submitted, completed(table.second)]
    assert ids(table) == [3, 4]
    assert [asked for asked, _ in rest.asked[1:]] == ["GET t/plan/x%2Fy"] * 3 and waits == [0.1, 0.2, 0.4]


def test_a_plan_that_never_comes_is_given_up(rest: RestCatalog, table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakebed.formats.iceberg.catalog.planning.time.sleep", lambda _: None)
    monkeypatch.setattr("lakebed.formats.iceberg.catalog.planning.clock.steady", iter(range(9)).__next__)
    rest.plans += [{"status": "submitted", "plan-id": "x"}] * 9
    with pytest.raises(RetryableError, match=r"not planned the scan in time.*poll-timeout-ms"):
        table.read()
    assert rest.asked[-1][0] == "DELETE t/plan/x"


@pytest.mark.parametrize(
    ("plan", "kind", "said"),
    [
        (
            {"status": "failed", "error": {"message": "too large"}},
            StorageError,
            "plan of the scan is failed.*too large",
        ),
        ({"status": "cancelled"}, StorageError, "plan of the scan was cancelled"),
        ({"status": "submitted"}, CorruptError, "does not say under which name"),
        ({}, StorageError, "is nameless"),
    ],
)
def test_a_plan_that_is_none(rest: RestCatalog, table: Any, plan: Plan, kind: type[LakebedError], said: str) -> None:
    rest.plans += [plan]
    with pytest.raises(kind, match=said):
        table.read()


WRONG: dict[str, tuple[Callable[[Any], Plan], type[LakebedError], str]] = {
    "a delete that is not there": (
        lambda t: completed(t.first) | {"file-scan-tasks": [{"data-file": t.first, "delete-file-references": [0]}]},
        CorruptError, "delete file that is not in the plan",
    ),
    "another spec": (lambda t: completed({**t.first, "spec-id": 7}), CorruptError, "partition spec 7"),
    "too few values": (lambda t: completed({**t.first, "partition": []}), CorruptError, "0 values of 1 fields"),
    "no path": (lambda t: completed({"spec-id": 0}), CorruptError, "plan cannot be read"),
    "a delete as data": (lambda t: completed(t.gone), CorruptError, "in the place of a data file"),
    "data as a delete": (lambda t: completed(t.first, deletes=(t.first,)), CorruptError, "in the place of a delete"),
    "a key": (lambda t: completed({**t.first, "key-metadata": "00"}), UnsupportedError, "encrypted"),
    "equality without columns": (
        lambda t: completed(t.first, deletes=({**t.gone, "content": "equality-deletes"},)), CorruptError, "columns",
    ),
    "a vector that is nowhere": (
        lambda t: completed(t.first, deletes=({**t.gone, "file-format": "puffin"},)), CorruptError, "where a deletion",
    ),
    "another place": (
        lambda t: completed({**t.first, "file-path": "/etc/passwd"}), UnsupportedError, "/etc/passwd",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_plan_that_is_wrong(rest: RestCatalog, table: Any, case: str) -> None:
    plan, kind, said = WRONG[case]
    rest.plans += [plan(table)]
    with pytest.raises(kind, match=said):
        table.read().read_all()


def test_tasks_that_come_again_and_again(rest: RestCatalog, table: Any) -> None:
    rest.plans += [completed(table.first, **{"plan-tasks": ["a"]}), *[{"plan-tasks": ["a"]}] * 3]
    with pytest.raises(CorruptError, match="names a task twice"):
        table.read()


def test_the_keys_of_a_plan_read_its_files(rest: RestCatalog, table: Any) -> None:
    keys = {"s3.access-key-id": "of the plan", "s3.secret-access-key": "s"}
    elsewhere = {"prefix": "s3://elsewhere", "config": {"s3.access-key-id": "other", "s3.secret-access-key": "s"}}
    fitting = [{"prefix": "/", "config": {**keys, "s3.access-key-id": "short"}},
               {"prefix": table.location, "config": keys}]  # fmt: skip
    rest.plans += [completed(table.first, **{"storage-credentials": [elsewhere, *fitting]})]
    plan = table.plan_read()
    assert plan.read.files.credentials.secret["aws_access_key_id"] == "of the plan"
    batches = [batch for split in plan.splits for batch in plan.read(split)]
    assert pa.Table.from_batches(batches)["id"].to_pylist() == [1, 2]


def test_an_empty_table_needs_no_plan(rest: RestCatalog) -> None:
    options = options_of(rest)
    create("cat:db.e", 2, **options)
    rest.config = {"scan-planning-mode": "server"}
    found = lakebed.open("cat:db.e", options).read().read_all()
    assert isinstance(found, pa.Table) and not found.num_rows


def test_what_a_plan_does_not_tell(rest: RestCatalog, table: Any) -> None:
    with pytest.raises(UnsupportedError, match=r"_last_updated_sequence_number.*no sequence numbers"):
        table.read(["_last_updated_sequence_number"])
    assert not rest.asked
    assert Path(table.location.removeprefix("file:")).exists()
