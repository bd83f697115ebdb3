"""The last commit of each writer on a branch: it identifies a replay, even after its snapshot has expired.

A commit user commits an identifier once, as in Flink's sink for Iceberg. The summaries of the branch's snapshots say
what was committed, but any engine may expire them. So each numbered commit also sets a table property, in the same
change of the metadata, which expiry does not touch: `lakebed.writer.USER` (`...USER@BRANCH` for branches but main) has
the identifier, the snapshot and its time as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import quote

from lakebed.formats.iceberg.codec.metadata import MAIN, Document, TableMetadata
from lakebed.formats.iceberg.codec.snapshots import Snapshot
from lakebed.formats.iceberg.codec.updates import TableUpdate
from lakebed.formats.iceberg.snapshot import ancestors
from lakebed.kernel.options import is_number
from lakebed.model.commit import BATCH_IDENTIFIER

USER, IDENTIFIER = "lakebed.commit-user", "lakebed.commit-identifier"
"""Keys in the summary of a snapshot."""
ORIGIN = "lakebed.commit-origin"
"""The key of where the rows come from (`lakebed.kernel.commit.replay`)."""
PREFIX = "lakebed.writer."
MOST = 200
"""How many writers a table remembers. Beyond that, the one with the oldest last commit is forgotten."""


@dataclass(frozen=True, slots=True)
class LastCommit:
    """The newest numbered commit of one writer. `time_ms` is the time of its snapshot, milliseconds since 1970."""

    identifier: int
    snapshot_id: int
    time_ms: int

    @property
    def text(self) -> str:
        """The value of the property, as JSON."""
        return json.dumps(
            {"identifier": self.identifier, "snapshot-id": self.snapshot_id, "timestamp-ms": self.time_ms}
        )


def is_committed(metadata: TableMetadata, head: Snapshot | None, branch: str, user: str, identifier: int) -> bool:
    """Whether a user has committed this identifier, or a later one, on the branch. A batch commit is never a replay.

    Snapshots that were rolled back do not count. The property decides only where the branch's history has expired.
    """
    if identifier == BATCH_IDENTIFIER or head is None:
        return False
    oldest = head
    for snapshot in ancestors(metadata, head):
        number = _number(snapshot)
        if number is not None and snapshot.summary.get(USER) == user:
            return number >= identifier
        oldest = snapshot
    last = _remembered(metadata).get(_key(branch, user))
    if oldest.parent_id is None or last is None:
        return False
    rolled_back = last.snapshot_id in metadata.snapshots
    return identifier < last.identifier if rolled_back else identifier <= last.identifier


def commit_of(metadata: TableMetadata, head: Snapshot | None, user: str, identifier: int) -> Snapshot | None:
    """The snapshot with that identifier of a user, among those that the branch still has."""
    for snapshot in ancestors(metadata, head) if head is not None else ():
        number = _number(snapshot)
        if number is not None and snapshot.summary.get(USER) == user and number <= identifier:
            return snapshot if number == identifier else None
    return None


def remembering(
    metadata: TableMetadata, branch: str, user: str, identifier: int, snapshot: Document
) -> list[TableUpdate]:
    """The updates that remember a new snapshot of a writer. A batch commit has none."""
    if identifier == BATCH_IDENTIFIER:
        return []
    last = LastCommit(identifier, int(snapshot["snapshot-id"]), int(snapshot["timestamp-ms"]))
    return _updates(metadata, {_key(branch, user): last})


def before_expiry(metadata: TableMetadata, gone: Collection[int]) -> list[TableUpdate]:
    """The updates that remember writers whose newest snapshot expires and whom no property remembers, as those of
    earlier releases."""
    remembered, new = _remembered(metadata), dict[str, LastCommit]()
    for ref in metadata.refs.values():
        head = metadata.snapshots.get(ref.snapshot_id) if ref.is_branch else None
        seen: set[str] = set()
        for snapshot in ancestors(metadata, head) if head is not None else ():
            user, number = snapshot.summary.get(USER), _number(snapshot)
            if user is None or number is None or user in seen:
                continue
            seen.add(user)
            key = _key(ref.name, user)
            if snapshot.snapshot_id in gone and (
                key not in remembered or remembered[key].time_ms < snapshot.timestamp_ms
            ):
                new[key] = LastCommit(number, snapshot.snapshot_id, snapshot.timestamp_ms)
    return _updates(metadata, new) if new else []


def _updates(metadata: TableMetadata, new: Mapping[str, LastCommit]) -> list[TableUpdate]:
    remembered = {**_remembered(metadata), **new}
    oldest_first = sorted(remembered, key=lambda key: remembered[key].time_ms)
    forgotten = [key for key in oldest_first[: max(0, len(remembered) - MOST)] if key not in new]
    updates: list[TableUpdate] = [
        {"action": "set-properties", "updates": {key: last.text for key, last in new.items()}}
    ]
    return [*updates, {"action": "remove-properties", "removals": forgotten}] if forgotten else updates


def _remembered(metadata: TableMetadata) -> dict[str, LastCommit]:
    return dict(_parsed(metadata))


def _parsed(metadata: TableMetadata) -> Iterator[tuple[str, LastCommit]]:
    for key, text in metadata.properties.items():
        if key.startswith(PREFIX):
            try:
                value = json.loads(text)
                last = LastCommit(*(int(value[name]) for name in ("identifier", "snapshot-id", "timestamp-ms")))
            except (ValueError, KeyError, TypeError):
                continue  # a property of another program
            yield key, last


def _number(snapshot: Snapshot) -> int | None:
    """The identifier of a snapshot's commit, None for a batch commit and for snapshots of other engines."""
    text = str(snapshot.summary.get(IDENTIFIER, ""))
    if not is_number(text.removeprefix("-")) or text == str(BATCH_IDENTIFIER):
        return None
    return int(text)


def _key(branch: str, user: str) -> str:
    return PREFIX + quote(user, safe="") + ("" if branch == MAIN else f"@{quote(branch, safe='')}")
