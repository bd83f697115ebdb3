"""Writers beside each other: locks, heartbeats, failed writes, and which changes are conflicts."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

import lakebed
import lakebed.hudi
from lakebed import Table
from lakebed.errors import CommitConflictError, CommitUnknownError, RetryableError, UnsupportedError
from lakebed.formats.hudi.commit import completion as completions
from lakebed.formats.hudi.commit import exclusive
from lakebed.formats.hudi.commit import heartbeat as heartbeats
from lakebed.formats.hudi.commit import rollback as rollbacks
from lakebed.formats.hudi.commit import transaction as transactions
from lakebed.formats.hudi.commit.completion import complete_once
from lakebed.formats.hudi.commit.heartbeat import Heartbeat
from lakebed.formats.hudi.commit.transaction import Transaction
from lakebed.formats.hudi.config import TableConfig, load_config
from lakebed.formats.hudi.layout import WRITES
from lakebed.formats.hudi.metadata_table import bootstrap as bootstraps
from lakebed.formats.hudi.metadata_table import write as metadata_writes
from lakebed.formats.hudi.timeline.writing import completed_file, request
from lakebed.formats.hudi.write import sink as sinks
from lakebed.formats.hudi.write.run import WriteRun
from lakebed.kernel import clock
from lakebed.kernel.files import Store, open_store
from lakebed.kernel.machine import this_machine
from lakebed.testing.faults import FaultyStore

SCHEMA = {"id": "int64", "dt": "string", "v": "string"}
PROVIDER = "hoodie.write.lock.provider"
OCC = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    PROVIDER: "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
    "hoodie.time.generator.max_expected_clock_skew_ms": "0",
}
LAZY = {"hoodie.clean.failed.writes.policy": "LAZY"}


def orders(folder: Path, kind: str = "COPY_ON_WRITE", version: int = 9) -> Table:
    options = {"hoodie.write.table.version": version, "hoodie.datasource.write.table.type": kind}
    return lakebed.create(folder / "t", "hudi", SCHEMA, ["id"], ["dt"], options)


def rows(*ids: int, dt: str = "a", v: str = "x") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "dt": [dt] * len(ids), "v": [v] * len(ids)})


def held(table: Table) -> list[tuple[int, str]]:
    return sorted((row["id"], row["v"]) for row in table.read(["id", "v"]).read_all().to_pylist())


def actions(table: Table) -> list[tuple[str, str]]:
    return [(instant.action, instant.state) for instant in table.history()]


def beside(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, act: Callable[[], object]) -> None:
    """Run `act` once, right before a method of the writer under test."""
    original = getattr(owner, name)

    def first(self: Any, *args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(owner, name, original)
        act()
        return original(self, *args, **kwargs)

    monkeypatch.setattr(owner, name, first)


def killed(table: Table, monkeypatch: pytest.MonkeyPatch, batch: pa.Table, options: dict[str, str]) -> str:
    """A write whose process ends before it completes; its instant."""
    with monkeypatch.context() as patch:

        def end(self: Transaction, *_: Any, **__: Any) -> Any:
            raise KeyboardInterrupt

        patch.setattr(Transaction, "commit", end)
        patch.setattr(Transaction, "abort", lambda self: self._heartbeat._held.close())
        with pytest.raises(KeyboardInterrupt):
            table.write(batch, "upsert", options)
    return [instant.time for instant in table.history() if instant.state != "completed"][-1]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({PROVIDER: "a.b.ZookeeperBasedLockProvider", "hoodie.write.lock.zookeeper.url": "x"}, "Zookeeper"),
        ({PROVIDER: "org.apache.hudi.hive.transaction.lock.HiveMetastoreBasedLockProvider"}, "HiveMetastore"),
        ({PROVIDER: "org.apache.hudi.aws.transaction.lock.DynamoDBBasedLockProvider"}, "DynamoDB"),
        ({PROVIDER: "org.apache.hudi.client.transaction.lock.StorageBasedLockProvider"}, "StorageBased"),
        ({"hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL"}, "needs a lock"),
        ({"hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL"}, "needs a lock"),
        ({"hoodie.write.lock.conflict.resolution.strategy": "com.acme.Mine"}, "Mine"),
        ({**OCC, "hoodie.write.lock.filesystem.path": "/elsewhere"}, "is not in the table"),
    ],
)
def test_what_is_not_served_is_refused_before_anything_is_written(
    options: dict[str, str], named: str, tmp_path: Path
) -> None:
    table = orders(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    for act in (table.write, lambda _, options: table.expire(options=options)):
        with pytest.raises(UnsupportedError, match=named):
            act(rows(1), options=options)
    assert sorted(tmp_path.rglob("*")) == before


def test_each_step_is_done_under_hudis_lock_file(tmp_path: Path) -> None:
    store = FaultyStore(open_store(orders(tmp_path).location))
    result = lakebed.open(store).write(rows(1), options={**OCC, "hoodie.cleaner.policy.failed.writes": "EAGER"})
    assert "LAZY and not EAGER" in result.notes[0]
    inside = False
    for call in store.changes:
        if call.path == ".hoodie/lock":
            inside = call.verb == "put_if_absent"
        elif "timeline" in call.path:
            assert inside, call
    assert not inside and not list(Path(tmp_path).glob("t/.hoodie/.heartbeat/*"))


def test_a_lock_that_another_engine_holds_is_waited_for_and_one_of_a_dead_process_is_not(tmp_path: Path) -> None:
    table = orders(tmp_path)
    lock = Path(table.location) / ".hoodie" / "lock"
    lock.write_text('{"lockThreadName": "pool-1"}')
    short = {**OCC, "hoodie.write.lock.wait_time_ms": "0"}
    with pytest.raises(CommitConflictError, match="pool-1"):
        table.write(rows(1), options=short)
    assert table.history() == [] and lock.exists()
    os.utime(lock, (time.time() - 90, time.time() - 90))
    table.write(rows(1), options={**short, "hoodie.write.lock.filesystem.expire": "1"})
    owner = {"machine": this_machine(), "process": 1 << 22, "token": "x"}
    lock.write_text(json.dumps(owner))
    table.write(rows(2), options=short)
    assert not lock.exists() and held(table) == [(1, "x"), (2, "x")]


def test_a_lock_file_that_a_release_deletes_for_the_second_time_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = orders(tmp_path)
    lock = Path(table.location) / ".hoodie" / "lock"
    deleted: list[bytes] = []
    sleep = time.sleep

    def delete_and_sleep(seconds: float) -> None:
        if lock.exists() and not deleted:
            deleted.append(lock.read_bytes())
            lock.unlink()
        sleep(seconds)

    monkeypatch.setattr(time, "sleep", delete_and_sleep)
    result = table.write(rows(1), options=OCC)
    assert deleted and str(result.outcome) == "committed" and held(table) == [(1, "x")]


def test_a_writer_that_lives_is_not_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = orders(tmp_path)
    beside(monkeypatch, Transaction, "commit", lambda: lakebed.open(table.location).write(rows(2, dt="b"), "upsert"))
    table.write(rows(1), "upsert")
    assert held(table) == [(1, "x"), (2, "x")]
    assert actions(table) == [("commit", "completed")] * 2


def test_a_writer_that_died_is_taken_back_by_the_next_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = orders(tmp_path)
    killed(table, monkeypatch, rows(1, 2), {})
    table.write(rows(3), "upsert")
    assert held(table) == [(3, "x")]
    assert actions(table) == [("rollback", "completed"), ("commit", "completed")]


def test_another_machines_heartbeat_is_judged_by_its_age(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = orders(tmp_path)
    instant = killed(table, monkeypatch, rows(1), {})
    beat = Path(table.location) / ".hoodie" / ".heartbeat" / instant
    beat.write_bytes(b"")  # as Hudi's own
    table.write(rows(3), "upsert")
    assert ("rollback", "completed") not in actions(table)
    old = time.time() - 100
    os.utime(beat, (old, old))
    table.write(rows(4), "upsert")
    assert ("rollback", "completed") not in actions(table)
    table.write(rows(5), "upsert", {"hoodie.client.heartbeat.interval_in_ms": "30000"})
    assert ("rollback", "completed") in actions(table) and not beat.exists()


def test_lazily_a_clean_takes_back_what_died(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = orders(tmp_path)
    instant = killed(table, monkeypatch, rows(1), LAZY)
    quiet = {**LAZY, "hoodie.clean.automatic": "false"}
    table.write(rows(2, dt="b"), "upsert", quiet)
    assert actions(table)[0] == ("commit", "inflight")
    plan = table.expire(dry_run=True, options=LAZY)
    assert instant in plan.notes[0] and actions(table)[0] == ("commit", "inflight")
    table.expire(options={"hoodie.cleaner.policy.failed.writes": "NEVER"})
    assert actions(table)[0] == ("commit", "inflight")
    assert "its process has ended" in table.expire(options=LAZY).notes[0]
    assert held(table) == [(2, "x")] and [state for _, state in actions(table)] == ["completed"] * 2


def test_a_clean_leaves_a_writer_that_lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = orders(tmp_path)
    beside(monkeypatch, Transaction, "commit", lambda: lakebed.open(table.location).expire(options=LAZY))
    table.write(rows(1), "upsert", LAZY)
    assert held(table) == [(1, "x")]


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("version", [6, 8])
def test_the_same_file_group_is_a_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, version: int
) -> None:
    table = orders(tmp_path, kind, version)
    table.write(rows(1, 2))
    beside(monkeypatch, Transaction, "commit", lambda: table.write(rows(2, v="theirs"), "upsert", OCC))
    with pytest.raises(CommitConflictError, match="changed the same file groups"):
        table.write(rows(1, v="ours"), "upsert", OCC)
    assert held(table) == [(1, "x"), (2, "theirs")]
    again = {**OCC, "hoodie.write.num.retries.on.conflict.failures": "1"}
    beside(monkeypatch, Transaction, "commit", lambda: table.write(rows(2, v="theirs too"), "upsert", OCC))
    table.write(rows(1, v="ours"), "upsert", again)
    assert held(table) == [(1, "ours"), (2, "theirs too")]


@pytest.mark.parametrize("short", [True, False])
def test_who_lost_a_short_race_has_a_turn_for_the_whole_next_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short: bool
) -> None:
    """Others of this machine wait for it, and build on it. Where attempts are long nobody waits for them."""
    table = orders(tmp_path)
    table.write(rows(1))
    monkeypatch.setattr(sinks, "_SHORT", 60.0 if short else 0.0)
    beside(monkeypatch, Transaction, "commit", lambda: table.write(rows(1, v="theirs"), "upsert", OCC))
    third = threading.Thread(target=lambda: lakebed.open(table.location).write(rows(1, v="third"), "upsert", OCC))
    run, attempts = WriteRun.run, []

    def with_the_third(self: WriteRun, *arguments: Any) -> Any:
        attempts.append(threading.current_thread())
        if attempts.count(threading.main_thread()) == 3 and not third.is_alive():  # ours, theirs, and ours again
            third.start()
            third.join(0.5 if short else 60)
        return run(self, *arguments)

    monkeypatch.setattr(WriteRun, "run", with_the_third)
    again = {**OCC, "hoodie.write.num.retries.on.conflict.failures": "1"}
    with nullcontext() if short else pytest.raises(CommitConflictError):
        table.write(rows(1, v="ours"), "upsert", again)
    third.join(60)
    assert held(table) == [(1, "third")]


def test_a_new_key_is_added_once_unless_the_caller_knows_of_other_writers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = orders(tmp_path)
    new_files = {"hoodie.parquet.small.file.limit": "0"}
    beside(monkeypatch, Transaction, "commit", lambda: table.write(rows(1, v="theirs"), "upsert", new_files))
    with pytest.raises(CommitConflictError):
        table.write(rows(1, v="ours"), "upsert", new_files)
    assert held(table) == [(1, "theirs")]
    beside(monkeypatch, Transaction, "commit", lambda: table.write(rows(2), "upsert", OCC | new_files))
    table.write(rows(2), "upsert", OCC | new_files)  # as Hudi does: its rules look at file groups alone
    assert held(table) == [(1, "theirs"), (2, "x"), (2, "x")]


def test_an_overwrite_does_not_keep_rows_that_came_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = orders(tmp_path)
    beside(monkeypatch, Transaction, "commit", lambda: table.write(rows(1)))
    with pytest.raises(CommitConflictError):
        table.write(rows(2), "overwrite")
    table.write(rows(2), "overwrite")
    assert held(table) == [(2, "x")]


def test_early_detection_gives_up_before_a_file_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = orders(tmp_path)
    table.write(rows(1, 2))
    early = {**OCC, "hoodie.write.concurrency.early.conflict.detection.enable": "true"}
    reports: list[str] = []

    def later() -> None:
        store = FaultyStore(open_store(table.location))
        with pytest.raises(CommitConflictError) as caught:
            lakebed.open(store).write(rows(2, v="later"), "upsert", early)
        reports.append(str(caught.value))
        assert not any(call.verb == "open_output" for call in store.changes)

    beside(monkeypatch, Transaction, "commit", later)
    table.write(rows(1, v="first"), "upsert", early)
    assert held(table) == [(1, "first"), (2, "x")] and "is changing the same file groups" in reports[0]


def test_logs_of_the_next_slice_go_well_with_a_compaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = orders(tmp_path, "MERGE_ON_READ", 8)
    table.write(rows(1, 2))
    table.write(rows(1, v="logged"), "upsert")
    beside(monkeypatch, Transaction, "commit", lambda: lakebed.open(table.location).rewrite())
    table.write(rows(2, v="ours"), "upsert")
    assert held(table) == [(1, "logged"), (2, "ours")]


def test_a_clustering_gives_way_to_writes_where_they_are_preferred(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = orders(tmp_path)
    table.write(rows(1, 2))
    prefer = {**OCC, "hoodie.write.lock.conflict.resolution.strategy": "PreferWriterConflictResolutionStrategy"}
    allow = {"hoodie.clustering.updates.strategy": "SparkAllowUpdateStrategy"}
    cluster = {"hoodie.clustering.plan.strategy.sort.columns": "id"}
    refused: list[str] = []

    def clustering() -> None:
        with pytest.raises(CommitConflictError, match="is changing the same file groups") as caught:
            lakebed.open(table.location).rewrite(options={**cluster, **prefer})
        refused.append(str(caught.value))

    beside(monkeypatch, Transaction, "commit", clustering)
    table.write(rows(2, v="ours"), "upsert", {**prefer, **allow})
    assert held(table) == [(1, "x"), (2, "ours")] and refused
    left = next(instant.time for instant in table.history() if instant.state != "completed")
    table.rewrite(options={"lakebed.rewrite.step": "withdraw", "lakebed.rewrite.instant": left})
    table.rewrite(options={**cluster, **prefer})
    assert held(table) == [(1, "x"), (2, "ours")]


def test_a_write_that_another_one_is_taking_back_does_not_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hudi's own rollback plans under the lock, and deletes files outside of it."""
    from lakebed.formats.hudi.codec.plans import InstantInfo, RollbackPlan, encode

    table = orders(tmp_path)

    def rollback() -> None:
        (pending,) = [instant for instant in table.history() if instant.state != "completed"]
        plan = RollbackPlan(instant_to_rollback=InstantInfo(commit_time=pending.time, action="commit"), requests=())
        path = Path(table.location) / ".hoodie" / "timeline" / f"{int(pending.time) + 1}.rollback.requested"
        path.write_bytes(encode(plan))

    beside(monkeypatch, Transaction, "commit", rollback)
    with pytest.raises(CommitConflictError, match="takes this write back"):
        table.write(rows(1), "upsert", OCC)
    assert held(table) == []
    table.write(rows(2), "upsert")
    assert held(table) == [(2, "x")] and {state for _, state in actions(table)} == {"completed"}


