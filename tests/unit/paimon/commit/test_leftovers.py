"""What looks like a leftover and is not: files of commits whose snapshots have expired."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import lakebed
from lakebed.errors import CommitConflictError, CommitUnknownError, DataCleanedError, RetryableError
from lakebed.formats.paimon import references
from lakebed.formats.paimon.codec.snapshot_json import Snapshot
from lakebed.formats.paimon.commit import loop, succession
from lakebed.formats.paimon.commit.message import PaimonMessage
from lakebed.formats.paimon.commit.succession import Place
from lakebed.formats.paimon.commit.user_commits import look_back
from lakebed.formats.paimon.snapshot import History
from lakebed.formats.paimon.table import PaimonTable
from lakebed.kernel import clock
from lakebed.kernel.files import Listing, PutOutcome, open_store
from lakebed.model.commit import Outcome
from lakebed.testing.faults import Crash, FaultyStore
from tests.tables.paimon.small import Make, contents, rows
from tests.unit.paimon.expire.test_run import AT_ONCE, NOTHING_OWED

BY_HAND = {"write__only": "true"}


def commit(table: lakebed.Table, user: str, identifier: int, number: int) -> list[Any]:
    writer = table.writer(user)
    writer.write(rows(("a", number, "v", number)))
    messages = writer.prepare_commit()
    assert writer.commit(identifier, messages).outcome is Outcome.COMMITTED
    return messages


@pytest.mark.parametrize("held_by", ["later snapshots", "a tag", "a branch", "a changelog"])
def test_an_abort_after_the_commit_spares_what_the_table_holds(make: Make, held_by: str) -> None:
    table = make(**BY_HAND, **({"changelog__producer": "input"} if held_by == "a changelog" else {}))
    messages = commit(table, "job", 1, 1)
    if held_by == "a tag":
        table.tag("kept")
    if held_by == "a branch":
        root = Path(table.location)
        for name in ("schema/schema-0", "snapshot/snapshot-1"):
            (root / f"branch/branch-b/{name}").parent.mkdir(parents=True)
            (root / f"branch/branch-b/{name}").write_bytes((root / name).read_bytes())
    if held_by == "a changelog":  # Paimon keeps it so when `changelog.num-retained.max` is the greater one
        root = Path(table.location)
        (root / "changelog").mkdir()
        (root / "changelog/changelog-1").write_bytes((root / "snapshot/snapshot-1").read_bytes())
    paths = [f"{m.folder}/{file.file_name}" for m in messages for file in m.written_files()]
    if held_by == "a changelog":
        (root / "snapshot/snapshot-1").unlink()
    else:
        for number in (2, 3):
            commit(table, "job", number, number)
        if held_by != "later snapshots":
            table.write(rows(("a", 9, "v", 9)), "overwrite")
        table.expire(options=NOTHING_OWED)
    for user in ("job", "someone else"):
        table.writer(user).abort(messages)
    there = [(Path(table.location) / path).exists() for path in paths]
    assert all(there), dict(zip(paths, there, strict=True))
    if held_by == "later snapshots":
        assert len(contents(table)) == 3


def test_an_abort_removes_what_nothing_holds(make: Make) -> None:
    table = make(**BY_HAND)
    commit(table, "job", 1, 1)
    writer = table.writer("job")
    writer.write(rows(("a", 2, "v", 2)))
    messages = writer.prepare_commit()
    writer.abort()
    paths = [f"{m.folder}/{file.file_name}" for m in messages for file in m.written_files()]
    assert paths and not any((Path(table.location) / path).exists() for path in paths)


def test_a_replay_of_which_half_has_expired_loses_no_file(make: Make) -> None:
    """A commit may make two snapshots of one identifier: when the first is gone, its files are live all the same."""
    table = make(**BY_HAND)
    messages = commit(table, "job", 1, 1)
    root = Path(table.location)
    second = json.loads((root / "snapshot/snapshot-1").read_bytes())
    commit(table, "job", 2, 2)
    made = json.loads((root / "snapshot/snapshot-2").read_bytes())
    (root / "snapshot/snapshot-2").write_text(json.dumps({**made, "commitIdentifier": second["commitIdentifier"]}))
    (root / "snapshot/snapshot-1").unlink()
    assert table.writer("job").commit(1, messages).outcome is Outcome.SKIPPED
    assert len(contents(table)) == 2


def test_what_cannot_be_seen_stays(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(**BY_HAND)
    messages = commit(table, "job", 1, 1)

    def expired(*_: Any) -> Any:
        raise lakebed.errors.DataCleanedError("a manifest is gone")

    with monkeypatch.context() as patched:
        patched.setattr(references, "live_files", expired)
        with pytest.raises(RetryableError, match="Nothing was removed"):
            table.writer("job").abort(messages)
    assert len(contents(table)) == 1


# ---- what cannot be checked is a conflict ----------------------------------------------------------------------------

DYNAMIC = {"bucket": "-1", "dynamic__bucket_target__row__num": "3", **BY_HAND}


def test_a_rival_whose_snapshot_has_expired_is_a_conflict(make: Make) -> None:
    """In dynamic buckets both may have put one key into different buckets."""
    table = make(**DYNAMIC)
    table.write(rows(*[("a", n, "v", 0) for n in range(3)]))
    writer = table.writer("job")
    writer.write(rows(*[("a", n, "v", 0) for n in (50, 51, 52, 100)]))
    messages = writer.prepare_commit()
    table.write(rows(("a", 100, "w", 0)))
    table.writer("empty").commit(1, [])
    table.expire(options=NOTHING_OWED)
    with pytest.raises(CommitConflictError, match="cannot be checked"):
        writer.commit(1, messages)
    assert sorted(row[1] for row in contents(table)) == [0, 1, 2, 100]


def test_what_was_planned_before_a_rollback_is_a_conflict(make: Make) -> None:
    table = make(**DYNAMIC)
    for number in range(3):
        table.write(rows(("a", number, "v", 0)))
    writer = table.writer("job")
    writer.write(rows(("a", 9, "v", 0)))
    messages = writer.prepare_commit()
    for name in ("snapshot-3", "snapshot-2", "LATEST"):
        (Path(table.location) / "snapshot" / name).unlink()
    with pytest.raises(CommitConflictError, match="rolled back"):
        writer.commit(1, messages)


def test_strict_mode_and_row_ids_stop_at_a_gap_too(make: Make) -> None:
    table = make(primary_key=(), bucket="-1", row__tracking_enabled="true", **BY_HAND)
    for number in range(4):
        table.write(rows(("a", number, "v", 0)))
    table.writer("compactor").commit(1, [])
    table.expire(options=AT_ONCE)
    strict = lakebed.open(table.location, {"commit.strict-mode.last-safe-snapshot": "2"})
    with pytest.raises(CommitConflictError, match="cannot be checked"):
        strict.write(rows(("a", 9, "v", 0)))
    assert isinstance(table, PaimonTable)
    writer = table.writer("job").row_id_check_conflict(2)
    writer.write(rows(("a", 9, "v", 0)))
    with pytest.raises(CommitConflictError, match="cannot be checked"):
        writer.commit(1, writer.prepare_commit())
    assert lakebed.open(table.location, {"commit.strict-mode.last-safe-snapshot": "4"}).write(rows(("a", 9, "v", 0)))


def test_a_walk_back_goes_on_behind_a_gap(make: Make) -> None:
    """Expiries remove several snapshots in no order; one that is still there counts."""
    table = make(**BY_HAND)
    for number in range(5):
        commit(table, f"user {number}", 1, number)
    (Path(table.location) / "snapshot/snapshot-3").unlink()
    history = History(table.store)
    assert [snapshot.id for snapshot in history.backwards()] == [5, 4, 2, 1]
    assert [snapshot.id for snapshot in history.backwards(1)] == [5, 4, 2]
    found, is_whole = look_back(history, 0, history.latest(), lambda snapshot: snapshot.commit_user == "user 0")
    assert found is not None and found.id == 1 and not is_whole


class Overtaken(FaultyStore):
    """A process that stops before it claims a snapshot, by default the second one, until others have made more and let
    the first ones expire. Its first `failing` tries to take the claim back fail."""

    def __init__(
        self, folder: str, act: Callable[[], object], failing: int = 0, dies: bool = False, claim: int = 2
    ) -> None:
        super().__init__(open_store(folder))
        self.acts, self.failing, self.dies, self.claim = [act], failing, dies, f"snapshot/snapshot-{claim}"

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        if path == self.claim and self.acts:
            self.acts.pop()()
        return super().put_if_absent(path, data)

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        if self.dies and not self.acts:
            raise Crash("after the claim")
        return super().read(path, start, length)

    def list(self, folder: str = "") -> Listing:
        if self.dies and not self.acts:
            raise Crash("after the claim")
        return super().list(folder)

    def delete(self, path: str) -> None:
        if path == "snapshot/snapshot-2" and self.failing:
            self.failing -= 1
            raise RetryableError("no answer", file=path)
        super().delete(path)

    def delete_many(self, paths: Iterable[str]) -> None:
        for path in paths:
            self.delete(path)


def overtake(location: str) -> None:
    """Commit the next two snapshots, and expire all but the newest."""
    other = lakebed.open(location)
    for number in (2, 3):
        other.write(rows(("a", number, "v", number)))
    other.expire(options=AT_ONCE)


@pytest.mark.parametrize("failing", [0, 2, 99])
def test_a_snapshot_that_came_too_late_is_taken_back_before_what_it_names(make: Make, failing: int) -> None:
    """One that leads to files which are gone would stop every clean-up."""
    table = make(**BY_HAND)
    table.write(rows(("a", 1, "v", 1)))

    late = lakebed.open(Overtaken(table.location, lambda: overtake(table.location), failing))
    with clock.set_clock(pause=lambda _: None):
        if failing == 99:
            with pytest.raises(CommitUnknownError, match="came too late"):
                late.write(rows(("a", 9, "v", 9)))
        else:
            late.write(rows(("a", 9, "v", 9)))
    again = lakebed.open(table.location)
    assert len(contents(again)) == (3 if failing == 99 else 4)
    assert (Path(table.location) / "snapshot/snapshot-2").exists() == (failing == 99)
    again.expire(options={"lakebed.expire.what": "orphan-files"})
    assert len(contents(again)) == (3 if failing == 99 else 4)


@pytest.mark.parametrize("first", [False, True])
def test_a_snapshot_that_a_process_left_behind_is_no_replay(make: Make, first: bool) -> None:
    """It came too late and leads nowhere, and its process died before it took it back: its rows are in no later one."""
    table = make(**BY_HAND)
    if not first:
        table.write(rows(("a", 1, "v", 1)))

    writer = lakebed.open(
        Overtaken(table.location, lambda: overtake(table.location), dies=True, claim=1 if first else 2)
    ).writer("job")
    writer.write(rows(("a", 9, "v", 9)))
    messages = writer.prepare_commit()
    with pytest.raises(Crash):
        writer.commit(1, messages)
    assert (Path(table.location) / f"snapshot/snapshot-{1 if first else 2}").exists()
    again = lakebed.open(table.location)
    assert again.writer("job").filter_and_commit({1: messages}) == 1
    assert again.writer("job").filter_and_commit({1: messages}) == 0
    assert len(contents(again)) == (3 if first else 4)
    again.expire(options=AT_ONCE)
    again.expire(options={"lakebed.expire.what": "orphan-files"})
    assert len(contents(again)) == (3 if first else 4)


# ---- two processes of one user, with the same messages ---------------------------------------------------------------


def prepared(table: lakebed.Table, number: int) -> list[Any]:
    writer = table.writer("job")
    writer.write(rows(("a", number, "v", number)))
    messages: list[Any] = writer.prepare_commit()
    return messages


def test_a_commit_that_another_process_of_the_user_made_leaves_no_snapshot_that_comes_too_late(make: Make) -> None:
    """Newer snapshots have its files, but do not follow it: it would lead to manifests that are gone."""
    table = make(**BY_HAND)
    table.write(rows(("a", 1, "v", 1)))
    messages = prepared(table, 9)

    def twin() -> None:
        other = lakebed.open(table.location)
        other.write(rows(("a", 5, "v", 5)))
        assert other.writer("job").filter_and_commit({1: messages}) == 1
        overtake(table.location)

    late = lakebed.open(Overtaken(table.location, twin))
    assert late.writer("job").filter_and_commit({1: messages}) == 0
    again = lakebed.open(table.location)
    assert not (Path(table.location) / "snapshot/snapshot-2").exists()
    assert len(contents(again)) == 5
    again.expire(options=AT_ONCE)
    again.expire(options={"lakebed.expire.what": "orphan-files"})
    assert len(contents(again)) == 5
    assert again.writer("job").filter_and_commit({1: messages}) == 0


def test_a_process_that_finds_its_commit_made_spares_the_compaction_that_another_one_is_about_to_commit(
    make: Make,
) -> None:
    table = make(bucket="1", num__sorted__run_compaction__trigger="2")
    table.write(rows(("a", 1, "v", 1)))
    messages = prepared(table, 2)
    assert any(message.compacts for message in messages)

    def twin() -> None:
        assert lakebed.open(table.location).writer("job").commit(1, messages).outcome is Outcome.SKIPPED

    first = lakebed.open(Overtaken(table.location, twin, claim=3))
    assert first.writer("job").filter_and_commit({1: messages}) == 1
    again = lakebed.open(table.location)
    assert [one.action for one in again.history()][-1] == "compact"
    assert sorted(row[1] for row in contents(again)) == [1, 2]


@pytest.mark.parametrize("rival", [False, True])
def test_a_compaction_that_only_moves_a_file_is_taken_back_where_it_came_too_late(make: Make, rival: bool) -> None:
    """That a newer snapshot has the file proves nothing: it was there before, on a lower level, or another compaction
    has moved it."""
    table = make(bucket="1", **BY_HAND)
    table.write(rows(("a", 1, "v", 1)))

    def others() -> None:
        if rival:
            lakebed.open(table.location).rewrite(options={"write-only": "false"})
        overtake(table.location)

    late = lakebed.open(Overtaken(table.location, others))
    with pytest.raises(CommitConflictError) if rival else nullcontext():
        late.rewrite(options={"write-only": "false"})
    again = lakebed.open(table.location)
    assert not (Path(table.location) / "snapshot/snapshot-2").exists()
    assert len(contents(again)) == 3
    again.expire(options=AT_ONCE)
    again.expire(options={"lakebed.expire.what": "orphan-files"})
    assert len(contents(again)) == 3


def test_a_look_for_the_place_of_a_claimed_snapshot_that_fails_is_made_again(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A snapshot that comes late must not be acknowledged because the store fails once."""
    table = make()
    table.write(rows(("a", 1, "v", 1)))
    place_of, said = loop.place_of, []

    def late(history: History, claimed: Snapshot, *given: Any) -> Place:
        said.append(claimed.id)
        if len(said) == 1:
            raise RetryableError("no answer")
        return Place.OUT_OF_LINE if len(said) == 2 else place_of(history, claimed, *given)

    monkeypatch.setattr(loop, "place_of", late)
    table.write(rows(("a", 2, "v", 2)))
    assert said == [2, 2, 2]
    assert contents(table) == [("a", 1, "v", 1), ("a", 2, "v", 2)]


