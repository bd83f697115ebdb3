"""A commit and its files when a catalog fails: it refused, lost the race, landed without an answer, or did not say."""

from __future__ import annotations

import secrets
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hive_metastore.ttypes import LockState

import lakebed
from lakebed.errors import CommitConflictError, CommitUnknownError, StorageError
from lakebed.formats.iceberg.table import IcebergTable
from lakebed.kernel.commit import retry
from lakebed.kernel.commit.turns import Turn
from lakebed.model.commit import Outcome
from tests.tables.iceberg import commits
from tests.tables.iceberg.hive_metastore import Metastore
from tests.tables.iceberg.rest_server import Failure, RestCatalog
from tests.tables.iceberg.small import create, data_file, ids
from tests.unit.iceberg.catalog.conftest import Glue, options_of

QUICK = {
    "commit.status-check.num-retries": "1",
    "commit.status-check.min-wait-ms": "1",
    "commit.retry.num-retries": "2",
}
OPEN = [500, 502, 503, 504, 0]
"""Statuses that leave open whether the commit was carried out; 0 is a connection that is cut."""


def started(server: Any, version: int = 3) -> IcebergTable:
    """A table with one row."""
    name = f"t{secrets.token_hex(4)}" if isinstance(server, Glue) else "t"  # Glue's server outlives a test
    table = create(f"cat:db.{name}", version, **{**options_of(server), **QUICK})
    commits.append(table.operations, [data_file(table, [1])])
    return table


def files(table: IcebergTable) -> set[Path]:
    return {path for path in Path(table.location).rglob("*") if path.is_file()}


def append(table: IcebergTable, number: int = 2) -> Outcome:
    return commits.append(table.operations, [data_file(table, [number])]).outcome


@pytest.mark.slow
@pytest.mark.parametrize("status", OPEN)
def test_landed_without_a_word(rest: RestCatalog, status: int) -> None:
    table = started(rest)
    rest.failures = [Failure(status, after=True)]
    assert append(table) is Outcome.COMMITTED
    assert ids(table) == [1, 2] and len(rest.commits) == 2


@pytest.mark.slow
@pytest.mark.parametrize("status", OPEN)
def test_an_unknown_outcome_keeps_the_files(rest: RestCatalog, status: int) -> None:
    table = started(rest)
    before = files(table)
    rest.failures = [Failure(status)]
    with pytest.raises(CommitUnknownError, match=r"Its files are kept\. Look at table\.history"):
        append(table)
    new = {path.name.rpartition(".")[2] for path in files(table) - before}
    assert new == {"parquet", "avro"}  # the row, its manifest and the list of manifests
    assert len([path for path in files(table) - before if path.suffix == ".avro"]) == 2
    assert ids(table) == [1]


@pytest.mark.slow
@pytest.mark.parametrize("status", [400, 401, 403, 422, 429, 501])
def test_a_refusal_leaves_nothing(rest: RestCatalog, status: int) -> None:
    table = started(rest)
    file = data_file(table, [2])
    before = files(table)
    rest.failures = [Failure(status)] * 2  # refused credentials are tried twice by the client
    with pytest.raises(StorageError, match="cat") as caught:
        commits.append(table.operations, [file])
    assert not isinstance(caught.value, (CommitConflictError, CommitUnknownError)) and caught.value.todo
    assert files(table) == before and ids(table) == [1]


def test_a_race_that_was_won_and_called_lost(rest: RestCatalog) -> None:
    """A proxy repeats the request, and the catalog finds a conflict with itself."""
    table = started(rest)
    rest.failures = [Failure(409, after=True)]
    assert append(table) is Outcome.COMMITTED
    assert ids(table) == [1, 2] and len(table.history()) == 2


def test_the_last_race_was_won_and_called_lost(rest: RestCatalog) -> None:
    table = started(rest)
    rest.failures = [Failure(409), Failure(409), Failure(409, after=True)]
    assert append(table) is Outcome.COMMITTED
    assert ids(table) == [1, 2] and len(table.history()) == 2


