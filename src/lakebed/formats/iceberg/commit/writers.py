"""What each writer committed last on a branch: how a replay is recognised, also after its snapshot has expired.

A commit user and an identifier commit once, as Flink's sink for Iceberg has it. The summaries of the branch's snapshots
tell what was committed, but any engine may expire them. So each numbered commit also sets a property of the table, in
the same change of the metadata, which no expiry touches: `lakebed.writer.USER` (`...USER@BRANCH` off main) holds the
identifier, the snapshot and its time as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import quote

from lakebed.formats.iceberg.codec.metadata import MAIN, Document, Snapshot, TableMetadata
from lakebed.formats.iceberg.codec.updates import TableUpdate
from lakebed.formats.iceberg.snapshot import ancestors
from lakebed.model.commit import BATCH_IDENTIFIER

USER, IDENTIFIER = "lakebed.commit-user", "lakebed.commit-identifier"
"""Keys of a snapshot's summary."""
PREFIX = "lakebed.writer."
MOST = 200
"""Writers that a table remembers; of more the one that committed the longest time ago is forgotten."""


@dataclass(frozen=True, slots=True)
class LastCommit:
    """The newest numbered commit of one writer; `time_ms` is that of its snapshot."""

    identifier: int
    snapshot_id: int
    time_ms: int

    @property
    def text(self) -> str:
        """The property's value."""
        return json.dumps(
            {"identifier": self.identifier, "snapshot-id": self.snapshot_id, "timestamp-ms": self.time_ms}
        )


def is_committed(
    metadata: TableMetadata, head: Snapshot | None, branch: str, user: str, identifier: int
) -> bool:  # fmt: skip
    """Whether a user has committed this identifier, or a later one, on the branch. Batch commits are never taken as
    replays.

    Snapshots that were rolled back do not count; the property decides only where the branch's history has expired.
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


def remembering(
    metadata: TableMetadata, branch: str, user: str, identifier: int, snapshot: Document
) -> list[TableUpdate]:
    """The updates by which a new snapshot of a writer is remembered."""
    if identifier == BATCH_IDENTIFIER:
        return []
    last = LastCommit(identifier, int(snapshot["snapshot-id"]), int(snapshot["timestamp-ms"]))
    return _words(metadata, {_key(branch, user): last})


def before_expiry(metadata: TableMetadata, gone: Collection[int]) -> list[TableUpdate]:
    """The updates by which writers stay known whose newest snapshot expires and which no property remembers, as those
    of earlier releases."""
    known, new = _remembered(metadata), dict[str, LastCommit]()
    for ref in metadata.refs.values():
        head = metadata.snapshots.get(ref.snapshot_id) if ref.is_branch else None
        seen: set[str] = set()
        for snapshot in ancestors(metadata, head) if head is not None else ():
            user, number = snapshot.summary.get(USER), _number(snapshot)
            if user is None or number is None or user in seen:
                continue
            seen.add(user)
            key = _key(ref.name, user)
            if snapshot.snapshot_id in gone and (key not in known or known[key].time_ms < snapshot.timestamp_ms):
                new[key] = LastCommit(number, snapshot.snapshot_id, snapshot.timestamp_ms)
    return _words(metadata, new) if new else []


def _words(metadata: TableMetadata, new: Mapping[str, LastCommit]) -> list[TableUpdate]:
    known = {**_remembered(metadata), **new}
    oldest_first = sorted(known, key=lambda key: known[key].time_ms)
    forgotten = [key for key in oldest_first[: max(0, len(known) - MOST)] if key not in new]
    updates: list[TableUpdate] = [
        {"action": "set-properties", "updates": {key: last.text for key, last in new.items()}}
    ]  # fmt: skip
    return [*updates, {"action": "remove-properties", "removals": forgotten}] if forgotten else updates


def _remembered(metadata: TableMetadata) -> dict[str, LastCommit]:
    return dict(_parsed(metadata))


def _parsed(metadata: TableMetadata) -> Iterator[tuple[str, LastCommit]]:
    for key, text in metadata.properties.items():
        if key.startswith(PREFIX):
            try:
                found = json.loads(text)
                last = LastCommit(*(int(found[name]) for name in ("identifier", "snapshot-id", "timestamp-ms")))
            except (ValueError, KeyError, TypeError):
                continue  # somebody else's property
            yield key, last


def _number(snapshot: Snapshot) -> int | None:
    """The identifier that a snapshot was committed under, None for a batch and for other engines' snapshots."""
    text = str(snapshot.summary.get(IDENTIFIER, ""))
    if not text.lstrip("-").isdigit() or text == str(BATCH_IDENTIFIER):
        return None
    return int(text)


def _key(branch: str, user: str) -> str:
    return PREFIX + quote(user, safe="") + ("" if branch == MAIN else f"@{quote(branch, safe='')}")
