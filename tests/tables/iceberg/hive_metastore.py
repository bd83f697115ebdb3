"""A Hive metastore on this machine: the calls of its Thrift service that pyiceberg makes, and failures on demand."""

from __future__ import annotations

import itertools
import socket
import threading
from copy import deepcopy
from pathlib import Path
from typing import Any

from hive_metastore.ThriftHiveMetastore import Processor
from hive_metastore.ttypes import (
    AlreadyExistsException,
    Database,
    InvalidOperationException,
    LockResponse,
    LockState,
    MetaException,
    NoSuchObjectException,
    Table,
)
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException


class Metastore:
    """What the metastore holds: an exclusive lock a table, as Hive grants it.

    `lock_states` are what the next questions for a lock are answered with instead. `refuse_changes` and
    `fail_after_changes` make alter_table fail, before and after it is carried out; `fail_unlock` the release. With
    `compares_columns`, columns keep their places, as Hive has it by default.
    """

    def __init__(self, warehouse: Path) -> None:
        self.warehouse = warehouse
        self.databases: dict[str, Database] = {}
        self.tables: dict[tuple[str, str], Table] = {}
        self.locks: dict[int, tuple[str, str]] = {}
        self.lock_states: list[int] = []
        self.refuse_changes = self.fail_after_changes = self.fail_unlock = False
        self.compares_columns = False
        self.url = ""
        self._numbers = itertools.count(1)
        self._turn = threading.Lock()

    def create_database(self, database: Database) -> None:
        if database.name in self.databases:
            raise AlreadyExistsException(message=database.name)
        database.locationUri = database.locationUri or f"{self.warehouse}/{database.name}.db"
        self.databases[database.name] = database

    def get_database(self, name: str) -> Database:
        if name not in self.databases:
            raise NoSuchObjectException(message=name)
        return self.databases[name]

    def _refuse_moved_columns(self, new: Table) -> None:
        """What Hive answers by default where a column has a type that the one at its place cannot become."""
        old = self.tables[new.dbName, new.tableName].sd.cols
        wrong = [column.name for column, before in zip(new.sd.cols, old, strict=False) if column.type != before.type]
        if wrong:
            raise InvalidOperationException(
                message="The following columns have types incompatible with the existing columns in their respective "
                f"positions :\n{','.join(wrong)}"
            )

    def create_table(self, tbl: Table) -> None:
        if (tbl.dbName, tbl.tableName) in self.tables:
            raise AlreadyExistsException(message=tbl.tableName)
        self.tables[tbl.dbName, tbl.tableName] = tbl

    def get_table(self, dbname: str, tbl_name: str) -> Table:
        if (dbname, tbl_name) not in self.tables:
            raise NoSuchObjectException(message=f"{dbname}.{tbl_name}")
        return deepcopy(self.tables[dbname, tbl_name])

    def alter_table_with_environment_context(self, dbname: str, tbl_name: str, new_tbl: Table, context: Any) -> None:
        if self.refuse_changes:
            raise MetaException(message="no changes now")
        assert (dbname, tbl_name) in self.locks.values(), "a change without the table's lock"
        if self.compares_columns:
            self._refuse_moved_columns(new_tbl)
        self.tables[dbname, tbl_name] = new_tbl
        if self.fail_after_changes:
            raise MetaException(message="the database behind is gone")

    def lock(self, request: Any) -> LockResponse:
        number, component = next(self._numbers), request.component[0]
        return LockResponse(lockid=number, state=self._grant(number, (component.dbname, component.tablename)))

    def check_lock(self, request: Any) -> LockResponse:
        return LockResponse(lockid=request.lockid, state=self._grant(request.lockid, self._asked[request.lockid]))

    def unlock(self, request: Any) -> None:
        self.locks.pop(request.lockid, None)
        if self.fail_unlock:
            raise TTransportException(message="gone")

    def _grant(self, number: int, table: tuple[str, str]) -> int:
        with self._turn:
            self._asked = {**getattr(self, "_asked", {}), number: table}
            if self.lock_states:
                return self.lock_states.pop(0)
            if table in self.locks.values():
                return int(LockState.WAITING)
            self.locks[number] = table
            return int(LockState.ACQUIRED)


def serve(metastore: Metastore) -> socket.socket:
    """The socket that it listens on; `metastore.url` is where. Closing it ends it."""
    listening = socket.create_server(("127.0.0.1", 0))
    metastore.url = f"thrift://127.0.0.1:{listening.getsockname()[1]}"
    processor = Processor(metastore)

    def talk(connection: socket.socket) -> None:
        with connection:
            wire = TSocket()
            wire.setHandle(connection)
            protocol = TBinaryProtocol(TBufferedTransport(wire))
            try:
                while True:
                    processor.process(protocol, protocol)
            except (TTransportException, OSError):
                return

    def listen() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=talk, args=(connection,), daemon=True).start()

    threading.Thread(target=listen, daemon=True).start()
    return listening
