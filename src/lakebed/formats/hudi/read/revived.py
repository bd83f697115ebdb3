"""Rows that come back: a late row takes the place of a delete without an ordering value, loses to the base row by its
own value, and the base row is there again, with the commit time that it had (see `merge.py`).

No commit time tells of such a change, so rows are held against what the log of the slice from before it made of their
keys. That is done only for file groups whose log deleted something.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from lakebed.formats.hudi.merge.rules import rules_of
from lakebed.formats.hudi.read.state import TableState
from lakebed.formats.hudi.slices import FileGroup
from lakebed.formats.hudi.timeline.active import View


@dataclass(frozen=True)
class Revivals:
    """Which file groups of a view can have rows that come back."""

    state: TableState
    view: View

    def possible(self, partition: str, group: FileGroup, until: str) -> bool:
        """Whether a log of the group can hold deletes from up to a time, in what ranges count in. Of archived commits
        that is not known."""
        if not self._by_event_time:
            return False
        first = self._first_deletes.get((partition, group.file_id), "")
        return bool(first and first <= until) or any(log.instant < self.state.timeline.start for log in group.logs)

    @cached_property
    def _by_event_time(self) -> bool:
        return self.state.config.merge_on_read and bool(rules_of(self.state.config).ordering)

    @cached_property
    def _first_deletes(self) -> dict[tuple[str, str], str]:
        """By partition and file id when the first commit of the active timeline deleted rows in a log."""
        first: dict[tuple[str, str], str] = {}
        for time, commit in self.state.commits(self.view).items():
            order = self.view.committed[time]
            for stat in commit.stats:
                if stat.is_log and stat.deletes:
                    key = stat.partition, stat.file_id
                    first[key] = min(first.get(key, order), order)
        return first
