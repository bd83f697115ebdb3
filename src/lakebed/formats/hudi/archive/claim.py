"""Claims the name of a new file of the archive: put if it is absent, again while the store does not answer."""

from __future__ import annotations

from lakebed.errors import CommitConflictError, CommitUnknownError
from lakebed.kernel.files import PutOutcome, Store

_PUTS = 3


def claim(store: Store, path: str, data: bytes, what: str) -> bool:
    """Whether the name holds our bytes now; False where it holds others. CommitUnknownError when the store does not say
    whether `what` was written."""
    for _ in range(_PUTS):
        outcome = store.put_if_absent(path, data)
        if outcome is not PutOutcome.UNKNOWN:
            return outcome is PutOutcome.CREATED
    raise CommitUnknownError(
        f"the store does not say whether {what} was written",
        table=store.location,
        file=path,
        todo="Nothing was deleted. Archive again: what was written is found and not written twice",
    )


def taken(store: Store, path: str, why: str) -> CommitConflictError:
    """The error of an archiver that another one was faster than."""
    return CommitConflictError(
        "another archiver is at work on this table",
        table=store.location,
        file=path,
        why=why,
        todo="Nothing was deleted. Archive again when it is done, and let both use one lock",
    )
