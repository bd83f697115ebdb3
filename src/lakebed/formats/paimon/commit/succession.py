"""Whether a snapshot that was just claimed is in the table's line: its name was free because it is the next one.

A name is free again where later snapshots have come and gone. An expiry deletes the oldest snapshots together, so a
writer that was slow may claim the id of one that has expired, and newer ones have none of its rows. A rollback and a
fast-forward delete the newest ones, so it may follow one that was taken back. Paimon's engines do not look. Here the
writer looks for the snapshot that its own follows, once it has claimed its own; those that delete snapshots look for
newer ones, once they have deleted theirs. So one of the two sees the other.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakebed.errors import DataCleanedError
from lakebed.formats.paimon.codec.manifest import ADD, DELETE, ManifestEntry
from lakebed.formats.paimon.codec.snapshot_json import Snapshot
from lakebed.formats.paimon.journal import expiring
from lakebed.formats.paimon.layout import snapshot_path
from lakebed.formats.paimon.manifests import data_manifests, delta_list, entries_of, live_files, manifest_metas
from lakebed.formats.paimon.snapshot import History


def is_out_of_line(
    history: History,
    claimed: Snapshot,
    before: Snapshot | None,
    entries: Sequence[ManifestEntry],
    written: Sequence[str],
) -> bool:
    """Whether a claimed snapshot leads nowhere. One read tells where it does not.

    `before` is the snapshot that it was made to follow, `entries` are those of its delta, and `written` are its
    metadata files.
    """
    there = before and history.find(before.id)
    if before is not None and before.is_at(there):
        return False
    ids = history.snapshot_ids()
    if any(number > claimed.id for number in ids):
        return not _is_followed(history, claimed, entries, written)
    if before is None or ids[:1] == [claimed.id]:  # what came before has expired since the claim
        return False
    return snapshot_path(history.branch, before.id) not in expiring(history)


def was_left_behind(history: History, snapshot: Snapshot) -> bool:
    """Whether a snapshot that an earlier process claimed leads nowhere: it died before it could take it back. So it can
    be the oldest one only, and the next one has nothing of it."""
    if snapshot.id == 1 or history.has_committed(snapshot):
        return False
    if history.find(snapshot.id - 1) is not None:
        return False
    try:
        metas = manifest_metas(history.store, delta_list(snapshot))
        entries = entries_of(history.store, metas)
    except DataCleanedError:  # it is expiring
        return False
    return is_out_of_line(history, snapshot, None, entries, [meta.file_name for meta in metas])


def _is_followed(history: History, claimed: Snapshot, entries: Sequence[ManifestEntry], written: Sequence[str]) -> bool:
    """Whether the next snapshot holds what a claimed one brought."""
    following = history.find(claimed.id + 1)
    if following is None:  # expired: then the claimed one would have gone before it
        return history.find(claimed.id) is None
    added, deleted = ({entry.file.file_name for entry in entries if entry.kind == kind} for kind in (ADD, DELETE))
    try:
        metas = data_manifests(history.store, following)
        if {meta.file_name for meta in metas} & {path.rpartition("/")[2] for path in written}:
            return True
        if added:  # a later commit may have deleted them, but the list of the manifests before it has them
            return any(entry.file.file_name in added for entry in entries_of(history.store, metas))
        live = (entry.file.file_name for entry in live_files(history.store, following))
        return bool(deleted) and deleted.isdisjoint(live)
    except DataCleanedError:  # it expires as well
        return True
