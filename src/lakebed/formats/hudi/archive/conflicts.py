"""What keeps two archivers of one table apart if the lock does not: only one gets a file's name, and the other one
stops.

A file of the archive is put only if its name is free (`kernel/commit/claim.py`), so two archivers never write over each
other's files. The one that loses a race raises CommitConflictError before it deletes anything.
"""

from __future__ import annotations

from lakebed.errors import CommitConflictError, CommitUnknownError
from lakebed.kernel.commit.claim import claim
from lakebed.kernel.files import PutOutcome, Store


def claim_name(store: Store, path: str, data: bytes, what: str) -> bool:
    """Put a new file of the archive if its name is free; whether it holds our bytes now.

    `what` names the file in the error: CommitUnknownError where the store does not say whether it was written.
    """
    outcome = claim(store, path, data)
    if outcome is PutOutcome.UNKNOWN:
        raise CommitUnknownError(
            f"the store does not say whether {what} was written",
            table=store.location,
            file=path,
            todo="Nothing was deleted. Archive again: instants that were written are not written twice",
        )
    return outcome is PutOutcome.CREATED


def overtaken(store: Store, path: str, why: str) -> CommitConflictError:
    """The error of an archiver that lost a race to another one; `why` says how that shows, at the file `path`."""
    return CommitConflictError(
        "another archiver is at work on this table",
        table=store.location,
        file=path,
        why=why,
        todo="Nothing was deleted. Archive again when it is done, and let both use one lock",
    )
