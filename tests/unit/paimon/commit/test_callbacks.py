"""Callbacks: called for every commit, also for one whose caller died or whose callback failed."""

import sqlite3
from pathlib import Path

import pytest

import lakebed
from lakebed.callbacks import CommitCallback, Committed, RegisterPartitions
from lakebed.errors import OptionError, UsageError
from tests.tables.paimon.small import Make, contents, rows


class Recorder:
    """Remembers the snapshots it was called for; fails as often as told."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.seen: list[Committed] = []

    def call(self, commit: Committed) -> None:
        if self.failures:
            self.failures -= 1
            raise RuntimeError("not now")
        self.seen.append(commit)


def commit(table: lakebed.Table, callback: CommitCallback, identifier: int, partition: str = "a") -> tuple[str, ...]:
    writer = table.writer("u", callbacks=[callback])
    writer.write(rows((partition, identifier, "v", 1)))
    return writer.commit(identifier, writer.prepare_commit()).notes


def test_called_once_a_snapshot_with_what_it_brought(make: Make) -> None:
    table, recorder = make(), Recorder()
    table.write(rows(("before", 1, "v", 1)))
    for identifier in (1, 2):
        assert commit(table, recorder, identifier) == ()
    assert [c.snapshot_id for c in recorder.seen] == [2, 3]
    first = recorder.seen[0]
    assert first.partitions == ({"dt": "a"},)
    assert (first.commit_user, first.identifier, first.kind) == ("u", 1, "append")
    assert all((Path(table.location) / name).is_file() for name in first.added_files)


def test_a_failing_one_is_owed_and_hides_nothing(make: Make) -> None:
    table, recorder = make(), Recorder(failures=1)
    (note,) = commit(table, recorder, 1)
    assert "not now" in note
    assert len(contents(table)) == 1
    assert commit(table, recorder, 2) == ()
    assert [c.snapshot_id for c in recorder.seen] == [1, 2]


def test_what_fails_where_no_result_tells_is_in_the_log(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    table = make()
    writer = table.writer("u", callbacks=[Recorder(failures=1)])
    writer.write(rows(("a", 1, "v", 1)))
    assert writer.filter_and_commit({1: writer.prepare_commit()}) == 1
    assert "not now" in caplog.text


def test_a_replay_after_a_crash_calls_what_is_owed(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    table, recorder = make(), Recorder()

    class Killed(BaseException):
        pass

    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(recorder, "call", die)
        with pytest.raises(Killed):
            commit(table, recorder, 1)
    assert len(table.history()) == 1
    commit(table, recorder, 1)
    assert [c.snapshot_id for c in recorder.seen] == [1]
    assert len(table.history()) == 1


def test_named_by_import_path(make: Make, tmp_path: Path) -> None:
    database = str(tmp_path / "partitions.sqlite")
    name = "lakebed.callbacks:RegisterPartitions"
    location = make().location
    table = lakebed.open(location, {"commit.callbacks": name, f"commit.callback.{name}.param": database})
    table.write(rows(("a", 1, "v", 1), ("b", 1, "v", 1)))
    table.write(rows(("b", 2, "v", 1), ("c", 1, "v", 1)))
    with sqlite3.connect(database) as connection:
        found = connection.execute("SELECT partition, snapshot_id FROM lakebed_partitions ORDER BY 1").fetchall()
    assert found == [('{"dt": "a"}', 1), ('{"dt": "b"}', 1), ('{"dt": "c"}', 2)]


def test_what_is_no_callback_is_refused_before_a_row_is_written(make: Make) -> None:
    table = make()
    with pytest.raises(UsageError, match="not a commit callback"):
        table.writer(callbacks=[object()])
    assert table.history() == []


def test_registering_twice_changes_nothing(tmp_path: Path) -> None:
    register = RegisterPartitions(str(tmp_path / "p.sqlite"))
    for snapshot in (1, 1, 2):
        register.call(Committed("t", snapshot, "u", 1, "append", ({"dt": "a"},)))
    with sqlite3.connect(register.database) as connection:
        assert connection.execute("SELECT * FROM lakebed_partitions").fetchall() == [("t", '{"dt": "a"}', 1)]


@pytest.mark.parametrize(
    "name", ["nowhere:Class", "lakebed.callbacks:Nothing", "lakebed.callbacks", "lakebed.callbacks:RegisterPartitions"]
)
def test_a_name_that_leads_nowhere(make: Make, name: str) -> None:
    table = lakebed.open(make().location, {"commit.callbacks": name})
    with pytest.raises(OptionError, match=r"commit\.callbacks"):
        table.write(rows(("a", 1, "v", 1)))
    assert table.history() == []
