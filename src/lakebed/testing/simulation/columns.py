"""What a model knows of the columns that a table got after it was created: which there are, and what rows have in them.

A row has its `v` in such a column, too, or null where its writer did not know the column.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Cells = Mapping[str, Mapping[int, int | None]]
"""The cells of each column, by the row's value `v`."""


@dataclass(frozen=True, slots=True)
class Alteration:
    """What a change makes of the columns: one goes, one comes, or one has another name."""

    goes: str = ""
    comes: str = ""


class Columns:
    """The columns by name, each with a number that no other column had: it stays when the column gets another name, and
    a later column of the same name has another one."""

    def __init__(self) -> None:
        self.numbers: Mapping[str, int] = {}
        self._had: dict[str, list[int]] = {}
        """All numbers that the columns of a name had."""
        self._cells: dict[tuple[int, int], int | None] = {}

    def after(self, alteration: Alteration | None) -> Mapping[str, int]:
        """The columns after an alteration."""
        if alteration is None:
            return self.numbers
        after = {name: number for name, number in self.numbers.items() if name != alteration.goes}
        if alteration.comes:
            new = 1 + max((number for numbers in self._had.values() for number in numbers), default=0)
            after[alteration.comes] = self.numbers.get(alteration.goes, new)
        return after

    def shows(self, alteration: Alteration) -> bool:
        """Whether the table is as an alteration makes it, whoever did that."""
        names = self.numbers.keys()
        return alteration.goes not in names and (not alteration.comes or alteration.comes in names)

    def alter(self, alteration: Alteration) -> None:
        """The table was altered."""
        after = self.after(alteration)
        for name in after.keys() - self.numbers.keys():
            self._had.setdefault(name, []).append(after[name])
        self.numbers = after

    def wrong(self, cells: Cells, given: Mapping[int, Mapping[str, int]]) -> str:
        """What a row has that it may not have, "" where there is nothing. `given` are the columns that the rows were
        written with, by their `v`."""
        for name, column in cells.items():
            number = self.numbers[name]
            for value, cell in column.items():
                key = number, value
                if key not in self._cells and cell not in self._allowed(name, number, value, given.get(value, {})):
                    return f"the row with v = {value} has {cell} in the column {name}"
                if self._cells.setdefault(key, cell) != cell:
                    return f"the row with v = {value} had {self._cells[key]} in the column {name}, and has {cell}"
        return ""

    def _allowed(self, name: str, number: int, value: int, given: Mapping[str, int]) -> tuple[int | None, ...]:
        """What a row may have in a column that nobody has seen it in. Where the column's name went to another one after
        the writer had looked, either may be."""
        own = next((known for known, column in given.items() if column == number), None)
        if own is not None:
            return (value,) if self._had[own][-1] == number else (value, None)
        return (value, None) if name in given else (None,)
