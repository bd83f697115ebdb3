"""Removing the files of messages that will not be committed."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from lakebed.errors import StorageError
from lakebed.formats.paimon.commit.message import PaimonMessage
from lakebed.formats.paimon.layout import index_path
from lakebed.kernel.files import Store


def remove_files(store: Store, messages: Iterable[PaimonMessage], keep: Iterable[str] = ()) -> None:
    """Remove the files that the writers of messages made, except those named in `keep`. Files that cannot be removed
    stay until orphan-file removal."""
    kept = set(keep)
    paths: list[str] = []
    for message in messages:
        for file in message.written_files():
            if file.file_name not in kept:
                paths += [f"{message.folder}/{name}" for name in file.names]
        paths += [index_path(entry.file_name) for entry in message.written_index_files() if entry.file_name not in kept]
    with suppress(StorageError):
        store.delete_many(paths)