def test_the_heartbeat_goes_on_while_a_writer_is_at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = orders(tmp_path)
    seen: list[float] = []

    def look() -> None:
        (beat,) = Path(table.location).glob(".hoodie/.heartbeat/*")
        for _ in range(2):
            os.utime(beat, (0, 0))
            until = time.monotonic() + 5
            while not beat.stat().st_mtime and time.monotonic() < until:
                time.sleep(0.02)
            seen.append(beat.stat().st_mtime)

    monkeypatch.setattr(heartbeats.threading.Event, "wait", _short(heartbeats.threading.Event.wait))
    beside(monkeypatch, WriteRun, "run", look)
    table.write(rows(1))
    assert len(seen) == 2 and all(seen)


def _short(wait: Callable[..., bool]) -> Callable[..., bool]:
    return lambda self, timeout=None: wait(self, min(timeout or 0.05, 0.05) if timeout else timeout)


def test_a_key_that_two_writers_add_to_a_new_bucket_is_there_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them makes a file group of that bucket."""
    options = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}
    table = lakebed.create(tmp_path / "t", "hudi", SCHEMA, ["id"], ["dt"], options)
    both = {**options, **OCC}
    beside(monkeypatch, Transaction, "commit", lambda: table.write(rows(1, dt="a", v="theirs"), "upsert", both))
    with pytest.raises(CommitConflictError):
        table.write(rows(1, v="ours"), "upsert", both)
    assert held(table) == [(1, "theirs")]


def test_a_commit_is_found_again_after_its_archival(tmp_path: Path) -> None:
    table = orders(tmp_path)
    upkeep = {
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
        "hoodie.clean.commits.retained": "1",
        "hoodie.metadata.enable": "false",
    }

    def commit(user: str, identifier: int, key: int) -> str:
        writer = lakebed.open(table.location, upkeep).writer(user)
        with writer:
            writer.write(rows(key))
            return str(writer.commit(identifier, writer.prepare_commit()).outcome)

    assert [commit("job", number, number) for number in (1, 3)] == ["committed"] * 2
    for key in range(10, 17):
        assert commit("other", key, key) == "committed"
    history = {instant.time for instant in table.history()}
    assert {instant.time for instant in table.history(archived=True)} - history
    assert [commit("job", number, number) for number in (1, 3)] == ["skipped"] * 2
    assert commit("job", 4, 4) == "committed"
    assert [id for id, _ in held(table)].count(1) == 1


def test_post_commit_cleans_archives_and_ends_the_heartbeat(tmp_path: Path) -> None:
    table = orders(tmp_path)
    quiet = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
    for number in range(6):
        table.write(rows(1, v=str(number)), "upsert", quiet)
    newest = table.history()[-1].time
    beat = Path(table.location) / ".hoodie" / ".heartbeat" / newest
    beat.write_bytes(b"")
    options = {
        "hoodie.clean.commits.retained": 1,
        "hoodie.keep.min.commits": 2,
        "hoodie.keep.max.commits": 3,
        "hoodie.metadata.enable": False,
    }
    assert lakebed.hudi.post_commit(table, newest, {**options, **quiet}).archived == ()
    assert [action for action, _ in actions(table)] == ["commit"] * 6
    beat.write_bytes(b"")
    assert lakebed.hudi.post_commit(table, newest, options).archived
    assert [action for action, _ in actions(table)].count("clean") == 1 and not beat.exists()
    assert held(table) == [(1, "5")]


@pytest.mark.parametrize(("kind", "version"), [("COPY_ON_WRITE", 6), ("MERGE_ON_READ", 9)])
def test_files_that_a_writer_makes_after_its_rollback_are_no_rows_of_a_table_that_had_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, version: int
) -> None:
    """It was taken for dead, made its files nevertheless, and died before it saw that."""
    table = orders(tmp_path, kind, version)
    plain = {"hoodie.metadata.enable": "false", "hoodie.parquet.small.file.limit": "0"}

    with monkeypatch.context() as patch:

        def other() -> None:
            (beat,) = Path(table.location).glob(".hoodie/.heartbeat/*")
            beat.write_bytes(b"")
            os.utime(beat, (0, 0))
            (late,) = Path(table.location).glob("a/*.parquet")
            content = late.read_bytes()
            table.write(rows(2), "upsert", plain)
            late.write_bytes(content)
            patch.setattr(Transaction, "abort", lambda self: self._heartbeat._held.close())

        beside(patch, Transaction, "commit", other)
        with pytest.raises(CommitConflictError):
            table.write(rows(1), "upsert", plain)
    assert len(list(Path(table.location).glob("a/*.parquet"))) == 2
    assert held(lakebed.open(table.location)) == [(2, "x")]
    table.write(rows(1, v="again"), "upsert", plain)
    assert held(table) == [(1, "again"), (2, "x")]


def test_others_wait_for_few_calls_of_a_write(tmp_path: Path) -> None:
    """What needs no lock is done before it is taken. Every call here is a round trip for which all writers wait."""
    store = FaultyStore(open_store(orders(tmp_path).location))
    table = lakebed.open(store)
    table.write(rows(1))
    store.calls.clear()
    table.write(rows(2), "upsert")
    turns: list[int] = []
    inside = False
    for call in store.calls:
        if call.path == ".hoodie/.lakebed/writer.lock":
            inside = call.verb == "put_if_absent"
            turns += [0] if inside else []
        elif inside:
            turns[-1] += 1
    assert turns == [3, 11]


class LateClock:
    """A clock that only waits move, by a second at least, and `pass_by`."""

    def __init__(self) -> None:
        self.time = 0.0

    def pass_by(self, seconds: float) -> None:
        self.time += max(seconds, 1.0)


@pytest.fixture
def late() -> Iterator[LateClock]:
    late = LateClock()
    with clock.set_clock(steady=lambda: late.time, pause=late.pass_by):
        yield late


def before_it_lands(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, act: Callable[[], object]) -> None:
    """Run `act` once, after the put of a state file was sent and before it lands."""
    land = getattr(module, name)

    def slow(*args: Any, **named: Any) -> None:
        monkeypatch.setattr(module, name, land)
        act()
        land(*args, **named)

    monkeypatch.setattr(module, name, slow)


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_commit_that_lands_after_another_writer_took_its_lock_is_withdrawn(
    kind: str, version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: LateClock
) -> None:
    """Both add the same key. Who came late is told, and its rows are nowhere, though its writer lived all the time."""
    table = orders(tmp_path, kind, version)
    other = lakebed.open(table.location)
    before_it_lands(monkeypatch, transactions, "complete", lambda: other.write(rows(1, v="other")))
    with pytest.raises(CommitConflictError, match="too late"):
        table.write(rows(1, 2))
    assert held(table) == [(1, "other")]
    assert [state for action, state in actions(table) if action in WRITES] == ["completed"]
    assert table.write(rows(2), "upsert").rows == 1
    assert held(table) == [(1, "other"), (2, "x")]
    assert table.expire(options={"lakebed.expire.what": "orphan-files"}).deleted_files == ()


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("step", ["building", "request", "complete"])
def test_who_builds_the_metadata_table_too_late_spoils_nothing_that_others_built(
    step: str, version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: LateClock
) -> None:
    """A first writer stands still before a step of it. Another one builds it meanwhile and commits."""
    table = orders(tmp_path, version=version)
    other = lakebed.open(table.location)
    if step == "building":
        build = bootstraps.building

        def stood_still(*args: Any) -> Any:
            monkeypatch.setattr(bootstraps, "building", build)
            other.write(rows(1, v="other"))
            return build(*args)

        monkeypatch.setattr(bootstraps, "building", stood_still)
    else:
        before_it_lands(monkeypatch, bootstraps, step, lambda: other.write(rows(1, v="other")))
    with pytest.raises(CommitConflictError, match=r"[Nn]othing of this|held for too long"):
        table.write(rows(1, 2))
    assert held(lakebed.open(table.location)) == [(1, "other")]
    named = load_config(open_store(table.location)).properties.get("hoodie.table.metadata.partitions")
    assert named == ("files" if step == "building" else ""), "nobody trusts what the late one may have spoilt"
    table.write(rows(2), "upsert")
    assert load_config(open_store(table.location)).properties["hoodie.table.metadata.partitions"] == "files"
    assert held(lakebed.open(table.location)) == [(1, "other"), (2, "x")]


def test_a_withdrawn_commit_whose_writer_died_shows_no_rows_and_goes_with_the_next_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: LateClock
) -> None:
    table = orders(tmp_path)
    other = lakebed.open(table.location)
    with monkeypatch.context() as patch:

        def end(*_: Any) -> None:
            raise KeyboardInterrupt

        def taken() -> None:
            other.write(rows(1, v="other"))
            patch.setattr(Transaction, "_check_in_time", end)
            patch.setattr(Transaction, "abort", lambda self: self._heartbeat._held.close())

        before_it_lands(patch, transactions, "complete", taken)
        with pytest.raises(KeyboardInterrupt):
            table.write(rows(1))
    assert len([*Path(table.location).glob(".hoodie/timeline/*_*.commit")]) == 2, "both landed"
    assert held(lakebed.open(table.location)) == [(1, "other")]
    assert sorted(table.history(), key=lambda one: one.time)[0].state == "inflight"
    assert not table.archive(options={"hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3}).archived
    table.write(rows(2), "upsert")
    assert held(table) == [(1, "other"), (2, "x")]
    assert len([*Path(table.location).glob(".hoodie/timeline/*_*.commit")]) == 2, "the late one is gone"


def test_a_late_commit_stands_where_nobody_took_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: LateClock
) -> None:
    table = orders(tmp_path)
    before_it_lands(monkeypatch, transactions, "complete", lambda: late.pass_by(300))
    assert table.write(rows(1)).rows == 1
    assert held(table) == [(1, "x")]


def test_a_late_commit_stands_where_others_found_it_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: LateClock
) -> None:
    """It landed before its lock was taken: whoever came next saw it."""
    table = orders(tmp_path)
    other = lakebed.open(table.location)
    complete = transactions.complete

    def landed(*args: Any) -> None:
        monkeypatch.setattr(transactions, "complete", complete)
        complete(*args)
        other.write(rows(1, v="other"), "upsert")

    monkeypatch.setattr(transactions, "complete", landed)
    assert table.write(rows(1)).rows == 1
    assert held(table) == [(1, "other")]


def test_a_late_commit_is_unknown_where_hudis_lock_was_lost_and_others_changed_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hudi's own writers know nothing of lakebed's lock: a compaction of theirs may have left out the rows."""
    table = orders(tmp_path)
    complete = transactions.complete

    def slow(store: Store, config: TableConfig, *more: Any) -> None:
        request(store, config, "20991231235959999", "clean")
        store.delete(".hoodie/lock")
        complete(store, config, *more)

    monkeypatch.setattr(transactions, "complete", slow)
    with pytest.raises(CommitUnknownError, match="others did not see it"):
        table.write(rows(1), options=OCC)
    assert held(table) == [(1, "x")], "and nothing of it is taken back"


