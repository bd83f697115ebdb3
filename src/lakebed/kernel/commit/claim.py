"""Claim a name: put a file only if the name is free, and find out for sure whether it holds our bytes.

Every format's commit ends here: the writer that creates the next file of the table's history has committed. The bytes
must be unique to the attempt, since a put whose answer was lost may have landed, and only the bytes show whose file it
is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TypeVar

from lakebed.errors import CommitConflictError, NotWrittenError, RetryableError, StorageError
from lakebed.kernel import clock
from lakebed.kernel.files import PutOutcome, Store

T = TypeVar("T")
TRIES = 5
"""How often the put is tried while the store does not answer."""
_WAIT_SECONDS = 0.05


def ask_again(act: Callable[[], T], tries: int = TRIES) -> T:
    """What `act` gives. Where it fails it is called again, after 0.1 seconds and twice as many before each further
    call, and the last error is raised. It must do no harm when it is done twice."""
    for attempt in range(1, tries):
        with suppress(Exception):
            return act()
        clock.pause(_WAIT_SECONDS * 2**attempt)
    return act()


def claim(store: Store, path: str, data: bytes, wait: Callable[[float], None] = clock.pause) -> PutOutcome:
    """Put `data` under the name `path` if the name is free.

    CREATED: the name holds our bytes. EXISTS: it holds the bytes of another writer. UNKNOWN: the store gave no
    answer, however often it was asked; our bytes may be there or may appear later.

    A put without a clear answer is followed by a look at the name and, if that shows nothing either, by another put
    after a wait: `wait` is called with 0.1 seconds and twice as many before each further put. Raises NotWrittenError
    when the store refuses the first put, as it does without permission or on a full disk: nothing is visible then.
    Nothing more is tried when a quarter of the store's `patience` is over, so the answer comes within about all of it.
    """
    until = clock.steady() + store.patience / 4
    for attempt in range(TRIES):
        if attempt:
            wait(_WAIT_SECONDS * 2**attempt)
        outcome = _put(store, path, data, first=attempt == 0)
        if outcome is PutOutcome.UNKNOWN and clock.steady() > until:
            return outcome
        if outcome is PutOutcome.UNKNOWN or (outcome is PutOutcome.EXISTS and attempt):
            outcome = _look(store, path, data)  # after a put without an answer the bytes there may be ours
        if outcome is not PutOutcome.UNKNOWN or clock.steady() > until:
            return outcome
    return PutOutcome.UNKNOWN


def put_new(store: Store, files: Mapping[str, bytes], what: str) -> None:
    """Put files whose names nobody else may have, several at a time. Their names are chosen by a look at what there is,
    so a writer that is late would else write over those of another one.

    CommitConflictError where a name holds other bytes: `what` says what the files are. RetryableError where the store
    gave no answer.
    """

    def put(item: tuple[str, bytes]) -> None:
        outcome = claim(store, *item)
        if outcome is PutOutcome.EXISTS and _look(store, *item) is not PutOutcome.CREATED:
            raise CommitConflictError(
                f"another writer has written {what}",
                table=store.location,
                file=item[0],
                todo="Nothing of this is visible: write again",
            )
        if outcome is PutOutcome.UNKNOWN:
            raise RetryableError("the store did not say whether a file was written", table=store.location, file=item[0])

    store.together(put, files.items())


def _put(store: Store, path: str, data: bytes, first: bool) -> PutOutcome:
    try:
        return store.put_if_absent(path, data)
    except NotWrittenError:
        if first:
            raise
    except StorageError:
        pass
    return PutOutcome.UNKNOWN


def _look(store: Store, path: str, data: bytes) -> PutOutcome:
    try:
        return PutOutcome.CREATED if store.read(path) == data else PutOutcome.EXISTS
    except (FileNotFoundError, StorageError):
        return PutOutcome.UNKNOWN
