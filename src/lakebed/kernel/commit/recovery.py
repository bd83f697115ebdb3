"""A commit that is done again, by a job that does not know how it ended: its files must still be there.

An attempt that failed for certain removes what it wrote, and may die in the middle of that. So messages that a job has
kept may name files that are gone. Rule: Paimon's `FileStoreCommitImpl.checkFilesExistence`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lakebed.errors import NotInHistoryError

Together = Callable[[Callable[[str], bool], Sequence[str]], Sequence[bool]]
"""Calls a function for each path, at once where the store allows it."""


def refuse_lost_files(paths: Sequence[str], exists: Callable[[str], bool], together: Together, table: str) -> None:
    """NotInHistoryError where one of the files that a commit would make visible is gone."""
    for path, is_there in zip(paths, together(exists, paths), strict=True):
        if not is_there:
            raise NotInHistoryError(
                "files of a commit to recover were deleted",
                table=table,
                file=path,
                todo="Write the data again from its source",
            )