def test_an_unanswered_commit_that_is_taken_back_cannot_land_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = orders(tmp_path)
    sent: list[tuple[str, bytes]] = []

    def unanswered(store: Store, config: TableConfig, time: str, completed: str, action: str, content: bytes) -> None:
        sent.append((completed_file(config, time, completed, action), content))
        raise CommitUnknownError("no answer", table=store.location)

    with monkeypatch.context() as patch:
        patch.setattr(transactions, "complete", unanswered)
        with pytest.raises(CommitUnknownError):
            table.write(rows(1))
    ((path, content),) = sent
    table.write(rows(1, v="again"), "upsert")
    open_store(table.location).write(path, content)
    assert held(table) == [(1, "again")]
    table.write(rows(2), "upsert")
    assert held(table) == [(1, "again"), (2, "x")]
    assert not (Path(table.location) / path).exists()


def test_a_commit_that_landed_unanswered_is_unknown_where_it_cannot_be_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store fails while the commit is to be taken back too: that error would say that nothing is there."""
    table = orders(tmp_path)
    complete = transactions.complete

    def unanswered(store: Store, *more: Any) -> None:
        complete(store, *more)
        monkeypatch.setattr(Transaction, "abort", failing)
        raise CommitUnknownError("no answer", table=store.location)

    def failing(self: Transaction) -> None:
        self._heartbeat.stop()
        raise RetryableError("cannot list")

    monkeypatch.setattr(transactions, "complete", unanswered)
    with pytest.raises(CommitUnknownError, match="no answer"):
        table.write(rows(1))
    assert held(table) == [(1, "x")]


@pytest.mark.parametrize("step", ["request", "inflight"])
def test_a_state_file_that_lands_after_the_lock_was_taken_begins_nothing(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: LateClock
) -> None:
    """Others have gone on without it: its instant may lie before the timeline's start, or be taken back."""
    table = orders(tmp_path)
    other = lakebed.open(table.location)

    def taken() -> None:
        for beat in Path(table.location).glob(".hoodie/.heartbeat/*"):
            beat.write_bytes(b"")
            os.utime(beat, (0, 0))
        late.pass_by(300)
        other.write(rows(1, v="other"))

    before_it_lands(monkeypatch, transactions, step, taken)
    with pytest.raises(CommitConflictError):
        table.write(rows(1))
    assert held(table) == [(1, "other")]
    assert not [one for one in table.history() if one.state != "completed"]


