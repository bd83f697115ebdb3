"""The names that a commit claims: the snapshot file, put only if absent, and the two hints.

Rules: Paimon's RenamingSnapshotCommit and HintFileUtils. Whoever creates `snapshot-N` has committed N. Nobody relies on
the hints, so they are written afterwards and may fail.
"""

from __future__ import annotations

from contextlib import suppress

from lakebed.formats.paimon.codec.snapshot_json import Snapshot, snapshot_to_json
from lakebed.formats.paimon.layout import branch_prefix, snapshot_path
from lakebed.formats.paimon.snapshot_files import EARLIEST, LATEST
from lakebed.kernel.commit.claim import claim
from lakebed.kernel.files import PutOutcome, Store


def claim_snapshot(store: Store, branch: str, snapshot: Snapshot) -> PutOutcome:
    """Put a snapshot file if its name is free; what came of it, as `kernel/commit/claim.py` tells.

    Created: the snapshot is committed. Exists: another writer has that id. Unknown: after several tries the store
    still does not say. NotWrittenError: the store refused, and nothing was published. The bytes are unique to the
    attempt, since they name the attempt's own manifest lists.
    """
    return claim(store, snapshot_path(branch, snapshot.id), snapshot_to_json(snapshot))


def write_hints(store: Store, branch: str, snapshot_id: int, first: bool) -> None:
    """Write the hint LATEST, and EARLIEST for a table's first snapshot. Errors are ignored, since readers look beyond
    the hints."""
    folder, data = f"{branch_prefix(branch)}snapshot", str(snapshot_id).encode()
    with suppress(Exception):  # the commit stands
        names = (LATEST, EARLIEST) if first else (LATEST,)
        store.together(lambda name: store.write_briefly(f"{folder}/{name}", data), names)


def write_earliest(store: Store, branch: str, snapshot_id: int) -> None:
    """Write the hint EARLIEST. Errors are ignored."""
    with suppress(Exception):  # as above
        store.write_briefly(f"{branch_prefix(branch)}snapshot/{EARLIEST}", str(snapshot_id).encode())


def write_latest_changelog(store: Store, branch: str, snapshot_id: int) -> None:
    """Write the hint LATEST of the changelogs that outlive their snapshots; -1: there is none. Paimon's engines believe
    it. Errors are ignored."""
    with suppress(Exception):  # as above
        store.write(f"{branch_prefix(branch)}changelog/{LATEST}", str(snapshot_id).encode())
