"""What only Paimon tables have: consumers, the streams that keep their progress in the table."""

from __future__ import annotations

import os

from lakebed.errors import UsageError
from lakebed.formats import open_table
from lakebed.formats.paimon.read import consumers as _consumers
from lakebed.formats.paimon.table import PaimonTable
from lakebed.verbs.table import Table

__all__ = ["consumers", "remove_consumer", "reset_consumer"]


def consumers(table: Table | str | os.PathLike[str]) -> dict[str, int]:
    """The consumers of a table's branch by their id, each with the snapshot that it reads next.

        lakebed.paimon.consumers("/lake/shop.db/orders")            # {"dashboard": 42}

    `table` is an open table or its location. That snapshot and all later ones do not expire.
    """
    return _consumers.consumers(_paimon(table).snapshots)


def reset_consumer(table: Table | str | os.PathLike[str], consumer: str, next_snapshot: int) -> None:
    """Set the snapshot that a consumer reads next, forwards or backwards. Makes a consumer that is not there yet.

        lakebed.paimon.reset_consumer(table, "dashboard", 42)

    A stream that runs now goes on where it is, and overwrites this with its next batch: stop it first. Raises
    UsageError for a snapshot number below 1 and for an id that cannot name a file.
    """
    if isinstance(next_snapshot, bool) or not isinstance(next_snapshot, int) or next_snapshot < 1:
        raise UsageError(f"{next_snapshot!r} is not a snapshot", todo="Give a number of at least 1")
    _consumers.set_next_snapshot(_paimon(table).snapshots, consumer, next_snapshot)


def remove_consumer(table: Table | str | os.PathLike[str], consumer: str) -> None:
    """Forget a consumer, which then holds no snapshot any more. One that is not there is no error."""
    _consumers.remove(_paimon(table).snapshots, consumer)


def _paimon(table: Table | str | os.PathLike[str]) -> PaimonTable:
    opened = table if isinstance(table, Table) else open_table(os.fspath(table))
    if not isinstance(opened, PaimonTable):
        raise UsageError(f"{opened.location} is a {opened.format} table", todo="Only Paimon tables have consumers")
    return opened
