"""What other writers do to the files of a compaction while it reads them."""

from __future__ import annotations

from lakebed.errors import CommitConflictError, DataCleanedError
from lakebed.formats.paimon.manifests import live_files
from lakebed.formats.paimon.snapshot import History


def raise_if_replaced(history: History, error: BaseException) -> None:
    """Raise CommitConflictError where an error says that a file is gone which the newest snapshot does not have.

    Another writer replaced it, and the last snapshot with it expired.
    """
    if not isinstance(error, DataCleanedError):
        return
    name, live = error.file.rpartition("/")[2], live_files(history.store, history.latest())
    if all(entry.file.file_name != name for entry in live):
        raise CommitConflictError(
            "another writer replaced files of this compaction",
            table=history.store.location,
            file=error.file,
            why="the last snapshot that had them expired before they were read",
            todo="Rewrite again: it plans on the newest snapshot",
        ) from error
