"""A REST catalog: its protocol, commits by the server, keys for files, refusals."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import (
    CommitConflictError,
    CommitUnknownError,
    NotWrittenError,
    RetryableError,
    SchemaError,
    StorageError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedError,
    UsageError,
)
from lakebed.formats.paimon.alter import run
from lakebed.formats.paimon.catalog import server as rest_server
from lakebed.formats.paimon.catalog.rest import RestPublisher
from lakebed.kernel.files import PutOutcome
from lakebed.verbs.write import finalize_and_commit
from tests.tables.paimon.rest_server import Warehouse, serving

SCHEMA = pa.schema([pa.field("id", pa.int64(), False), ("v", pa.string()), pa.field("dt", pa.date32(), False)])
ROWS = pa.table({"id": [1, 2], "v": ["x", "y"], "dt": pa.array([0, 1], pa.int32()).cast(pa.date32())}, SCHEMA)


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path / "w", token="who-i-am")


@pytest.fixture
def options(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    monkeypatch.setattr(rest_server, "_WAITS", (0.0, 0.0))
    monkeypatch.setenv("PAIMON_CATALOG__SHOP__TOKEN", "who-i-am")
    with serving(warehouse) as uri:
        yield {"lakebed.catalog.metastore": "rest", "lakebed.catalog.uri": uri, "lakebed.catalog.warehouse": "w 1"}


def made(options: dict[str, str]) -> lakebed.Table:
    shop = lakebed.catalog("shop", options)
    return shop.create("sales.orders", SCHEMA, ["dt", "id"], ["dt"], {"bucket": 1, "metastore.partitioned-table": True})


def test_names(options: dict[str, str], warehouse: Warehouse) -> None:
    shop = lakebed.catalog("shop", options)
    for name in ("a", "b", "c"):
        shop.create(f"db.{name}", SCHEMA)
    shop.create_database("db")
    assert shop.databases() == ["db"] and shop.tables("db") == ["a", "b", "c"]
    with pytest.raises(TableExistsError):
        shop.create("db.a", SCHEMA)
    with pytest.raises(UsageError, match="3 tables"):
        shop.drop_database("db")
    for name in ("a", "b", "c"):
        shop.drop(f"db.{name}")
    with pytest.raises(TableNotFoundError, match=r"no table 'db\.a'"):
        shop.open("db.a")
    shop.drop_database("db")
    with pytest.raises(TableNotFoundError, match="no database 'db'"):
        shop.tables("db")


def test_the_server_commits(options: dict[str, str], warehouse: Warehouse) -> None:
    """Every snapshot goes through the server, with what it changes in each partition."""
    made(options)
    table = lakebed.open("shop:sales.orders", options)
    table.write(ROWS)
    table.write(ROWS.slice(1), mode="delete")
    assert table.read(["id"]).read_all().to_pylist() == [{"id": 1}]
    commits = [body for _, path, body in warehouse.asked if path.endswith("/sales/tables/orders/commit")]
    assert [commit["snapshot"]["id"] for commit in commits] == [1, 2]
    first = commits[0]["statistics"]
    assert [(one["spec"], one["recordCount"], one["fileCount"], one["totalBuckets"]) for one in first] == [
        ({"dt": "0"}, 1, 1, 1), ({"dt": "1"}, 1, 1, 1),
    ]  # fmt: skip
    assert all(one["fileSizeInBytes"] > 100 and one["lastFileCreationTime"] > 10**12 for one in first)
    with pytest.raises(UnsupportedError, match="not rolled back"):
        table.rollback(1)


def test_a_table_that_was_made_again_gets_no_commit(options: dict[str, str]) -> None:
    table = made(options)
    lakebed.catalog("shop", options).drop("sales.orders")
    made(options)
    with pytest.raises(NotWrittenError, match="another table"):
        table.write(ROWS)


@pytest.mark.parametrize(
    ("status", "after", "error"),
    [(500, False, CommitUnknownError), (503, True, None), (403, False, NotWrittenError), (302, False, NotWrittenError),
     (409, False, CommitConflictError)],
)  # fmt: skip
def test_answers_to_a_commit(
    options: dict[str, str], warehouse: Warehouse, status: int, after: bool, error: type[Exception] | None
) -> None:
    table = made({**options, "commit.max-retries": "1", "commit.min-retry-wait": "1"})
    warehouse.faults["POST", "/commit"] = status, after
    if error is None:
        table.write(ROWS)  # the snapshot is there, whatever the answer was
    else:
        with pytest.raises(error):
            table.write(ROWS)
    warehouse.faults.clear()
    assert table.read().read_all().num_rows == (2 if error is None else 0)


def test_the_server_alters(options: dict[str, str], warehouse: Warehouse) -> None:
    table = made(options)
    table.write(ROWS)
    changes = [
        lakebed.rename_column("v", "text"),
        lakebed.add_column("w", "DECIMAL(5, 2)", default="1.5", comment="of it", after="TEXT"),
        lakebed.set_option("num-levels", 3),
    ]
    assert table.alter(changes, dry_run=True).version == "1" and "text" not in table.schema.names
    assert table.alter(changes).version == "1"
    assert table.schema.names == ["id", "text", "dt", "w"]
    assert warehouse.asked[-1][2]["changes"] == [
        {"action": "renameColumn", "fieldNames": ["v"], "newName": "text"},
        {"action": "addColumn", "fieldNames": ["w"], "dataType": "DECIMAL(5, 2)", "comment": "of it",
         "move": {"fieldName": "w", "referenceFieldName": "text", "type": "AFTER"}},
        {"action": "updateColumnDefaultValue", "fieldNames": ["w"], "newDefaultValue": "1.5"},
        {"action": "setOption", "key": "num-levels", "value": "3"},
    ]  # fmt: skip
    with pytest.raises(StorageError, match="unknown action"):
        table.alter(lakebed.drop_column("w"))


@pytest.mark.parametrize(
    ("status", "after", "error"), [(503, True, None), (503, False, CommitUnknownError), (403, False, NotWrittenError)]
)
def test_answers_to_an_alteration(
    options: dict[str, str], warehouse: Warehouse, status: int, after: bool, error: type[Exception] | None
) -> None:
    table = made(options)
    warehouse.faults["POST", "/orders"] = status, after
    if error is None:
        assert table.alter(lakebed.rename_column("v", "text")).version == "1"  # it is there, whatever the answer was
    else:
        with pytest.raises(error, match="not known whether" if error is CommitUnknownError else "refused"):
            table.alter(lakebed.rename_column("v", "text"))
    warehouse.faults.clear()
    assert ("text" in lakebed.catalog("shop", options).open("sales.orders").schema.names) == (error is None)


def test_a_column_that_another_writer_renames_meanwhile(
    options: dict[str, str], warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server says that there is no such column, and the table is looked at again."""
    table, other, requests = made(options), lakebed.catalog("shop", options).open("sales.orders"), run.requests_of

    def late(*given: Any) -> Any:
        monkeypatch.undo()
        other.alter(lakebed.rename_column("v", "theirs"))
        return requests(*given)

    monkeypatch.setattr(run, "requests_of", late)
    with pytest.raises(SchemaError, match="no column 'v'"):
        table.alter(lakebed.rename_column("v", "ours"))
    assert table.schema.names == ["id", "theirs", "dt"]


