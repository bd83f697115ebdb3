"""A call is done once by all of its attempts: beside each other, one after the other, and after one that died."""

import os
import threading
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from lakebed.errors import CommitConflictError, CommitUnknownError, LakebedError, OptionError, StorageError
from lakebed.kernel.commit.calls import Call
from lakebed.kernel.files import PutOutcome, Store, open_store
from lakebed.testing.faults import CHANGES, FAILURES, Crash, Fault, FaultyStore, Kind


def call(store: Store, token: str = "") -> Call:
    return Call(store, ".lakebed", token or uuid.uuid4().hex, beat=0.01, patience=0.3)


def test_attempts_beside_each_other_do_the_work_once(tmp_path: Path) -> None:
    one, ran, answers = call(open_store(tmp_path)), [], []
    under_way = threading.Event()

    def work() -> list[Any]:
        ran.append(1)
        under_way.wait(10)
        return [["a", 1, {"k": "v"}, ["x"]]]

    threads = [threading.Thread(target=lambda: answers.append(one.once(work))) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert not answers
    under_way.set()
    for thread in threads:
        thread.join()
    assert ran == [1] and answers == [[["a", 1, {"k": "v"}, ["x"]]]] * 3
    assert one.once(work) == answers[0] and ran == [1]  # long after
    assert call(one.store).once(lambda: [[2]]) == [[2]]  # another call is another matter


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (CommitConflictError("too late", table="t"), CommitConflictError),
        (OptionError("unknown", key="a"), OptionError),
        (ZeroDivisionError("by 0"), LakebedError),
    ],
)
def test_each_attempt_has_the_error(tmp_path: Path, error: Exception, told: type[Exception]) -> None:
    one = call(open_store(tmp_path))

    def fails() -> list[Any]:
        raise error

    with pytest.raises(type(error)):
        one.once(fails)
    with pytest.raises(told, match=r"too late|unknown|ZeroDivisionError: by 0"):
        one.once(list)


def test_after_a_death_nothing_is_done(tmp_path: Path) -> None:
    class Death(BaseException):
        pass

    def dies() -> list[Any]:
        raise Death

    one, ran = call(open_store(tmp_path)), []
    with pytest.raises(Death):
        one.once(dies)
    with pytest.raises(CommitUnknownError, match=r"without an answer.*may have changed.*history"):
        one.once(lambda: [[ran.append(1)]])
    assert not ran


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"rows": 3}', b'{"error": ["__import__", "x"]}', b"\xff"])
def test_a_damaged_answer_is_an_error(tmp_path: Path, data: bytes) -> None:
    one = call(open_store(tmp_path))
    one.once(list)
    one.store.write(f".lakebed/calls/{one.token}.answer", data)
    with pytest.raises(LakebedError):
        one.once(lambda: [[1]])


def test_without_a_claim_nothing_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, ran = call(open_store(tmp_path)), []
    monkeypatch.setattr(type(one.store), "put_if_absent", lambda *_: PutOutcome.UNKNOWN)
    with pytest.raises(StorageError, match="nothing was done"):
        one.once(lambda: [[ran.append(1)]])
    assert not ran


def test_old_calls_go(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    old, recent = call(store), call(store)
    old.once(list)
    recent.once(list)
    for file in (tmp_path / ".lakebed/calls").glob(f"{old.token}.*"):
        os.utime(file, (10**9, 10**9))
    call(store).once(list)
    left = {path.name.partition(".")[0] for path in (tmp_path / ".lakebed/calls").iterdir()}
    assert old.token not in left and recent.token in left and len(left) == 2


@pytest.mark.parametrize("kind", FAILURES)
def test_a_failure_at_any_request_does_the_work_at_most_once(tmp_path: Path, kind: Kind) -> None:
    verbs = frozenset({"put_if_absent"}) if kind in (Kind.UNKNOWN_BEFORE, Kind.UNKNOWN_AFTER) else CHANGES
    for number in range(1, 4):
        folder = tmp_path / str(number)
        folder.mkdir()
        ran: list[int] = []
        token = uuid.uuid4().hex
        for store in (FaultyStore(open_store(folder), Fault(number, kind, verbs)), open_store(folder)):
            attempt = Call(store, ".lakebed", token, beat=30, patience=0.05)
            with suppress(LakebedError, OSError, Crash):
                assert attempt.once(lambda ran=ran: [[ran.append(1)]]) == [[None]]  # type: ignore[misc]
        assert len(ran) <= 1
