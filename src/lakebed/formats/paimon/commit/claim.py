"""The names that a commit claims: the snapshot file, put only if absent, and the two hints.

Rules: Paimon's RenamingSnapshotCommit and HintFileUtils. Whoever creates `snapshot-N` has committed N; the hints are
a help that nobody relies on, so they come after and may fail.
"""

from __future__ import annotations

import time
from contextlib import suppress

from lakebed.errors import NotWrittenError, StorageError
from lakebed.formats.paimon.codec.snapshot_json import Snapshot, snapshot_to_json
from lakebed.formats.paimon.layout import branch_prefix, snapshot_path
from lakebed.formats.paimon.snapshot import EARLIEST, LATEST
from lakebed.kernel.files import PutOutcome, Store

_ATTEMPTS = 5
_WAIT_SECONDS = 0.05


def claim_snapshot(store: Store, branch: str, snapshot: Snapshot) -> PutOutcome:
    """Put a snapshot file if absent.

    Created: it is committed. Exists: another writer has that id. Unknown: after several tries the store still does
    not say. NotWrittenError: the store refused, and nothing was published. The bytes are unique to the attempt, for
    they name the attempt's own manifest lists.
    """
    path, data = snapshot_path(branch, snapshot.id), snapshot_to_json(snapshot)
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(_WAIT_SECONDS * 2**attempt)
        try:
            outcome = store.put_if_absent(path, data)
        except NotWrittenError:
            if not attempt:  # a full disk, no permission: nothing of the commit is visible
                raise
            outcome = PutOutcome.UNKNOWN
        except StorageError:
            outcome = PutOutcome.UNKNOWN
        if outcome is PutOutcome.CREATED or (outcome is PutOutcome.EXISTS and not attempt):
            return outcome
        seen = _look(store, path, data)  # after an unknown try the bytes there may be ours
        if seen is not PutOutcome.UNKNOWN:
            return seen
    return PutOutcome.UNKNOWN


def write_hints(store: Store, branch: str, snapshot_id: int, first: bool) -> None:
    """Write LATEST, and EARLIEST for a table's first snapshot. A failure is no failure: readers look further than the
    hint."""
    folder = f"{branch_prefix(branch)}snapshot"
    with suppress(Exception):  # the commit stands
        store.write(f"{folder}/{LATEST}", str(snapshot_id).encode())
    if first:
        write_earliest(store, branch, snapshot_id)


def write_earliest(store: Store, branch: str, snapshot_id: int) -> None:
    """Write EARLIEST, a hint too."""
    with suppress(Exception):  # as above
        store.write(f"{branch_prefix(branch)}snapshot/{EARLIEST}", str(snapshot_id).encode())


def _look(store: Store, path: str, data: bytes) -> PutOutcome:
    try:
        return PutOutcome.CREATED if store.read(path) == data else PutOutcome.EXISTS
    except (FileNotFoundError, StorageError):
        return PutOutcome.UNKNOWN
