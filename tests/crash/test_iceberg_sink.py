"""A write into an Iceberg table that fails at any storage call leaves the old rows or the new ones, and lands once when
it is repeated."""

import itertools
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import CommitUnknownError, LakebedError, StorageError
from lakebed.kernel.engine import LocalEngine
from lakebed.kernel.files import Store, open_store
from lakebed.testing.faults import READS, Crash, Fault, FaultyStore, Kind, check_crash_safety
from lakebed.verbs.table import Table
from lakebed.verbs.write import finalize_and_commit, swept

SCHEMA = pa.schema([pa.field("id", pa.int64(), False), pa.field("part", pa.string(), False), ("v", pa.string())])
FIRST = [{"id": n, "part": "ab"[n % 2], "v": "first"} for n in range(6)]
SECOND = [
    {"id": 1, "part": "b", "v": "second", "_row_kind": "+U"},
    {"id": 2, "part": "c", "v": "moved", "_row_kind": "+U"},
    {"id": 3, "part": "b", "v": None, "_row_kind": "-D"},
    {"id": 9, "part": "c", "v": "new", "_row_kind": "+I"},
]
KINDS = (Kind.CRASH_BEFORE, Kind.CRASH_AFTER, Kind.UNKNOWN_AFTER)
QUICK = {"commit.retry.min-wait-ms": "1", "commit.retry.max-wait-ms": "2", "commit.status-check.min-wait-ms": "1"}


def commit(rows: list[dict[str, Any]], identifier: int, user: str = "job") -> Callable[[Store], None]:
    """A job that, when restarted, commits the same rows with the same commit user and identifier."""

    def operation(store: Store) -> None:
        writer = lakebed.open(store, QUICK).writer(commit_user=user)
        writer.write(pa.Table.from_pylist(rows))
        writer.filter_and_commit({identifier: writer.prepare_commit()})

    return operation


def observe(store: Store) -> tuple[list[tuple[Any, ...]], list[tuple[Any, Any]]]:
    """The rows, and each snapshot's user and identifier."""
    table = lakebed.open(store)
    rows = sorted(tuple(row.values()) for row in table.read().read_all().to_pylist())
    keys = ("lakebed.commit-user", "lakebed.commit-identifier")
    return rows, [(i.summary.get(keys[0]), i.summary.get(keys[1])) for i in table.history()]


@pytest.fixture(params=["2", "3"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Store]]:
    """Fresh copies of a table with a snapshot. Its metadata has locations, so each copy takes the place of the one
    before."""
    number = itertools.count()
    original, place = tmp_path / "original", tmp_path / "t"
    lakebed.create(place, "iceberg", SCHEMA, ["id"], ["part"], {"format-version": request.param})
    commit(FIRST, 1)(open_store(place))
    shutil.copytree(place, original)

    def copy() -> Store:
        place.rename(tmp_path / f"done-{next(number)}")
        shutil.copytree(original, place)
        return open_store(place)

    yield copy


def test_changes_by_key_land_once_or_not_at_all(make: Callable[[], Store]) -> None:
    assert check_crash_safety(make, commit(SECOND, 2), observe, KINDS) > 15
    reached = make()
    commit(SECOND, 2)(reached)
    rows, commits = observe(reached)
    assert [row[0] for row in rows] == [0, 1, 2, 4, 5, 9] and commits == [("job", "1"), ("job", "2")]


def test_a_rival_in_between_is_seen(make: Callable[[], Store]) -> None:
    rival = commit([{"id": 9, "part": "a", "v": "rival", "_row_kind": "+I"}], 1, "rival")
    real = make()
    commit(SECOND, 2)(FaultyStore(real, Fault(1, Kind.EXISTS, frozenset({"put_if_absent"}), rival)))
    rows, commits = observe(real)
    assert [row for row in rows if row[0] == 9] == [(9, "c", "new")]
    assert commits == [("job", "1"), ("rival", "1"), ("job", "2")]


def test_a_replay_removes_nothing_that_the_commit_has(make: Callable[[], Store]) -> None:
    """The job died just after its commit, with the deletes that it had found before; then any call of its replay
    fails."""
    real = make()
    writer = lakebed.open(real, QUICK).writer(commit_user="job")
    writer.write(pa.Table.from_pylist(SECOND))
    messages = writer.prepare_commit()
    with pytest.raises(Crash):
        dying = FaultyStore(real, Fault(1, Kind.CRASH_AFTER, frozenset({"put_if_absent"})))
        lakebed.open(dying, QUICK).writer(commit_user="job").commit(2, messages)
    expected = observe(real)
    assert expected[1] == [("job", "1"), ("job", "2")]
    replay = FaultyStore(real)
    assert lakebed.open(replay, QUICK).writer(commit_user="job").filter_and_commit({2: messages}) == 0
    assert observe(real) == expected
    for at in range(1, len(replay.calls) + 1):
        with suppress(LakebedError):
            failing = FaultyStore(real, Fault(at, Kind.ERROR_BEFORE, READS))
            lakebed.open(failing, QUICK).writer(commit_user="job").filter_and_commit({2: messages})
        assert observe(real) == expected


def batch(store: Store, identifier: int, rows: list[dict[str, Any]] = SECOND) -> None:
    """A batch of a stream, as Spark's sink commits it: nobody keeps its messages."""
    sink = lakebed.open(store, QUICK).sink_for(pa.Table.from_pylist(rows).schema, commit_user="job")
    plan = sink.plan()
    writer = plan.task_writer(1)
    for part in pa.Table.from_pylist(rows).to_batches():
        writer.write(part)
    with swept(sink):
        finalize_and_commit(sink, plan, writer.finish(), LocalEngine(1), identifier)


