"""Iceberg's own engines and DuckDB on tables that lakebed repaired: the rows that are left, and they go on."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed.formats.iceberg.manifests import manifests_of
from lakebed.formats.iceberg.table import IcebergTable
from tests.interop.hudi_ask import ask
from tests.interop.iceberg_ask import spark_sql
from tests.unit.iceberg.repair.test_run import file_of, ids, lived, rows, spoil, tasks_of, wanted

pytestmark = pytest.mark.timeout(1800)
LEFT = {"data": wanted("a", "c", "d"), "dropped": wanted("a", "c", "d"), "manifest": wanted("a", "b", "d")}


def metadata_of(place: Path) -> str:
    """The newest metadata file of a table."""
    table = lakebed.open(place)
    assert isinstance(table, IcebergTable)
    return table.operations.load().location


def repaired(folder: Path, version: int) -> dict[str, Path]:
    """Tables that lost a data file, a delete file with the rows it applies to, and a manifest."""
    places = {name: folder / f"{name}{version}" for name in LEFT}
    table = lived(places["data"], version)
    file_of(table, "b").unlink()
    table.repair()
    table = lived(places["dropped"], version)
    for delete in {each.path for task in tasks_of(table) for each in task.deletes}:
        Path(delete).unlink()
    table.repair(options={"lakebed.repair.lost-deletes": "drop-rows"})
    table = lived(places["manifest"], version)
    head = table.table_metadata.head()
    assert head is not None
    listed = manifests_of(table.operations.files, table.table_metadata, head)
    spoil(Path(next(m for m in listed if m.sequence_number == 3).path), 0)
    table.repair()
    return places


@pytest.mark.parametrize("spark", ["4.0", "4.1"])
def test_engines_read_what_is_left_and_go_on(tmp_path: Path, spark: str) -> None:
    version = {"4.0": 2, "4.1": 3}[spark]
    places = repaired(tmp_path / "db", version)
    requests = {
        name: [
            f"SELECT id FROM had.db.{place.name} ORDER BY id",
            f"SELECT count(*) FROM had.db.{place.name}.files",
            f"INSERT INTO had.db.{place.name} VALUES (1, 'a')",
            f"DELETE FROM had.db.{place.name} WHERE id = 9702",
            f"CALL had.system.rewrite_data_files(table => 'db.{place.name}', options => map('rewrite-all', 'true'))",
            f"SELECT id FROM had.db.{place.name} ORDER BY id",
        ]
        for name, place in places.items()
    }
    answers = spark_sql(tmp_path, requests, spark)
    for name, left in LEFT.items():
        answer = answers[name]
        assert [row[0] for row in answer[0]] == left, name
        assert [row[0] for row in answer[-1]] == [1, *(id for id in left if id != 9702)], name
        table = lakebed.open(places[name])
        assert ids(table) == [1, *(id for id in left if id != 9702)]
        assert table.repair(dry_run=True, options={"lakebed.repair.check": "data"}).lost == ()
        table.write(rows("a", 1))


def test_duckdb_reads_what_is_left(tmp_path: Path) -> None:
    places = repaired(tmp_path / "db", 2)
    lines = [
        json.dumps({"name": name, "metadata": metadata_of(place), "to": str(tmp_path / name)})
        for name, place in places.items()
    ]
    answers = ask("LAKEBED_INTEROP_PYTHON", "duckdb_peer.py", [], lines)
    assert {answer["name"]: answer["error"] for answer in answers} == dict.fromkeys(LEFT, "")
    for name, left in LEFT.items():
        with pa.OSFile(str(tmp_path / name)) as source:
            assert sorted(pa.ipc.open_stream(source).read_all()["id"].to_pylist()) == left
