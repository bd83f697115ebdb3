"""`table.changes`, and `incremental-between` and its like: which changes a range has, and which ranges are refused.

`tests/golden/test_paimon_changes.py` holds them against the answers of Paimon's own engine.
"""

import json
from pathlib import Path
from typing import Any

import pytest

import lakebed
from lakebed import Table
from lakebed.errors import CorruptError, LakebedError, NotInHistoryError, OptionError, UnsupportedError, UsageError
from tests.tables.paimon.small import SCHEMA, Make, contents, rows

TIMES = (1_700_000_000_000, 1_700_000_060_000, 1_700_000_120_000)


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three appends of one row each, at known times, tagged first and last."""
    folder = tmp_path_factory.mktemp("appended") / "t"
    table = lakebed.create(folder, "paimon", SCHEMA)
    for place, time in enumerate(TIMES):
        table.write(rows(("a", place + 1, "v", 1)))
        path = folder / "snapshot" / f"snapshot-{place + 1}"
        path.write_text(json.dumps({**json.loads(path.read_text()), "timeMillis": time}))
    table.tag("first", 1)
    table.tag("last", 3)
    table.tag("2023-11-14", 1)
    table.tag("2023-11-15", 3)
    return folder


def ids(location: Path, **how: Any) -> list[int]:
    options = {key.replace("__", "."): value for key, value in how.items()}
    spelled = {key if "." in key else key.replace("_", "-"): value for key, value in options.items()}
    return [row[1] for row in contents(lakebed.open(location, options=spelled))]


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"incremental_between": "1,3"}, [2, 3]),
        ({"incremental_between": "0,3"}, [1, 2, 3]),
        ({"incremental_between": " 1 , 2 "}, [2]),
        ({"incremental_between": "2,2"}, []),
        ({"incremental_between": "1,2", "scan__mode": "incremental"}, [2]),
        ({"incremental_between": "1,2", "incremental_between_scan_mode": "delta"}, [2]),
        ({"incremental_between": "first,last", "incremental_between_tag_to_snapshot": "true"}, [2, 3]),
        ({"incremental_between": "first,last"}, [2, 3]),
        ({"incremental_between": "first,first"}, []),
        ({"incremental_between": "1,2", "incremental_between_scan_mode": "diff"}, [2]),
        ({"incremental_between": "1,2", "incremental_between_scan_mode": "changelog"}, []),
        ({"incremental_between_timestamp": f"{TIMES[0]},{TIMES[1]}", "incremental_between_scan_mode": "diff"}, [2]),
        ({"incremental_to_auto_tag": "2023-11-15"}, [2, 3]),
        ({"incremental_to_auto_tag": "2023-11-14"}, []),
        ({"incremental_to_auto_tag": "2023-11-19"}, []),
        ({"incremental_between_timestamp": f"{TIMES[0]},{TIMES[1]}"}, [2]),
        ({"incremental_between_timestamp": f"{TIMES[0] - 1},{TIMES[1]}"}, [1, 2]),
        ({"incremental_between_timestamp": f"{TIMES[0]},{TIMES[2] + 9}"}, [2, 3]),
        ({"incremental_between_timestamp": "2023-11-14 22:13:20,2023-11-14 22:14:20"}, [2]),
        ({"incremental_between_timestamp": f"{TIMES[2] + 1},{TIMES[2] + 9}"}, []),
        ({"incremental_between_timestamp": f"0,{TIMES[0] - 1}"}, []),
        ({"incremental_between_timestamp": f"{TIMES[0]},{TIMES[0]}"}, []),
    ],
    ids=str,
)
def test_ranges(location: Path, options: dict[str, str], wanted: list[int]) -> None:
    assert ids(location, **options) == wanted


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"incremental_between": "3,1"}, OptionError),
        ({"incremental_between": "3"}, OptionError),
        ({"incremental_between": "1,2,3"}, OptionError),
        ({"incremental_between": "1,9"}, NotInHistoryError),
        ({"incremental_between": "1,last"}, NotInHistoryError),
        ({"incremental_between": "last,first"}, OptionError),
        ({"incremental_between": "0,1", "incremental_between_scan_mode": "diff"}, NotInHistoryError),
        ({"incremental_to_auto_tag": "first"}, OptionError),
        ({"incremental_to_auto_tag": "2023-11-15", "incremental_between": "1,2"}, OptionError),
        ({"incremental_between": "1,2", "table-read.sequence-number.enabled": "true"}, UnsupportedError),
        ({"incremental_between": "1,2", "incremental_between_timestamp": "1,2"}, OptionError),
        ({"incremental_between": "1,2", "scan__snapshot-id": "2"}, OptionError),
        ({"incremental_between": "1,2", "scan__mode": "latest"}, OptionError),
        ({"incremental_between_timestamp": "2,1"}, OptionError),
        ({"incremental_between_timestamp": "soon,later"}, NotInHistoryError),
        ({"scan__mode": "incremental"}, OptionError),
        ({"scan__mode": "incremental", "scan__snapshot-id": "2"}, OptionError),
    ],
    ids=str,
)
def test_what_is_refused(location: Path, options: dict[str, str], error: type[LakebedError]) -> None:
    with pytest.raises(error):
        ids(location, **options)


def test_a_range_and_a_snapshot_exclude_each_other(location: Path) -> None:
    table = lakebed.open(location, options={"incremental-between": "1,3"})
    with pytest.raises(UsageError, match="as_of"):
        table.read(as_of=2)
    assert table.newest() is None


def kinds(table: Table, **span: Any) -> list[tuple[Any, ...]]:
    """(kind, id, v) of each change, in order."""
    return [(r["_row_kind"], r["id"], r["v"]) for r in table.changes(**span).read_all().to_pylist()]


@pytest.fixture
def keyed(make: Make) -> Table:
    """Inserts 1 and 2, updates 2 and deletes 1, in one bucket; then an overwrite by 3."""
    table = make(bucket="1")
    table.write(rows(("a", 1, "v", 1), ("a", 2, "v", 1)))
    table.write(rows(("a", 2, "w", 1), ("a", 1, "x", 1), kinds=["+U", "-D"]))
    table.write(rows(("a", 2, "w", 1), ("a", 3, "v", 1)), mode="overwrite")
    return table


def test_rows_come_as_they_were_written_and_overwrites_give_none(keyed: Table) -> None:
    written = [("+I", 1, "v"), ("+I", 2, "v"), ("-D", 1, "x"), ("+U", 2, "w")]
    assert kinds(keyed) == written
    assert kinds(keyed, after=0) == kinds(keyed, after=0, until=2) == written
    assert kinds(keyed, after=1) == kinds(keyed, after=1, until=2) == written[2:]
    assert kinds(keyed, after=2) == kinds(keyed, after=3) == kinds(keyed, after=2, until=1) == []


def test_two_snapshots_are_compared(keyed: Table) -> None:
    table = lakebed.open(keyed.location, {"incremental-between-scan-mode": "diff"})
    assert kinds(table, after=1, until=2) == [("-D", 1, "x"), ("+U", 2, "w")]
    assert sorted(kinds(table, after=1, until=3)) == [("+I", 2, "w"), ("+I", 3, "v"), ("-D", 1, "v")]
    assert kinds(table, after=2, until=3) == [("+I", 3, "v")]
    assert sorted(kinds(table)) == [("+I", 2, "w"), ("+I", 3, "v")]
    assert kinds(table, after=3) == []


def test_the_engine_s_options_leave_deletes_out(keyed: Table) -> None:
    options = {"incremental-between": "0,2"}
    assert [row[1:3] for row in contents(lakebed.open(keyed.location, options))] == [(1, "v"), (2, "v"), (2, "w")]
    options["incremental-between-scan-mode"] = "delta"
    assert lakebed.open(keyed.location, options).read(["v"], "id = 2").read_all()["v"].to_pylist() == ["v", "w"]


def test_sequence_numbers(keyed: Table) -> None:
    table = lakebed.open(keyed.location, {"table-read.sequence-number.enabled": "true"})
    changes = table.changes(["id"]).read_all()
    assert changes.column_names == ["id", "_SEQUENCE_NUMBER", "_row_kind"]
    assert changes["_SEQUENCE_NUMBER"].to_pylist() == [0, 1, 3, 2]


def test_changes_start_with_the_oldest_snapshot_that_is_left(keyed: Table) -> None:
    """What came before it is no longer known, so its rows come in full."""
    options = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "2"}
    keyed.expire(options=options)
    assert [instant.time for instant in keyed.history()] == ["2", "3"]
    assert kinds(keyed) == [("+U", 2, "w")]
    assert kinds(keyed, after=1) == [("-D", 1, "x"), ("+U", 2, "w")]
    with pytest.raises(NotInHistoryError, match="0"):
        keyed.changes(after=0)


def test_where_and_columns(keyed: Table) -> None:
    found = keyed.changes(["v"], "id = 2").read_all().to_pylist()
    assert [tuple(row.values()) for row in found] == [("v", "+I"), ("w", "+U")]
    assert not keyed.plan_changes(where="dt = 'b'").splits


def test_a_partition_with_another_number_of_buckets_is_not_compared(make: Make) -> None:
    table = make(bucket="1")
    table.write(rows(("a", 1, "v", 1)))
    lakebed.open(table.location, {"bucket": "2"}).write(rows(("a", 1, "w", 1)), mode="overwrite")
    with pytest.raises(UnsupportedError, match="from 1 to 2"):
        lakebed.open(table.location, {"incremental-between-scan-mode": "diff"}).changes(after=1)


def test_files_with_some_columns_of_their_rows_are_refused(location: Path) -> None:
    table = lakebed.open(location, {"data-evolution.enabled": "true"})
    for act in (table.changes, lambda: table.stream().schema):
        with pytest.raises(UnsupportedError, match="data-evolution"):
            act()


def test_times(make: Make) -> None:
    table = make(bucket="1")
    table.write(rows(("a", 1, "v", 1)))
    assert kinds(table, after="2000-01-01") == kinds(table, after=0)
    assert kinds(table, after=table.history()[0].completed) == []
    with pytest.raises(NotInHistoryError):
        table.changes(until="2000-01-01")


def test_a_changelog_file_that_removes_files_is_damage(keyed: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakebed.formats.paimon.read.changes._is_read", lambda *_: True)
    with pytest.raises(CorruptError, match="removes files"):
        keyed.changes()


def test_a_table_without_a_snapshot(tmp_path: Path) -> None:
    lakebed.create(tmp_path / "t", "paimon", SCHEMA)
    assert ids(tmp_path / "t", incremental_between="1,2") == []
