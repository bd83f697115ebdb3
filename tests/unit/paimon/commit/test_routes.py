"""Rows get their buckets before their commit: where rows move into another number of buckets meanwhile, the commit is a
conflict."""

from __future__ import annotations

from typing import Any

import pytest

import lakebed
from lakebed.errors import CommitConflictError
from lakebed.formats.paimon.commit import committer
from tests.tables.paimon.small import Make, contents, rows
from tests.unit.paimon.expire.test_run import NOTHING_OWED

FIXED = {"bucket": "2", "write__only": "true"}


def moved(table: lakebed.Table, **where: str) -> None:
    table.alter(lakebed.set_option("bucket", 3))
    table.rewrite(options={"bucket": "3"}, **where)


@pytest.mark.parametrize("keys", [("dt", "id"), ()], ids=["keyed", "append"])
@pytest.mark.parametrize("expired", [False, True])
@pytest.mark.parametrize("attempt", ["commit", "write"])
def test_rows_of_a_number_of_buckets_that_is_gone_are_a_conflict(
    make: Make, monkeypatch: pytest.MonkeyPatch, keys: tuple[str, ...], expired: bool, attempt: str
) -> None:
    """Their keys would be in two buckets. Also where the snapshots since the plan have expired."""
    table = make(primary_key=keys, **FIXED, **{} if keys else {"bucket__key": "id"})
    table.write(rows(*[("a", number, "v", 0) for number in range(8)]))
    other = lakebed.open(table.location)

    def between() -> None:
        moved(other)
        if expired:
            other.writer("empty").commit(1, [])
            other.expire(options=NOTHING_OWED)

    new = rows(*[("a", number, "w", 0) for number in range(8)])
    if attempt == "commit":
        writer = table.writer("job")
        writer.write(new)
        messages = writer.prepare_commit()
        between()
        with pytest.raises(CommitConflictError, match="has 3 buckets now, but this commit was written for 2"):
            writer.commit(1, messages)
    else:
        publish = committer.Committer._publish

        def late(*given: Any, **named: Any) -> Any:
            monkeypatch.setattr(committer.Committer, "_publish", publish)
            between()
            return publish(*given, **named)

        monkeypatch.setattr(committer.Committer, "_publish", late)
        with pytest.raises(CommitConflictError, match="has 3 buckets now, but this commit was written for 2"):
            table.write(new)
    assert sorted(contents(other)) == [("a", number, "v", 0) for number in range(8)]


def test_rows_of_another_partition_than_those_that_moved_are_none(make: Make) -> None:
    table = make(primary_key=("dt", "id"), **FIXED)
    table.write(rows(*[(day, number, "v", 0) for number in range(4) for day in "ab"]))
    writer = table.writer("job")
    writer.write(rows(("a", 1, "w", 0)))
    messages = writer.prepare_commit()
    moved(lakebed.open(table.location), where="dt = 'b'")
    writer.commit(1, messages)
    assert ("a", 1, "w", 0) in contents(table) and len(contents(table)) == 8


@pytest.mark.parametrize("first", ["older", "newer"])
def test_a_new_partition_gets_the_number_of_buckets_of_the_newest_definition(make: Make, first: str) -> None:
    """Two writers begin it, one by the older and one by the newer definition, with which others have written since. Of
    their snapshots neither names the older schema."""
    table = make(primary_key=("dt", "id"), **FIXED)
    table.write(rows(("a", 1, "v", 0)))
    older = table.writer("older")
    older.write(rows(*[("b", number, "v", 0) for number in range(8)]))
    messages = older.prepare_commit()
    other = lakebed.open(table.location)
    moved(other)
    newer = lakebed.open(table.location).writer("newer")
    newer.write(rows(*[("b", number, "w", 0) for number in range(8)]))
    theirs = newer.prepare_commit()
    if first == "newer":
        newer.commit(1, theirs)
    with pytest.raises(CommitConflictError, match="has 3 buckets now, but this commit was written for 2"):
        older.commit(1, messages)
    if first == "older":
        newer.commit(1, theirs)
    assert sorted(contents(other)) == [("a", 1, "v", 0), *(("b", number, "w", 0) for number in range(8))]
