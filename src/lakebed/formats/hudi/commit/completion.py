"""Complete an instant that several processes may complete or withdraw at different times.

A put that was sent while the lock was held may land after that. So after completing an instant, a process checks
whether it still held the lock. If not, it takes the lock again and checks what others did in between.
"""

from __future__ import annotations

from lakebed.errors import CommitConflictError, CommitUnknownError, LakebedError
from lakebed.formats.hudi.commit.exclusive import Held
from lakebed.formats.hudi.config import TableConfig
from lakebed.formats.hudi.timeline.writing import complete, completed_file, completed_files
from lakebed.kernel.files import Store


def complete_once(
    store: Store, config: TableConfig, time: str, completed: str, action: str, content: bytes, held: Held
) -> None:
    """Complete an instant once: from table version 8 on the completed file has a time of its own in its name, so its
    put alone does not tell who came first.

    Where the put outlived the lock, this process looks for the file of another one, and removes its own if there is
    one: an instant that others saw completed stays as they saw it. Of several late ones one looks after the other, so
    the last one stays. Raises what `complete` raises, and CommitConflictError where this process may not hold the lock
    any more, or another one has completed the instant.
    """
    held()
    complete(store, config, time, completed, action, content)
    if not held.is_over:
        return
    own = completed_file(config, time, completed, action)
    try:
        with held.going_on():
            others = set(completed_files(store, config, time, action)) - {own}
            if not others:
                return
            store.delete(own)
    except (LakebedError, OSError) as error:
        raise CommitUnknownError(
            f"the {action} was completed late, and it is not known whether another process was faster",
            table=store.location,
            instant=time,
            file=own,
            todo="Look at the table's history, and do it again if it is not there",
        ) from error
    raise CommitConflictError(
        f"another process has completed this {action}",
        table=store.location,
        instant=time,
        file=min(others),
        why="this one held the lock for too long",
        todo="Nothing of this is visible: look at the table's history, and do it again if you still want it",
    )