@pytest.mark.parametrize("after", [False, True])
def test_a_race_that_is_called_lost_by_a_catalog_that_cannot_be_asked(
    rest: RestCatalog, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files stay: the table may have them."""
    table = started(rest)
    file = data_file(table, [2])
    commit = type(table.operations).commit

    def cut_off(*given: Any) -> Any:
        monkeypatch.setattr(type(table.operations), "load", no_answer)
        return commit(*given)

    def no_answer(_: Any) -> Any:
        raise StorageError("the catalog does not answer")

    rest.failures = [Failure(409, after)]
    monkeypatch.setattr(type(table.operations), "commit", cut_off)
    with pytest.raises(CommitUnknownError, match="Its files are kept"):
        commits.append(table.operations, [file])
    monkeypatch.undo()
    assert ids(table) == [1, 2][: 1 + after]
    assert {path.suffix for path in files(table)} > {".parquet", ".avro"}


def test_a_change_of_metadata_that_landed_and_is_called_lost(rest: RestCatalog) -> None:
    table = started(rest)
    rest.failures = [Failure(409), Failure(409), Failure(409, after=True)]
    table.tag("now")
    assert [ref.name for ref in table.refs() if ref.kind == "tag"] == ["now"]


def test_a_commit_stands_though_its_metadata_cannot_be_read(rest: RestCatalog) -> None:
    table = started(rest)
    rest.hidden_metadata = True
    assert append(table) is Outcome.COMMITTED
    table.tag("now")
    assert ids(table) == [1, 2] and table.table_metadata.refs["now"].snapshot_id


@pytest.mark.parametrize("waited", [False, True], ids=["at once", "behind others"])
@pytest.mark.parametrize("state", [LockState.NOT_ACQUIRED, LockState.ABORT])
def test_a_lock_that_is_not_granted(hive: Metastore, state: int, waited: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    table = started(hive)
    monkeypatch.setattr(retry, "turn", lambda place: nullcontext(Turn(place, waited)))
    file = data_file(table, [2])
    before = files(table)
    hive.lock_states = [state] * 3
    with pytest.raises(CommitConflictError, match="lock"):
        commits.append(table.operations, [file])
    assert files(table) == before and ids(table) == [1] and not hive.locks
    hive.lock_states = [state, state]
    commits.append(table.operations, [file])
    assert ids(table) == [1, 2]


def test_a_lock_is_waited_for(hive: Metastore) -> None:
    table = started(hive)
    hive.lock_states = [LockState.WAITING] * 4
    assert append(table) is Outcome.COMMITTED
    assert ids(table) == [1, 2] and not hive.locks


def test_a_lock_that_another_writer_keeps(hive: Metastore) -> None:
    table = started(hive)
    file = data_file(table, [2])
    hive.locks[99] = ("db", "t")
    before = files(table)
    with pytest.raises(CommitConflictError):
        commits.append(table.operations, [file])
    assert files(table) == before and ids(table) == [1] and set(hive.locks) == {99}
    hive.locks.clear()
    commits.append(table.operations, [file])
    assert ids(table) == [1, 2]


@pytest.mark.parametrize("failing", ["fail_after_changes", "fail_unlock"])
def test_a_swap_that_the_metastore_calls_failed(hive: Metastore, failing: str) -> None:
    table = started(hive)
    setattr(hive, failing, True)
    assert append(table) is Outcome.COMMITTED
    setattr(hive, failing, False)
    assert ids(table) == [1, 2]


def test_a_swap_that_the_metastore_does_not_make(hive: Metastore) -> None:
    table = started(hive)
    before = files(table)
    hive.refuse_changes = True
    with pytest.raises(CommitUnknownError, match="no changes now"):
        append(table)
    hive.refuse_changes = False
    assert {path.suffix for path in files(table) - before} == {".parquet", ".avro", ".json"}
    assert ids(table) == [1] and not hive.locks


def test_a_metastore_that_lets_no_column_go(hive: Metastore) -> None:
    """By default Hive compares columns by their position. Its answer is certain, and says what to set."""
    hive.compares_columns = True
    table = started(hive)
    table.alter([lakebed.add_column("a", pa.string()), lakebed.add_column("b", pa.date32())])
    before = files(table)
    with pytest.raises(StorageError, match=r"positions.*nb'.*disallow\.incompatible\.col\.type\.changes"):
        table.alter(lakebed.drop_column("a"))
    assert files(table) == before and not hive.locks
    table.alter(lakebed.drop_column("b"))
    assert table.schema.names[-1] == "a"


@pytest.mark.slow
def test_a_change_that_is_carried_out_twice(glue: Glue) -> None:
    """Amazon's client repeats a request whose answer was lost, and the second one conflicts with the first."""
    table = started(glue)
    glue.repeat_changes = True
    assert append(table) is Outcome.COMMITTED
    assert len(glue.refused) == 1 and Path(table.operations.load().location).exists()
    assert ids(table) == [1, 2] and len(table.history()) == 2


@pytest.mark.slow
def test_a_change_that_is_not_allowed(glue: Glue) -> None:
    table = started(glue)
    file = data_file(table, [2])
    before = files(table)
    glue.deny_changes = True
    with pytest.raises(StorageError, match=r"refused.*not yours"):
        commits.append(table.operations, [file])
    assert files(table) == before and ids(table) == [1]
