"""Commits: once for a user and identifier, beside other writers, and when the store does not say how it ended."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import CommitConflictError, CommitUnknownError, NotInHistoryError, UsageError
from lakebed.formats.paimon.commit.committer import Committer
from lakebed.formats.paimon.table import PaimonTable
from lakebed.kernel.commit.turns import as_rival
from lakebed.kernel.files import Store
from lakebed.model.commit import Outcome
from lakebed.testing.faults import Fault, FaultyStore, Kind
from lakebed.verbs.two_phase import TableWriter
from tests.tables.paimon.small import Make, contents, rows

PUTS = frozenset({"put_if_absent"})


def data_files(table: lakebed.Table) -> set[str]:
    return {path.name for path in Path(table.location).rglob("data-*")}


def faulty(table: lakebed.Table, *faults: Fault) -> PaimonTable:
    return PaimonTable(FaultyStore(table.store, *faults))


def prepared(table: lakebed.Table, user: str, *values: tuple[object, ...]) -> tuple[TableWriter, list]:  # type: ignore[type-arg]
    writer = table.writer(user)
    writer.write(rows(*values))
    return writer, writer.prepare_commit()


def test_a_replay_is_skipped_and_its_files_go(make: Make) -> None:
    table = make()
    writer, messages = prepared(table, "stream", ("a", 1, "v", 1))
    assert writer.commit(7, messages).outcome is Outcome.COMMITTED
    landed = data_files(table)
    for identifier in (7, 3):
        again, replay = prepared(table, "stream", ("a", 1, "v", 1))
        assert again.commit(identifier, replay).outcome is Outcome.SKIPPED
    assert landed <= data_files(table)
    assert len(data_files(table)) == len(landed) + 1, "of an identifier that no snapshot shows, files are kept"
    assert len(table.history()) == 1
    other, messages = prepared(table, "someone else", ("a", 2, "v", 1))
    assert other.commit(7, messages).outcome is Outcome.COMMITTED
    assert len(contents(table)) == 2


def test_the_same_messages_committed_twice_keep_their_files(make: Make) -> None:
    table = make()
    writer, messages = prepared(table, "u", ("a", 1, "v", 1))
    writer.commit(1, messages)
    assert table.writer("u").commit(1, messages).outcome is Outcome.SKIPPED
    table.writer("u").abort(messages)
    assert contents(table) == [("a", 1, "v", 1)]


def test_filter_and_commit_counts_what_was_left_to_do(make: Make) -> None:
    table = make()
    writer = table.writer("u")
    commits = {}
    for identifier in (1, 2, 3):
        writer.write(rows(("a", identifier, "v", 1)))
        commits[identifier] = writer.prepare_commit()
    writer.commit(1, commits[1])
    assert table.writer("u").filter_and_commit(commits) == 2
    assert table.writer("u").filter_and_commit(commits) == 0
    assert len(contents(table)) == 3
    assert [instant.summary["commit_identifier"] for instant in table.history()] == ["1", "2", "3"]


def test_a_commit_to_recover_needs_its_files(make: Make) -> None:
    table = make()
    writer, messages = prepared(table, "u", ("a", 1, "v", 1))
    writer.abort(messages)
    assert not data_files(table)
    with pytest.raises(NotInHistoryError, match="Write the data again"):
        table.writer("u").filter_and_commit({1: messages})
    assert table.history() == []


def test_another_process_commits_first_what_is_to_recover(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """It removes the files of what it compacted where that is in conflict. What is committed is not told as lost."""
    table = make()
    _, messages = prepared(table, "u", ("a", 1, "v", 1))
    check = Committer._check_files

    def late(committer: Committer, given: Sequence[Any]) -> None:
        monkeypatch.setattr(Committer, "_check_files", check)
        with as_rival():
            assert lakebed.open(table.location).writer("u").filter_and_commit({1: messages}) == 1
        for path in Path(table.location).rglob("data-*"):
            path.unlink()
        check(committer, given)

    monkeypatch.setattr(Committer, "_check_files", late)
    assert table.writer("u").filter_and_commit({1: messages}) == 0
    assert [instant.summary["commit_identifier"] for instant in table.history()] == ["1"]


@pytest.mark.parametrize("identifier", ["7", 7.0, None, True, 2**63])
def test_an_identifier_is_a_whole_number(make: Make, identifier: object) -> None:
    table = make()
    with pytest.raises(UsageError, match="commit identifier"):
        table.writer("u").commit(identifier, [])  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="commit identifier"):
        table.writer("u").filter_and_commit({identifier: []})  # type: ignore[dict-item]
    assert table.history() == []


def test_an_empty_commit_of_a_stream_leaves_its_identifier(make: Make) -> None:
    table = make()
    assert table.writer("u").commit(5, []).snapshot_id == 1
    assert table.writer("u").commit(5, []).outcome is Outcome.SKIPPED
    quiet = lakebed.open(table.location, {"snapshot.ignore-empty-commit": "true"})
    assert quiet.writer("u").commit(6, []).outcome is Outcome.SKIPPED
    assert contents(table) == []


@pytest.mark.slow
def test_writers_at_once_lose_nothing(make: Make) -> None:
    table = make(commit_max__retries="100")
    failures: list[BaseException] = []

    def run(number: int) -> None:
        try:
            mine = lakebed.open(table.location)
            for turn in range(3):
                mine.write(rows(*(("a", number * 100 + turn * 10 + i, "v", 1) for i in range(5))))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert [instant.action for instant in table.history()].count("append") == 24
    assert len(contents(table)) == 120
    table.rewrite()
    assert len(contents(table)) == 120


def test_a_lost_race_is_run_again_and_leaves_no_manifests(make: Make) -> None:
    table = make()

    def rival(store: Store) -> None:
        PaimonTable(store).write(rows(("b", 1, "rival", 1)))

    ours = faulty(table, Fault(1, Kind.EXISTS, PUTS, rival))
    assert ours.write(rows(("a", 1, "ours", 1))).snapshot_id == 2
    assert contents(table) == [("a", 1, "ours", 1), ("b", 1, "rival", 1)]
    lists = [path.name for path in (Path(table.location) / "manifest").glob("manifest-list-*")]
    assert len(lists) == 4


def test_races_without_end_are_a_conflict_that_hides_nothing(make: Make) -> None:
    table = make(commit_max__retries="2", commit_min__retry__wait="1 ms")

    def rival(number: int) -> Callable[[Store], None]:
        return lambda store: PaimonTable(store).write(rows(("b", number, "rival", 1)))  # type: ignore[return-value]

    ours = faulty(table, *(Fault(n, Kind.EXISTS, PUTS, rival(n)) for n in (1, 2, 3)))
    with pytest.raises(CommitConflictError, match="won every race"):
        ours.write(rows(("a", 1, "ours", 1)))
    assert [row[0] for row in contents(table)] == ["b", "b", "b"]


@pytest.mark.parametrize("kind", [Kind.UNKNOWN_AFTER, Kind.UNKNOWN_BEFORE, Kind.ERROR_AFTER, Kind.ERROR_BEFORE])
def test_one_put_that_does_not_answer_is_healed(make: Make, kind: Kind) -> None:
    table = make()
    assert faulty(table, Fault(1, kind, PUTS)).write(rows(("a", 1, "v", 1))).snapshot_id == 1
    assert contents(table) == [("a", 1, "v", 1)]
    assert len(table.history()) == 1


@pytest.mark.parametrize("landed", [True, False])
def test_an_unknown_end_keeps_the_files_and_can_be_committed_again(
    make: Make, monkeypatch: pytest.MonkeyPatch, landed: bool
) -> None:
    table = make()
    monkeypatch.setattr("lakebed.kernel.commit.claim._WAIT_SECONDS", 0)
    kind = Kind.UNKNOWN_AFTER if landed else Kind.UNKNOWN_BEFORE
    store = FaultyStore(table.store, *(Fault(n, kind, PUTS) for n in range(1, 6)))
    writer = PaimonTable(store).writer("u")
    writer.write(rows(("a", 1, "v", 1)))
    messages = writer.prepare_commit()
    if landed:
        assert writer.commit(1, messages).snapshot_id == 1
    else:
        with pytest.raises(CommitUnknownError, match="filter_and_commit"):
            writer.commit(1, messages)
    table.writer("u").filter_and_commit({1: messages})
    assert contents(table) == [("a", 1, "v", 1)]
    assert len(table.history()) == 1


def test_a_failed_write_leaves_no_data_file(make: Make) -> None:
    table = make()
    broken = pa.RecordBatchReader.from_batches(
        rows(("a", 1, "v", 1)).schema,
        iter([*rows(("a", 1, "v", 1)).to_batches(), *rows(("a", None, "v", 1)).to_batches()]),
    )
    with pytest.raises(lakebed.errors.SchemaError):
        table.write(broken)
    assert not data_files(table)
    assert table.history() == []


def test_lost_hints_do_no_harm(make: Make) -> None:
    table = make()
    for number in range(3):
        table.write(rows(("a", number, "v", 1)))
    folder = Path(table.location) / "snapshot"
    (folder / "LATEST").write_text("1")
    assert len(contents(table)) == 3
    (folder / "LATEST").unlink()
    (folder / "EARLIEST").write_text("nonsense")
    table.write(rows(("a", 9, "v", 1)))
    assert len(contents(table)) == 4
    assert (folder / "LATEST").read_text() == "4"


def test_many_commits_keep_few_manifests(make: Make) -> None:
    table = make(bucket="1", manifest_merge__min__count="4", partition_by=(), primary_key=("id",))
    for number in range(12):
        table.write(rows(("a", number, "v", number)))
    assert len(contents(table)) == 12
    history = table._history  # type: ignore[attr-defined]
    from lakebed.formats.paimon.manifests import data_manifests

    assert len(data_manifests(table.store, history.latest())) < 6


def test_the_full_rewrite_of_manifests_drops_what_was_deleted(make: Make) -> None:
    table = make(manifest_full__compaction__threshold__size="1 kb")
    for number in range(4):
        table.write(rows(("a", number, "v", number)), "overwrite")
    from lakebed.formats.paimon.manifests import data_manifests, entries_of

    snapshot = table._history.latest()  # type: ignore[attr-defined]
    entries = entries_of(table.store, data_manifests(table.store, snapshot))
    assert len(entries) <= 3
    assert contents(table) == [("a", 3, "v", 3)]
