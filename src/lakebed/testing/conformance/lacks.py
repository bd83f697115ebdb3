"""How lakebed refuses a verb that a format does not have."""

# ruff: noqa: D102 - the names of the tests say what they promise

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from lakebed.errors import UnsupportedError
from lakebed.verbs.table import Table


class LacksConformance:
    """A verb that a format does not have, or that lakebed does not serve for it yet, is refused in one clear line.

    Fixtures: `table`, and `lacking`, the calls that must be refused.
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