def test_keys_of_files(options: dict[str, str], warehouse: Warehouse) -> None:
    made(options)
    keys = {"s3.access-key": "A", "s3.secret-key": "very-secret", "s3.endpoint": "http://localhost:1"}
    warehouse.data_token = {"token": keys, "expiresAtMillis": 10}
    shop = lakebed.catalog("shop", options)
    entry = shop._registry.find(shop.open("sales.orders")._name)  # type: ignore[attr-defined]
    assert entry.credentials.secret["aws_secret_access_key"] == "very-secret"
    assert entry.credentials.plain["aws_endpoint"] == "http://localhost:1"
    again = pickle.loads(pickle.dumps(entry.credentials))
    assert not again.secret and again.renewal()["lakebed.storage.setting.aws_access_key_id"] == "A"
    assert b"very-secret" not in pickle.dumps(entry) and b"who-i-am" not in pickle.dumps(entry)
    warehouse.data_token = {"token": {"fs.oss.accessKeyId": "A"}}
    with pytest.raises(UnsupportedError, match=r"fs\.oss\.accessKeyId"):
        shop.open("sales.orders")


def test_a_server_that_refuses_or_is_not_there(options: dict[str, str], warehouse: Warehouse) -> None:
    with pytest.raises(StorageError, match=r"who are you \(HTTP 401\)"):
        lakebed.catalog("other", {**options, "lakebed.catalog.token": "wrong"}).databases()
    warehouse.faults["GET", "/databases"] = 503, False
    with pytest.raises(StorageError, match="HTTP 503"):
        lakebed.catalog("shop", options).databases()
    with pytest.raises(RetryableError, match="did not answer"):
        lakebed.catalog("shop", {**options, "lakebed.catalog.uri": "http://127.0.0.1:9"}).databases()
    for uri in ("file:///etc", "ftp://x"):
        with pytest.raises(UsageError, match="http"):
            lakebed.catalog("shop", {**options, "lakebed.catalog.uri": uri})


