"""The active timeline as archival sees it: every state file of every instant, from one listing.

A reader needs the newest state of an instant, archival moves all of its files. Requested time and comparable action
identify an instant (`InstantComparison.getComparableAction`): a compaction's three files are one instant, though the
last one is called commit.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import NamedTuple

from lakebed.formats.hudi.layout import COMPLETES_AS, WRITES, parse_state_name, withdrawn_instants
from lakebed.kernel.files import FileInfo, Store

STATES = ("requested", "inflight", "completed")
"""The states of an instant, in the order in which it passes through them."""


class StateInfo(NamedTuple):
    """One state file. `action` is the word in its name, `completed` the completion time there ("" without one), `size`
    in bytes."""

    state: str
    action: str
    path: str
    size: int
    completed: str = ""


class ActiveInstant(NamedTuple):
    """One instant with its state files in the order of their states; `action` is the comparable one."""

    time: str
    action: str
    files: tuple[StateInfo, ...]

    @property
    def last(self) -> StateInfo:
        """The file of the newest state."""
        return self.files[-1]

    @property
    def done(self) -> bool:
        """Whether there is a completed file, even an empty one."""
        return self.files[-1].state == "completed"

    @property
    def writes(self) -> bool:
        """Whether the instant adds or replaces data files."""
        return self.action in WRITES

    @property
    def completed(self) -> str:
        """The completion time, or the requested time where the table records none; "" while pending."""
        return (self.last.completed or self.time) if self.done else ""

    @property
    def empty(self) -> bool:
        """Whether the completed file has no bytes, as a crash can leave it."""
        return self.done and self.last.size == 0

    @property
    def kind(self) -> str:
        """The action of the newest state file: a pending compaction is a compaction, a completed one a commit."""
        return self.last.action

    def file(self, state: str) -> StateInfo | None:
        """The file of a state, None without one."""
        return next((file for file in self.files if file.state == state), None)


def load_active(store: Store, folder: str) -> tuple[ActiveInstant, ...]:
    """The instants in a timeline's folder, by requested time and action; none where there is no such folder."""
    return active_from(store.list(folder).files)


def active_from(files: Iterable[FileInfo]) -> tuple[ActiveInstant, ...]:
    """The instants in a listing, by requested time and action. One that was withdrawn is pending, whatever is there."""
    files = [*files]
    withdrawn = withdrawn_instants(files)
    states: dict[tuple[str, str], list[StateInfo]] = {}
    for path, size in files:
        name = parse_state_name(path.rpartition("/")[2])
        if name is not None:
            time, completed, action, state, _ = name
            if time in withdrawn and action in WRITES and state == "completed":
                continue
            file = StateInfo(state, action, path, size, completed)
            states.setdefault((time, COMPLETES_AS.get(action, action)), []).append(file)
    return tuple(ActiveInstant(*key, tuple(sorted(states[key], key=_state_of, reverse=True))) for key in sorted(states))


_state_of = itemgetter(0)
"""The names of the states, sorted in reverse, are in the order of the states."""
