"""The active timeline as archival sees it: every state file of every instant, by one listing.

A reader wants the newest state of an instant; archival moves all of its files. An instant is the pair of requested time
and comparable action (`InstantComparison.getComparableAction`): a compaction's three files are one instant, though the
last one is named commit.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import NamedTuple

from lakebed.formats.hudi.layout import COMPLETES_AS, WRITES, parse_state_name
from lakebed.kernel.files import FileInfo, Store

STATES = ("requested", "inflight", "completed")
"""The states of an instant, in the order that it passes through them."""


class StateInfo(NamedTuple):
    """One state file: `action` is the word in its name, `completed` the completion time there ("" without one), `size`
    in bytes."""

    state: str
    action: str
    path: str
    size: int
    completed: str = ""


class ActiveInstant(NamedTuple):
    """One instant with its state files, in the order of states; `action` is the comparable one."""

    time: str
    action: str
    files: tuple[StateInfo, ...]

    @property
    def last(self) -> StateInfo:
        """The file of its newest state."""
        return self.files[-1]

    @property
    def done(self) -> bool:
        """Whether it has a completed file, be that file empty."""
        return self.files[-1].state == "completed"

    @property
    def writes(self) -> bool:
        """Whether it makes or replaces data files."""
        return self.action in WRITES

    @property
    def completed(self) -> str:
        """The completion time, the requested time where the table records none, "" while pending."""
        return (self.last.completed or self.time) if self.done else ""

    @property
    def empty(self) -> bool:
        """Whether its completed file holds nothing, as a crash can leave it."""
        return self.done and self.last.size == 0

    @property
    def kind(self) -> str:
        """The action of its newest state file: a pending compaction is a compaction."""
        return self.last.action

    def file(self, state: str) -> StateInfo | None:
        """Its file of one state, None without one."""
        return next((file for file in self.files if file.state == state), None)


def load_active(store: Store, folder: str) -> tuple[ActiveInstant, ...]:
    """The instants of a timeline's folder by requested time, then action; none where there is no such folder."""
    return active_from(store.list(folder).files)


def active_from(files: Iterable[FileInfo]) -> tuple[ActiveInstant, ...]:
    """The same from a listing."""
    found: dict[tuple[str, str], list[StateInfo]] = {}
    for path, size in files:
        named = parse_state_name(path.rpartition("/")[2])
        if named is not None:
            time, completed, action, state, _ = named
            file = StateInfo(state, action, path, size, completed)
            found.setdefault((time, COMPLETES_AS.get(action, action)), []).append(file)
    return tuple(ActiveInstant(*key, tuple(sorted(found[key], key=_state_of, reverse=True))) for key in sorted(found))


_state_of = itemgetter(0)
"""The states stand in the alphabet from last to first."""
