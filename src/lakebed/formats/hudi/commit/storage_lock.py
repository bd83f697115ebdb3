"""The lock of Hudi's `StorageBasedLockProvider` (release 1.1): one file on an object store, by conditional writes.

`.hoodie/.locks/table_lock.json` says who holds the lock and until when. It is created only if it is not there, and
replaced only if it is still the version that was read, so of two writers one gets it. The holder writes a later end
from time to time. To unlock it writes the file once more, as expired; the file stays. A lock counts as free once it is
expired, or its end passed half a second ago, which allows for clocks that differ.

Two things are stricter than in Hudi, and both go well with its writers. Where this machine's clock says that the end
has passed, the store's clock has to say so too. And the owner, any text for Hudi, is the mark of a process here, so
that on one machine the lock of a process that was killed is free at once.
"""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeGuard

from lakebed.errors import CommitConflictError, CorruptError, LakebedError
from lakebed.formats.hudi.commit.exclusive import StillHeld
from lakebed.formats.hudi.commit.options import LOCK_WAIT, STORAGE_RENEWAL, STORAGE_VALIDITY, check_storage_lock
from lakebed.formats.hudi.layout import HOODIE
from lakebed.kernel import clock
from lakebed.kernel.files import PutOutcome, Store, Version
from lakebed.kernel.files.age import certain_now
from lakebed.kernel.machine import Holder, is_gone
from lakebed.kernel.options import Options
from lakebed.redaction import redacting_logger

LOCK = f"{HOODIE}/.locks/table_lock.json"
"""The lock file. Its folder also has Hudi's audit records, which lakebed does not write."""
_DRIFT_MS = 500
_POLL = 1.0
_SPARE = 2.0
"""How many seconds before its end a holder makes no step any more that cannot be undone."""
_LOG = redacting_logger("lakebed.hudi")


@contextmanager
def storage_lock(store: Store, options: Options, lost: str) -> Iterator[StillHeld]:
    """Hold the lock in the block. `lost` says what to do when it was taken away.

    CommitConflictError when another writer holds it for longer than may be waited.
    """
    check_storage_lock(options, store.location)
    with Holder() as holder:
        lease = _Lease(store, holder.mark().decode(), options[STORAGE_VALIDITY], lost)
        lease.acquire(options[LOCK_WAIT] / 1000)
        ended = threading.Event()
        renewing = threading.Thread(
            target=lease.renew_until, args=(ended, options[STORAGE_RENEWAL]), name="lakebed-hudi-lock", daemon=True
        )
        renewing.start()
        try:
            yield lease.still_held
        finally:
            ended.set()
            renewing.join()
            lease.release()


@dataclass
class _Lease:
    """The lock as this process holds it. `ends` is by the steady clock. `guard` lets one thread at a time use it."""

    store: Store
    owner: str
    seconds: int
    lost: str
    ends: float = 0.0
    guard: threading.Lock = field(default_factory=threading.Lock)

    def acquire(self, wait: float) -> None:
        """Take the lock, or wait for it for so many seconds."""
        until = clock.steady() + wait
        while True:
            stored = self._read()
            if self._is_ours(stored):  # the store did not say so
                self.ends = clock.steady() + min(self.seconds, (stored.until - clock.now_ms()) / 1000)
                return
            if (stored is None or self._is_free(stored)) and self._put(stored, self._later()):
                return
            if clock.steady() > until:
                todo = "Try again when it is done; the lock of a dead writer ends by itself"
                raise self._conflict("another process holds the table's lock", stored, todo)
            clock.pause(_POLL * random.uniform(0.2, 1))

    def renew_until(self, ended: threading.Event, interval: float) -> None:
        """Write a later end at each interval. What fails is tried again at the next one; `still_held` finds out."""
        while not ended.wait(interval):
            try:
                with self.guard:
                    stored = self._read()
                    if self._is_ours(stored):
                        self._put(stored, self._later())
            except (LakebedError, OSError) as error:
                _LOG.warning("%s: cannot renew the lock %s: %s", self.store.location, LOCK, error)

    def still_held(self) -> None:
        """CommitConflictError when the time is up, or another writer has taken the lock."""
        with self.guard:
            stored = self._read() if clock.steady() < self.ends - _SPARE else None
            if not self._is_ours(stored):
                raise self._conflict("the table's lock ran out or was taken away", stored, self.lost)

    def release(self) -> None:
        """Write the file as expired, where it is still ours."""
        try:
            stored = self._read()
            if not (self._is_ours(stored) and self._put(stored, stored.until, expired=True)):
                _LOG.warning("%s: the lock %s was not there to be released", self.store.location, LOCK)
        except Exception as error:  # noqa: BLE001 - what was done under the lock stands, whatever becomes of it
            _LOG.warning("%s: cannot release the lock %s, it ends by itself: %s", self.store.location, LOCK, error)

    def _later(self) -> int:
        return clock.now_ms() + 1000 * self.seconds

    def _put(self, stored: _Stored | None, until: int, expired: bool = False) -> bool:
        """Write the file in place of what was read, None for no file. Whether it is certain that it was written."""
        began = clock.steady()
        data = json.dumps({"expired": expired, "validUntil": until, "owner": self.owner}).encode()
        if stored is None:
            outcome = self.store.put_if_absent(LOCK, data)
        else:
            outcome = self.store.replace(LOCK, data, stored.version)
        if outcome is PutOutcome.CREATED:
            self.ends = began + self.seconds
        return outcome is PutOutcome.CREATED

    def _read(self) -> _Stored | None:
        try:
            data, version = self.store.read_version(LOCK)
        except FileNotFoundError:
            return None
        try:
            lock = json.loads(data)
            return _Stored(bool(lock["expired"]), int(lock["validUntil"]), str(lock["owner"]), version)
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptError(
                "the lock file is not one of Hudi",
                table=self.store.location,
                file=LOCK,
                why=str(error),
                todo="Stop all writers of the table, then remove the file",
            ) from error

    def _is_ours(self, stored: _Stored | None) -> TypeGuard[_Stored]:
        return stored is not None and stored.owner == self.owner and not stored.expired

    def _is_free(self, stored: _Stored) -> bool:
        if stored.expired or is_gone(stored.owner.encode()):
            return True
        end = (stored.until + _DRIFT_MS) / 1000
        return clock.now() > end and certain_now(self.store, f"{HOODIE}/.lakebed") > end

    def _conflict(self, what: str, stored: _Stored | None, todo: str) -> CommitConflictError:
        why = f"it is held by {stored.owner[:300]}" if stored else ""
        return CommitConflictError(what, table=self.store.location, file=LOCK, why=why, todo=todo)


@dataclass(frozen=True, slots=True)
class _Stored:
    """What the lock file says. `until` is in milliseconds since 1970."""

    expired: bool
    until: int
    owner: str
    version: Version
