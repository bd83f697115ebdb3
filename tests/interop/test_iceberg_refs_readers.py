"""pyiceberg and DuckDB on Iceberg tables after each change of snapshots and refs: they read each state, and pyiceberg
goes on with it. (Iceberg's own engine: tests/golden/test_iceberg_refs.py.)"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable

import lakebed
from lakebed.formats.iceberg.table import IcebergTable
from tests.interop.hudi_ask import ask
from tests.tables.iceberg.small import create, ids

pytestmark = pytest.mark.timeout(600)


def rows(*numbers: int) -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64()), "p": ["a"] * len(numbers)})


@pytest.mark.parametrize("version", [1, 2])
def test_each_state_is_read_and_gone_on_with(tmp_path: Path, version: int) -> None:
    settings = {"uri": f"sqlite:///{tmp_path}/c.db", "warehouse": str(tmp_path)}
    options = {"lakebed.catalog.type": "sql", **{f"lakebed.catalog.{key}": text for key, text in settings.items()}}
    table = create("cat:db.t", version, (), **{**options, "write.wap.enabled": "true"})

    def opened(branch: str = "main", **more: str) -> IcebergTable:
        again = lakebed.open("cat:db.t", {**options, "branch": branch, **more})
        assert isinstance(again, IcebergTable)
        return again

    first = table.write(rows(0)).instant
    steps: list[Callable[[], Any]] = [
        lambda: table.branch("side", options={"min-snapshots-to-keep": 2, "max-ref-age-ms": 10**12}),
        lambda: opened("side").write(rows(7)),
        lambda: table.tag("then", time_retained="9 d"),
        lambda: table.write(rows(1), options={"wap.id": "one"}),
        lambda: table.write(rows(2)),
        lambda: table.publish("one"),
        lambda: table.rollback(first),
        lambda: table.rollback("branch:side", any_snapshot=True),
        lambda: table.branch("side", at="tag:then", replace=True),
        lambda: opened("side").fast_forward("main"),
        lambda: table.retain("then", {"max-ref-age-ms": 5}),
        lambda: table.delete_tag("then"),
    ]
    requests, wanted = [], {}
    for number, step in enumerate(steps):
        step()
        place = table.operations.load().location
        theirs = StaticTable.from_metadata(place)
        for name in opened().table_metadata.refs:
            mine = ids(opened(), as_of=f"{'branch' if name != 'then' else 'tag'}:{name}")
            snapshot = theirs.snapshot_by_name(name)
            assert snapshot is not None
            assert sorted(theirs.scan(snapshot_id=snapshot.snapshot_id).to_arrow()["id"].to_pylist()) == mine
        wanted[f"{number}"] = ids(opened())
        requests.append(json.dumps({"name": f"{number}", "metadata": place, "to": str(tmp_path / f"{number}.arrow")}))
    for answer in ask("LAKEBED_INTEROP_PYTHON", "duckdb_peer.py", [], requests):
        assert not answer["error"], answer["error"]
        with pa.OSFile(str(tmp_path / f"{answer['name']}.arrow")) as source:
            assert sorted(pa.ipc.open_stream(source).read_all()["id"].to_pylist()) == wanted[answer["name"]]

    catalog = SqlCatalog("cat", **settings)
    theirs = catalog.load_table("db.t")
    theirs.append(rows(50), branch="side")
    theirs.manage_snapshots().create_tag(theirs.current_snapshot().snapshot_id, "of-pyiceberg").commit()
    catalog.close()
    side = opened("side")
    assert 50 in ids(side) and 50 not in ids(opened())
    assert opened().fast_forward("side").added and 50 in ids(opened())
    assert opened().rollback("tag:of-pyiceberg").removed and 50 not in ids(opened())
