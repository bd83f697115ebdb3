"""Lists of files that are going to be deleted, kept in the table until they are gone.

An expiry or a rollback first writes down what it is going to delete, then removes the snapshots that name those files.
What it leaves when it dies is on its list, and the next one deletes it. A list also shows who is at work: an expiry
that has written its own looks once more whether the snapshot that it keeps is there, and a rollback looks for such
lists once its snapshots are gone. So one of the two sees the other, and gives way.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from lakebed.formats.paimon.layout import OWN_FOLDER, branch_prefix, snapshot_path
from lakebed.formats.paimon.snapshot import History
from lakebed.kernel.files import Store

JOURNALS = f"{OWN_FOLDER}/expire"
"""The folder of the file lists of expiries and rollbacks that died half way or are at work."""


def write_journal(store: Store, branch: str, snapshots: Sequence[str], files: Sequence[str]) -> str:
    """Write down the snapshot files and the other files that are going to be deleted. Returns the list's path.

    Whoever finishes the work deletes those snapshots by name: name none whose id another snapshot may get.
    """
    path = f"{JOURNALS}/{branch_prefix(branch).replace('/', '_')}{uuid.uuid4()}.json"
    store.write(path, json.dumps({"snapshots": snapshots, "files": files}).encode())
    return path


def interrupted(store: Store) -> tuple[str, ...]:
    """The paths of the lists that are there."""
    return tuple(info.path for info in store.list(JOURNALS).files)


def expiring(history: History) -> set[str]:
    """The paths of the branch's snapshots that an expiry is deleting, or was when it died."""
    folder = snapshot_path(history.branch, 0).rpartition("/")[0] + "/"
    return {path for journal in _journals(history.store) for path in journal["snapshots"] if path.startswith(folder)}


def condemned(store: Store) -> set[str]:
    """The paths of the other files that expiries and rollbacks are deleting, or were when they died."""
    return {path for journal in _journals(store) for path in journal["files"]}


def _journals(store: Store) -> Iterator[Mapping[str, Sequence[str]]]:
    for path in interrupted(store):
        with suppress(FileNotFoundError, ValueError):  # somebody else finished it, or it was never written whole
            yield json.loads(store.read(path))
