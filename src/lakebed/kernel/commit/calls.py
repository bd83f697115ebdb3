"""A call that changes a table is done once, however often the task that makes it runs.

A cluster runs a task again after a failure, and a second copy of a slow one. So a call has a token, and each of its
attempts claims that name in the table's own folder. The first one does the work and writes down its answer, or its
error. Another attempt waits for that answer and repeats it. Where the first one has died, nobody knows how far it came:
the other one says so, and does nothing.

Whether an attempt lives is read from a file that it keeps writing. No two clocks are compared.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from lakebed.errors import CommitUnknownError, LakebedError, StorageError, first_line, named_error
from lakebed.kernel import clock
from lakebed.kernel.decoding import decoding
from lakebed.kernel.files import PutOutcome, Store
from lakebed.kernel.files.age import certain_now, older_than

_DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Call:
    """One call on a table. `folder` is where lakebed keeps files of its own there, `token` is random.

    The attempt that works writes every `beat` seconds; one that has not for `patience` seconds is dead.
    """

    store: Store
    folder: str
    token: str
    beat: float = 5.0
    patience: float = 60.0

    def once(self, work: Callable[[], list[Any]]) -> list[Any]:
        """The answer of the call: rows of plain values. `work` runs in one of all attempts.

        Raises the error that `work` raised, in every attempt. CommitUnknownError when the attempt that worked has died,
        StorageError when the call cannot be claimed.
        """
        outcome = self.store.put_if_absent(self._path("claim"), uuid.uuid4().bytes)
        if outcome is PutOutcome.EXISTS:
            return self._repeated()
        if outcome is not PutOutcome.CREATED:
            raise StorageError(
                "the store does not say whether this call was claimed, so nothing was done",
                table=self.store.location,
                todo="Call it again",
            )
        with self._beating():
            try:
                answer: dict[str, Any] = {"rows": work()}
            except Exception as error:
                kind = type(error).__name__ if isinstance(error, LakebedError) else LakebedError.__name__
                text = str(error) if isinstance(error, LakebedError) else f"{type(error).__name__}: {first_line(error)}"
                with suppress(StorageError):
                    self._write({"error": [kind, text]})
                raise
            self._write(answer)
        self._sweep()
        rows: list[Any] = answer["rows"]
        return rows

    def _path(self, kind: str) -> str:
        return f"{self.folder}/calls/{self.token}.{kind}"

    def _write(self, answer: dict[str, Any]) -> None:
        self.store.write(self._path("answer"), json.dumps(answer).encode())

    def _repeated(self) -> list[Any]:
        """The answer of the attempt that works, once there is one."""
        last, since = self._read("beat"), clock.steady()
        while (data := self._read("answer")) is None:
            clock.pause(min(1.0, self.beat))
            beat = self._read("beat")
            if beat != last:
                last, since = beat, clock.steady()
            elif clock.steady() - since > self.patience:
                raise CommitUnknownError(
                    "an earlier attempt of this call ended without an answer",
                    table=self.store.location,
                    why="its worker was lost, and it may have changed the table",
                    todo="Look at the table's history, then call it again",
                )
        with decoding("the answer of a call cannot be read", file=self._path("answer")):
            answer: dict[str, Any] = json.loads(data)
            if "error" not in answer:
                return list(answer["rows"])
            kind, text = map(str, answer["error"])
        raise named_error(kind, text)

    def _read(self, kind: str) -> bytes | None:
        try:
            return self.store.read(self._path(kind))
        except FileNotFoundError:
            return None

    @contextmanager
    def _beating(self) -> Iterator[None]:
        """A block during which the other attempts see that this one lives."""
        ended = threading.Event()

        def beats() -> None:
            count = 0
            while not ended.wait(self.beat):
                count += 1
                with suppress(StorageError):
                    self.store.write(self._path("beat"), str(count).encode())

        thread = threading.Thread(target=beats, name="lakebed-call", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _sweep(self) -> None:
        """Remove what calls of days before left. The work is done: that this fails harms nothing."""
        with suppress(LakebedError, FileNotFoundError):
            listed = [info.path for info in self.store.list(f"{self.folder}/calls").files]
            others = [path for path in listed if self.token not in path]
            if others:
                self.store.delete_many(older_than(self.store, others, certain_now(self.store, self.folder) - _DAY))
