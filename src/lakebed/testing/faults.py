"""A store that fails on command, and the check that a crash at any storage call leaves the old state or the new one.

    store = FaultyStore(open_store(path), Fault(3, Kind.CRASH_AFTER))   # the third change of the store is its last
    check_crash_safety(make_store, operation, observe)                  # every change, every way to fail

A `Crash` stands for kill -9. It is not an Exception, and every later call of the same store raises it again. So no
`except` and no `finally` of the code under test can clean up what a killed process would have left behind.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

import pyarrow as pa

from lakebed.errors import CommitConflictError, LakebedError, RetryableError
from lakebed.kernel.files import FileInfo, Listing, PutOutcome, Store, Version
from lakebed.kernel.files.unpublished import STAGING

S = TypeVar("S")

CHANGES = frozenset({"open_output", "close_output", "write", "put_if_absent", "replace", "delete", "delete_folder"})
"""The calls that change a store. The end of an `open_output` block counts separately, as `close_output`."""
READS = frozenset({"list", "walk", "size", "read", "open_input"})
"""The calls that do not change a store."""


class Crash(BaseException):
    """The process was killed here, as far as its store can tell."""


class Kind(StrEnum):
    """How a call fails: BEFORE its effect, AFTER it, or TORN, with a part of it where a store allows that."""

    ERROR_BEFORE = "error before"
    ERROR_AFTER = "error after"
    ERROR_TORN = "error torn"
    CRASH_BEFORE = "crash before"
    CRASH_AFTER = "crash after"
    CRASH_TORN = "crash torn"
    UNKNOWN_BEFORE = "unknown before"
    """`put_if_absent` answers UNKNOWN and stored nothing."""
    UNKNOWN_AFTER = "unknown after"
    """`put_if_absent` answers UNKNOWN and stored the bytes."""
    EXISTS = "exists"
    """`put_if_absent` finds the name taken, since the fault's `rival` was faster."""


CRASHES = (Kind.CRASH_BEFORE, Kind.CRASH_TORN, Kind.CRASH_AFTER)
"""All ways to be killed."""
FAILURES = (*CRASHES, Kind.ERROR_BEFORE, Kind.ERROR_TORN, Kind.ERROR_AFTER, Kind.UNKNOWN_BEFORE, Kind.UNKNOWN_AFTER)
"""All ways to fail that need no rival."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a store: the name of the method, or `close_output`, and the path in the store."""

    verb: str
    path: str


@dataclass(frozen=True, slots=True)
class Fault:
    """Fails one call: number `at`, counted from 1, among the calls of the given `verbs`."""

    at: int
    kind: Kind
    verbs: frozenset[str] = CHANGES
    rival: Callable[[Store], None] | None = None
    """For EXISTS: what another writer does to the real store just before, such as a commit. Without it, the store
    answers EXISTS although the name is free."""


