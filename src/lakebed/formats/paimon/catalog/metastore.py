"""The Thrift side of a Hive metastore: connections, what a refusal means, and the locks of tables.

The client is the one that pyiceberg brings. Rules of the lock: Paimon's HiveCatalogLock.
"""

from __future__ import annotations

import getpass
import socket
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from lakebed.errors import (
    LakebedError,
    NotWrittenError,
    RetryableError,
    RuntimeMissingError,
    StorageError,
    UsageError,
    first_line,
)
from lakebed.formats.paimon.catalog.settings import LOCK_SLEEP, LOCK_TIMEOUT, PREFIX, URI, Settings
from lakebed.formats.paimon.layout import TableName
from lakebed.kernel import clock

_CLIENT = (
    "hive_metastore.ThriftHiveMetastore", "thrift.protocol.TBinaryProtocol", "thrift.transport.TSocket",
    "thrift.transport.TTransport",
)  # fmt: skip
_TIMEOUT_MS = 60_000
_FIRST_WAIT = 0.05


class Metastore:
    """A Hive metastore. Each question has a connection of its own. Picklable."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._places: list[tuple[str, int]] = []
        for text in settings.needs(URI).split(","):
            url = urllib.parse.urlsplit(text.strip())
            try:
                host, port = url.hostname, url.port or 9083
            except ValueError:
                host = port = None
            if url.scheme != "thrift" or not host or not port:
                raise UsageError(
                    f"the catalog {settings.name!r} has the uri {text.strip()!r}", todo="Give thrift://HOST:PORT"
                )
            self._places.append((host, port))

    @property
    def types(self) -> Any:
        """The types of the metastore's Thrift service. RuntimeMissingError without pyiceberg's client of it."""
        return self._module("hive_metastore.ttypes")

    def ask(
        self, method: str, *arguments: Any, missing: LakebedError | None = None, taken: LakebedError | None = None
    ) -> Any:
        """Call a method of the metastore's Thrift service.

        Its NoSuchObjectException becomes `missing`, its AlreadyExistsException `taken`. StorageError for any other
        refusal, RetryableError when it does not answer.
        """
        types, unanswered = self.types, self._module("thrift.transport.TTransport").TTransportException
        transport = None
        try:
            transport, client = self._opened()
            return getattr(client, method)(*arguments)
        except (types.NoSuchObjectException, types.UnknownDBException, types.UnknownTableException) as error:
            raise (missing or self._refused(error)) from error
        except types.AlreadyExistsException as error:
            raise (taken or self._refused(error)) from error
        except (OSError, EOFError, unanswered) as error:
            raise RetryableError(
                f"the metastore of the catalog {self.settings.name!r} did not answer",
                why=first_line(error),
                todo=f"Check that it is running, and {PREFIX}{URI.key}",
            ) from error
        except self._module("thrift.Thrift").TException as error:
            raise self._refused(error) from error
        finally:
            if transport is not None:
                transport.close()

    def _refused(self, error: Exception) -> StorageError:
        return StorageError(
            f"the metastore of the catalog {self.settings.name!r} refused",
            why=getattr(error, "message", None) or first_line(error),
            todo="Look in the metastore's log",
        )

    def _opened(self) -> tuple[Any, Any]:
        """A connection to the first address that answers, and its client. (No context manager: Python's cannot carry
        the exceptions of Thrift, which nobody may change.)"""
        service, protocol, sockets, transports = map(self._module, _CLIENT)
        for number, (host, port) in enumerate(self._places, 1):
            wire = sockets.TSocket(host, port)
            wire.setTimeout(_TIMEOUT_MS)
            transport = transports.TBufferedTransport(wire)
            try:
                transport.open()
            except transports.TTransportException:
                if number == len(self._places):
                    raise
                continue
            return transport, service.Client(protocol.TBinaryProtocol(transport))
        raise AssertionError("unreachable")

    def _module(self, name: str) -> Any:
        try:
            return import_module(name)
        except ImportError as error:
            raise RuntimeMissingError(
                f"the Thrift client for the catalog {self.settings.name!r} is not installed",
                why=first_line(error),
                todo='Install it: pip install "lakebed[hive]"',
            ) from error


@dataclass(frozen=True)
class HiveLock:
    """The exclusive lock of a table in a metastore."""

    metastore: Metastore
    name: TableName

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Hold the lock. NotWrittenError when the metastore does not grant it in time."""
        number = self._taken()
        try:
            yield
        finally:
            self._give_back(number)

    def _taken(self) -> int:
        types, settings = self.metastore.types, self.metastore.settings
        component = types.LockComponent(
            type=types.LockType.EXCLUSIVE,
            level=types.LockLevel.TABLE,
            dbname=self.name.database,
            tablename=self.name.table,
        )
        request = types.LockRequest(component=[component], user=getpass.getuser(), hostname=socket.gethostname())
        number, state, reason = 0, None, ""
        until, wait, most = clock.steady() + settings.seconds(LOCK_TIMEOUT), _FIRST_WAIT, settings.seconds(LOCK_SLEEP)
        try:
            answer = self.metastore.ask("lock", request)
            number, state = answer.lockid, answer.state
            while state == types.LockState.WAITING and clock.steady() < until:
                wait = min(wait * 2, most)
                clock.pause(wait)
                state = self.metastore.ask("check_lock", types.CheckLockRequest(lockid=number)).state
        except StorageError as error:
            reason = first_line(error)
        if state == types.LockState.ACQUIRED and not reason:
            return number
        self._give_back(number)
        raise NotWrittenError(
            f"the metastore does not grant the lock of {self.name.text}",
            why=reason or "another writer holds it",
            todo="Try again. SHOW LOCKS in Hive tells who holds it",
        )

    def _give_back(self, number: int) -> None:
        """Release the lock. One that is not given back ends by the metastore's own timeout."""
        if number:
            with suppress(StorageError):
                self.metastore.ask("unlock", self.metastore.types.UnlockRequest(lockid=number))
