"""Whether a snapshot that was just claimed is in the table's line: its name was free because it is the next one.

A name is free again where later snapshots have come and gone. An expiry deletes the oldest snapshots together, so a
writer that was slow may claim the id of one that has expired, and newer ones have none of its rows. A rollback and a
fast-forward delete the newest ones, so it may follow one that was taken back. Paimon's engines do not look. Here the
writer looks for the snapshot that its own follows, once it has claimed its own; those that delete snapshots look for
newer ones, once they have deleted theirs. So one of the two sees the other.

Two processes of one user may commit the same files under the same identifier. So newer snapshots may have the files of
a claimed one and yet not follow it.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from lakebed.errors import DataCleanedError
from lakebed.formats.paimon.codec.manifest import ADD, DELETE, Identity, ManifestEntry
from lakebed.formats.paimon.codec.snapshot_json import Snapshot
from lakebed.formats.paimon.journal import expiring
from lakebed.formats.paimon.layout import snapshot_path
from lakebed.formats.paimon.manifests import (
    base_list,
    data_manifests,
    delta_list,
    entries_of,
    live_files,
    manifest_metas,
    merge,
)
from lakebed.formats.paimon.snapshot import History
from lakebed.model.commit import BATCH_IDENTIFIER


class Place(Enum):
    """Where a claimed snapshot stands in the line of snapshots."""

    IN_LINE = 0
    OUT_OF_LINE = 1
    """A dead end: newer snapshots have none of its files."""
    DOUBLE = 2
    """Newer snapshots have its files, and none of its manifests: they follow a merge of these, or another commit of the
    same changes, as two processes of a user make it, or two compactions that only move a file."""


def place_of(
    history: History,
    claimed: Snapshot,
    before: Snapshot | None,
    entries: Sequence[ManifestEntry],
    written: Sequence[str],
) -> Place:
    """Where a claimed snapshot is. One read tells where it is in line.

    `before` is the snapshot that it was made to follow, `entries` are those of its delta, and `written` are its
    metadata files.
    """
    before_now = before and history.find(before.id)
    if before is not None and before.is_at(before_now):
        return Place.IN_LINE
    ids = history.snapshot_ids()
    if any(number > claimed.id for number in ids):
        return _followed(history, claimed, entries, written)
    if before is None or ids[:1] == [claimed.id]:  # what came before has expired since the claim
        return Place.IN_LINE
    is_expiring = snapshot_path(history.branch, before.id) in expiring(history)
    return Place.IN_LINE if is_expiring else Place.OUT_OF_LINE


def was_left_behind(history: History, snapshot: Snapshot) -> bool:
    """Whether a snapshot that an earlier process claimed leads nowhere: it died before it could take it back. So it can
    be the oldest one only, and the next one has nothing of it."""
    if history.has_committed(snapshot):
        return False
    if history.find(snapshot.id - 1) is not None:
        return False
    try:
        metas = manifest_metas(history.store, delta_list(snapshot))
        entries = entries_of(history.store, metas)
    except DataCleanedError:  # it is expiring
        return False
    return place_of(history, snapshot, None, entries, [meta.file_name for meta in metas]) is Place.OUT_OF_LINE


def _followed(history: History, claimed: Snapshot, entries: Sequence[ManifestEntry], written: Sequence[str]) -> Place:
    """Where a claimed snapshot stands, judged by whether the next one has its files."""
    store, following = history.store, history.find(claimed.id + 1)
    if following is None:
        return _before_expired(history, claimed)
    try:
        metas = data_manifests(store, following)
        own = {path.rpartition("/")[2] for path in written}
        own |= {meta.file_name for meta in manifest_metas(store, delta_list(claimed))}
        if own & {meta.file_name for meta in metas}:
            return Place.IN_LINE
        added, deleted = ({entry.file.file_name for entry in entries if entry.kind == kind} for kind in (ADD, DELETE))
        new_files = added - deleted
        if new_files:  # a later commit may have deleted them, but the list of the manifests before it has them
            has_files = any(entry.file.file_name in new_files for entry in entries_of(store, metas))
        else:
            has_files = _live(entries_of(store, manifest_metas(store, base_list(following)))) == _of(history, claimed)
    except DataCleanedError:
        return _before_expired(history, claimed) if history.find(following.id) is None else Place.IN_LINE
    if not has_files:
        return Place.OUT_OF_LINE
    is_unique = bool(new_files) and claimed.commit_identifier == BATCH_IDENTIFIER
    return Place.IN_LINE if is_unique else Place.DOUBLE


def _before_expired(history: History, claimed: Snapshot) -> Place:
    """Where a claimed snapshot is whose next one has expired: in line it would have gone before that one."""
    return Place.IN_LINE if history.find(claimed.id) is None else Place.OUT_OF_LINE


def _of(history: History, claimed: Snapshot) -> set[Identity]:
    """The data files of a claimed snapshot; none where some of its metadata is gone, as it is when those before it have
    expired."""
    try:
        return _live(live_files(history.store, claimed))
    except DataCleanedError:
        if history.find(claimed.id) is None:
            raise
        return set()


def _live(entries: Sequence[ManifestEntry]) -> set[Identity]:
    return {entry.identity for entry in merge(entries)}