def of_no_snapshot(store: Store) -> list[str]:
    """The data and delete files that no snapshot names."""
    table = lakebed.open(store)
    known = {
        path.rpartition("/")[2]
        for name in ("all_data_files", "all_delete_files")
        for path in table.metadata(name).read_all()["file_path"].to_pylist()
    }
    return [info.name for info in store.walk("data") if info.name.rpartition("/")[2] not in known]


def test_a_batch_of_a_stream_that_the_store_fails_leaves_no_file(make: Callable[[], Store]) -> None:
    """It is written again by its stream, into files of its own. Also where it dies while it removes its files: the next
    run of the batch lands once, and the clean-up takes the rest."""
    counted = FaultyStore(make())
    batch(counted, 2)
    failed = 0
    first = next(n for n, call in enumerate(counted.changes, 1) if call.path.startswith("metadata/"))
    for at in range(first, len(counted.changes) + 1):
        real = make()
        store = FaultyStore(real, Fault(at, Kind.ERROR_BEFORE))
        try:
            batch(store, 2)
        except CommitUnknownError:
            raise AssertionError(f"call {at}: one failure is no reason not to know") from None
        except StorageError:
            failed += 1
            assert not of_no_snapshot(real), at
            for dies in {at + 1, len(store.changes)}:
                real = make()
                with pytest.raises(Crash):
                    batch(FaultyStore(real, Fault(at, Kind.ERROR_BEFORE), Fault(dies, Kind.CRASH_AFTER)), 2)
                batch(real, 2)
                rows, commits = observe(real)
                assert [row[0] for row in rows] == [0, 1, 2, 4, 5, 9] and commits == [("job", "1"), ("job", "2")]
    assert failed > 1


class Interrupted(FaultyStore):
    """A store where a rival comes before the first read of a manifest list."""

    def __init__(self, real: Store, rival: Callable[[Store], None]) -> None:
        super().__init__(real)
        self.rival, self.waiting = rival, True

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        if self.waiting and path.startswith("metadata/snap-"):
            self.waiting = False
            self.rival(self.real)
        return super().read(path, start, length)


def test_an_expiry_between_plan_and_search_is_no_failure(make: Callable[[], Store]) -> None:
    def rival(store: Store) -> None:
        commit([{"id": 9, "part": "a", "v": "rival", "_row_kind": "+I"}], 1, "rival")(store)
        lakebed.open(store).expire(options={"older-than": "2100-01-01", "retain-last": 1})

    store = Interrupted(make(), rival)
    commit(SECOND, 2)(store)
    rows, commits = observe(store.real)
    assert not store.waiting and [row for row in rows if row[0] == 9] == [(9, "c", "new")]
    assert commits[-1] == ("job", "2")


def of(what: str) -> Callable[[Table], object]:
    return lambda table: table.rewrite(options={"lakebed.rewrite.what": what})


@pytest.mark.parametrize(
    "act",
    [
        *(pytest.param(of(what), id=what) for what in ("position-deletes", "equality-deletes", "manifests")),
        pytest.param(lambda table: table.expire(options={"clean-expired-metadata": True}), id="expiry"),
        pytest.param(lambda table: table.compute_partition_stats(), id="partition-stats"),
    ],
)
def test_an_expiry_while_an_upkeep_looks_is_no_failure(
    act: Callable[[Table], object], make: Callable[[], Store]
) -> None:
    """It has decided nothing by then, so it looks again at what is there now."""

    def rival(store: Store) -> None:
        commit([{"id": 9, "part": "a", "v": "rival", "_row_kind": "+I"}], 1, "rival")(store)
        lakebed.open(store).expire(options={"older-than": "2100-01-01", "retain-last": 1})

    store = Interrupted(make(), rival)
    act(lakebed.open(store, QUICK))
    rows, commits = observe(store.real)
    assert not store.waiting and len(rows) == 7
    assert ("rival", "1") in commits


def test_a_claim_that_comes_after_the_version_was_removed_is_withdrawn(make: Callable[[], Store]) -> None:
    """Others commit and clean up so often while a claim is on its way that its name is free once more. A snapshot of
    theirs has the sequence number that it claims, so it is made again."""
    real, rows = make(), [{"id": 20, "part": "a", "v": "rival", "_row_kind": "+I"}]
    cleans = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
    for key, value in cleans.items():
        lakebed.open(real).alter(lakebed.set_option(key, value))

    def rival(store: Store) -> None:
        for number in range(4):
            commit(rows, number, "rival")(store)

    at = Fault(1, Kind.EXISTS, frozenset({"put_if_absent"}), rival)
    commit(SECOND, 2)(FaultyStore(real, at))
    after, commits = observe(real)
    assert (20, "a", "rival") in after and (9, "c", "new") in after
    assert commits == [("job", "1"), *(("rival", str(n)) for n in range(4)), ("job", "2")]
    hint = int(real.read("metadata/version-hint.text"))
    names = [info.path.removeprefix("metadata/v") for info in real.walk("metadata") if info.path.endswith("a.json")]
    versions = sorted(int(name.partition(".")[0]) for name in names)
    assert hint == versions[-1] and versions[0] >= hint - 1
    commit(SECOND, 2)(real)
    assert observe(real) == (after, commits)
