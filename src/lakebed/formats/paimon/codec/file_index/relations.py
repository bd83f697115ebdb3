"""The answers of a file index: whether a row may equal, differ from or compare with given keys.

Rule: Paimon's FileIndexReader. An index answers True if it does not know.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from lakebed.formats.paimon.codec.file_index.keys import Key


class ColumnIndex(Protocol):
    """The index of one column in one data file. `rows` is the number of rows that it covers, None where it does not
    say."""

    rows: int | None

    @property
    def may_have_nulls(self) -> bool:
        """Whether a row may be null."""

    @property
    def may_have_values(self) -> bool:
        """Whether a row may have a value."""

    def may_equal(self, keys: Sequence[Key]) -> bool:
        """Whether a row may have one of the keys."""

    def may_differ(self, keys: Sequence[Key]) -> bool:
        """Whether a row may have a key that is none of these."""

    def may_be_less(self, key: Key, inclusive: bool) -> bool:
        """Whether a row may have a lesser key, or with `inclusive` the key itself."""

    def may_be_greater(self, key: Key, inclusive: bool) -> bool:
        """Whether a row may have a greater key, or with `inclusive` the key itself."""


class EmptyIndex:
    """The index of a column that was given no row: the file has no value of it."""

    rows: int | None = None
    may_have_nulls = True
    may_have_values = False

    def may_equal(self, keys: Sequence[Key]) -> bool:
        """False: no row has a value."""
        return False

    may_differ = may_equal

    def may_be_less(self, key: Key, inclusive: bool) -> bool:
        """False: no row has a value."""
        return False

    may_be_greater = may_be_less


class SortedKeys:
    """An index that knows its least and its greatest key, and whether it has a given one. It has a key at least once
    for each of `count` different keys."""

    rows: int | None
    count: int
    least: Any
    greatest: Any

    def has(self, key: Key) -> bool:
        """Whether a row has exactly this key."""
        raise NotImplementedError

    @property
    def may_have_values(self) -> bool:
        """Whether a row has a value."""
        return self.count > 0

    def may_equal(self, keys: Sequence[Key]) -> bool:
        """Whether a row has one of the keys."""
        return any(self._lies_within(key) and self.has(key) for key in keys)

    def may_differ(self, keys: Sequence[Key]) -> bool:
        """Whether a row has a key that is none of these."""
        return self.count > sum(self._lies_within(key) and self.has(key) for key in keys)

    def may_be_less(self, key: Key, inclusive: bool) -> bool:
        """Whether the least key is below this one."""
        return self.least is not None and bool(self.least <= key if inclusive else self.least < key)

    def may_be_greater(self, key: Key, inclusive: bool) -> bool:
        """Whether the greatest key is above this one."""
        return self.greatest is not None and bool(self.greatest >= key if inclusive else self.greatest > key)

    def _lies_within(self, key: Key) -> bool:
        return self.may_be_less(key, True) and self.may_be_greater(key, True)
