"""Iceberg's own engine on tables whose metadata and manifests lakebed wrote: the same rows and files. The engine goes
on to write, rewrite and expire, and then lakebed continues."""

from pathlib import Path
from typing import Any

import pytest

import lakebed
from lakebed.formats.iceberg.data_files import DataFile, data_files
from lakebed.formats.iceberg.table import IcebergTable
from tests.interop.iceberg_ask import spark_sql
from tests.tables.iceberg import commits
from tests.tables.iceberg.commits import scan
from tests.tables.iceberg.small import create, data_file, equality_deletes, ids, position_deletes

pytestmark = pytest.mark.timeout(1800)
TABLES = [(place, version) for place in ("had", "ice") for version in (1, 2, 3)]


def name(place: str, version: int) -> str:
    return f"{place}.db.v{version}"


def opened(folder: Path, place: str, version: int) -> IcebergTable:
    table = lakebed.open(*location(folder, place, version))
    assert isinstance(table, IcebergTable)
    return table


def location(folder: Path, place: str, version: int) -> tuple[str, dict[str, str]]:
    if place == "had":
        return str(folder / f"db/v{version}"), {}
    options = {
        "lakebed.catalog.type": "sql", "lakebed.catalog.uri": f"sqlite:///{folder}/catalog.db",
        "lakebed.catalog.warehouse": str(folder),
    }  # fmt: skip
    return f"ice:db.v{version}", options


def live(table: IcebergTable) -> list[DataFile]:
    metadata = table.table_metadata
    found = scan(table.operations.files, metadata, metadata.head())
    return [file for entries in found.data.values() for file in data_files(entries)]


def write(folder: Path, place: str, version: int) -> None:
    """Every kind of commit, with merges of manifests."""
    path, options = location(folder, place, version)
    table = create(path, version, **options, **{"commit.manifest.min-count-to-merge": "3"})
    commits.append(table.operations, [data_file(table, [1, 2, 3]), data_file(table, [4, 5], "b")])
    commits.append(table.operations, [data_file(table, [6])])
    commits.append(table.operations, [data_file(table, [7], "c"), data_file(table, [8], "b/%é")])
    table.tag("three")
    if version > 1:
        first = next(f for f in live(table) if f.record_count == 3)
        if version == 2:
            commits.row_delta(table.operations, [], [position_deletes(table, first, [1])])  # 2
        commits.row_delta(table.operations, [data_file(table, [9])], [equality_deletes(table, [6])])
        head = table.table_metadata.head()
        of_b = [f for f in live(table) if f.partition == ("b",)]
        commits.replace(table.operations, head and head.snapshot_id, of_b, [data_file(table, [4, 5], "b")])
    commits.overwrite(table.operations, [data_file(table, [70], "c")], [(0, ("c",))], dynamic=True)


def queries(table: str) -> list[str]:
    return [
        f"SELECT id, p FROM {table} ORDER BY id",
        f"SELECT id FROM {table} VERSION AS OF 'three' ORDER BY id",
        f"SELECT content, file_path, record_count, file_size_in_bytes FROM {table}.files ORDER BY file_path",
        f"SELECT status, snapshot_id, sequence_number, file_sequence_number, data_file.file_path FROM {table}.entries",
        f"SELECT snapshot_id, operation, summary['total-records'] FROM {table}.snapshots ORDER BY committed_at",
    ]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], dict[str, Any]]:
    """The folder of the tables, what lakebed reads of each before Spark continues, and what Spark reports."""
    folder = tmp_path_factory.mktemp("iceberg")
    before = {}
    for place, version in TABLES:
        write(folder, place, version)
        table = opened(folder, place, version)
        before[name(place, version)] = (ids(table), ids(table, as_of="tag:three"), live(table), table.history())
    requests: dict[str, list[str]] = {}
    rewrite_all = "options => map('rewrite-all', 'true')"
    for place, version in TABLES:
        table_name, catalog = name(place, version), place
        requests[table_name] = queries(table_name)
        requests[f"{table_name} written"] = [
            f"INSERT INTO {table_name} VALUES (100, 'a'), (101, 'z')",
            f"DELETE FROM {table_name} WHERE id = 3",
            f"CALL {catalog}.system.rewrite_manifests('db.v{version}')",
            f"CALL {catalog}.system.rewrite_data_files(table => 'db.v{version}', {rewrite_all})",
            f"CALL {catalog}.system.expire_snapshots(table => 'db.v{version}', older_than => TIMESTAMP '2100-01-01')",
            f"SELECT id FROM {table_name} ORDER BY id",
        ]
        if version == 3:
            requests[f"{table_name} lineage"] = [
                f"SELECT id, _row_id, _last_updated_sequence_number FROM {table_name} ORDER BY id"
            ]
    return folder, before, spark_sql(folder, requests)


@pytest.mark.parametrize(("place", "version"), TABLES)
def test_spark_sees_what_lakebed_wrote(told: Any, place: str, version: int) -> None:
    _, before, answers = told
    rows, tagged, files, history = before[name(place, version)]
    current, at_tag, theirs, entries, snapshots = answers[name(place, version)]
    assert [row[0] for row in current] == rows
    assert [row[0] for row in at_tag] == tagged
    data = sorted([f.path, f.record_count, f.size] for f in files)
    assert [row[1:] for row in theirs if row[0] == 0] == data
    numbers = {f.path: (f.sequence_number, f.file_sequence_number) for f in files}
    assert {e[4]: (e[2], e[3]) for e in entries if e[0] != 2 and e[4] in numbers} == numbers
    assert [[s[0], s[1], s[2]] for s in snapshots] == [
        [int(i.time), i.action, i.summary["total-records"]] for i in history
    ]


@pytest.mark.parametrize(("place", "version"), TABLES)
def test_spark_goes_on_and_lakebed_after_it(told: Any, place: str, version: int) -> None:
    folder, before, answers = told
    expected = sorted({*before[name(place, version)][0], 100, 101} - {3})
    assert [row[0] for row in answers[f"{name(place, version)} written"][-1]] == expected
    table = opened(folder, place, version)
    assert ids(table) == expected
    commits.append(table.operations, [data_file(table, [200])])
    assert ids(table) == [*expected, 200]
    if version == 3:
        lineage = answers[f"{name(place, version)} lineage"][0]
        mine = table.read(columns=["id", "_row_id", "_last_updated_sequence_number"], where="id < 200").read_all()
        assert sorted(list(row.values()) for row in mine.to_pylist()) == lineage
        assert len({row[1] for row in lineage}) == len(lineage)