def test_a_rollback_that_takes_longer_than_a_lock_lasts_is_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: LateClock
) -> None:
    """The lock is taken anew after the files went: else no writer could ever end it."""
    table = orders(tmp_path)
    table.write(rows(1))
    killed(table, monkeypatch, rows(2), {})
    before_it_lands(monkeypatch, rollbacks, "update", lambda: late.pass_by(300))
    with pytest.raises(CommitConflictError, match="held for too long"):
        table.write(rows(2), "upsert")
    assert ("rollback", "completed") in actions(table)
    table.write(rows(2), "upsert")
    assert held(table) == [(1, "x"), (2, "x")]


def test_a_rollback_that_another_writer_ends_meanwhile_is_completed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: LateClock
) -> None:
    table = orders(tmp_path)
    other = lakebed.open(table.location)
    killed(table, monkeypatch, rows(2), {})
    before_it_lands(monkeypatch, rollbacks, "update", lambda: other.write(rows(1), "upsert"))
    with pytest.raises(CommitConflictError, match="held for too long"):
        table.write(rows(2), "upsert")
    assert len([*Path(table.location).glob(".hoodie/timeline/*_*.rollback")]) == 1


def test_a_plan_is_run_by_one_process_where_another_took_the_lock_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: LateClock
) -> None:
    table = orders(tmp_path, "MERGE_ON_READ")
    table.write(rows(1))
    table.write(rows(1, v="y"), "upsert")
    once = {"hoodie.compact.inline.max.delta.commits": 1}
    other = lakebed.open(table.location)

    def begin(self: Heartbeat, instant: str) -> None:
        monkeypatch.setattr(Heartbeat, "start", start)
        other.rewrite(options=once)
        start(self, instant)

    start = Heartbeat.start
    table.rewrite(options={**once, "lakebed.rewrite.step": "schedule"})
    monkeypatch.setattr(Heartbeat, "start", begin)
    with pytest.raises(CommitConflictError, match="held for too long"):
        table.rewrite(options=once)
    assert held(table) == [(1, "y")]
    assert len([*Path(table.location).glob(".hoodie/timeline/*_*.commit")]) == 1


