"""One lakebed writer at a time; the lock of a dead one is taken over, that of a live one never."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakebed.errors import CommitConflictError
from lakebed.formats.hudi.commit import exclusive as module
from lakebed.formats.hudi.commit.exclusive import exclusive
from lakebed.kernel.files import open_store
from lakebed.kernel.machine import this_machine

LOCK = ".hoodie/.lakebed/writer.lock"
DEAD = 1 << 22
"""No process has this number."""


def mark(process: int, token: str = "theirs") -> bytes:
    return json.dumps({"machine": this_machine(), "process": process, "token": token}).encode()


def test_the_lock_of_a_dead_process_is_taken_over(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    store.write(LOCK, mark(DEAD))
    with exclusive(store):
        assert store.read(LOCK) != mark(DEAD)
    assert store.list(".hoodie/.lakebed").files == ()


def test_whoever_came_next_keeps_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The dead holder's lock goes and another writer takes the free one, while somebody still judges the old one."""
    store = open_store(str(tmp_path))
    store.write(LOCK, mark(DEAD))
    judge = module.is_gone

    def slow(content: bytes) -> bool:
        dead = judge(content)
        store.write(LOCK, mark(1, "next"))  # process 1 is alive
        return dead

    monkeypatch.setattr(module, "is_gone", slow)
    monkeypatch.setattr(module, "_WAIT", 0.2)
    with pytest.raises(CommitConflictError, match="another writer"), exclusive(store):
        pass
    assert store.read(LOCK) == mark(1, "next")


def test_a_claim_whose_owner_died_is_no_obstacle(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    store.write(LOCK, mark(DEAD))
    with exclusive(store):
        pass
    store.write(LOCK, mark(DEAD))
    store.write(f"{LOCK}.theirs.0", mark(DEAD, "claimer"))
    with exclusive(store):
        pass
    assert store.list(".hoodie/.lakebed").files == ()


def test_the_lock_of_another_machine_goes_after_a_time_without_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(str(tmp_path))
    store.write(LOCK, mark(1).replace(b'"machine": "', b'"machine": "another '))
    monkeypatch.setattr(module, "_LIFE", 0.2)
    monkeypatch.setattr(module, "_SPARE", 0.0)
    with exclusive(store):
        pass
    assert store.list(".hoodie/.lakebed").files == ()


def test_a_late_holder_neither_completes_nor_takes_the_lock_of_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(str(tmp_path))
    with exclusive(store) as held:
        held()
        monkeypatch.setattr(module, "_LIFE", 0.0)
        with pytest.raises(CommitConflictError, match="too long"):
            held()
        store.write(LOCK, mark(1, "next"))
    assert store.read(LOCK) == mark(1, "next")


def test_an_empty_lock_that_a_loss_of_power_left_is_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(str(tmp_path))
    store.write(LOCK, b"")
    monkeypatch.setattr(module, "_LIFE", 0.1)
    monkeypatch.setattr(module, "_SPARE", 0.0)
    with exclusive(store):
        assert store.read(LOCK) != b""
    assert store.list(".hoodie/.lakebed").files == ()


PLACE = ".hoodie/timeline/20260102030405678"
OUTCOME = ".hoodie/timeline/.20260102030405678.outcome"


@pytest.mark.parametrize("completed", [True, False])
def test_whoever_takes_a_lock_over_decides_whether_what_its_holder_completed_stands(
    completed: bool, tmp_path: Path
) -> None:
    store = open_store(str(tmp_path))
    if completed:
        store.write(f"{PLACE}_20260102030405999.commit", b"{}")
    store.write(LOCK, json.dumps({"completes": PLACE, **json.loads(mark(DEAD))}).encode())
    with exclusive(store):
        assert (store.read(OUTCOME) == b"withdrawn") is not completed


def test_what_was_decided_stays(tmp_path: Path) -> None:
    """A first taker found the instant pending and died. The file that landed since changes nothing."""
    store = open_store(str(tmp_path))
    store.write(OUTCOME, b"withdrawn")
    store.write(f"{PLACE}_20260102030405999.commit", b"{}")
    store.write(LOCK, json.dumps({"completes": PLACE, **json.loads(mark(DEAD))}).encode())
    with exclusive(store):
        assert store.read(OUTCOME) == b"withdrawn"


@pytest.mark.parametrize("place", ["a/b/20260102030405678", "../20260102030405678", ".hoodie/timeline/x", "", "."])
def test_a_lock_names_no_file_outside_of_the_timeline(place: str, tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    store.write(LOCK, json.dumps({"completes": place, **json.loads(mark(DEAD))}).encode())
    with exclusive(store):
        pass
    assert list(tmp_path.rglob("*.outcome")) == []
