"""The commits whose changes a read gives.

Ranges count in completion times from table version 8 on, before that in instant times. We call such a time an order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lakebed.errors import counted
from lakebed.formats.hudi.codec.metadata import CommitMetadata, WriteStat
from lakebed.formats.hudi.layout import METADATA_BOOTSTRAP
from lakebed.formats.hudi.read.commit_filter import is_skipped_overwrite
from lakebed.formats.hudi.read.state import TableState
from lakebed.formats.hudi.timeline.active import View
from lakebed.kernel.options import Options, is_number

GroupStats = Mapping[str, list[tuple[str, WriteStat]]]
"""The files that commits wrote to the file groups of one partition, by file id: (instant, file)."""


def stats_by_group(commits: Mapping[str, CommitMetadata]) -> Mapping[str, GroupStats]:
    """The files that some commits wrote, by partition."""
    groups: dict[str, dict[str, list[tuple[str, WriteStat]]]] = {}
    for time, commit in commits.items():
        for stat in commit.stats:
            groups.setdefault(stat.partition, {}).setdefault(stat.file_id, []).append((time, stat))
    return groups


@dataclass(frozen=True)
class CommitRange:
    """Some commits of a table, and the table at the end of them.

    `view` is the table at the end of the range. `commits` has the metadata of the range's commits by instant, table
    services included, and `orders` the order of each. `skipped` are the commits whose rows are not wanted.
    `from_beginning` says that no commits come before the range; such a range gives the table as it stands at its end,
    or with `each_commit` the changes of each commit. `strict` makes it an error when deletes can no longer be found.
    """

    view: View
    commits: Mapping[str, CommitMetadata]
    orders: Mapping[str, str]
    from_beginning: bool
    each_commit: bool = False
    strict: bool = False
    skipped: frozenset[str] = frozenset()

    @property
    def as_it_stands(self) -> bool:
        """Whether the read gives the table at the end of the range in place of each commit's changes."""
        return self.from_beginning and not self.each_commit

    @property
    def replaced_partitions(self) -> frozenset[str]:
        """The partitions of which commits of the range replaced file groups."""
        return frozenset(partition for commit in self.commits.values() for partition in commit.replaced)

    def stats_by_group(self) -> Mapping[str, GroupStats]:
        """The files that the range's commits wrote, by partition."""
        return stats_by_group(self.commits)

    def with_each_commit(self, state: TableState) -> CommitRange:
        """The range with the changes of each commit: from the beginning of history, its archived commits included."""
        if not self.from_beginning:
            return self
        commits, orders = dict(self.commits), dict(self.orders)
        for archived in state.archived.commits("", self.view.bound):
            if archived.time not in state.timeline.by_time:
                commits[archived.time], orders[archived.time] = archived.commit, archived.order
        return replace(self, commits=commits, orders=orders, each_commit=True)

    def warnings(self, state: TableState) -> tuple[str, ...]:
        """A warning when commits of the range are already archived; none for a range from the beginning."""
        archived = sum(time not in state.timeline.by_time for time in self.commits)
        if not archived or self.from_beginning:
            return ()
        total = len(self.commits)
        return (
            f"the reader has fallen behind: {archived} of the {counted(total, 'commit')} that it reads are archived",
        )


def range_between(state: TableState, options: Options, low: str, high: str) -> CommitRange:
    """The range (low, high] of a table's history, two orders; archived commits are included. "" is no bound."""
    view = state.view(high)
    from_beginning = low < "1971" and not _is_after_bootstrap(state, view, low)
    entries = [entry for entry in view.entries if state.timeline.order(entry) > low]
    commits = state.files.commits(entries)
    orders = {entry.time: state.timeline.order(entry) for entry in entries}
    if not from_beginning and low < state.timeline.start:
        for archived in state.archived.commits(low, high):
            if archived.time not in state.timeline.by_time:
                commits[archived.time], orders[archived.time] = archived.commit, archived.order
    skipped = frozenset(time for time, commit in commits.items() if is_skipped_overwrite(options, commit))
    return CommitRange(view, commits, orders, from_beginning, skipped=skipped)


def empty_range(view: View, from_beginning: bool = False) -> CommitRange:
    """A range without commits; with `from_beginning` it gives the table as it stands in the view."""
    return CommitRange(view, {}, {}, from_beginning)


def just_before(time: str) -> str:
    """The last time before a time of digits. "" and other text stay as they are."""
    return str(int(time) - 1).zfill(len(time)) if is_number(time) and int(time) else time


def _is_after_bootstrap(state: TableState, view: View, low: str) -> bool:
    """Whether a bootstrap happened at or before `low`, where `low` is older than any clock.

    Bootstraps have the lowest instants of all.
    """
    if low < METADATA_BOOTSTRAP:
        return False
    return any(state.timeline.order(entry) <= low for entry in view.entries) or state.archived_before(low)
