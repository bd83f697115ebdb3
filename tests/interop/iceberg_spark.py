"""Spark with Iceberg's own engine, as one that takes turns on a table: its statements for every step of a life."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lakebed.errors import UnsupportedError
from tests.interop.conftest import Peer
from tests.interop.iceberg_actors import FUTURE, SORTED, Actor, Place
from tests.interop.iceberg_ask import spark_answer, started
from tests.interop.iceberg_state import Column, Row, text

WAREHOUSE = {"path": "had", "rest": "rest", "hive": "hive", "sql": "ice"}
"""Spark's name of each catalog."""


class Spark(Actor):
    """Iceberg's own engine on one release of Spark."""

    def __init__(self, place: Place, release: str, peer: Peer) -> None:
        super().__init__(place)
        self.name, self._peer = f"spark{release}", peer
        self._catalog = WAREHOUSE[place.shape.catalog]
        self.table = f"{self._catalog}.db.{place.name}"

    def say(self, *statements: str) -> list[Any]:
        """The rows of statements, whatever they are about."""
        return self._ask(*statements)

    def _ask(self, *statements: str, **more: str) -> list[Any]:
        *_, line = self._peer.ask(json.dumps({"name": "", "sql": statements, **more}), end="ANSWER ")
        answer = json.loads(line)
        assert not answer["error"], answer["error"]
        found: list[Any] = answer["rows"]
        return found

    def _do(self, *statements: str) -> None:
        if self.place.shape.catalog == "sql":
            raise UnsupportedError("Spark would keep its lock on the catalog's database")
        self._ask(*statements)

    def _call(self, procedure: str, *arguments: str) -> None:
        self._do(
            f"CALL {self._catalog}.system.{procedure}('db.{self.place.name}'{''.join(', ' + a for a in arguments)})"
        )

    def create(self) -> None:
        place = self.place
        columns = ", ".join(f"{c.name} {c.type}{' NOT NULL' if c.name == 'id' else ''}" for c in place.columns)
        by = f"PARTITIONED BY ({', '.join(_spelled(one) for one in place.shape.spec)})" if place.shape.spec else ""
        properties = ", ".join(f"'{key}'='{value}'" for key, value in place.shape.properties.items())
        where = (
            ""
            if place.shape.catalog == "path"
            else f"LOCATION 'file://{place.folder}/{place.shape.catalog}/{place.name}'"
        )
        self._do(
            f"CREATE NAMESPACE IF NOT EXISTS {self._catalog}.db",
            f"CREATE TABLE {self.table} ({columns}) USING iceberg {by} {where} TBLPROPERTIES ({properties})",
        )

    def _rows(self, rows: Sequence[Row]) -> str:
        columns = self.place.columns
        values = [
            "(" + ", ".join(f"CAST({_literal(row.get(c.held, c.default))} AS {c.type})" for c in columns) + ")"
            for row in rows
        ]
        return f"SELECT * FROM VALUES {', '.join(values)} AS given ({', '.join(c.name for c in columns)})"

    def _on(self, branch: str) -> str:
        return self.table if branch == "main" else f"{self.table}.branch_{branch}"

    def append(self, rows: Sequence[Row], branch: str = "main") -> None:
        self._do(f"INSERT INTO {self._on(branch)} {self._rows(rows)}")

    def upsert(self, rows: Sequence[Row], branch: str = "main") -> None:
        self._do(
            f"MERGE INTO {self._on(branch)} t USING ({self._rows(rows)}) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    def delete(self, ids: Sequence[int], branch: str = "main") -> None:
        self._do(f"DELETE FROM {self._on(branch)} WHERE id IN ({', '.join(map(str, ids))})")

    def overwrite(self, rows: Sequence[Row]) -> None:
        self._do(f"INSERT OVERWRITE {self.table} {self._rows(rows)}")

    def rewrite(self, what: str) -> None:
        calls = {
            "data-files": ("rewrite_data_files", "options => map('rewrite-all', 'true')"),
            **{
                kind: (
                    "rewrite_data_files",
                    "options => map('rewrite-all', 'true')",
                    "strategy => 'sort'",
                    f"sort_order => '{options['sort-order']}'",
                )
                for kind, options in SORTED.items()
            },
            "position-deletes": ("rewrite_position_delete_files", "options => map('rewrite-all', 'true')"),
            "manifests": ("rewrite_manifests",),
        }
        if what not in calls:
            raise UnsupportedError("Spark has no rewrite of equality deletes")
        name, *arguments = calls[what]
        self._do(
            f"CALL {self._catalog}.system.{name}(table => 'db.{self.place.name}'"
            f"{''.join(', ' + one for one in arguments)})"
        )

    def table_stats(self) -> None:
        self._call("compute_table_stats")

    def partition_stats(self) -> None:
        self._call("compute_partition_stats")

    def sweep(self) -> None:
        before = datetime.datetime.now(datetime.UTC) - datetime.timedelta(2)
        self._do(
            f"CALL {self._catalog}.system.remove_orphan_files(table => 'db.{self.place.name}', "
            f"older_than => TIMESTAMP '{before:%Y-%m-%d %H:%M:%S}', prefix_mismatch_mode => 'IGNORE')"
        )

    def expire(self, keep: int, clean: bool) -> None:
        self._do(
            f"CALL {self._catalog}.system.expire_snapshots(table => 'db.{self.place.name}', "
            f"older_than => TIMESTAMP '{FUTURE}', retain_last => {keep}, "
            f"clean_expired_metadata => {str(clean).lower()})"
        )

    def alter(self, *change: Any) -> None:
        verb, *words = change
        if verb == "add" and words[0].default is not None:
            raise UnsupportedError("Spark adds no column with a default")
        texts = {
            "add": lambda column: f"ADD COLUMN {column.name} {column.type}", "drop": "DROP COLUMN {}".format,
            "rename": "RENAME COLUMN {} TO {}".format,
            "widen": lambda column, to: f"ALTER COLUMN {column.name} TYPE {to}",
            "partition": lambda transform: f"ADD PARTITION FIELD {_spelled(transform)}",
            "unpartition": lambda transform: f"DROP PARTITION FIELD {_spelled(transform)}",
            "move": lambda name, after: f"ALTER COLUMN {name} {f'AFTER {after}' if after else 'FIRST'}",
            "sort": lambda *order: f"WRITE LOCALLY ORDERED BY {', '.join(order)}" if order else "WRITE UNORDERED",
            "property": "SET TBLPROPERTIES ('{}'='{}')".format,
            "upgrade": "SET TBLPROPERTIES ('format-version'='{}')".format,
        }  # fmt: skip
        self._do(f"ALTER TABLE {self.table} {texts[verb](*words)}")

    def tag(self, name: str, snapshot: int) -> None:
        self._do(f"ALTER TABLE {self.table} CREATE TAG {name} AS OF VERSION {snapshot}")

    def untag(self, name: str) -> None:
        self._do(f"ALTER TABLE {self.table} DROP TAG {name}")

    def branch(self, name: str, snapshot: int) -> None:
        self._do(f"ALTER TABLE {self.table} CREATE BRANCH {name} AS OF VERSION {snapshot}")

    def unbranch(self, name: str) -> None:
        self._do(f"ALTER TABLE {self.table} DROP BRANCH {name}")

    def fast_forward(self, name: str) -> None:
        self._call("fast_forward", "'main'", f"'{name}'")

    def stage(self, wap: str, rows: Sequence[Row]) -> None:
        self._do(f"SET spark.wap.id={wap}", f"INSERT INTO {self.table} {self._rows(rows)}", "RESET spark.wap.id")

    def publish(self, wap: str) -> None:
        self._call("publish_changes", f"'{wap}'")

    def rollback(self, snapshot: int) -> None:
        self._call("rollback_to_snapshot", str(snapshot))

    def add_files(self, folder: Path) -> None:
        if any(spec["fields"] for spec in self.place.head()[0]["partition-specs"]):
            raise UnsupportedError("Spark takes partition values from paths alone")
        self._do(
            f"CALL {self._catalog}.system.add_files(table => 'db.{self.place.name}', "
            f"source_table => '`parquet`.`{folder}`')"
        )

    def read(self, columns: Sequence[Column], snapshot: int | None = None, branch: str = "main") -> list[Any]:
        names = ", ".join(column.name for column in columns)
        if self.place.shape.catalog == "sql":
            if snapshot is not None or branch != "main":
                raise UnsupportedError("a metadata file has no name for Spark")
            (found,) = self._ask(f"SELECT {names} FROM given", metadata=self.place.now[1])
        else:
            version = f" VERSION AS OF {snapshot}" if snapshot is not None else ""
            (found,) = self._ask(f"SELECT {names} FROM {self._on(branch)}{version}")
        return sorted(([text(value) for value in row] for row in found), key=repr)


def _spelled(transform: str) -> str:
    """A transform as Spark spells it."""
    return transform.replace("month(", "months(").replace("day(", "days(").replace("year(", "years(")


def _literal(value: Any) -> str:
    return "NULL" if value is None else str(value) if isinstance(value, int | float) else f"'{value}'"


def spark_peer(release: str, folder: Path, tables: Path, addresses: dict[str, str]) -> Peer:
    """A process of one release of Spark that keeps what it says in `folder`."""
    peer = started(release, folder)
    places = [f"{kind}={addresses[kind]}" for kind in ("rest", "hive") if kind in addresses]
    spark_answer(peer, {"places": [str(tables), *places]})
    return peer
