"""What `rollback` promises."""

# ruff: noqa: D102 - the names of the tests say what they promise

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from lakebed.errors import NotInHistoryError, UsageError
from lakebed.testing.conformance.rows import bag
from lakebed.testing.conformance.write import WRITE_SCHEMA, write_rows
from lakebed.verbs.table import Table

COLUMNS = WRITE_SCHEMA.names


class RollbackConformance:
    """`rollback` of a table that is written to, tagged and written to again.

    Fixture: `make`, as for `WriteConformance`.
    """

    @pytest.fixture
    def make(self) -> Callable[[], Table]:
        """Opens the table. The first call creates it."""
        raise NotImplementedError

    def test_a_dry_run_names_what_goes_and_changes_nothing(self, make: Callable[[], Table]) -> None:
        times = _written(make)
        before, history = bag(make().read(COLUMNS)), make().history()
        plan = make().rollback(times[1], dry_run=True)
        assert plan.dry_run and plan.to == times[1]
        assert list(plan.removed) == times[:1:-1] and plan.kept[0] == times[1]
        assert not {*plan.removed} & {*plan.kept}
        assert bag(make().read(COLUMNS)) == before and make().history() == history

    def test_the_table_is_back_and_can_be_written_to(self, make: Callable[[], Table]) -> None:
        times = _written(make)
        plan = make().rollback(times[1], dry_run=True)
        done = make().rollback(times[1])
        assert (done.to, done.removed, done.kept) == (plan.to, plan.removed, plan.kept) and not done.dry_run
        assert bag(make().read(COLUMNS)) == bag(write_rows([1, 2]))
        make().write(write_rows([9]))
        assert bag(make().read(COLUMNS)) == bag(write_rows([1, 2, 9]))

    def test_a_tag_is_a_place_to_go_back_to(self, make: Callable[[], Table]) -> None:
        make().write(write_rows([1, 2]))
        make().tag("before")
        make().write(write_rows([3]))
        assert len(make().rollback("tag:before").removed) == 1
        assert bag(make().read(COLUMNS)) == bag(make().read(COLUMNS, as_of="tag:before")) == bag(write_rows([1, 2]))

    def test_an_instant_of_the_history_is_too(self, make: Callable[[], Table]) -> None:
        times = _written(make)
        instant = next(instant for instant in make().history() if instant.time == times[0])
        assert make().rollback(instant).to == times[0]
        assert bag(make().read(COLUMNS)) == bag(write_rows([1]))

    def test_a_moment_before_the_newest_commit_is_too(self, make: Callable[[], Table]) -> None:
        times = _written(make)
        moment = next(instant.completed or instant.time for instant in make().history() if instant.time == times[-1])
        assert make().rollback(moment).to == times[-1]
        with pytest.raises(NotInHistoryError):
            make().rollback("2001-01-01")

    def test_back_at_the_newest_changes_nothing(self, make: Callable[[], Table]) -> None:
        times = _written(make)
        before = bag(make().read(COLUMNS))
        assert make().rollback(times[-1]).removed == ()
        assert bag(make().read(COLUMNS)) == before

    def test_a_place_that_is_not_there_is_refused(self, make: Callable[[], Table]) -> None:
        _written(make)
        before = bag(make().read(COLUMNS))
        for wrong in ("tag:nowhere", 4711, "nonsense"):
            with pytest.raises(NotInHistoryError):
                make().rollback(wrong)
        with pytest.raises(UsageError):
            make().rollback(None)
        assert bag(make().read(COLUMNS)) == before


def _written(make: Callable[[], Table]) -> Sequence[str]:
    """Write four commits, one key each. Returns their names, oldest first."""
    return [make().write(write_rows([key])).instant for key in (1, 2, 3, 4)]
