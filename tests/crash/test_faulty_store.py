"""The faulty store fails as it was told to, and the check of crash safety finds what is not safe."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from lakebed.errors import CommitConflictError, RetryableError
from lakebed.kernel.files import PutOutcome, Store, open_store
from lakebed.kernel.files.unpublished import STAGING
from lakebed.testing.faults import (
    CRASHES,
    FAILURES,
    READS,
    Call,
    Crash,
    Fault,
    FaultyStore,
    Kind,
    check_crash_safety,
    crash_points,
)  # fmt: skip


def names(store: Store) -> dict[str, bytes]:
    return {info.path: store.read(info.path) for info in store.walk()}


def four_changes(store: Store) -> None:
    with store.open_output("data/1") as sink:
        sink.write(b"rows")
    store.put_if_absent("snapshot/1", b"one")
    store.write("snapshot/LATEST", b"1")
    store.delete("data/0")


CALLS = [
    Call("open_output", "data/1"), Call("close_output", "data/1"), Call("put_if_absent", "snapshot/1"),
    Call("write", "snapshot/LATEST"), Call("delete", "data/0"),
]  # fmt: skip
AFTER = [
    {"data/0": b"old"},
    {"data/0": b"old", "data/1": b""},
    {"data/0": b"old", "data/1": b"rows"},
    {"data/0": b"old", "data/1": b"rows", "snapshot/1": b"one"},
    {"data/0": b"old", "data/1": b"rows", "snapshot/1": b"one", "snapshot/LATEST": b"1"},
    {"data/1": b"rows", "snapshot/1": b"one", "snapshot/LATEST": b"1"},
]


@pytest.fixture
def make_store(tmp_path: Path) -> Callable[[], Store]:
    made = []

    def make() -> Store:
        made.append(open_store(tmp_path / str(len(made))))
        made[-1].write("data/0", b"old")
        return made[-1]

    return make


def test_without_faults_it_only_counts(make_store: Callable[[], Store]) -> None:
    store = FaultyStore(make_store())
    four_changes(store)
    assert store.changes == store.calls == CALLS and names(store.real) == AFTER[-1]
    names(store)
    assert store.changes == CALLS and {call.verb for call in store.calls[5:]} == {"walk", "read"}


@pytest.mark.parametrize("at", range(1, 6))
@pytest.mark.parametrize("kind", [Kind.CRASH_BEFORE, Kind.CRASH_AFTER, Kind.ERROR_BEFORE, Kind.ERROR_AFTER])
def test_before_and_after(make_store: Callable[[], Store], at: int, kind: Kind) -> None:
    store = FaultyStore(make_store(), Fault(at, kind))
    with pytest.raises(Crash if kind in CRASHES else RetryableError):
        four_changes(store)
    expected = dict(AFTER[at if kind.endswith("after") else at - 1])
    if at <= 2 and kind is not Kind.CRASH_BEFORE and expected.get("data/1") == b"":
        del expected["data/1"]  # an opening or an end that fails with an error leaves no empty file behind ...
    found = names(store.real)
    if at <= 2:
        found = {name: data for name, data in found.items() if data}  # ... and whether a killed one does is not told
        expected = {name: data for name, data in expected.items() if data}
    assert found == expected
    assert store.changes == CALLS[:at]


def test_torn(make_store: Callable[[], Store]) -> None:
    store = FaultyStore(make_store(), Fault(2, Kind.CRASH_TORN))
    with pytest.raises(Crash):
        four_changes(store)
    assert names(store.real)["data/1"] == b"ro"
    for at in (3, 4):
        store = FaultyStore(make_store(), Fault(at, Kind.CRASH_TORN))
        with pytest.raises(Crash):
            four_changes(store)
        assert names(store.real) == AFTER[at - 1], "no store tears what it publishes"
        assert len(os.listdir(Path(store.location, STAGING))) == 1, "it leaves a stray where no one looks"
    store = FaultyStore(make_store(), Fault(1, Kind.ERROR_TORN, frozenset({"delete_folder"})))
    store.real.write("data/1", b"x")
    with pytest.raises(RetryableError):
        store.delete_folder("data")
    assert list(names(store.real)) == ["data/1"]


def test_a_crashed_store_stays_dead(make_store: Callable[[], Store]) -> None:
    store = FaultyStore(make_store(), Fault(3, Kind.CRASH_AFTER))
    with pytest.raises(Crash):
        try:
            four_changes(store)
        except Exception:
            pytest.fail("a kill is not caught")
        finally:
            with pytest.raises(Crash):
                store.delete("data/1")
    for call in (store.list, store.walk, lambda: store.read("data/1"), lambda: store.local_path("")):
        with pytest.raises(Crash):
            call()
    with pytest.raises(Crash), store.open_output("x"):
        pass
    raised: list[BaseException] = []

    def other_thread() -> None:
        try:
            store.write("x", b"")
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=other_thread)
    thread.start()
    thread.join()
    assert isinstance(raised[0], Crash) and names(store.real) == AFTER[3]


def test_a_kill_inside_an_open_file_leaves_a_part_of_it(make_store: Callable[[], Store]) -> None:
    store = FaultyStore(make_store(), Fault(2, Kind.CRASH_BEFORE))
    with pytest.raises(Crash), store.open_output("data/1") as sink:
        sink.write(b"rows")
        store.delete("data/0")
    assert names(store.real) == {"data/0": b"old", "data/1": b"ro"}


@pytest.mark.parametrize(
    ("kind", "there"), [(Kind.UNKNOWN_BEFORE, []), (Kind.UNKNOWN_AFTER, ["snapshot/1"]), (Kind.EXISTS, [])]
)
def test_answers_of_put_if_absent(make_store: Callable[[], Store], kind: Kind, there: list[str]) -> None:
    store = FaultyStore(make_store(), Fault(1, kind, frozenset({"put_if_absent"})))
    outcome = store.put_if_absent("snapshot/1", b"ours")
    assert outcome is (PutOutcome.EXISTS if kind is Kind.EXISTS else PutOutcome.UNKNOWN)
    assert [name for name in names(store.real) if name.startswith("snapshot")] == there
    assert store.put_if_absent("snapshot/1", b"ours") is (PutOutcome.EXISTS if there else PutOutcome.CREATED)


def test_a_rival_is_faster(make_store: Callable[[], Store]) -> None:
    rival = lambda real: real.write("snapshot/1", b"theirs")  # noqa: E731
    store = FaultyStore(make_store(), Fault(1, Kind.EXISTS, frozenset({"put_if_absent"}), rival))
    assert store.put_if_absent("snapshot/1", b"ours") is PutOutcome.EXISTS
    assert store.read("snapshot/1") == b"theirs"


def test_reads_fail_too(make_store: Callable[[], Store]) -> None:
    store = FaultyStore(make_store(), Fault(2, Kind.ERROR_BEFORE, READS))
    store.list()
    with pytest.raises(RetryableError, match="cannot read data/0"):
        store.read("data/0")
    assert store.read("data/0") == b"old"


def test_only_put_if_absent_answers_unknown(make_store: Callable[[], Store]) -> None:
    with pytest.raises(ValueError, match="only put_if_absent can"):
        FaultyStore(make_store(), Fault(1, Kind.UNKNOWN_BEFORE)).write("x", b"")


def test_every_change_is_failed_in_every_way(make_store: Callable[[], Store]) -> None:
    points = list(crash_points(four_changes, make_store))
    assert len(points) == 5 * 6 + 2
    assert {(point.at, point.call) for point in points} == set(enumerate(CALLS, 1))
    assert {point.kind for point in points} == set(FAILURES)
    assert str(points[0]) == "crash before at change 1, open_output data/1"


# ---- what check_crash_safety finds ---------------------------------------------------------------------------------


def value(store: Store) -> tuple[str, int]:
    """The table is the newest of `snapshot/N`; each names a data file."""
    ids = sorted(int(info.name) for info in store.list("snapshot").files if info.name.isdigit())
    return (store.read(store.read(f"snapshot/{ids[-1]}").decode()).decode() if ids else "", len(ids))


def committed(store: Store) -> bool:
    return bool(store.list("snapshot").files)


def data_then_snapshot(store: Store) -> None:
    if committed(store):
        return
    with store.open_output("data/1") as sink:
        sink.write(b"rows")
    for _ in range(3):
        if store.put_if_absent("snapshot/1", b"data/1") is not PutOutcome.UNKNOWN:
            return
    raise CommitConflictError("unreachable here")


def snapshot_then_data(store: Store) -> None:
    store.put_if_absent("snapshot/1", b"data/1")
    with store.open_output("data/1") as sink:
        sink.write(b"rows")


def commits_again(store: Store) -> None:
    with store.open_output("data/1") as sink:
        sink.write(b"rows")
    while store.put_if_absent(f"snapshot/{value(store)[1] + 1}", b"data/1") is PutOutcome.UNKNOWN:
        pass


def believes_unknown(store: Store) -> None:
    if committed(store):
        return
    with store.open_output("data/1") as sink:
        sink.write(b"rows")
    store.put_if_absent("snapshot/1", b"data/1")


def test_a_safe_operation_passes(make_store: Callable[[], Store]) -> None:
    assert check_crash_safety(make_store, data_then_snapshot, value) == 3 * 6 + 2


@pytest.mark.parametrize(
    ("operation", "says"),
    [
        (snapshot_then_data, "(?i)no such file|neither the old nor the new"),
        (commits_again, "does not reach the new state once"),
        (believes_unknown, "ended well and left the old state"),
        (lambda store: None, "changes nothing"),
    ],
)
def test_an_unsafe_one_is_found(make_store: Callable[[], Store], operation: Callable[[Store], None], says: str) -> None:
    with pytest.raises((AssertionError, FileNotFoundError), match=says):
        check_crash_safety(make_store, operation, value)
