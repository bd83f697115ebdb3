"""Snapshot and schema files that somebody removed by hand: nothing that they committed is missed without a word."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

import lakebed
from lakebed.errors import ReadWarning, TableExistsError, TableNotFoundError
from lakebed.formats.paimon.snapshot import History
from lakebed.kernel.files import open_store
from lakebed.model.report import Health
from lakebed.testing.faults import FaultyStore
from lakebed.verbs.table import Table
from tests.tables.paimon.small import SCHEMA, rows


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table with the snapshots 1 to 4, of one row each."""
    table = lakebed.create(tmp_path / "t", "paimon", SCHEMA, ["id"], options={"bucket": "1"})
    for number in range(1, 5):
        table.write(rows(("a", number, "v", number)))
    return table


def remove(table: Table, *names: str) -> Table:
    for name in names:
        table.store.delete(name)
    return lakebed.open(table.location)


def findings(table: Table) -> list[tuple[Health, str]]:
    return [(finding.health, finding.what) for finding in table.inspect().findings if "snapshot" in finding.what]


def test_a_removed_newest_snapshot_is_told_by_reads_and_by_the_report(table: Table) -> None:
    """As Paimon's engines do, the read goes on with the snapshot before it. A rollback to that one settles it."""
    table = remove(table, "snapshot/snapshot-4")
    with pytest.warns(ReadWarning, match="names snapshot 4, and the newest that is there is 3"):
        assert table.count() == 3
    assert [health for health, _ in findings(table)] == [Health.BROKEN]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert table.count(as_of=3) == 3
        table.rollback(3)
        assert table.count() == 3
    assert not findings(table)


def test_a_table_whose_snapshots_are_all_gone_is_not_just_empty(table: Table) -> None:
    table = remove(table, *(f"snapshot/snapshot-{number}" for number in range(1, 5)))
    with pytest.warns(ReadWarning, match="names snapshot 4, and no snapshot is there"):
        assert table.count() == 0
    assert [health for health, _ in findings(table)] == [Health.BROKEN]


def test_a_missing_snapshot_between_others_is_in_the_report(table: Table) -> None:
    table = remove(table, "snapshot/snapshot-2")
    assert table.count() == 4
    assert findings(table) == [(Health.ATTENTION, "1 snapshot is missing between others: 2")]


def test_a_rollback_meanwhile_is_no_removal(table: Table) -> None:
    """It moves LATEST before it removes snapshots, so a hint that was read before it says nothing."""

    class RolledBack(FaultyStore):
        def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
            data = super().read(path, start, length)
            if path == "snapshot/LATEST" and data == b"4":
                table.rollback(2)
            return data

    history = History(RolledBack(table.store))
    newest = history.latest()
    assert newest is not None and newest.id == 2 and history.removed is None


def test_a_commit_meanwhile_is_no_removal(table: Table) -> None:
    assert History(open_store(table.location)).removed_after(3) is None


@pytest.mark.parametrize("left", ["snapshot", "tag", "branch"])
def test_no_new_table_takes_over_what_one_without_schema_left(table: Table, left: str) -> None:
    """Its snapshots, tags and branches would show as the new table's own."""
    table.tag("kept", 2)
    table.branch("dev", "tag:kept")
    folders = {"snapshot", "tag", "branch"} - {left}
    paths = [info.path for info in table.store.walk() if info.path.split("/")[0] in folders]
    table.store.delete_many([*paths, *(info.path for info in table.store.walk("schema"))])
    with pytest.raises(TableExistsError, match="without a schema file"):
        lakebed.create(table.location, "paimon", SCHEMA, ["id"], options={"bucket": "1"})


def test_a_table_without_schema_is_no_folder_of_plain_files(table: Table) -> None:
    table.store.delete("schema/schema-0")
    with pytest.raises(TableNotFoundError, match="this Paimon table has no schema file"):
        lakebed.open(table.location)