@pytest.mark.parametrize("step", ["request", "inflight", "complete"])
@pytest.mark.parametrize("version", [6, 9])
def test_a_late_writer_does_not_write_over_what_others_wrote_to_the_metadata_table(
    version: int, step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: LateClock
) -> None:
    """It has chosen the name of its log file before: in table version 6 the other writer chose the same one."""
    table = orders(tmp_path, version=version)
    table.write(rows(1))
    other = lakebed.open(table.location)
    before_it_lands(monkeypatch, metadata_writes, step, lambda: other.write(rows(2, dt="b")))
    with pytest.raises(CommitConflictError):
        table.write(rows(3, dt="c"))
    assert held(lakebed.open(table.location)) == [(1, "x"), (2, "x")]
    table.write(rows(3, dt="c"))
    assert held(table) == [(1, "x"), (2, "x"), (3, "x")]
    assert "hoodie.table.metadata.partitions=files" in Path(table.location, ".hoodie/hoodie.properties").read_text()


def test_of_two_late_completions_one_stays(tmp_path: Path, late: LateClock) -> None:
    """Both outlived their locks, and each sees the other's file. They look one after the other."""
    table = orders(tmp_path)
    table.write(rows(1))
    (commit,) = table.history()
    store, config = open_store(table.location), load_config(open_store(table.location))

    def complete(completed: str, between: Callable[[], object]) -> None:
        with exclusive.exclusive(store) as still, pytest.MonkeyPatch.context() as patch:
            before_it_lands(patch, completions, "complete", between)
            complete_once(store, config, commit.time, completed, "savepoint", b"mine", still)

    def second() -> None:
        complete("20991231235959999", lambda: late.pass_by(300))

    with pytest.raises(CommitConflictError, match="another process has completed"):
        complete("20991231235959998", second)
    assert [one.time for one in table.history() if one.action == "savepoint"] == [commit.time]
