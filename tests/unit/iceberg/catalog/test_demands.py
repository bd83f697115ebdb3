"""What a catalog may answer and lakebed refuses by name: views, server-side planning, signed requests. And a REST
catalog that calls a commit wrong because another branch was faster."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hive_metastore.ttypes import Table as HiveTable

import lakebed
from lakebed.errors import StorageError, TableNotFoundError, UnsupportedError
from tests.tables.iceberg import commits
from tests.tables.iceberg.hive_metastore import Metastore
from tests.tables.iceberg.rest_server import Failure, RestCatalog
from tests.tables.iceberg.small import create, data_file, ids
from tests.unit.iceberg.catalog.conftest import options_of

SIGNING = {"s3.remote-signing-enabled": "true"}
KEYS = {"lakebed.storage.setting.aws_access_key_id": "k", "lakebed.storage.setting.aws_secret_access_key": "s"}


def test_a_catalog_that_plans_scans_itself(rest: RestCatalog, tmp_path: Path) -> None:
    options = options_of(rest)
    table: Any = create("cat:db.t", 2, **options)
    commits.append(table.operations, [data_file(table, [1])])
    rest.config = {"scan-planning-mode": "client"}
    assert ids(lakebed.open("cat:db.t", options)) == [1]  # type: ignore[arg-type]
    rest.config = {"scan-planning-mode": "SERVER"}
    table = lakebed.open("cat:db.t", options)
    assert len(table.history()) == 1 and table.schema.names and table.metadata("snapshots").read_all().num_rows == 1
    before = sorted(tmp_path.rglob("*"))
    uses: list[Callable[[], object]] = [
        table.rewrite, lambda: table.rewrite(dry_run=True), table.expire, table.inspect, table.repair, table.writer,
        lambda: table.write(table.schema.empty_table()), lambda: table.metadata("files").read_all(),
        lambda: table.changes().read_all(), lambda: table.tag("x"), lambda: table.branch("x"),
        lambda: table.rollback(1), lambda: table.alter(lakebed.set_option("a", "b")),
        lambda: table.expire(options={"expire-snapshots": False, "remove-orphan-files": True}),
        table.compute_table_stats, table.compute_partition_stats,
        lambda: table.rewrite_table_path(str(tmp_path / "to"), str(tmp_path / "staging")),
        lambda: table.rewrite(options={"lakebed.rewrite.what": "manifests"}),
    ]  # fmt: skip
    for use in uses:
        with pytest.raises(UnsupportedError, match="plans the scans of this table itself") as caught:
            use()
        assert "cat:db.t" in str(caught.value) and "scan-planning-mode" in str(caught.value)
    with pytest.raises(UnsupportedError, match="does not name the endpoint"):
        table.read()
    assert len(rest.commits) == 1 and sorted(tmp_path.rglob("*")) == before


def test_requests_that_only_the_catalog_may_sign(rest: RestCatalog) -> None:
    options = options_of(rest)
    create("cat:db.t", 2, **options)
    rest.config = SIGNING
    with pytest.raises(UnsupportedError, match="signs each request") as caught:
        lakebed.open("cat:db.t", {**options, "lakebed.catalog.token": "a key to the catalog alone"})
    assert "vended-credentials" in str(caught.value)
    lakebed.open("cat:db.t", {**options, **KEYS})
    vended = {"s3.access-key-id": "k", "s3.secret-access-key": "s"}
    rest.config = SIGNING | vended
    lakebed.open("cat:db.t", options)
    rest.config, rest.credentials = SIGNING, [{"prefix": "/", "config": vended}]
    lakebed.open("cat:db.t", options)
    rest.credentials = [{"prefix": "s3://elsewhere", "config": vended}]
    with pytest.raises(UnsupportedError, match="signs each request"):
        lakebed.open("cat:db.t", options)


def test_a_view_is_no_table(rest: RestCatalog, hive: Metastore, tmp_path: Path) -> None:
    rest.views, rest.defaults = {"db.v"}, {"view-endpoints-supported": "true"}
    create("cat:db.t", 2, **options_of(hive))
    for name, said in (("v", {"table_type": "ICEBERG-VIEW", "metadata_location": "x"}), ("other", {})):
        hive.tables["db", name] = HiveTable(dbName="db", tableName=name, parameters=said)
    place = tmp_path / "views.db"
    sql = {"lakebed.catalog.type": "sql", "lakebed.catalog.uri": f"sqlite:///{place}"}
    create("cat:db.t", 2, **sql, **{"lakebed.catalog.warehouse": str(tmp_path / "sql")})
    with sqlite3.connect(place) as database:
        if "iceberg_type" not in [column[1] for column in database.execute("PRAGMA table_info(iceberg_tables)")]:
            database.execute("ALTER TABLE iceberg_tables ADD COLUMN iceberg_type VARCHAR(5)")
        database.execute("INSERT INTO iceberg_tables VALUES ('cat', 'db', 'v', 'x', NULL, 'VIEW')")
    database.close()
    for options in (options_of(rest), options_of(hive), sql):
        with pytest.raises(UnsupportedError, match=r"no Iceberg table of that name \[table cat:db\.v\]") as caught:
            lakebed.open("cat:db.v", options)
        assert "view" in str(caught.value).lower()
        with pytest.raises(TableNotFoundError, match=r"no table 'db\.nothing'"):
            lakebed.open("cat:db.nothing", options)
    with pytest.raises(UnsupportedError, match="table_type missing"):
        lakebed.open("cat:db.other", options_of(hive))


def test_a_commit_to_another_branch_was_faster(rest: RestCatalog) -> None:
    """No requirement of the slower one is broken, and the catalog answers 400: the commit is made anew."""
    options = options_of(rest)
    table: Any = create("cat:db.t", 2, **options)
    commits.append(table.operations, [data_file(table, [1])])
    table.branch("side")
    other: Any = lakebed.open("cat:db.t", {**options, "branch": "side"})
    rest.meanwhile = [lambda: commits.append(other.operations, [data_file(other, [2])], branch="side")]
    assert commits.append(table.operations, [data_file(table, [3])]).instant
    assert ids(table) == [1, 3] and ids(other) == [1, 2]
    assert [snapshot.sequence_number for snapshot in table.table_metadata.snapshots.values()] == [1, 2, 3]
    rest.failures = [Failure(400)]
    with pytest.raises(StorageError, match="as the test wants it"):
        commits.append(table.operations, [data_file(table, [4])])
    assert ids(table) == [1, 3]


def test_the_table_was_upgraded_meanwhile(rest: RestCatalog) -> None:
    """The snapshot has no row ids, which version 3 asks for. The catalog answers 400: the commit is made anew."""
    table: Any = create("cat:db.t", 2, **options_of(rest))
    commits.append(table.operations, [data_file(table, [1])])
    other = lakebed.open("cat:db.t", options_of(rest))
    rest.meanwhile = [lambda: other.alter(lakebed.set_option("format-version", 3))]
    commits.append(table.operations, [data_file(table, [2])])
    assert ids(table) == [1, 2]
    assert [one.first_row_id for one in table.table_metadata.snapshots.values()] == [None, 0]
