"""Finishes what an expiry or a rollback has written down and not deleted."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress

from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.expire.unused import UnusedFiles
from lakebed.formats.paimon.snapshot import History
from lakebed.kernel.options import Options


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
            existing = zip(unneeded, store.together(store.exists, unneeded), strict=True)
            paths = [path for path, exists in existing if exists]
            store.delete_many(paths)
            deleted += paths
        store.delete(journal)
    return tuple(deleted)
