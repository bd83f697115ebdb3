"""SQL table functions on Iceberg tables that are encrypted, and on tables in catalogs, without Spark's engine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

import lakebed
from lakebed.errors import UnsupportedError
from lakebed.spark.procedures import PROCEDURES
from tests.spark.test_procedures import rows
from tests.tables.iceberg import hive_metastore, rest_server
from tests.tables.iceberg.hive_metastore import Metastore
from tests.tables.iceberg.rest_server import RestCatalog

ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "p": ["a", "b"]})
OTHERS = {"name": "files", "to": "1", "path": "data", "target": "to", "staging": "staging"}
"""Arguments that functions need besides the table."""


def test_each_function_refuses_an_encrypted_table(tmp_path: Path) -> None:
    table: Any = lakebed.create(tmp_path / "t", "iceberg", ROWS.schema, partition_by=["p"], options={})
    table.write(ROWS)
    newest = tmp_path / "t" / "metadata" / "v2.metadata.json"
    document = json.loads(newest.read_text())
    document["properties"]["encryption.key-id"] = "k"
    newest.write_text(json.dumps(document))
    before = sorted(tmp_path.rglob("*"))
    for name, procedure in PROCEDURES.items():
        if name in ("lakebed_snapshot", "lakebed_migrate", "lakebed_register"):
            continue
        more = {key.upper(): OTHERS[key] for key in procedure.required if key in OTHERS}  # `name` is one of ours
        for dry in [{"dry_run": True}, {}] if "dry_run" in procedure.parameters else [{}]:
            with pytest.raises(UnsupportedError, match="the table is encrypted"):
                rows(name.removeprefix("lakebed_"), str(tmp_path / "t"), **more, **dry)
    assert sorted(tmp_path.rglob("*")) == before
    options = {"lakebed.catalog.type": "sql", "lakebed.catalog.uri": f"sqlite:///{tmp_path}/catalog.db"}
    for dry_run in (True, False):
        with pytest.raises(UnsupportedError, match="the table is encrypted"):
            rows("register", "cat:db.t", str(newest), options, dry_run)
    assert not load_catalog("cat", type="sql", uri=f"sqlite:///{tmp_path}/catalog.db").namespace_exists("db")
    more = {*tmp_path.rglob("*")} - {*before, tmp_path / "catalog.db"}
    assert all(".lakebed" in path.parts for path in more), "more than the answer to the call"


@pytest.fixture(params=["sql", "rest", "hive"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Properties of a catalog."""
    given = {"type": request.param, "warehouse": str(tmp_path / "warehouse"), "uri": f"sqlite:///{tmp_path}/catalog.db"}
    with ExitStack() as stack:
        if request.param == "rest":
            served = RestCatalog(tmp_path / "warehouse")
            server = rest_server.serve(served)
            stack.callback(server.server_close)
            stack.callback(server.shutdown)
            given["uri"] = served.url
        if request.param == "hive":
            metastore = Metastore(tmp_path / "warehouse")
            stack.enter_context(closing(hive_metastore.serve(metastore)))
            given["uri"] = metastore.url
        yield given


def test_functions_on_a_table_in_a_catalog(catalog: dict[str, str]) -> None:
    """What they did is what pyiceberg finds in the same catalog."""
    options = {f"lakebed.catalog.{key}": value for key, value in catalog.items()}
    table: Any = lakebed.create("cat:db.t", "iceberg", ROWS.schema, (), ["p"], options)
    for _ in range(3):
        table.write(ROWS)

    def call(name: str, *given: Any, **named: Any) -> list[dict[str, Any]]:
        return rows(name, "cat:db.t", *given, options={**options, **named.pop("more", {})}, **named)

    first, second, _ = (row["time"] for row in call("history"))
    assert {row["name"] for row in call("tag", "kept", first)} >= {"kept"}
    call("branch", "side")
    (planned,) = call("rewrite", dry_run=True, more={"rewrite-all": "true"})
    (done,) = call("rewrite", more={"rewrite-all": "true"})
    assert (planned["files_before"], done["files_before"], done["files_after"]) == (6, 6, 2)
    assert len(call("files")) == 2 and len(call("partitions")) == 2 and len(call("snapshots")) == 4
    call("fast_forward", "main", more={"branch": "side"})
    call("compute_table_stats", "id")
    call("compute_partition_stats")
    there = load_catalog("cat", **catalog).load_table("db.t")
    head = there.current_snapshot()
    assert head is not None and [one.snapshot_id for one in there.metadata.statistics] == [head.snapshot_id]
    assert [one.snapshot_id for one in there.metadata.partition_statistics] == [head.snapshot_id]
    assert len(there.inspect.files()) == 2 and there.scan().to_arrow().num_rows == 6
    call("rollback", second)
    call("branch", "side", delete=True)
    assert call("expire", more={"older-than": "2100-01-01"})[0]["expired"]
    there = load_catalog("cat", **catalog).load_table("db.t")
    assert there.scan().to_arrow().num_rows == 4 and {*there.refs()} == {"main", "kept"}
    assert {str(one.snapshot_id) for one in there.snapshots()} == {first, second}
    assert {row["kind"] for row in call("inspect")} >= {"figure"}
    with pytest.raises(UnsupportedError, match="no archive"):
        call("archive")
