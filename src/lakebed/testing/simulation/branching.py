"""The steps of a process that change what a table is: its columns and the like, and its branches."""

from __future__ import annotations

from lakebed.errors import LakebedError
from lakebed.testing.simulation.changes import Change, State, Violation, difference
from lakebed.testing.simulation.columns import Alteration
from lakebed.testing.simulation.subject import rows_of
from lakebed.testing.simulation.writes import Writes


class Branching(Writes):
    """A process that writes, and alters and branches the table."""

    def alter(self) -> None:
        """Another definition: no row changes, and no row loses what it has in a column."""
        self.subject.altered = True
        wanted, alteration = self.subject.alteration(self.chance, [*self.model.columns.numbers])
        text = f"alteration {wanted}"
        change = self._move(Change(text, no_change, certain=False, alteration=alteration or Alteration()))
        self.table.alter(wanted)
        alike = (one for one in self.model.changes if one.alteration == change.alteration and one.landed)
        shows = alteration is not None and self.model.columns.shows(alteration)
        if alteration is not None and not (shows or any(one.ended is None or one.ended > self.began for one in alike)):
            raise Violation(f"{self.name}: {text} was acknowledged and is not there")

    def branch(self) -> None:
        """A new branch, at the newest snapshot or at an older one."""
        name, self.subject.branched = f"b{self.number}-{self._step}", True
        at, states = self.subject.branch_point(self.model, self.chance)
        change = self._move(Change(f"creation of {name}", no_change, branch=name, leads_to=states))
        self.table.branch(name, at)
        self.model.acknowledge(change, self.name)

    def write_branch(self) -> None:
        """A write to a branch. The others do not change."""
        if self._choose_branch():
            verbs = ("append", "upsert", "upsert", "delete", "overwrite", "two_phase", "two_phase", "prepare_and_abort")
            getattr(self, self.chance.choice(verbs))()

    def read_branch(self) -> None:
        """The newest rows of a branch."""
        if self._choose_branch():
            states = self.model.branches[self._branch].states
            since = len(states) - 1
            self.model.check_read(rows_of(self._target().read(["id", "v"])), since, self.name, states)

    def fast_forward(self) -> None:
        """The table goes on where a branch is."""
        if self._choose_branch():
            name, self._branch = self._branch, ""
            states = self.model.branches[name].states
            since, back = len(states) - 1, self.subject.forwards_go_back
            if self.subject.stops_for_branches and not self._alone():
                return
            change = Change(f"fast-forward to {name}", no_change, certain=False, goes_back=back)
            if back:
                change.leads_to = lambda: [*self.model.states, *states]
                self.model.tags.clear()  # those of what goes are gone, and those of the branch come
            else:
                before = self.model.branches[name].before
                change.leads_to, change.follows = lambda: states[since:], lambda: [*before, *states]
            self._move(change)
            self.table.fast_forward(name)
            if back and self.model.now != states[-1]:
                raise Violation(f"{self.name}: {change.text} ended well\n{difference(states[-1], self.model.now)}")

    def delete_branch(self) -> None:
        """A branch goes."""
        if self._choose_branch() and (not self.subject.stops_for_branches or self._alone()):
            change = self._move(Change(f"removal of {self._branch}", no_change, branch=self._branch, drops=True))
            try:
                self.table.delete_branch(self._branch)
            except LakebedError:
                change.goes_back |= self.subject.stops_for_branches  # it may be gone, and some of its files not
                raise
            if self._branch in self.model.branches:  # another one may have removed it at the same time
                raise Violation(f"{self.name}: the removal of {self._branch} was acknowledged, and it is there")

    def _choose_branch(self) -> bool:
        """Whether there is a branch: the step is about one of them."""
        if self.model.branches:
            self._branch = self.chance.choice([*self.model.branches])
        return bool(self._branch)


def no_change(state: State) -> State:
    """The rows after a change that changes no rows."""
    return state
