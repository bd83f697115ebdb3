"""Hudi's lock file, which all writers of a table share, whatever engine they use.

Hudi's `FileSystemBasedLockProvider` locks a table by creating the file `lock`, in `.hoodie` or in the folder that an
option names, only if it is not there; it unlocks by deleting the file.
"""

from __future__ import annotations

import json
import random
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager

from lakebed.errors import CommitConflictError, StorageError, UnsupportedError
from lakebed.formats.hudi.commit.exclusive import StillHeld
from lakebed.formats.hudi.layout import HOODIE
from lakebed.kernel import clock
from lakebed.kernel.files import PutOutcome, Store
from lakebed.redaction import redacting_logger

_LOCK_FILE = "lock"
_POLL = 0.25
_LOG = redacting_logger("lakebed.hudi")


@contextmanager
def lock_file(store: Store, folder: str, wait_ms: int, *, elsewhere: str, lost: str) -> Iterator[StillHeld]:
    """Hold Hudi's lock file during the block.

    `folder` is the option's value, "" for `.hoodie`. `elsewhere` says what to do where it is not in the table, `lost`
    what to do when the lock was taken away. CommitConflictError when another process holds it for longer.
    """
    path = f"{_inside(store, folder, elsewhere) or HOODIE}/{_LOCK_FILE}"
    created = clock.moment().strftime("%Y-%m-%d %H:%M:%S")
    mark = json.dumps({"lockCreateTime": created, "lockThreadName": f"lakebed {secrets.token_hex(8)}"}).encode()

    def is_ours() -> bool:
        try:
            return store.read(path) == mark
        except FileNotFoundError:
            return False

    def held() -> None:
        if not is_ours():  # Hudi's engine breaks a lock that is older than its own setting allows
            raise held_elsewhere(store, path, "the table's lock was taken away", lost)

    ends = clock.steady() + wait_ms / 1000
    while (outcome := store.put_if_absent(path, mark)) is not PutOutcome.CREATED:
        if outcome is PutOutcome.UNKNOWN and is_ours():
            break
        if clock.steady() > ends:
            todo = "Try again when it is done; if that process died, remove the file by hand"
            raise held_elsewhere(store, path, "another process holds the table's lock", todo)
        time.sleep(_POLL * random.uniform(0.5, 1.5))
    try:
        yield held
    finally:
        try:
            if is_ours():
                store.delete(path)
        except Exception as error:  # noqa: BLE001 - what was done under the lock stands, whatever becomes of it
            _LOG.warning("%s: cannot release the lock %s, remove it by hand: %s", store.location, path, error)


def _inside(store: Store, folder: str, todo: str) -> str:
    """The lock's folder as a path inside the table; UnsupportedError for one elsewhere."""
    if not folder:
        return ""
    root = store.location.rstrip("/")
    plain = folder.removeprefix("file:").rstrip("/")
    plain = "/" + plain.lstrip("/") if folder.startswith("file:") else plain
    if plain == root or plain.startswith(f"{root}/"):
        return plain[len(root) + 1 :]
    raise UnsupportedError(f"the lock's folder {folder} is not in the table", table=store.location, todo=todo)


def held_elsewhere(store: Store, path: str, what: str, todo: str) -> CommitConflictError:
    """The error for a lock that somebody else holds, with the content of its file."""
    try:
        owner = store.read(path, 0, 300).decode("utf-8", "replace")
    except (OSError, StorageError):
        owner = ""
    return CommitConflictError(what, table=store.location, file=path, why=owner, todo=todo)
