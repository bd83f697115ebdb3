"""What runs after a commit or a tag: the protocols to implement, and callbacks ready to use.

    table.writer(callbacks=[RegisterPartitions("partitions.sqlite")])
    lakebed.open(location, {"commit.callbacks": "lakebed.callbacks:RegisterPartitions",
                            "commit.callback.lakebed.callbacks:RegisterPartitions.param": "partitions.sqlite"})

A commit callback is certainly called for each snapshot, also after a crash between the commit and the call, and
possibly twice: it must be idempotent. When it fails the commit stands, its result says so, and the next commit calls
it again.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

from lakebed.kernel.commit.callbacks import CommitCallback, Committed, TagCallback

__all__ = ["CommitCallback", "Committed", "RegisterPartitions", "TagCallback"]


class RegisterPartitions:
    """Keeps the partitions of tables in a SQLite database: one row a (table, partition), made once, with the snapshot
    that brought it.

    `partition` is a JSON object of texts, keys in the table's order.
    """

    def __init__(self, database: str) -> None:
        self.database = database

    def call(self, commit: Committed) -> None:
        """Add the partitions of a commit that are not there yet."""
        rows = [(commit.table, json.dumps(dict(partition)), commit.snapshot_id) for partition in commit.partitions]
        with closing(sqlite3.connect(self.database, timeout=30)) as connection, connection:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS lakebed_partitions (location TEXT NOT NULL, partition TEXT NOT NULL, "
                "snapshot_id INTEGER NOT NULL, PRIMARY KEY (location, partition))"
            )
            connection.executemany("INSERT OR IGNORE INTO lakebed_partitions VALUES (?, ?, ?)", rows)
