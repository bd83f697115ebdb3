"""Rows before and after archival, on tables with real data files: no row comes, goes or comes twice."""

from pathlib import Path

import pytest

from lakebed.model.upkeep import ArchiveResult
from tests.tables.hudi.timelines import FREE
from tests.tables.hudi.writing import HudiFolder, changed, rows, t

BOTH = pytest.mark.parametrize("version", [6, 8])
pytestmark = pytest.mark.filterwarnings("ignore::lakebed.errors.ReadWarning")


def table_of(folder: Path, version: int) -> HudiFolder:
    return HudiFolder(folder, version, table__type="COPY_ON_WRITE")


def insert(table: HudiFolder, *numbers: int) -> None:
    """Commits that write a file group of one row each."""
    for number in numbers:
        table.done(number, [table.base(f"g{number}", number, [{"id": f"k{number}", "x": str(number)}])], "commit")


def archive(table: HudiFolder, least: int, most: int, **options: object) -> ArchiveResult:
    given = {key.replace("__", "."): value for key, value in options.items()}
    bounds = {"hoodie.keep.min.commits": least, "hoodie.keep.max.commits": most}
    return table.open().archive(options={**FREE, **bounds, **given})


def times(*numbers: int) -> tuple[str, ...]:
    return tuple(t(number) for number in numbers)


@BOTH
def test_an_instant_in_a_hole_that_savepoints_leave_is_committed(tmp_path: Path, version: int) -> None:
    table = table_of(tmp_path, version)
    insert(table, *range(1, 10))
    for number in (3, 5):
        name = f"{t(number)}_{t(number + 0.5)}.savepoint" if version >= 8 else f"{t(number)}.savepoint"
        table.state(number, "savepoint.inflight")
        (table.timeline / name).write_bytes(b"x")
    wanted = rows(table.open(), "x")
    assert len(wanted) == 9
    result = archive(table, 6, 7, hoodie__archive__beyond__savepoint=True)
    assert result.archived == times(1, 2, 4)
    assert rows(table.open(), "x") == wanted
    assert rows(table.open(), "x", as_of=t(9.9)) == wanted
    assert changed(table.open(), "x") == wanted


@BOTH
def test_a_replace_commit_whose_files_are_there_stays_and_no_row_comes_twice(tmp_path: Path, version: int) -> None:
    table = table_of(tmp_path, version)
    table.done(1, [table.base("f", 1, [{"id": k, "x": "old"} for k in "ab"])], "commit")
    new = table.base("h", 2, [{"id": k, "x": "new"} for k in "ab"])
    table.done(2, [new], "replacecommit", operation="INSERT_OVERWRITE", replaced={"": ["f"]})
    insert(table, *range(3, 9))
    wanted = rows(table.open(), "x")
    result = archive(table, 2, 3)
    assert result.archived == times(1)
    assert any(b.instant == t(2) and "hides files that no clean has removed" in b.reason for b in result.blockers)
    assert rows(table.open(), "x") == wanted and wanted["a"] == "new" and len(wanted) == 8


@BOTH
def test_files_of_an_inflight_write_stay_invisible_beside_archived_commits(tmp_path: Path, version: int) -> None:
    """One commit before the oldest inflight one stays: without it readers would take the inflight one's files."""
    table = table_of(tmp_path, version)
    insert(table, 1, *range(3, 11))
    table.base("torn", 2, [{"id": "uncommitted", "x": "2"}])
    table.state(2, "commit.requested")
    table.state(2, "inflight")
    wanted = rows(table.open(), "x")
    result = archive(table, 2, 4)
    assert result.archived == () and table.open().history()[0].time == t(1)
    assert rows(table.open(), "x") == wanted and "uncommitted" not in wanted


@pytest.mark.slow
@BOTH
def test_a_range_across_the_archives_border_is_that_of_one_timeline(tmp_path: Path, version: int) -> None:
    table = table_of(tmp_path, version)
    insert(table, *range(1, 11))
    half = 0.5 if version >= 8 else 0
    spans = [(a + half, b + half) for a in range(10) for b in range(a, 11)]
    before = [changed(table.open(), "x", after=t(low), until=t(high)) for low, high in spans]
    assert archive(table, 3, 4).archived == times(*range(1, 8))
    opened = table.open()
    assert [changed(opened, "x", after=t(low), until=t(high)) for low, high in spans] == before


@BOTH
def test_a_fresh_table_has_an_empty_archive_and_its_changes_read(tmp_path: Path, version: int) -> None:
    table = table_of(tmp_path, version)
    insert(table, 1, 2, 3)
    assert [instant.archived for instant in table.open().history(archived=True)] == [False] * 3
    assert changed(table.open(), "x", after=t(1.6)) == {"k2": "2", "k3": "3"}
    assert archive(table, 5, 6).archived == ()
    assert changed(table.open(), "x", after=t(0)) == {"k1": "1", "k2": "2", "k3": "3"}
