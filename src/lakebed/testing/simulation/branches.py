"""The branches of a simulated table: each has rows of its own, and begins with rows that the table had."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakebed.testing.simulation.changes import Change, State, Violation

if TYPE_CHECKING:
    from lakebed.testing.simulation.model import Model


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch: its states since it was created, the states that the table had then, and when that was, in ticks."""

    states: list[State]
    before: Sequence[State]
    born: int


class Branches(Mapping[str, Branch]):
    """The branches that a table has now, by their names."""

    def __init__(self) -> None:
        self.go_with_snapshots = False
        """Whether a branch that is made while its snapshot expires goes with it, until the expiry puts both back."""
        self._branches: dict[str, Branch] = {}
        self._absent: dict[str, Branch] = {}
        """The branches that went with their snapshots."""

    def __getitem__(self, name: str) -> Branch:
        """A branch that there is."""
        return self._branches[name]

    def __iter__(self) -> Iterator[str]:
        """The names."""
        return iter(self._branches)

    def __len__(self) -> int:
        """The number of branches."""
        return len(self._branches)

    def publish(self, heads: Mapping[str, State], change: Change | None, who: str, began: int, model: Model) -> None:
        """The table was published anew, with the rows of its branches. They are those of before, but for the branch
        that the change is about, and those that go with their snapshots and come back."""
        for name in sorted({*heads, *self._branches}):
            own = change if change is not None and change.branch == name else None
            if name not in heads:
                self._gone(name, change, own, who, began)
                continue
            if name in self._absent:
                self._branches[name] = self._absent.pop(name)
            if name in self._branches:
                model.advance(self._branches[name].states, heads[name], own, who)
            else:
                self._created(name, heads[name], own, who, model)

    def check_absent(self, cut_expiries: Sequence[tuple[int, int]]) -> None:
        """Branches that went with their snapshots are back, but for those that were made in an expiry that a fault hit:
        between two of these ticks."""
        for name, branch in self._absent.items():
            if not any(begun < branch.born < over for begun, over in cut_expiries):
                raise Violation(f"branch {name} went with its snapshot and did not come back")

    def _gone(self, name: str, change: Change | None, own: Change | None, who: str, began: int) -> None:
        branch = self._branches.pop(name)
        if change is None and self.go_with_snapshots and branch.born > began:
            self._absent[name] = branch
        elif own is None or not own.drops:
            raise Violation(f"{who}: branch {name} is gone")
        else:
            own.landed = 1

    def _created(self, name: str, head: State, own: Change | None, who: str, model: Model) -> None:
        if own is None or own.leads_to is None or own.landed or own.over:
            raise Violation(f"{who}: there is a branch {name} that nobody creates")
        if head not in own.leads_to():
            raise Violation(f"{who}: {own.text} has rows that were not there: {sorted(head)}")
        self._branches[name] = Branch([head], tuple(model.states), model.tick())
        own.landed = 1
