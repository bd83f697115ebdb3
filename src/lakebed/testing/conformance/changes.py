"""What `changes` promises."""

# ruff: noqa: D102 - the names of the tests say what they promise

from __future__ import annotations

import itertools
import pickle

import pytest

from lakebed.errors import NotInHistoryError
from lakebed.model.instant import Instant
from lakebed.model.rowkind import ROW_KIND_COLUMN, SHORT_NAMES
from lakebed.testing.conformance.rows import bag, replay, some_predicate
from lakebed.verbs.read import run
from lakebed.verbs.table import Table


class ChangesConformance:
    """`changes`, compared with the snapshots before and after. Fixtures: `table`, `key`, `moments`, `bookkeeping`."""

    @pytest.fixture
    def table(self) -> Table:
        """The table under test."""
        raise NotImplementedError

    @pytest.fixture
    def key(self) -> tuple[str, ...]:
        """The columns that identify a row."""
        raise NotImplementedError

    @pytest.fixture
    def moments(self, table: Table) -> list[Instant]:
        """Two or more readable instants, in the order in which ranges count them."""
        return [instant for instant in table.history() if instant.state == "completed"]

    @pytest.fixture
    def bookkeeping(self) -> tuple[str, ...]:
        """The format's own columns in which a changed row and the row of the snapshot may differ."""
        return ()

    def test_a_row_kind_is_last(self, table: Table) -> None:
        changes = table.changes().read_all()
        assert changes.column_names == [*table.schema.names, ROW_KIND_COLUMN]
        assert set(changes[ROW_KIND_COLUMN].to_pylist()) <= set(SHORT_NAMES)

    def test_each_range_leads_from_snapshot_to_snapshot(
        self, table: Table, key: tuple[str, ...], moments: list[Instant], bookkeeping: tuple[str, ...]
    ) -> None:
        assert len(moments) >= 2
        for after, until in itertools.combinations(moments, 2):
            changes = table.changes(after=after, until=until).read_all().to_pylist()
            before = table.read(as_of=after).read_all().to_pylist()
            wanted = table.read(as_of=until).read_all().to_pylist()
            replayed = replay(before, changes, key, bookkeeping)
            assert replayed == replay(wanted, [], key, bookkeeping), f"({after.time}, {until.time}]"

    def test_all_changes_are_the_snapshot(
        self, table: Table, key: tuple[str, ...], bookkeeping: tuple[str, ...]
    ) -> None:
        rows = table.read().read_all().to_pylist()
        changes = table.changes().read_all().to_pylist()
        assert replay([], changes, key, bookkeeping) == replay(rows, [], key, bookkeeping)

    def test_both_ends_are_exact(self, table: Table, moments: list[Instant]) -> None:
        for moment in moments:
            assert table.changes(after=moment, until=moment).read_all().num_rows == 0
        assert table.changes(after=moments[-1]).read_all().num_rows == 0

    def test_columns_and_where(self, table: Table) -> None:
        whole = table.changes().read_all()
        name = table.schema.names[-1]
        predicate = some_predicate(whole, name)
        changes = table.changes(columns=[name], where=predicate).read_all()
        assert changes.column_names == [name, ROW_KIND_COLUMN]
        assert bag(changes) == bag(whole.filter(predicate).select([name, ROW_KIND_COLUMN]))

    def test_tasks_travel(self, table: Table) -> None:
        plan = pickle.loads(pickle.dumps(table.plan_changes()))
        assert bag(run(plan, 2)) == bag(table.changes())

    def test_what_is_not_in_the_history_is_refused(self, table: Table) -> None:
        with pytest.raises(NotInHistoryError):
            table.changes(after="tag:no_such_tag").read_all()
