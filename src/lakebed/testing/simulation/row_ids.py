"""What a model knows of the numbers of rows: each has an id that no other row had, and the number of the snapshot that
it came with. Both stay as long as the row does, whatever file it moves to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Numbers(NamedTuple):
    """The id of a row, and the number of the snapshot that wrote it."""

    row_id: int | None
    sequence: int | None


class RowIds:
    """The numbers that rows have had, by their `v`."""

    def __init__(self) -> None:
        self._known: dict[int, Numbers] = {}
        self._used: dict[int, int] = {}
        """The row that each id belongs to, by its `v`."""

    def wrong(self, seen: Mapping[int, Numbers], newest: str, went_back: bool) -> str:
        """What rows have that they may not have, "" where there is nothing. After a rollback ids of rows that it took
        away may be given again, and such rows may come again with others."""
        if went_back:
            self._known = {value: numbers for value, numbers in self._known.items() if value in seen}
            self._used = {numbers.row_id: value for value, numbers in self._known.items() if numbers.row_id is not None}
        for value, numbers in seen.items():
            is_new = value not in self._known
            known = self._known.setdefault(value, numbers)
            if numbers != known:
                return f"the row with v = {value} had the numbers {tuple(known)}, and has {tuple(numbers)}"
            if numbers.row_id is None or numbers.sequence is None:
                return f"the row with v = {value} has no numbers"
            owner = self._used.setdefault(numbers.row_id, value)
            if owner != value:
                return f"the rows with v = {owner} and {value} have the same id {numbers.row_id}"
            if is_new and not went_back and str(numbers.sequence) != newest:
                return f"the row with v = {value} came with snapshot {newest}, and says {numbers.sequence}"
        return ""
