"""How a verb that a format has not is refused."""

# ruff: noqa: D102 - the name of a test says what it promises

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from lakebed.errors import UnsupportedError
from lakebed.verbs.table import Table


class LacksConformance:
    """What a format has not, or lakebed has not yet for it, is refused in one clear line.

    Fixtures: `table`, and `lacking`, which are calls that must be refused.
    """

    @pytest.fixture
    def table(self) -> Table:
        """The table under test."""
        raise NotImplementedError

    @pytest.fixture
    def lacking(self) -> Sequence[Callable[[Table], Any]]:
        """Calls of the table's methods."""
        raise NotImplementedError

    def test_it_is_refused(self, table: Table, lacking: Sequence[Callable[[Table], Any]]) -> None:
        for call in lacking:
            with pytest.raises(UnsupportedError) as raised:
                call(table)
            assert table.format in str(raised.value) and "\n" not in str(raised.value) and raised.value.todo
