"""Replays and aborts after a commit's own snapshot has expired: nothing is committed twice, and no live file is
removed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import NotInHistoryError, StorageError
from lakebed.formats.iceberg.commit.loop import change_metadata
from lakebed.formats.iceberg.commit.writers import MOST, PREFIX
from lakebed.formats.iceberg.table import IcebergTable
from lakebed.model.commit import Outcome
from tests.unit.iceberg.write.test_sink import SCHEMA, held, make_table, rows

ALL = {"older-than": "2100-01-01"}


@pytest.fixture
def table(tmp_path: Path) -> IcebergTable:
    return make_table(tmp_path / "t", SCHEMA, [("part", "identity")])


def commit(table: IcebergTable, user: str, identifier: int, *found: Any) -> tuple[Outcome, list[Any]]:
    writer = table.writer(user)
    writer.write(rows(*found))
    messages = writer.prepare_commit()
    return writer.commit(identifier, messages).outcome, messages


def others_expire(table: IcebergTable) -> None:
    """Expire as another engine does it: the metadata forgets all snapshots but the heads, and does not know of
    writers."""

    def decide(metadata: Any) -> Any:
        heads = {ref.snapshot_id for ref in metadata.refs.values()}
        gone = [id for id in metadata.snapshots if id not in heads]
        return [], [{"action": "remove-snapshots", "snapshot-ids": gone}] if gone else []

    change_metadata(table.operations, decide)


def without_properties(table: IcebergTable) -> None:
    """The table as an earlier release left it: only the snapshots say who committed what."""
    names = [key for key in table.table_metadata.properties if key.startswith(PREFIX)]
    change_metadata(table.operations, lambda _: ([], [{"action": "remove-properties", "removals": names}]))


@pytest.mark.slow
@pytest.mark.parametrize("expire", [lambda table: table.expire(options=ALL), others_expire])
def test_a_replay_is_known_after_its_snapshot_has_expired(table: IcebergTable, expire: Any) -> None:
    commit(table, "job", 4, (1, "a", 1))
    commit(table, "another job", 1, (2, "a", 2))
    table.write(rows((3, "a", 3)))
    expire(table)
    assert len(table.history()) == 1
    assert [commit(table, "job", id, (1, "a", 1))[0] for id in (4, 3)] == [Outcome.SKIPPED, Outcome.SKIPPED]
    assert held(table) == [(1, "a", 1), (2, "a", 2), (3, "a", 3)]
    assert commit(table, "job", 5, (4, "a", 4))[0] is Outcome.COMMITTED
    assert commit(table, "third job", 0, (5, "a", 5))[0] is Outcome.COMMITTED


def test_expiry_keeps_writers_known_that_no_property_remembers(table: IcebergTable) -> None:
    commit(table, "job", 4, (1, "a", 1))
    commit(table, "job", 5, (2, "a", 2))
    table.write(rows((3, "a", 3)))
    without_properties(table)
    table.expire(options=ALL)
    assert commit(table, "job", 5, (2, "a", 2))[0] is Outcome.SKIPPED
    assert json.loads(table.table_metadata.properties[f"{PREFIX}job"])["identifier"] == 5


def test_each_branch_has_commits_of_its_own(table: IcebergTable) -> None:
    table.write(rows((0, "a", 0)))
    table.branch("audit")
    audit = lakebed.open(table.location, {"branch": "audit"})
    assert isinstance(audit, IcebergTable)
    commit(table, "job", 4, (1, "a", 1))
    table.write(rows((3, "a", 3)))
    audit.write(rows((3, "a", 3)))
    others_expire(table)
    assert commit(audit, "job", 4, (1, "a", 1))[0] is Outcome.COMMITTED
    assert commit(table, "job", 4, (1, "a", 1))[0] is Outcome.SKIPPED


def test_a_commit_that_was_rolled_back_is_no_replay(table: IcebergTable) -> None:
    commit(table, "job", 4, (1, "a", 1))
    before = table.table_metadata.head()
    assert before is not None
    commit(table, "job", 5, (2, "a", 2))
    back = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": before.snapshot_id}
    change_metadata(table.operations, lambda _: ([], [back]))
    assert commit(table, "job", 5, (2, "a", 2))[0] is Outcome.COMMITTED
    assert held(table) == [(1, "a", 1), (2, "a", 2)]


def test_a_table_remembers_no_more_writers_than_it_says(table: IcebergTable) -> None:
    known = {f"{PREFIX}w{n}": json.dumps({"identifier": 1, "snapshot-id": n, "timestamp-ms": n}) for n in range(MOST)}
    update = {"action": "set-properties", "updates": {**known, f"{PREFIX}not ours": "text"}}
    change_metadata(table.operations, lambda _: ([], [update]))
    commit(table, "job", 4, (1, "a", 1))
    left = {key for key in table.table_metadata.properties if key.startswith(PREFIX)}
    assert left == ({*known} - {f"{PREFIX}w0"}) | {f"{PREFIX}job", f"{PREFIX}not ours"}


def test_a_batch_leaves_no_property(table: IcebergTable) -> None:
    table.write(rows((1, "a", 1)))
    assert not [key for key in table.table_metadata.properties if key.startswith(PREFIX)]


@pytest.mark.parametrize("rewritten", [False, True])
def test_an_abort_after_the_commit_spares_what_the_table_holds(table: IcebergTable, rewritten: bool) -> None:
    _, messages = commit(table, "job", 1, (1, "a", 1))
    for number in (2, 3):
        commit(table, "job", number, (number, "a", number))
    if rewritten:
        table.rewrite(options={"lakebed.rewrite.what": "manifests"})
    table.expire(options=ALL)
    table.writer("job").abort(messages)
    table.writer("someone else").abort(messages)
    assert held(table) == [(1, "a", 1), (2, "a", 2), (3, "a", 3)]
    waiting = table.writer("job")
    waiting.write(rows((4, "a", 4)))
    files = [file.path for message in waiting.prepare_commit() for file in message.data_files]
    waiting.abort()
    assert not any(Path(path).exists() for path in files)


def test_an_abort_that_cannot_see_removes_nothing(table: IcebergTable, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = table.writer("job")
    writer.write(rows((1, "a", 1)))
    messages = writer.prepare_commit()
    writer.commit(1, messages)

    def fail() -> Any:
        raise StorageError("cannot read")

    with monkeypatch.context() as patched:
        patched.setattr(writer._sink.operations, "load", fail)  # type: ignore[attr-defined]
        with pytest.raises(StorageError):
            writer.abort(messages)
    assert held(table) == [(1, "a", 1)]


@pytest.mark.parametrize("lost", ["data", "deletes"])
def test_a_commit_to_recover_whose_files_are_gone_is_refused(table: IcebergTable, lost: str) -> None:
    """The attempt that failed was removing them when its process died."""
    table.write(rows((1, "a", 1)))
    writer = table.writer("job")
    writer.write(rows((1, "a", 2)).append_column("_row_kind", pa.array(["+U"])))
    messages: Any = writer.prepare_commit()
    files = [file for m in messages for file in (m.deletes.added if lost == "deletes" else m.data_files)]
    local = table.operations.files.local_path(files[0].path)
    assert local is not None
    Path(local).unlink()
    with pytest.raises(NotInHistoryError, match="to recover were deleted"):
        table.writer("job").filter_and_commit({1: messages})
    assert held(table) == [(1, "a", 1)] and len(table.history()) == 1


@pytest.mark.parametrize("moved", [False, True])
def test_messages_stay_valid_after_a_failure_of_the_store(
    table: IcebergTable, moved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where others have committed, so that the attempt that failed had found the deletes anew."""
    table.write(rows((1, "a", 1)))
    writer = table.writer("job")
    writer.write(rows((1, "a", 2)).append_column("_row_kind", pa.array(["+U"])))
    messages: Any = writer.prepare_commit()
    if moved:
        table.write(rows((2, "a", 2)))

    def refuse(*_: Any, **__: Any) -> Any:
        raise StorageError("the store does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(type(table.operations), "commit", refuse)
        with pytest.raises(StorageError):
            writer.commit(1, messages)
    assert table.writer("job").filter_and_commit({1: messages}) == 1
    assert held(table) == [(1, "a", 2), (2, "a", 2)][: 1 + moved]
    named = set(table.metadata("all_files").read_all()["file_path"].to_pylist())
    assert {str(path) for path in Path(table.location).rglob("*.parquet")} == named


def test_a_batch_that_the_store_fails_leaves_no_file(table: IcebergTable, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise StorageError("the store does not answer")

    monkeypatch.setattr(type(table.operations), "commit", refuse)
    with pytest.raises(StorageError):
        table.write(rows((1, "a", 1)))
    assert not [*Path(table.location).rglob("*.parquet")]


def test_a_replay_needs_no_files(table: IcebergTable) -> None:
    writer = table.writer("job")
    writer.write(rows((1, "a", 1)))
    messages = writer.prepare_commit()
    writer.commit(1, messages)
    table.write(rows((2, "a", 2)), "overwrite")
    others_expire(table)
    assert table.writer("job").filter_and_commit({1: messages}) == 0 and held(table) == [(2, "a", 2)]
