"""Where the rows of a numbered commit come from, as a text that the commit keeps.

A replay brings the rows of the commit that it repeats, so it is skipped. A commit that has the number and brings other
rows is no replay: to skip it would lose them. A stream numbers its commits by a checkpoint, and makes such a commit
when somebody has put an older copy of that checkpoint in its place.
"""

from __future__ import annotations

from lakebed.errors import CommitConflictError


def check_origin(identifier: int, origin: str, committed: str | None, table: str, instant: str) -> None:
    """CommitConflictError where a commit with this identifier keeps another origin than that of its replay. "" and None
    are unknown origins, which say nothing."""
    if not origin or not committed or origin == committed:
        return
    raise CommitConflictError(
        f"commit {identifier} of this stream is in the table, with other rows of its source",
        table=table,
        instant=instant,
        why="the checkpoint is older than the table: it was lost in part, or a copy from before this commit was "
        "restored, and the source has more rows now",
        todo="Restore the newest checkpoint. Where there is none, start with a new checkpoint behind the rows that the "
        "table has",
    )
