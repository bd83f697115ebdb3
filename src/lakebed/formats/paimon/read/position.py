"""The position of a stream: the snapshot that it reads next, as JSON for a checkpoint.

It is what Paimon's own sources keep (StreamTableScan.checkpoint, a consumer's file, the Spark source's offset), so it
outlives a restart of the stream and an upgrade.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from lakebed.errors import UsageError

_VERSION = 1


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """Before snapshot `next`; None while the table has no snapshot that could say where to start.

    With `whole` that snapshot is first read in full, then the changes of the ones after it; with `created_since`, only
    those of its files that were created at or after that time, in milliseconds since 1970. `read_time` is the time of
    the snapshot before, where the stream has read that: after a rollback another one has its number. `index` is how
    many splits of the snapshot have been read, where a batch did not take all of it (`read/pieces.py`).
    """

    next: int | None
    whole: bool = False
    created_since: int | None = None
    read_time: int | None = None
    index: int = 0

    @property
    def first_change(self) -> int:
        """The first snapshot whose changes come after this position."""
        return (self.next or 1) + self.whole

    def text(self) -> str:
        """The position as JSON."""
        more = {"created-since": self.created_since, "read-time": self.read_time, "index": self.index or None}
        given = {key: value for key, value in more.items() if value is not None}
        return json.dumps({"version": _VERSION, "next": self.next, "whole": self.whole, **given})

    @classmethod
    def parse(cls, text: str) -> StreamPosition:
        """The position that `text` returned as JSON; UsageError for any other text."""
        try:
            document = json.loads(text)
            if document["version"] != _VERSION:
                raise ValueError(f"its version is {document['version']}")
            numbers = document["next"], document.get("created-since"), document.get("read-time")
            following, since, read = (None if number is None else int(number) for number in numbers)
            index = int(document.get("index", 0))
            if index < 0 or (following is not None and following < 1):
                raise ValueError(f"it begins before snapshot {following}, at {index}")
            return cls(following, bool(document["whole"]), since, read, index)
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(
                f"{text!r} is not a position of a Paimon stream",
                why=str(error),
                todo="Start the stream with a new checkpoint",
            ) from error