class FaultyStore(Store):
    """Passes every call to a real store, records it, and fails where a fault says so.

    Whole data files are kept in memory until their block ends. Reads and writes through `local_path` are not seen.
    """

    def __init__(self, real: Store, *faults: Fault) -> None:
        self.real, self.faults = real, faults
        self.calls: list[Call] = []
        self.crashed = False
        self._lock = threading.Lock()

    @property
    def location(self) -> str:
        """The location of the real store."""
        return self.real.location

    @property
    def changes(self) -> list[Call]:
        """The calls so far that changed the store, in order."""
        return [call for call in self.calls if call.verb in CHANGES]

    def list(self, folder: str = "") -> Listing:
        """Counted as a read."""
        return self._reading("list", folder, lambda: self.real.list(folder))

    def walk(self, folder: str = "") -> Iterator[FileInfo]:
        """Counted as one read, when it begins."""
        return iter(self._reading("walk", folder, lambda: [*self.real.walk(folder)]))

    def size(self, path: str) -> int:
        """Counted as a read."""
        return self._reading("size", path, lambda: self.real.size(path))

    def modified(self, path: str) -> float:
        """Counted as a read."""
        return self._reading("modified", path, lambda: self.real.modified(path))

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """Counted as a read."""
        return self._reading("read", path, lambda: self.real.read(path, start, length))

    def read_many(self, paths: Sequence[str]) -> Sequence[bytes]:
        """Each file counts as a read. They are read one after the other, so that each run makes the same calls."""
        return [self.read(path) for path in paths]

    def open_input(self, path: str, size: int | None = None, mapped: bool = True) -> pa.NativeFile:
        """Counted as a read, when the file is opened."""
        return self._reading("open_input", path, lambda: self.real.open_input(path, size, mapped))

    @contextmanager
    def open_output(self, path: str) -> Iterator[pa.NativeFile]:
        """Counted as two changes: the opening, which may leave an empty file, and the end, which may leave a part of
        the bytes."""
        tears = self._tears
        self._changing("open_output", path, _nothing, lambda: self._whole(path, b"") if tears else None)
        sink = pa.BufferOutputStream()
        try:
            yield sink
        except Crash:
            if tears:
                self._whole(path, _half(sink))
            raise
        data = sink.getvalue().to_pybytes()
        self._changing(
            "close_output",
            path,
            lambda: self._whole(path, data),
            lambda: self._whole(path, _half(sink)) if tears else None,
        )

    def write(self, path: str, data: bytes) -> None:
        """Counted as a change. No store tears it; on a local disk, a torn one leaves a stray in the staging folder."""
        self._changing("write", path, lambda: self.real.write(path, data), lambda: self._stray(data))

    def write_many(self, files: Mapping[str, bytes]) -> None:
        """Each file counts as a change. They are written one after the other, so that each run makes the same calls."""
        failures: list[Exception] = []
        for path, data in files.items():
            try:
                self.write(path, data)
            except LakebedError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        """Counted as a change. No store tears it; on a local disk, a torn one leaves a stray in the staging folder."""
        return self._changing(
            "put_if_absent", path, lambda: self.real.put_if_absent(path, data), lambda: self._stray(data)
        )

    def read_version(self, path: str) -> tuple[bytes, Version]:
        """Counted as a read."""
        return self._reading("read", path, lambda: self.real.read_version(path))

    def replace(self, path: str, data: bytes, version: Version) -> PutOutcome:
        """Counted as a change. No store tears it."""
        return self._changing("replace", path, lambda: self.real.replace(path, data, version), _nothing)

    def delete(self, path: str) -> None:
        """Counted as a change. No store tears it."""
        self._changing("delete", path, lambda: self.real.delete(path), _nothing)

    def delete_folder(self, folder: str) -> None:
        """Counted as a change. A torn one removes every second file."""
        self._changing("delete_folder", folder, lambda: self.real.delete_folder(folder), lambda: self._thin_out(folder))

    def delete_many(self, paths: Iterable[str]) -> None:
        """Each file counts as a change. They are removed one after the other, so that each run makes the same calls."""
        failures: list[Exception] = []
        for path in paths:
            try:
                self.delete(path)
            except LakebedError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def local_path(self, path: str) -> str | None:
        """The path in the real store. Not counted."""
        self._alive()
        return self.real.local_path(path)

    @property
    def _tears(self) -> bool:
        """Whether a data file is visible before it is whole."""
        return self.real.local_path("") is not None

    def _alive(self) -> None:
        if self.crashed:
            raise Crash("the process is dead")

    def _fault(self, call: Call) -> Fault | None:
        """Record a call. Returns the fault that it fails with, if any."""
        with self._lock:
            self._alive()
            self.calls.append(call)
            for fault in self.faults:
                if call.verb in fault.verbs and fault.at == sum(c.verb in fault.verbs for c in self.calls):
                    self.crashed = fault.kind in CRASHES
                    return fault
        return None

    def _reading(self, verb: str, path: str, act: Callable[[], S]) -> S:
        call = Call(verb, path)
        fault = self._fault(call)
        if fault:
            _fail(fault.kind, call)
        return act()

    def _changing(self, verb: str, path: str, act: Callable[[], S], torn: Callable[[], object]) -> S:
        call = Call(verb, path)
        fault = self._fault(call)
        if fault is None:
            return act()
        if fault.kind is Kind.EXISTS and fault.rival is not None:
            fault.rival(self.real)
            return act()
        if fault.kind.endswith("after"):
            act()
        elif fault.kind.endswith("torn"):
            torn()
        if verb == "put_if_absent" and fault.kind in _ANSWERS:
            return _ANSWERS[fault.kind]  # type: ignore[return-value]  # S is PutOutcome for this verb
        _fail(fault.kind, call)
        return act()

    def _whole(self, path: str, data: bytes) -> None:
        with self.real.open_output(path) as sink:
            sink.write(data)

    def _stray(self, data: bytes) -> None:
        root = self.real.local_path("")
        if root is not None:
            staging = os.path.join(root, STAGING)
            os.makedirs(staging, exist_ok=True)
            with open(os.path.join(staging, secrets.token_hex(16)), "xb") as file:
                file.write(data[: len(data) // 2])

    def _thin_out(self, folder: str) -> None:
        for info in sorted(self.real.walk(folder), key=lambda info: info.path)[::2]:
            self.real.delete(info.path)


_ANSWERS = {
    Kind.UNKNOWN_BEFORE: PutOutcome.UNKNOWN,
    Kind.UNKNOWN_AFTER: PutOutcome.UNKNOWN,
    Kind.EXISTS: PutOutcome.EXISTS,
}


def _fail(kind: Kind, call: Call) -> None:
    if kind in CRASHES:
        raise Crash(f"killed in {call.verb} {call.path}")
    if kind in _ANSWERS:
        raise ValueError(f"{call.verb} cannot answer {kind!r}: only put_if_absent can")
    raise RetryableError(f"cannot {call.verb} {call.path}", file=call.path, why="the test wants it so")


def _nothing() -> Any:
    return None


def _half(sink: pa.BufferOutputStream) -> bytes:
    data: bytes = sink.getvalue().to_pybytes()
    return data[: len(data) // 2]


@dataclass(frozen=True, slots=True)
class CrashPoint:
    """One failed run: where and how it failed, the real store as it left it, and the error that it ended with."""

    at: int
    call: Call
    kind: Kind
    store: Store
    error: BaseException | None
    """The error that the run ended with; None if it recovered from the failure by itself."""

    def __str__(self) -> str:
        return f"{self.kind} at change {self.at}, {self.call.verb} {self.call.path}"


def crash_points(
    run: Callable[[Store], Any], make_store: Callable[[], Store], kinds: Collection[Kind] = FAILURES
) -> Iterator[CrashPoint]:
    """Run once to see which changes `run` makes, then again from a fresh store for each change and each way to fail.

    An error of a run that is neither a Crash nor a LakebedError is raised. Faults count changes. Changes that only a
    failing run makes, for example a retry, do not fail in turn.
    """
    counting = FaultyStore(make_store())
    run(counting)
    for at, call in enumerate(counting.changes, 1):
        for kind in kinds:
            if kind in _ANSWERS and call.verb != "put_if_absent":
                continue
            store = FaultyStore(make_store(), Fault(at, kind))
            error: BaseException | None = None
            try:
                run(store)
            except (Crash, LakebedError) as ended:
                error = ended
            yield CrashPoint(at, store.changes[at - 1], kind, store.real, error)


def check_crash_safety(
    make_store: Callable[[], Store],
    operation: Callable[[Store], Any],
    observe: Callable[[Store], S],
    kinds: Collection[Kind] = FAILURES,
) -> int:
    """Assert that a failure at any change leaves the old state or the new one, and that a second run then reaches the
    new one.

    `make_store` returns a fresh store in the old state each time. `operation` opens the table in a store and changes
    it. It is what a restarted job would run, so it must use the same commit user and identifier each time. `observe`
    reads everything that matters, without anything kept from before: rows, and the number of commits, so that a commit
    that was made twice shows. A run that ends without an error must have reached the new state, and one that reports a
    conflict must have left the old one.

    Returns the number of failures tried. The AssertionError names the first one that went wrong.
    """
    old = observe(make_store())
    reached = make_store()
    operation(reached)
    new = observe(reached)
    assert old != new, "the operation changes nothing that is observed, so that nothing would be proved"
    tried = 0
    for point in crash_points(operation, make_store, kinds):
        tried += 1
        state = observe(point.store)
        both = f"old: {old}\nnew: {new}\nfound: {state}"
        assert state in (old, new), f"{point}: neither the old nor the new state\n{both}"
        assert point.error is not None or state == new, f"{point}: the run ended well and left the old state"
        conflict = isinstance(point.error, CommitConflictError)
        assert not conflict or state == old, f"{point}: a conflict was reported, and the commit stands"
        operation(point.store)
        again = observe(point.store)
        assert again == new, f"{point}: done again it does not reach the new state once\nnew: {new}\nfound: {again}"
    return tried
