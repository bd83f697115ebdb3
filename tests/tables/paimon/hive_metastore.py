"""The Hive metastore of the tests with the further calls that a catalog of Paimon tables makes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

from hive_metastore.ttypes import (
    AddPartitionsResult,
    AlreadyExistsException,
    GetTableResult,
    GetTablesResult,
    InvalidOperationException,
    MetaException,
    NoSuchObjectException,
)

from tests.tables.iceberg import hive_metastore


class Metastore(hive_metastore.Metastore):
    """`asked` are the names of the calls. `failing` are those that fail, with what they answer, after their work where
    `after` says so; with `fail_look` a look at a table fails from then on."""

    def __init__(self, warehouse: Path) -> None:
        super().__init__(warehouse)
        self.partitions: dict[tuple[str, str], dict[tuple[str, ...], Any]] = {}
        self.asked: list[str] = []
        self.failing: dict[str, Exception] = {}
        self.after = self.fail_look = False

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if name.startswith("_") or not callable(value):
            return value
        self.asked.append(name)
        error = self.failing.get(name)

        def call(*arguments: Any, **named: Any) -> Any:
            # Hive 3's client says to which catalog of the metastore a database belongs.
            arguments = tuple(a.removeprefix("@hive#") if isinstance(a, str) else a for a in arguments)
            if error is not None and not self.after:
                if self.fail_look:
                    self.failing["get_table"] = error
                raise error
            answer = value(*arguments, **named)
            if error is not None:
                if self.fail_look:
                    self.failing["get_table"] = error
                raise error
            return answer

        return call

    # ---- the same by the calls of Hive's Java client ----

    def set_ugi(self, user_name: str, group_names: list[str]) -> list[str]:
        return []

    def shutdown(self) -> None:
        """Nothing: a client that goes says so."""

    def get_table_req(self, req: Any) -> Any:
        return GetTableResult(table=self.get_table(req.dbName, req.tblName))

    def get_table_objects_by_name_req(self, req: Any) -> Any:
        return GetTablesResult(tables=self.get_table_objects_by_name(req.dbName, req.tblNames))

    def create_table_with_environment_context(self, tbl: Any, environment_context: Any) -> None:
        self.create_table(tbl)

    def drop_table_with_environment_context(self, dbname: str, name: str, deleteData: bool, context: Any) -> None:
        self.drop_table(dbname, name, deleteData)

    # ---- databases, tables, partitions ----

    def get_all_databases(self) -> list[str]:
        return list(self.databases)

    def drop_database(self, name: str, deleteData: bool, cascade: bool) -> None:
        if name not in self.databases:
            raise NoSuchObjectException(message=name)
        if any(database == name for database, _ in self.tables):
            raise InvalidOperationException(message=f"{name} is not empty")
        del self.databases[name]

    def get_all_tables(self, db_name: str) -> list[str]:
        return [table for database, table in self.tables if database == db_name]

    def get_table_objects_by_name(self, dbname: str, tbl_names: list[str]) -> list[Any]:
        return [deepcopy(self.tables[dbname, name]) for name in tbl_names if (dbname, name) in self.tables]

    def create_table(self, tbl: Any) -> None:
        if tbl.dbName not in self.databases:
            raise NoSuchObjectException(message=tbl.dbName)
        if (tbl.dbName, tbl.tableName) in self.tables:
            raise AlreadyExistsException(message=tbl.tableName)
        self.tables[tbl.dbName, tbl.tableName] = tbl

    def drop_table(self, dbname: str, name: str, deleteData: bool) -> None:
        if (dbname, name) not in self.tables:
            raise NoSuchObjectException(message=name)
        del self.tables[dbname, name]
        self.partitions.pop((dbname, name), None)

    def alter_table_with_environment_context(self, dbname: str, tbl_name: str, new_tbl: Any, context: Any) -> None:
        if (dbname, tbl_name) not in self.tables:
            raise MetaException(message=f"no table {tbl_name}")
        self.tables[dbname, tbl_name] = new_tbl

    def add_partitions_req(self, request: Any) -> Any:
        table = self.tables[request.dbName, request.tblName]
        there = self.partitions.setdefault((request.dbName, request.tblName), {})
        for part in request.parts:
            assert len(part.values) == len(table.partitionKeys)
            if tuple(part.values) in there and not request.ifNotExists:
                raise AlreadyExistsException(message=str(part.values))
            there.setdefault(tuple(part.values), part)
        return AddPartitionsResult()

    def drop_partition(self, db_name: str, tbl_name: str, part_vals: list[str], deleteData: bool) -> bool:
        assert not deleteData
        if self.partitions.get((db_name, tbl_name), {}).pop(tuple(part_vals), None) is None:
            raise NoSuchObjectException(message=str(part_vals))
        return True


@contextmanager
def serving(metastore: Metastore) -> Iterator[str]:
    """The address of a metastore."""
    listening = hive_metastore.serve(metastore)
    try:
        yield metastore.url
    finally:
        listening.close()
