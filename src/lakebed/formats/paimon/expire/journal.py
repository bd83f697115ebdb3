"""Lists of files that are going to be deleted, kept in the table until they are gone.

An expiry or a rollback first writes down what it is going to delete, then removes the snapshots that name those files.
What it leaves when it dies is on its list, and the next one deletes it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress

from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.expire.unused import UnusedFiles
from lakebed.formats.paimon.layout import OWN_FOLDER, branch_prefix
from lakebed.formats.paimon.snapshot import History
from lakebed.kernel.files import Store
from lakebed.kernel.options import Options

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


def finish(history: History, schema: TableSchema, options: Options, journals: Iterable[str]) -> tuple[str, ...]:
    """Delete what is left of these lists, unless something needs it again. Returns the paths that were there."""
    store = history.store
    deleted: list[str] = []
    for journal in journals:
        with suppress(FileNotFoundError, ValueError):  # somebody else finished it, or it was never written whole
            listed = json.loads(store.read(journal))
            store.delete_many(listed["snapshots"])
            needed = set(UnusedFiles(history, schema, options).all_needed())
            unneeded = [path for path in listed["files"] if path not in needed]
            there = zip(unneeded, store.together(store.exists, unneeded), strict=True)
            paths = [path for path, exists in there if exists]
            store.delete_many(paths)
            deleted += paths
        store.delete(journal)
    return tuple(deleted)
