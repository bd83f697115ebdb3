"""Which file groups completed commits changed.

Rule: Hudi's `SimpleConcurrentFileWritesConflictResolutionStrategy`: two changes of one file group are a conflict.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lakebed.formats.hudi.commit.context import WriteContext
from lakebed.formats.hudi.timeline.active import Entry
from lakebed.formats.hudi.timeline.pending_services import Group


def changed_groups(context: WriteContext, entries: Iterable[Entry]) -> Mapping[str, set[Group]]:
    """The file groups that each commit wrote to or replaced, by instant."""
    commits = context.files.commits([*entries])
    return {
        time: {(stat.partition, stat.file_id) for stat in commit.stats}
        | {(partition, file_id) for partition, ids in commit.replaced.items() for file_id in ids}
        for time, commit in commits.items()
    }
