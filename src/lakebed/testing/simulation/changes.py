"""What a step of an actor does to the rows of a table, as a value, and what it makes of the rows of a moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lakebed.testing.simulation.columns import Alteration

Row = tuple[int, int]
State = frozenset[Row]
"""The rows of a moment: ids and values."""
Apply = Callable[[State], State]


class Violation(AssertionError):
    """The table broke a promise. The text says which one, and what was seen."""


@dataclass(eq=False)
class Change:
    """What one step of an actor does to the rows, once. `landed` is the place in the model's states, 0 before."""

    text: str
    apply: Apply
    rows: frozenset[Row] = frozenset()
    """The rows that it writes, or of which it removes the ids."""
    removes: bool = False
    began: int = 0
    """When the step began, in the model's ticks."""
    time: float = 0.0
    """When the step began, in seconds since 1970."""
    certain: bool = True
    """Whether it changes the rows of every state, so that its commit shows."""
    replaces: bool = False
    """Whether it removes rows that it does not name: an overwrite."""
    goes_back: bool = False
    """Whether it puts the table back to an earlier state, step by step."""
    branch: str = ""
    """The branch that it changes; "" for the one that is read when none is named."""
    leads_to: Callable[[], Collection[State]] | None = None
    """The states that it may lead to, whatever the state before: where it puts a branch, or creates one."""
    follows: Callable[[], Collection[State]] | None = None
    """The states that it may come after, so that it loses no rows; None: any."""
    drops: bool = False
    """Whether it removes its branch."""
    alteration: Alteration | None = None
    columns: Mapping[str, int] = field(default_factory=dict)
    """The columns beside `id`, `p` and `v` that its rows have, each with its number (`Columns`)."""
    landed: int = 0
    ended: int | None = None
    """When the step ended, in the model's ticks; None while it goes on."""
    taken_back: bool = False
    """Whether a rollback came since it landed, in the middle of its step: a job that does not know how its commit ended
    may commit it again."""
    over: bool = False
    """Whether the change certainly did not happen, so that nothing of it may show from now on."""

    @property
    def ids(self) -> frozenset[int]:
        """The ids whose rows it changes."""
        return ids_of(self.rows)

    def overlaps(self, other: Change) -> bool:
        """Whether both were under way at the same time."""
        early, late = sorted((self, other), key=lambda one: one.began)
        return early is not late and (early.ended is None or early.ended > late.began)


def state_of(rows: Iterable[Row], where: str) -> State:
    """Rows as a state. Violation where one comes twice."""
    counts = Counter(rows)
    twice = [row for row, count in counts.items() if count > 1]
    if twice:
        raise Violation(f"rows {twice} are there more than once {where}")
    return frozenset(counts)


def ids_of(rows: Iterable[Row]) -> frozenset[int]:
    """The ids of rows."""
    return frozenset(key for key, _ in rows)


def difference(wanted: State, found: State) -> str:
    """The missing and the surplus rows, for a message."""
    return f"missing: {sorted(wanted - found)}\ntoo much: {sorted(found - wanted)}"


def adding(rows: Sequence[Row]) -> Apply:
    """Rows come to those that there are."""
    return lambda state: state | frozenset(rows)


def putting(rows: Sequence[Row]) -> Apply:
    """Rows take the places of those with their ids."""
    by_id = dict(rows)
    return lambda state: frozenset({row for row in state if row[0] not in by_id} | {*by_id.items()})


def removing(ids: Iterable[int]) -> Apply:
    """Rows with these ids go."""
    gone = frozenset(ids)
    return lambda state: frozenset(row for row in state if row[0] not in gone)


def replacing(rows: Sequence[Row], parts: Mapping[int, str] | None) -> Apply:
    """Rows take the place of all, or of those in their partitions. `parts` gives the partition of an id's remainder."""
    if parts is None:
        return lambda state: frozenset(rows)
    gone = {parts[row[0] % len(parts)] for row in rows}
    return lambda state: frozenset({row for row in state if parts[row[0] % len(parts)] not in gone} | {*rows})
