"""Consumers: streams that keep their progress in the table, so that snapshots they still have to read do not expire.

Rules: Paimon's ConsumerManager and Consumer. `consumer/consumer-ID` holds the next snapshot to read, as JSON. Engines
replace the whole file. Expiry honours it (`expire/plan.py`).
"""

from __future__ import annotations

import json

from lakebed.errors import CorruptError, UsageError
from lakebed.formats.paimon.layout import branch_prefix, consumer_path, named
from lakebed.formats.paimon.snapshot import History
from lakebed.kernel.decoding import decoding


def consumers(history: History) -> dict[str, int]:
    """The next snapshot of each consumer of a branch, by its id."""
    listing = history.store.list(f"{branch_prefix(history.branch)}consumer")
    names = sorted(named(listing.names, "consumer"))
    following = history.store.together(lambda name: next_snapshot(history, name), names)
    return {name: snapshot for name, snapshot in zip(names, following, strict=True) if snapshot is not None}


def next_snapshot(history: History, consumer: str) -> int | None:
    """The snapshot that a consumer reads next; None where it has no progress.

    Raises CorruptError for a file that does not name a snapshot, UsageError for an id that cannot name a file.
    """
    path = consumer_path(history.branch, _checked(consumer, history))
    try:
        data = history.store.read(path)
    except FileNotFoundError:
        return None
    with decoding("a consumer file cannot be read", table=history.store.location, file=path):
        number = json.loads(data)["nextSnapshot"]
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            raise CorruptError(f"nextSnapshot is {number!r}")
        return number


def set_next_snapshot(history: History, consumer: str, snapshot_id: int) -> None:
    """Set the snapshot that a consumer reads next. It and later ones do not expire until the consumer moves on.

    Raises UsageError for an id that cannot name a file.
    """
    data = json.dumps({"nextSnapshot": snapshot_id}, indent=2).encode()
    history.store.write(consumer_path(history.branch, _checked(consumer, history)), data)


def remove(history: History, consumer: str) -> None:
    """Forget a consumer. One that is not there is no error."""
    history.store.delete(consumer_path(history.branch, _checked(consumer, history)))


def _checked(consumer: str, history: History) -> str:
    if not consumer.strip() or any(mark in consumer for mark in "/\\\0") or not consumer.isprintable():
        raise UsageError(
            f"{consumer!r} cannot name a consumer", table=history.store.location, todo="Use letters, digits, - and _"
        )
    return consumer
