"""Writers of one machine commit in turn, the one that has waited longest first; nobody waits for ever."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakebed.kernel import clock
from lakebed.kernel.commit import turns
from lakebed.kernel.commit.turns import turn

FOLDER = turns.lock_folder
"""As it is without the tests' own (tests/conftest.py)."""


@pytest.fixture(autouse=True)
def own_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "lock_folder", FOLDER)
    turns._hanging.clear()  # what an earlier test has found to hang
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def wait_until_queued(place: str, count: int) -> None:
    while len(turns._queues[place][0].waiting) < count:
        os.sched_yield()


def queued(place: str, numbers: range, act: Any) -> list[threading.Thread]:
    """Threads that wait for their turn in the order of their numbers, while the caller has it."""
    threads = []
    for count, number in enumerate(numbers, 1):
        threads.append(threading.Thread(target=act, args=(number,)))
        threads[-1].start()
        wait_until_queued(place, count)
    return threads


def test_threads_in_the_order_in_which_they_asked() -> None:
    order: list[int] = []
    inside = threading.Lock()

    def act(number: int) -> None:
        with turn("t") as mine:
            assert mine.waited
            assert inside.acquire(blocking=False), "two at once"
            order.append(number)
            inside.release()

    with turn("t") as mine:
        assert not mine.waited
        with turn("t") as inner:  # a thread that has one does not wait for itself
            assert not inner.waited
        threads = queued("t", range(8), act)
        with turn("t") as inner, inner.given_up():
            assert order == []
    for thread in threads:
        thread.join(30)
    assert order == [*range(8)]
    assert not turns._queues and not turns._opened


def test_who_waits_before_it_tries_again_is_as_old_as_before() -> None:
    order: list[int] = []
    back = threading.Event()

    def act(number: int) -> None:
        with turn("t") as mine:
            order.append(number)
            if number == 0 and not order[1:]:
                with mine.given_up():
                    back.wait(30)
                order.append(-number)
            if number == 1:  # the first one asks again, and so does not stand behind the third one
                back.set()
                wait_until_queued("t", 3)

    with turn("t"):
        threads = queued("t", range(4), act)
    for thread in threads:
        thread.join(30)
    assert order == [0, 1, 0, 2, 3]


def test_a_turn_for_each_table() -> None:
    def other() -> None:
        with turn("another one") as mine:
            seen.append(mine.waited)

    seen: list[bool] = []
    with turn("t"):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(30)
    assert seen == [False]


HOLDS = """
from lakebed.kernel.commit.turns import turn
with turn("t") as mine:
    print(mine.waited, flush=True)
    input()
print("done", flush=True)
input()
"""
FORKS = """
import os, sys
from lakebed.kernel.commit import turns
with turns.turn("t"):
    child = os.fork()
    if not child:
        turns.PATIENCE = 0.01
        with turns.turn("t") as mine:  # its parent has the lock of the machine
            os._exit(0 if mine.waited and mine._lock is None else 1)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def process_of(script: str, folder: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "TMPDIR": str(folder)}
    command = [sys.executable, "-W", "ignore", "-c", script]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


class Holder:
    """Another process that has the turn."""

    def __init__(self, folder: Path) -> None:
        self.process = process_of(HOLDS, folder)
        assert self.says() == "False"

    def says(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go on\n")
        self.process.stdin.flush()


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[Holder]:
    held = Holder(tmp_path)
    yield held
    held.process.kill()
    held.process.communicate()


@pytest.mark.parametrize("end", ["ends", "is killed"])
def test_behind_another_process(holder: Holder, end: str) -> None:
    waited: list[bool] = []

    def act() -> None:
        with turn("t") as mine:
            waited.append(mine.waited)

    thread = threading.Thread(target=act)
    thread.start()
    while not any(other.name == "lakebed-turn" for other in threading.enumerate()):
        os.sched_yield()
    assert waited == []
    if end == "ends":
        holder.go_on()
    else:
        holder.process.kill()
    thread.join(30)
    assert waited == [True]


def test_a_process_that_hangs_holds_nobody_up(holder: Holder, monkeypatch: pytest.MonkeyPatch) -> None:
    os.kill(holder.process.pid, signal.SIGSTOP)
    monkeypatch.setattr(turns, "PATIENCE", 0.05)
    with turn("t") as mine:
        assert mine.waited and turns._hanging
    monkeypatch.setattr(turns, "PATIENCE", 600)
    with turn("t") as mine:  # it is not waited for again
        assert mine.waited
    os.kill(holder.process.pid, signal.SIGCONT)
    holder.go_on()
    assert holder.says() == "done"
    while turns._hanging:  # the waits that came too late give back what they get
        with turn("t"):
            os.sched_yield()


def test_a_thread_that_hangs_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "PATIENCE", 0.05)
    passed: list[int] = []

    def act(number: int) -> None:
        with turn("t"):
            passed.append(number)

    with turn("t"):
        threads = [threading.Thread(target=act, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert sorted(passed) == [0, 1]
    assert not turns._queues and not turns._opened


def _interrupted(*_: object, **__: object) -> bool:
    raise KeyboardInterrupt


def test_who_is_interrupted_while_it_waits_for_a_thread_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes: list[bool] = []
    free = threading.Event()

    def hold() -> None:
        with turn("t"):
            free.wait(30)

    def act() -> None:
        with turn("t") as mine:
            outcomes.append(mine.waited)

    holder = threading.Thread(target=hold)
    holder.start()
    while not turns._queues or not turns._queues["t"][0].holder:
        os.sched_yield()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Event, "wait", _interrupted)
        with pytest.raises(KeyboardInterrupt), turn("t"):
            pass
    free.set()
    holder.join(30)
    monkeypatch.setattr(turns, "PATIENCE", 600)
    act()
    assert outcomes == [False] and not turns._queues and not turns._opened


@pytest.mark.parametrize("too_late", [False, True])
def test_who_is_interrupted_while_it_waits_for_a_process_gives_the_lock_back(
    holder: Holder, monkeypatch: pytest.MonkeyPatch, too_late: bool
) -> None:
    wait = threading.Event.wait

    def interrupted(event: threading.Event, timeout: float | None = None) -> bool:
        if timeout == turns.PATIENCE:
            if too_late:  # the lock comes just before the interrupt
                holder.go_on()
                wait(event, 30)
            raise KeyboardInterrupt
        return wait(event, timeout)

    monkeypatch.setattr(turns, "PATIENCE", 601.0)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Event, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt), turn("t"):
            pass
    if not too_late:
        holder.go_on()
    assert holder.says() == "done"
    while any(thread.name == "lakebed-turn" for thread in threading.enumerate()):
        os.sched_yield()
    with turn("t") as mine:
        assert mine._lock is not None
    assert not turns._queues and not turns._opened


def test_a_child_has_no_turn(tmp_path: Path) -> None:
    child = process_of(FORKS, tmp_path)
    child.communicate(timeout=60)
    assert child.returncode == 0


def test_a_folder_of_somebody_else_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / f"lakebed-turns-{os.getuid()}"
    folder.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").mkdir()
    for mode in (None, 0o777):
        if mode is not None:
            folder.unlink()
            folder.mkdir()
            folder.chmod(mode)
        with turn("t") as mine:
            assert mine._lock is None and not mine.waited
        assert not [*folder.iterdir()]


def test_none_where_the_clock_is_steered() -> None:
    with clock.set_clock(steady=lambda: 0.0), turn("t"):
        assert not turns._queues
