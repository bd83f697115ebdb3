"""Callbacks that run after a commit or a tag: the protocols to implement, and two ready-made callbacks.

    table.writer(callbacks=[RegisterPartitions("partitions.sqlite")])
    lakebed.open(location, {"commit.callbacks": "lakebed.callbacks:RegisterPartitions",
                            "commit.callback.lakebed.callbacks:RegisterPartitions.param": "partitions.sqlite"})
    lakebed.open(location, {"tag.callbacks": "lakebed.callbacks:PublishIcebergTags",
                            "tag.callback.lakebed.callbacks:PublishIcebergTags.param": "prod:shop.orders"})

A commit callback is called at least once for each snapshot, even after a crash between the commit and the call. It may
be called twice, so it must be idempotent. If it fails, the commit stands, its result says so, and the next commit calls
it again. A tag callback is called at most once.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from importlib import import_module
from typing import Any

from lakebed.errors import UsageError
from lakebed.kernel.commit.callbacks import CommitCallback, Committed, TagCallback

__all__ = ["CommitCallback", "Committed", "PublishIcebergTags", "RegisterPartitions", "TagCallback"]

_TAG_PROPERTY = "lakebed.tag."


class RegisterPartitions:
    """Records the partitions of tables in a SQL database.

    There is one row per table and partition, inserted once, with the snapshot that added the partition. `database` is a
    SQLite file, or a function without arguments that returns a DB-API connection; `mark` is then the placeholder of its
    SQL (`?` or `%s`). The rows are in the table `lakebed_partitions (location, partition, snapshot_id)`, where
    `partition` is a JSON object of texts, with its keys in the order of the partition columns.
    """

    def __init__(self, database: str | Callable[[], Any], mark: str = "?") -> None:
        self.database, self.mark = database, mark

    def call(self, commit: Committed) -> None:
        """Insert the partitions of a commit that are not recorded yet."""
        added = (
            "INSERT INTO lakebed_partitions (location, partition, snapshot_id) SELECT ?, ?, ? WHERE NOT EXISTS "
            "(SELECT 1 FROM lakebed_partitions WHERE location = ? AND partition = ?)"
        ).replace("?", self.mark)
        with closing(self._connect()) as connection:
            cursor = connection.cursor()
            cursor.execute(
                "CREATE TABLE IF NOT EXISTS lakebed_partitions (location VARCHAR(500) NOT NULL, "
                "partition VARCHAR(500) NOT NULL, snapshot_id BIGINT NOT NULL, PRIMARY KEY (location, partition))"
            )
            for partition in commit.partitions:
                name = json.dumps(dict(partition))
                cursor.execute(added, (commit.table, name, commit.snapshot_id, commit.table, name))
            connection.commit()

    def _connect(self) -> Any:
        if callable(self.database):
            return self.database()
        return sqlite3.connect(self.database, timeout=30)


class PublishIcebergTags:
    """Publishes a table's tags in an Iceberg catalog, through pyiceberg.

    `target` is `CATALOG:NAMESPACE.TABLE`, with the catalog's name in pyiceberg's own configuration. The Iceberg table
    gets a property `lakebed.tag.NAME` with the snapshot id. It also gets a tag where it has a snapshot of that id, as
    it does where Paimon keeps Iceberg metadata for the table. Publishing a tag again changes nothing.
    """

    def __init__(self, target: str) -> None:
        self.catalog, colon, self.table = target.partition(":")
        if not colon or "." not in self.table:
            raise UsageError(f"{target!r} is not the name of an Iceberg table", todo="Give CATALOG:NAMESPACE.TABLE")

    def notify_creation(self, tag: str, snapshot_id: int) -> None:
        """Publish a tag."""
        table = self._load()
        reference = table.metadata.refs.get(tag)
        if table.snapshot_by_id(snapshot_id) is not None and (
            reference is None or reference.snapshot_id != snapshot_id
        ):
            table.manage_snapshots().create_tag(snapshot_id, tag).commit()
        if table.properties.get(_TAG_PROPERTY + tag) != str(snapshot_id):
            with table.transaction() as transaction:
                transaction.set_properties({_TAG_PROPERTY + tag: str(snapshot_id)})

    def notify_deletion(self, tag: str) -> None:
        """Remove a published tag."""
        table = self._load()
        if tag in table.metadata.refs:
            table.manage_snapshots().remove_tag(tag).commit()
        if _TAG_PROPERTY + tag in table.properties:
            with table.transaction() as transaction:
                transaction.remove_properties(_TAG_PROPERTY + tag)

    def _load(self) -> Any:
        catalogs = import_module("pyiceberg.catalog")  # its import takes a second, which only this class should cost
        return catalogs.load_catalog(self.catalog).load_table(self.table)
