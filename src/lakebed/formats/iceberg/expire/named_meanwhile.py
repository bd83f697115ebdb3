"""Branches and tags that others made of a snapshot at the very moment when an expiry removed it.

A REST catalog is sent which snapshots go, and has no requirement that says that no new name leads to them: it removes
such a name with its snapshot. So the expiry looks at the metadata that the catalog put its changes on. What was named
there comes back before a file is removed: the snapshot under its id, with its manifest list, and the branch or tag. A
snapshot that is added has the next sequence number and the time of now, as the REST specification asks; its manifests
keep their own, so its rows are the same.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from lakebed.errors import LakebedError
from lakebed.formats.iceberg.catalog.operations import Loaded, TableOperations
from lakebed.formats.iceberg.codec.metadata import TableMetadata, metadata_from_json
from lakebed.formats.iceberg.codec.snapshots import Ref
from lakebed.formats.iceberg.codec.updates import MetadataChange, TableRequirement, TableUpdate, ref_is, ref_update
from lakebed.formats.iceberg.commit.loop import change_metadata
from lakebed.kernel import clock


@dataclass(frozen=True, slots=True)
class Stays:
    """What an expiry left: the metadata after it, None where nobody can tell, and the ids of its snapshots whose files
    stay although the metadata does not have them. `notes` say what happened to branches and tags."""

    metadata: TableMetadata | None
    spared: frozenset[int] = frozenset()
    notes: tuple[str, ...] = ()


def named_again(operations: TableOperations, done: Loaded, expired: Collection[int], refs: Collection[str]) -> Stays:
    """Bring back the branches and tags that were made of expired snapshots since the expiry looked. `done` is what its
    commit returned; `refs` are the names that it removed itself."""
    if done.replaced == "":
        return Stays(done.metadata)
    if done.replaced is None:
        return Stays(None, notes=("files that only the expired snapshots had stay until orphan files are removed: the "
                                  "catalog's answer cannot be read",))  # fmt: skip
    try:
        replaced = metadata_from_json(operations.files.read(done.replaced), done.replaced)
    except (LakebedError, FileNotFoundError) as error:
        return Stays(None, notes=("files that only the expired snapshots had stay until orphan files are removed: "
                                  f"others may have named one of them meanwhile ({error})",))  # fmt: skip
    lost = [ref for ref in replaced.refs.values() if ref.snapshot_id in expired and ref.name not in refs]
    if not lost:
        return Stays(done.metadata)
    names = ", ".join(ref.name for ref in lost)
    try:
        after = change_metadata(operations, lambda now: _with(now, replaced, lost)).metadata
    except LakebedError as error:
        spared = frozenset(ref.snapshot_id for ref in lost)
        note = f"{names}: made while the snapshot expired, and gone with it ({error}); its files stay"
        return Stays(done.metadata, spared, (note,))
    return Stays(after, notes=(f"{names}: made while the snapshot expired, so both were put back",))


def _with(now: TableMetadata, replaced: TableMetadata, lost: Sequence[Ref]) -> MetadataChange:
    """The change that brings branches and tags back, and their snapshots. A name that somebody gave anew stays."""
    requirements: list[TableRequirement] = []
    updates: list[TableUpdate] = []
    snapshots = set(now.snapshots)
    for ref in lost:
        if ref.name in now.refs:
            continue
        if ref.snapshot_id not in snapshots:
            updates.append({"action": "add-snapshot", "snapshot": _anew(now, replaced, ref.snapshot_id, len(updates))})
            snapshots.add(ref.snapshot_id)
        requirements.append(ref_is(ref.name, None))
        updates.append(ref_update(ref))
    return requirements, updates


def _anew(now: TableMetadata, replaced: TableMetadata, snapshot_id: int, earlier: int) -> TableUpdate:
    """A snapshot of older metadata as it can be added again; `earlier` is how many updates the change has already."""
    (document,) = (one for one in replaced.document["snapshots"] if one["snapshot-id"] == snapshot_id)
    time = max(clock.now_ms(), int(now.document.get("last-updated-ms", 0)))
    anew = {**document, "timestamp-ms": time}
    if now.format_version > 1:
        anew["sequence-number"] = now.last_sequence_number + 1 + earlier
    if now.next_row_id is not None:
        anew |= {"first-row-id": now.next_row_id, "added-rows": 0}
    return anew