def test_signatures_are_refused_by_name(
    options: dict[str, str], warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks for them: the caller or the server."""
    for key, text in (("token.provider", "dlf"), ("dlf.access-key-id", "A")):
        with pytest.raises(UnsupportedError, match="DLF"):
            lakebed.catalog("shop", {**options, f"lakebed.catalog.{key}": text})
    answer = warehouse.answer

    def dlf(method: str, path: str, query: dict[str, str], body: object) -> object:
        config = {"defaults": {}, "overrides": {"token.provider": "dlf"}}
        return config if path == "/v1/config" else answer(method, path, query, body)

    monkeypatch.setattr(warehouse, "answer", dlf)
    with pytest.raises(UnsupportedError, match="DLF"):
        lakebed.catalog("shop", options).databases()


def test_a_write_of_another_process_commits_by_the_server(options: dict[str, str], warehouse: Warehouse) -> None:
    """The sink travels without the token, which the other process has in its environment."""
    made(options)
    sink = lakebed.open("shop:sales.orders", options).sink(commit_user="job")
    data = pickle.dumps(sink)
    assert b"who-i-am" not in data
    there = pickle.loads(data)
    plan = there.plan()
    writer = plan.task_writer()
    writer.write(ROWS)
    finalize_and_commit(there, plan, writer.finish(), lakebed.LocalEngine(), 7)
    commits = [body for _, path, body in warehouse.asked if path.endswith("/commit")]
    assert [(body["snapshot"]["commitUser"], body["snapshot"]["commitIdentifier"]) for body in commits] == [("job", 7)]


def test_a_snapshot_whose_number_has_expired_is_made_again(
    options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server puts it, since no snapshot has its number any more."""
    late = made(options)
    late.write(ROWS)
    publish = RestPublisher.__call__

    def after_others(self: RestPublisher, *arguments: Any) -> PutOutcome:
        monkeypatch.setattr(RestPublisher, "__call__", publish)
        other = lakebed.open("shop:sales.orders", options)
        for v in ("a", "b"):
            other.write(ROWS.set_column(1, "v", pa.array([v, v])))
        few = {"snapshot.num-retained.min": 1, "snapshot.num-retained.max": 1, "snapshot.time-retained": "1 ms"}
        other.expire(options=few)
        return publish(self, *arguments)

    monkeypatch.setattr(RestPublisher, "__call__", after_others)
    late.write(ROWS.slice(0, 1).set_column(0, SCHEMA.field("id"), pa.array([9])))
    table = lakebed.open("shop:sales.orders", options)
    assert sorted(table.read(["v"]).read_all()["v"].to_pylist()) == ["b", "b", "x"]
    assert [one.time for one in table.history()] == ["3", "4"]
