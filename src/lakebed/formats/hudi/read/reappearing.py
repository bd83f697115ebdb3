"""Rows that reappear: base rows that the log hid for a while.

A late row takes the place of a delete without an ordering value, loses to the base row by its own value, and the base
row is there again, with its old commit time (see `merge/log.py`). No commit time tells of such a change. So readers of
changes hold rows against the log of the slice from before, and do it only for file groups whose log deleted something.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from lakebed.formats.hudi.merge.rules import rules_of
from lakebed.formats.hudi.read.state import TableState
from lakebed.formats.hudi.slices import FileGroup
from lakebed.formats.hudi.timeline.active import View


@dataclass(frozen=True)
class ReappearingRows:
    """Which file groups of a view can have rows that reappear."""

    state: TableState
    view: View

    def possible(self, partition: str, group: FileGroup, until: str) -> bool:
        """Whether a log of the group can hold deletes up to the order `until`.

        True where an archived commit wrote to the log, since its deletes are not known.
        """
        if not self._by_event_time:
            return False
        first = self._first_deletes.get((partition, group.file_id), "")
        return bool(first and first <= until) or any(log.instant < self.state.timeline.start for log in group.logs)

    @cached_property
    def _by_event_time(self) -> bool:
        return self.state.config.merge_on_read and bool(rules_of(self.state.config).ordering)

    @cached_property
    def _first_deletes(self) -> dict[tuple[str, str], str]:
        """By partition and file id the order of the first commit of the active timeline that deleted rows in a log."""
        first: dict[tuple[str, str], str] = {}
        for time, commit in self.state.commits(self.view).items():
            order = self.view.committed[time]
            for stat in commit.stats:
                if stat.is_log and stat.deletes:
                    key = stat.partition, stat.file_id
                    first[key] = min(first.get(key, order), order)
        return first