@pytest.mark.parametrize(("expired", "place"), [((3,), Place.OUT_OF_LINE), ((2, 3), Place.IN_LINE)])
def test_a_claimed_snapshot_stays_in_line_only_where_it_expires_before_the_next_one(
    expired: tuple[int, ...], place: Place, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one expires while its manifests are read. A snapshot that came late outlives it."""
    table = make()
    for number in range(4):
        table.write(rows(("a", number, "v", number)))
    history = History(open_store(table.location))
    claimed, before = history.snapshot(2), history.snapshot(1)
    folder = Path(table.location, "snapshot")
    (folder / "snapshot-1").unlink()

    def gone(*given: Any) -> Any:
        for number in expired:
            (folder / f"snapshot-{number}").unlink()
        raise DataCleanedError("a manifest is gone")

    monkeypatch.setattr(succession, "data_manifests", gone)
    assert succession.place_of(history, claimed, before, [], []) is place


class Dying(FaultyStore):
    """A process that dies before it removes a data file."""

    def delete_many(self, paths: Iterable[str]) -> None:
        if any("/data-" in path for path in paths):
            raise Crash("before the removal")
        super().delete_many(paths)


class LosesARace(FaultyStore):
    """A process whose first claim of a snapshot comes after others have acted."""

    def __init__(self, folder: str, act: Callable[[], object]) -> None:
        super().__init__(open_store(folder))
        self.acts = [act]

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        if path.startswith("snapshot/snapshot-") and self.acts:
            self.acts.pop()()
            return PutOutcome.EXISTS
        return super().put_if_absent(path, data)


@pytest.mark.parametrize("when", ["before it looks", "before it claims"])
@pytest.mark.parametrize("fate", ["live", "tagged", "compacted", "about to go"])
def test_a_commit_whose_snapshot_expired_after_another_process_made_it_is_not_made_again(
    make: Make, fate: str, when: str
) -> None:
    """Its files tell. Named again, they would be gone from under the newest snapshot, or a tag has their rows twice."""
    table = make(primary_key=(), partition_by=(), bucket="-1")
    messages = prepared(table, 9)

    def act() -> None:
        other = lakebed.open(table.location)
        assert other.writer("job").filter_and_commit({1: messages}) == 1
        if fate == "tagged":
            other.tag("kept")
        if fate != "live":
            other.write(rows(("a", 2, "v", 2)), "overwrite")
        other.write(rows(("a", 3, "v", 3)))
        if fate == "about to go":
            with pytest.raises(Crash):
                lakebed.open(Dying(open_store(table.location))).expire(options=NOTHING_OWED)
        else:
            other.expire(options=NOTHING_OWED)

    if when == "before it looks":
        act()
    store = LosesARace(table.location, act) if when == "before it claims" else open_store(table.location)
    writer = lakebed.open(store).writer("job")
    if fate in ("live", "tagged"):
        assert writer.commit(1, messages).outcome is Outcome.SKIPPED
        assert lakebed.open(table.location).writer("job").filter_and_commit({1: messages}) == 0
    else:
        for _ in range(2):
            with pytest.raises(CommitUnknownError, match="are gone"):
                writer.commit(1, messages)
        with pytest.raises(CommitUnknownError, match="are gone"):
            lakebed.open(table.location).writer("job").filter_and_commit({1: messages})
    again = lakebed.open(table.location)
    assert {row[1] for row in contents(again)} == ({3, 9} if fate == "live" else {2, 3})
    again.expire(options={**NOTHING_OWED, "lakebed.expire.what": "orphan-files"})
    assert len(contents(again)) == 2


def test_a_user_whose_commits_have_all_expired_goes_on(make: Make) -> None:
    table = make(**BY_HAND)
    writer = table.writer("job")
    writer.write(rows(("a", 1, "v", 1)))
    writer.commit(1, writer.prepare_commit())
    for number in (2, 3):
        table.write(rows(("a", number, "v", number)))
    table.expire(options=NOTHING_OWED)
    messages = prepared(table, 4)
    assert table.writer("job").filter_and_commit({2: messages}) == 1
    assert table.writer("job").commit(2, messages).outcome is Outcome.SKIPPED
    assert len(contents(table)) == 4


def test_no_compaction_of_an_earlier_commit_comes_after_a_later_commit_of_its_user(make: Make) -> None:
    """The user's newest snapshot tells which identifiers are committed, once the others have expired."""
    table = make(bucket="1", num__sorted__run_compaction__trigger="2")
    table.write(rows(("a", 1, "v", 1)))
    messages = {number: prepared(table, number + 1) for number in (1, 2)}
    assert any(message.compacts for message in messages[1])

    def act() -> None:
        other = lakebed.open(table.location).writer("job")
        assert other.filter_and_commit({1: messages[1]}) == 0
        appended = [replace(PaimonMessage(m.partition, m.bucket, m.total_buckets, m.folder), new_files=m.new_files)
                    for m in messages[2]]  # fmt: skip
        assert other.commit(2, appended).snapshot_id == 3

    class BeforeTheCompaction(LosesARace):
        def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
            return (
                super().put_if_absent(path, data)
                if path.endswith("-3")
                else FaultyStore.put_if_absent(self, path, data)
            )

    result = lakebed.open(BeforeTheCompaction(table.location, act)).writer("job").commit(1, messages[1])
    assert result.snapshot_id == 2 and "a later compaction does it again" in str(result.notes)
    newest = History(table.store).latest()
    assert newest is not None and (newest.id, newest.commit_identifier) == (3, 2)
    table.expire(options=NOTHING_OWED)
    assert lakebed.open(table.location).writer("job").filter_and_commit(messages) == 0
    assert len(contents(table)) == 3
