"""The position of a stream: the snapshot that it reads next, as JSON for a checkpoint.

It is what Paimon's own sources keep (StreamTableScan.checkpoint, a consumer's file, the Spark source's offset), so it
outlives a restart of the stream and an upgrade.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from lakebed.errors import NotInHistoryError, UsageError
from lakebed.formats.paimon.codec.snapshot_json import Snapshot

_VERSION = 1


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """Before snapshot `next`; None while the table has no snapshot that could say where to start.

    With `whole` that snapshot is first read in full, then the changes of the ones after it; with `created_since`, only
    those of its files that were created at or after that time, in milliseconds since 1970. `index` is how many splits
    of the snapshot have been read, where a batch did not take all of it (`read/pieces.py`). `read_list` is the base
    manifest list of the snapshot that was read last, that one or the one before: after a rollback another snapshot has
    its number, and may have its time too, but each has a list of its own.
    """

    next: int | None
    whole: bool = False
    created_since: int | None = None
    read_list: str | None = None
    index: int = 0

    @property
    def first_change(self) -> int:
        """The first snapshot whose changes come after this position."""
        return (self.next or 1) + self.whole

    @property
    def last_read(self) -> int:
        """The snapshot that was read last, wholly or in part."""
        return (self.next or 1) - (not self.index)

    def check_read(self, snapshot: Snapshot, table: str) -> None:
        """Raise NotInHistoryError unless a snapshot with the number of the one that was read last is that one."""
        if self.read_list not in (None, snapshot.base_manifest_list):
            raise went_back(f"snapshot {snapshot.id} is not the one that the stream has read", self, table)

    def text(self) -> str:
        """The position as JSON."""
        more = {"created-since": self.created_since, "read-list": self.read_list, "index": self.index or None}
        given = {key: value for key, value in more.items() if value is not None}
        return json.dumps({"version": _VERSION, "next": self.next, "whole": self.whole, **given})

    @classmethod
    def parse(cls, text: str) -> StreamPosition:
        """The position that `text` returned as JSON; UsageError for any other text."""
        try:
            document = json.loads(text)
            if document["version"] != _VERSION:
                raise ValueError(f"its version is {document['version']}")
            numbers = document["next"], document.get("created-since")
            following, since = (None if number is None else int(number) for number in numbers)
            index, read = int(document.get("index", 0)), document.get("read-list")
            if index < 0 or (following is not None and following < 1):
                raise ValueError(f"it begins before snapshot {following}, at {index}")
            if not isinstance(read, str | None):
                raise ValueError(f"the list that it has read is {read!r}")
            return cls(following, bool(document["whole"]), since, read, index)
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(
                f"{text!r} is not a position of a Paimon stream",
                why=str(error),
                todo="Start the stream with a new checkpoint",
            ) from error


def went_back(what: str, position: StreamPosition, table: str) -> NotInHistoryError:
    """The error of a stream whose table was rolled back behind its position."""
    return NotInHistoryError(
        what,
        table=table,
        instant=str(position.next),
        why="the table was rolled back, or dropped and made again",
        todo="Start the stream with a new checkpoint",
    )
