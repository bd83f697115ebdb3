"""A numbered commit that is made again: what must hold before it is skipped, or committed after all.

A commit keeps where its rows come from. A replay brings the same rows, so it is skipped. A commit with the same number
and other rows is no replay: to skip it would lose them. A stream numbers its commits by a checkpoint, and makes such a
commit when somebody has put an older copy of that checkpoint in its place.

A job that does not know how its commit ended commits its messages again, and their files must still be there: an
attempt that failed for certain removes what it wrote, and may die half way. Rule: Paimon's
`FileStoreCommitImpl.checkFilesExistence`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lakebed.errors import CommitConflictError, NotInHistoryError

Together = Callable[[Callable[[str], bool], Sequence[str]], Sequence[bool]]
"""Calls a function for each path, at once where the store allows it."""


def check_origin(identifier: int, origin: str, committed: str | None, table: str, instant: str) -> None:
    """CommitConflictError if the commit with this identifier keeps another origin than that of its replay. "" and None
    are unknown origins, which match any other."""
    if not origin or not committed or origin == committed:
        return
    raise CommitConflictError(
        f"commit {identifier} of this stream is in the table, with other rows of its source",
        table=table,
        instant=instant,
        why="the checkpoint is older than the table: it was lost in part, or a copy from before this commit was "
        "restored, and the source has more rows now",
        todo="Restore the newest checkpoint. If you have none, start with a new checkpoint after the rows that the "
        "table has",
    )


def refuse_lost_files(paths: Sequence[str], exists: Callable[[str], bool], together: Together, table: str) -> None:
    """NotInHistoryError if one of the files that a commit would make visible is gone."""
    for path, is_there in zip(paths, together(exists, paths), strict=True):
        if not is_there:
            raise NotInHistoryError(
                "files of a commit to recover were deleted",
                table=table,
                file=path,
                todo="Write the data again from its source",
            )
