"""Writes that were taken back before a table's first commit.

An instant older than the active timeline counts as committed and archived. While a table has no archive there is no
such instant, but there may be files of one: a writer that was taken for dead goes on, and dies before it removes what
it made after its rollback. The rollbacks of the active timeline say which instants these are.
"""

from __future__ import annotations

from lakebed.formats.hudi.codec.plans import RollbackMetadata, decode
from lakebed.formats.hudi.timeline.active import Timeline
from lakebed.formats.hudi.timeline.archived import ArchivedTimeline
from lakebed.kernel.decoding import decoding
from lakebed.kernel.files import Store


def undone_before_start(store: Store, timeline: Timeline, archived: ArchivedTimeline) -> frozenset[str]:
    """The instants older than the active timeline that rollbacks took back, where nothing was archived yet.

    Nothing is read where the timeline has no completed rollback.
    """
    rollbacks = [entry for entry in timeline.entries if entry.action == "rollback" and entry.done]
    if not rollbacks or not archived.is_empty:
        return frozenset()
    undone: set[str] = set()
    for entry, data in zip(rollbacks, store.read_many([entry.file for entry in rollbacks]), strict=True):
        todo = "Restore the file from a copy"
        with decoding(
            "a rollback cannot be read", table=store.location, file=entry.file, instant=entry.time, todo=todo
        ):
            undone.update(decode(RollbackMetadata, data).commits_rollback)
    return frozenset(time for time in undone if time < timeline.start or not timeline.start)
