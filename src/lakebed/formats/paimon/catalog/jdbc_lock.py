"""The locks of tables in the database of a JDBC catalog.

Rules: Paimon's JdbcCatalogLock and SqlLiteDistributedLockDialect: one row per lock that is held. A row that is older
than it says ended with its holder, and anybody may remove it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

from lakebed.errors import NotWrittenError, StorageError
from lakebed.formats.paimon.catalog.settings import CATALOG_KEY, LOCK_SLEEP, LOCK_TIMEOUT, Settings
from lakebed.formats.paimon.layout import TableName
from lakebed.kernel import clock

_LAYOUT = (
    "CREATE TABLE IF NOT EXISTS paimon_distributed_locks (lock_id VARCHAR(255) NOT NULL, "
    "acquired_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL, expire_time_seconds BIGINT DEFAULT 0 NOT NULL, "
    "PRIMARY KEY (lock_id))"
)
_EXPIRE = (
    "DELETE FROM paimon_distributed_locks WHERE strftime('%s', 'now') - strftime('%s', acquired_at) > "
    "expire_time_seconds AND lock_id = ?"
)
_TAKE = "INSERT OR IGNORE INTO paimon_distributed_locks (lock_id, expire_time_seconds) VALUES (?, ?)"
_WHEN = "SELECT acquired_at FROM paimon_distributed_locks WHERE lock_id = ?"
_GIVE_BACK = "DELETE FROM paimon_distributed_locks WHERE lock_id = ? AND acquired_at = ?"
_FIRST_WAIT = 0.05


class Database(Protocol):
    """The database of a catalog. Picklable."""

    settings: Settings

    def connected(self) -> AbstractContextManager[sqlite3.Connection]:
        """A connection, whose changes are kept at the end."""
        ...


@dataclass(frozen=True)
class JdbcLock:
    """The lock of one table."""

    database: Database
    name: TableName

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Hold the lock. NotWrittenError when another writer holds it all the time, or the database refuses."""
        settings = self.database.settings
        lock_id = f"{settings[CATALOG_KEY]}.{self.name.text}"
        until, wait = clock.steady() + settings.seconds(LOCK_TIMEOUT), _FIRST_WAIT
        while (taken := self._take(lock_id)) is None:
            if clock.steady() > until:
                raise NotWrittenError(
                    f"the lock of {self.name.text} is not free",
                    why="another writer holds it",
                    todo="Try again: the lock of a writer that died ends by itself",
                )
            wait = min(wait * 2, settings.seconds(LOCK_SLEEP))
            clock.pause(wait)
        try:
            yield
        finally:
            with suppress(StorageError), self.database.connected() as connection:  # else it ends by itself
                connection.execute(_GIVE_BACK, (lock_id, taken))

    def _take(self, lock_id: str) -> str | None:
        """When the lock was taken, None while another writer holds it."""
        try:
            with self.database.connected() as connection:
                connection.execute(_LAYOUT)
                connection.execute(_EXPIRE, (lock_id,))
                seconds = int(self.database.settings.seconds(LOCK_TIMEOUT))
                if not connection.execute(_TAKE, (lock_id, seconds)).rowcount:
                    return None
                return str(connection.execute(_WHEN, (lock_id,)).fetchone()[0])
        except StorageError as error:
            raise NotWrittenError(error.what, table=self.name.text, why=error.why, todo=error.todo) from error
