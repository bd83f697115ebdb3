"""Every golden Iceberg table, rewritten whole: its rows, row ids and history stay, its files are as planned."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog

import lakebed
from lakebed.formats.iceberg.read.plan import scan_tasks
from tests.golden import names, opening, unpack

ALL = {"rewrite-all": True, "remove-dangling-deletes": True}
NOT_FOR_PYICEBERG = ("variant_v3", "hadoop_v2", "never_written", "empty_and_metadata_delete")
"""A type that it lacks, a table without a catalog, tables without a file."""


def opened(name: str, into: Path) -> tuple[Any, Path]:
    folder = unpack("iceberg", name, into=into)
    if any((folder / "metadata").glob("v*.metadata.json")):
        return lakebed.open(folder), folder
    uri = f"sqlite:///{folder.parent}/catalog.db"
    options = {"lakebed.catalog.type": "sql", "lakebed.catalog.uri": uri, **opening(folder)}
    return lakebed.open(f"ice:db.{name}", options), folder


def rows(table: Any, columns: list[str] | None = None, as_of: Any = None) -> list[str]:
    return sorted(map(str, table.read(columns, as_of=as_of).read_all().to_pylist()))


def tasks(table: Any) -> list[Any]:
    metadata = table.table_metadata
    return list(scan_tasks(table.operations.files, metadata, metadata.head()))


@pytest.mark.slow
@pytest.mark.parametrize("name", names("iceberg"))
def test_rows_and_row_ids_stay(name: str, tmp_path: Path) -> None:
    table, _ = opened(name, tmp_path)
    metadata = table.table_metadata
    start = metadata.head()
    lineage = [*table.schema.names, "_row_id", "_last_updated_sequence_number"]
    columns = lineage if metadata.format_version >= 3 else None
    before, old = rows(table, columns), {task.data.path for task in tasks(table)}
    predicted = table.rewrite(dry_run=True, options=ALL)
    result = table.rewrite(options=ALL)
    assert rows(table, columns) == before
    after = tasks(table)
    if not old:
        assert result.instants == () and table.table_metadata.head() == start
        return
    assert not {task.data.path for task in after} & old
    assert not any(task.deletes for task in after)
    assert (result.files_before, result.files_after) == (len(old), len(after))
    assert result.plan == predicted.plan and predicted.dry_run
    head = table.table_metadata.head()
    assert head.operation == "replace" and head.parent_id == start.snapshot_id
    assert {task.data.spec_id for task in after} == {metadata.default_spec_id}
    assert rows(table, as_of=start.snapshot_id) == rows(table) or metadata.schema.schema_id != start.schema_id
    if metadata.format_version >= 2:
        assert {task.data.sequence_number for task in after} == {start.sequence_number}
    second = table.rewrite()
    assert second.groups == 0 and second.instants == ()


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in names("iceberg") if name not in NOT_FOR_PYICEBERG])
def test_pyiceberg_reads_what_was_rewritten(name: str, tmp_path: Path) -> None:
    """pyiceberg refuses equality deletes and deletion vectors of some tables: after a rewrite it reads them all."""
    table, folder = opened(name, tmp_path)
    table.rewrite(options=ALL)
    catalog = SqlCatalog("ice", uri=f"sqlite:///{folder.parent}/catalog.db", warehouse=str(folder.parent))
    found = catalog.load_table(f"db.{name}").scan().to_arrow()
    assert len(found) == len(rows(table))
    names_of = [one for one in found.column_names if "timestamp" not in str(found.schema.field(one).type)]
    ours = table.read(names_of).read_all()
    assert sorted(map(str, found.select(names_of).to_pylist())) == sorted(map(str, ours.to_pylist()))


@pytest.mark.slow
def test_many_small_files_become_one_a_partition_as_the_reference_engine_made_them(tmp_path: Path) -> None:
    table, _ = opened("many_small", tmp_path)
    theirs, _ = opened("many_small_rewritten", tmp_path / "theirs")
    result = table.rewrite()
    assert (result.files_before, result.files_after, result.groups) == (200, 8, 8)
    of_theirs = sorted((task.data.partition, task.data.spec_id) for task in tasks(theirs))
    assert sorted((task.data.partition, task.data.spec_id) for task in tasks(table)) == of_theirs


@pytest.mark.slow
def test_the_plan_of_the_reference_engine_is_ours(tmp_path: Path) -> None:
    """Before its rewrite, `many_small_rewritten` had 80 files; Spark made 8 of them."""
    table, _ = opened("many_small_rewritten", tmp_path)
    first = next(s for s in table.table_metadata.snapshots.values() if s.operation == "append")
    metadata = table.table_metadata
    before = list(scan_tasks(table.operations.files, metadata, first))
    after = tasks(table)
    assert (len(before), len(after)) == (80, 8)
    assert rows(table) == rows(table, as_of=first.snapshot_id)


@pytest.mark.slow
def test_files_of_older_specs_go_to_the_new_one(tmp_path: Path) -> None:
    table, _ = opened("spec_evolution", tmp_path)
    before = rows(table)
    planned = table.rewrite(dry_run=True, options={"lakebed.rewrite.other-specs": True})
    assert [group.what for group in planned.plan] == ["files of other partition specs"]
    assert any("spread over spec" in note for note in planned.notes)
    table.rewrite(options={"lakebed.rewrite.other-specs": True})
    assert {task.data.spec_id for task in tasks(table)} == {table.table_metadata.default_spec_id}
    assert rows(table) == before
    assert not table.rewrite(options={"lakebed.rewrite.other-specs": True}).groups


@pytest.mark.slow
def test_an_older_spec_can_be_written_again(tmp_path: Path) -> None:
    table, _ = opened("spec_evolution", tmp_path)
    before = rows(table)
    table.rewrite(options={"rewrite-all": True, "output-spec-id": 1})
    assert {task.data.spec_id for task in tasks(table)} == {1}
    assert rows(table) == before


@pytest.mark.slow
def test_a_branch_is_rewritten_alone(tmp_path: Path) -> None:
    table, _ = opened("branches_tags", tmp_path)
    branch = next(name for name, ref in table.table_metadata.refs.items() if ref.is_branch and name != "main")
    main = table.table_metadata.head()
    old = rows(table, as_of=f"branch:{branch}")
    result = table.rewrite(options={"rewrite-all": True, "branch": branch})
    assert table.table_metadata.head() == main
    assert str(table.table_metadata.head(branch).snapshot_id) == result.instants[0]
    assert rows(table, as_of=f"branch:{branch}") == old


@pytest.mark.slow
def test_variants_stay_variants(tmp_path: Path) -> None:
    """pyiceberg cannot open a catalog's table with variants, so the table gets the file names of a hadoop table."""
    folder = unpack("iceberg", "variant_v3", into=tmp_path)
    for number, path in enumerate(sorted((folder / "metadata").glob("*.metadata.json")), 1):
        path.rename(folder / "metadata" / f"v{number}.metadata.json")
    table: Any = lakebed.open(folder)
    names = [*table.schema.names, "_row_id", "_last_updated_sequence_number"]
    before = table.read(columns=names).read_all().sort_by("id")
    table.rewrite(options=ALL)
    (task,) = tasks(table)
    assert "j (Variant(1))" in str(pq.ParquetFile(task.data.path.removeprefix("file:")).schema)
    assert table.read(columns=names).read_all().sort_by("id") == before


@pytest.mark.slow
def test_orc_and_avro_tables_stay_what_they_are(tmp_path: Path) -> None:
    for kind in ("orc", "avro"):
        table, folder = opened("mixed_formats", tmp_path / kind)
        before = rows(table)
        catalog = SqlCatalog("ice", uri=f"sqlite:///{folder.parent}/catalog.db", warehouse=str(folder.parent))
        with catalog.load_table("db.mixed_formats").transaction() as change:
            change.set_properties({"write.format.default": kind})
        table.rewrite(options=ALL)
        assert {task.data.format for task in tasks(table)} == {kind.upper()}
        assert rows(table) == before
        assert sqlite3.connect(folder.parent / "catalog.db").execute("select count(*) from iceberg_tables").fetchone()
