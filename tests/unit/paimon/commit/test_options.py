"""What a commit can be told: overwrites, empty commits, checks before appends, rows by their ids, strictness."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import CommitConflictError, UsageError
from lakebed.formats.paimon.write.two_phase import PaimonTableWriter
from lakebed.model.commit import CommitMessage, Outcome
from tests.tables.paimon.small import Make, contents, rows


def prepared(
    table: lakebed.Table, user: str, *values: tuple[Any, ...]
) -> tuple[PaimonTableWriter, list[CommitMessage]]:
    writer = table.writer(user)
    assert isinstance(writer, PaimonTableWriter)
    writer.write(rows(*values))
    return writer, writer.prepare_commit()


# ---- overwrites ----

THREE = (("a", 1, "old", 1), ("b", 1, "old", 1), ("c", 1, "old", 1))
KEPT = [(dt, 1, "old", 1) for dt in "abc"]


@pytest.mark.parametrize(
    ("spec", "options", "data", "left"),
    [
        ({}, {}, [("a", 2, "new", 2)], [("a", 2, "new", 2), *KEPT[1:]]),
        ({}, {}, [], KEPT),
        ({"dt": "a"}, {}, [("a", 2, "new", 2)], [("a", 2, "new", 2), *KEPT[1:]]),
        ({"dt": "b"}, {}, [], [KEPT[0], KEPT[2]]),
        ({}, {"dynamic-partition-overwrite": "false"}, [("a", 2, "new", 2)], [("a", 2, "new", 2)]),
        ({}, {"dynamic-partition-overwrite": "false"}, [], []),
        ({"dt": "b"}, {"dynamic-partition-overwrite": "false"}, [], [KEPT[0], KEPT[2]]),
    ],
    ids=["dynamic", "dynamic, no rows", "static", "static, no rows", "all", "all, no rows", "switched off, static"],
)
def test_with_overwrite(
    make: Make, spec: Mapping[str, Any], options: dict[str, str], data: list[Any], left: list[Any]
) -> None:
    table = make()
    table.write(rows(*THREE))
    writer = lakebed.open(table.location, options).writer().with_overwrite(spec)
    writer.write(rows(*data))
    writer.commit(messages=writer.prepare_commit())
    assert contents(table) == left


def test_an_overwrite_says_what_it_replaces(make: Make) -> None:
    table = make()
    table.write(rows(*THREE))
    writer = table.writer().with_overwrite({"dt": "a"})
    writer.write(rows(("b", 1, "outside", 1)))
    with pytest.raises(UsageError, match="outside the partitions"):
        writer.commit(messages=writer.prepare_commit())
    with pytest.raises(UsageError, match="before the first write"):
        writer.with_overwrite({})
    with pytest.raises(UsageError, match="has no meaning"):
        table.writer().with_overwrite(None)  # type: ignore[arg-type]
    for spec in ({"id": 1}, {"nowhere": 1}):
        with pytest.raises(UsageError, match=r"overwrite\.partition"):
            table.writer().with_overwrite(spec)
    assert contents(table) == KEPT


@pytest.mark.parametrize("data", [[], [("x", 9, "new", 9)]])
def test_an_overwrite_without_partitions_replaces_the_table(make: Make, data: list[Any]) -> None:
    table = make(partition_by=(), primary_key=("id",))
    table.write(rows(("a", 1, "v", 1), ("b", 2, "v", 1)))
    writer = table.writer().with_overwrite({})
    writer.write(rows(*data))
    writer.commit(messages=writer.prepare_commit())
    assert contents(table) == data
    table.write(rows(*data), "overwrite")
    assert contents(table) == data


def test_without_asking_nothing_is_replaced(make: Make) -> None:
    table = make()
    table.write(rows(*THREE))
    writer, messages = prepared(table, "u", ("a", 2, "new", 2))
    writer.commit(1, messages)
    assert len(contents(table)) == 4


# ---- empty commits ----


@pytest.mark.parametrize(
    ("identifier", "ignore", "option", "made"),
    [
        (None, None, None, False), (None, False, None, True), (None, True, None, False), (None, False, "true", False),
        (7, None, None, True), (7, True, None, False), (7, False, None, True), (7, True, "false", True),
    ],
)  # fmt: skip
def test_an_empty_commit(
    make: Make, identifier: int | None, ignore: bool | None, option: str | None, made: bool
) -> None:
    table = make()
    options = {} if option is None else {"snapshot.ignore-empty-commit": option}
    writer = lakebed.open(table.location, options).writer()
    if ignore is not None:
        assert writer.ignore_empty_commit(ignore) is writer
    result = writer.commit(messages=[]) if identifier is None else writer.commit(identifier, [])
    assert (result.outcome is Outcome.COMMITTED) is made
    assert len(table.history()) == made


# ---- conflicts ----


def test_appends_are_checked_when_asked(make: Make) -> None:
    """Another writer gives the partition another number of buckets in between. For that a commit looks unasked, by what
    came since its plan; messages of others do not say when that was."""
    table = make(bucket="2")
    table.write(rows(("a", 1, "v", 1)))
    careless, first = prepared(table, "careless", ("a", 2, "v", 1))
    careful, second = prepared(table, "careful", ("a", 3, "v", 1))
    lakebed.open(table.location, {"bucket": "4"}).write(rows(("a", 1, "w", 1)), "overwrite")
    with pytest.raises(CommitConflictError, match="4 buckets now"):
        careful.append_commit_check_conflict(True).commit(1, second)
    with pytest.raises(CommitConflictError, match="4 buckets now"):
        careful.filter_and_commit({1: second})  # always looks
    careful.abort(second)
    with pytest.raises(CommitConflictError, match="4 buckets now"):
        careless.commit(1, first)
    assert len(table.history()) == 2
    foreign = [replace(message, planned_on=None) for message in first]
    assert careless.commit(1, foreign).snapshot_id == 3, "the reference does not look either, unless asked"


def test_a_file_committed_twice_is_a_conflict(make: Make) -> None:
    table = make()
    writer, messages = prepared(table, "one", ("a", 1, "v", 1))
    writer.commit(1, messages)
    other = table.writer("other").append_commit_check_conflict(True)
    with pytest.raises(CommitConflictError, match="in the table already"):
        other.commit(1, messages)
    other.abort([])
    assert contents(table) == [("a", 1, "v", 1)]


def test_rows_changed_by_another_are_found_by_their_ids(tmp_path: Path) -> None:
    schema = pa.schema([("n", pa.int64())])
    table = lakebed.create(tmp_path / "t", "paimon", schema, options={"row-tracking.enabled": "true"})
    data = pa.table({"n": [1, 2, 3]}, schema=schema)
    table.write(data)  # ids 0 to 2
    writer = table.writer("update")
    writer.write(data)
    (message,) = writer.prepare_commit()
    again = [replace(message, new_files=tuple(replace(f, first_row_id=0) for f in message.new_files))]
    lakebed.open(table.location).writer("rival").commit(1, again)
    with pytest.raises(CommitConflictError, match="ids 0 to 2"):
        table.writer("update").row_id_check_conflict(1).commit(2, again)
    assert len(table.history()) == 2
    assert table.writer("update").row_id_check_conflict(2).commit(2, again).snapshot_id == 3
    assert table.writer("other").row_id_check_conflict(None).commit(2, again).snapshot_id == 4


def test_strict_mode_stops_at_what_another_changed(make: Make) -> None:
    table = make()
    table.write(rows(("a", 1, "v", 1)))
    strict = lakebed.open(table.location, {"commit.strict-mode.last-safe-snapshot": "1"})
    writer = strict.writer("u")
    for identifier in (1, 2):  # its own commits move the last safe snapshot on
        writer.write(rows(("a", identifier, "v", 2)))
        writer.commit(identifier, writer.prepare_commit())
    table.write(rows(("b", 1, "other", 1)))
    writer.write(rows(("a", 3, "v", 2)))
    messages = writer.prepare_commit()
    with pytest.raises(CommitConflictError, match="after snapshot 3, the last safe one"):
        writer.commit(3, messages)
    first = lakebed.open(table.location, {"commit.strict-mode.last-safe-snapshot": "-1"})
    assert first.write(rows(("a", 4, "v", 2))).snapshot_id == 5, "a first commit is not checked"
