"""What `read`, `schema` and `history` promise."""

# ruff: noqa: D102 - the names of the tests say what they promise

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakebed.errors import NotInHistoryError, PredicateError, SchemaError, UsageError
from lakebed.model.instant import Instant
from lakebed.testing.conformance.rows import bag, some_predicate
from lakebed.verbs.read import run
from lakebed.verbs.table import Table


class ReadConformance:
    """`read`, `schema` and `history`. Fixture: `table`, with at least two rows and one completed instant."""

    @pytest.fixture
    def table(self) -> Table:
        """The table under test."""
        raise NotImplementedError

    def test_the_schema_is_that_of_the_rows(self, table: Table) -> None:
        reader = table.read()
        assert reader.schema.equals(table.schema)
        rows = reader.read_all()
        rows.validate(full=True)
        assert rows.schema.equals(table.schema) and rows.num_rows >= 2

    def test_columns_come_as_asked_for(self, table: Table) -> None:
        names = table.schema.names[::-2]
        rows = table.read(columns=names).read_all()
        assert rows.column_names == names
        assert bag(rows) == bag(table.read().read_all().select(names))

    def test_columns_are_found_without_case(self, table: Table) -> None:
        name = table.schema.names[-1]
        assert table.read(columns=[name.upper()]).read_all().column_names == [name]

    def test_no_columns_still_count_the_rows(self, table: Table) -> None:
        assert table.read(columns=[]).read_all().num_rows == table.read().read_all().num_rows

    def test_rows_are_counted(self, table: Table) -> None:
        whole = table.read().read_all()
        predicate = some_predicate(whole, whole.column_names[-1])
        assert table.count() == len(whole) and table.count(where="false") == 0
        assert table.count(predicate) == len(whole.filter(predicate))

    def test_the_head_has_as_many_rows_as_asked_for(self, table: Table) -> None:
        whole = table.read().read_all()
        rows = Counter(bag(whole))
        for n in (0, 1, len(whole) + 1):
            head = table.head(n)
            assert head.schema.equals(table.schema) and len(head) == min(n, len(whole))
            assert Counter(bag(head)) <= rows
        assert table.head(1, columns=[whole.column_names[-1]]).num_columns == 1
        for wrong in (-1, True, "5"):
            with pytest.raises(UsageError):
                table.head(wrong)  # type: ignore[arg-type]

    def test_arrow_takes_the_table_as_its_rows(self, table: Table) -> None:
        rows = bag(table.read())
        assert pa.schema(table).equals(table.schema)
        assert bag(pa.table(table)) == rows == bag(table.to_arrow())
        assert len(table.to_pandas()) == table.count()

    def test_a_column_that_is_not_there_is_refused(self, table: Table) -> None:
        with pytest.raises(SchemaError, match="no_such_column"):
            table.read(columns=["no_such_column"])
        with pytest.raises(SchemaError, match="twice"):
            table.read(columns=[table.schema.names[-1]] * 2)

    def test_where_keeps_what_a_filter_keeps(self, table: Table) -> None:
        whole = table.read().read_all()
        last = whole.column_names[-1]
        predicates = [some_predicate(whole, name) for name in whole.column_names]
        for predicate in (*predicates, pc.field(last).is_null(), ~pc.field(last).is_null(), ~predicates[-1]):
            rows = table.read(columns=[last], where=predicate).read_all()
            assert bag(rows) == bag(whole.filter(predicate).select([last])), f"{predicate}"

    def test_where_is_sql_too(self, table: Table) -> None:
        whole = table.read().read_all()
        tried = 0
        for field in whole.schema:
            value = next((v for v in whole[field.name].to_pylist() if v is not None), None)
            if isinstance(value, bool) or not isinstance(value, int | str):
                continue
            text = str(value) if isinstance(value, int) else "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
            rows = table.read(where=f"`{field.name}` = {text} and not `{field.name}` is null").read_all()
            assert bag(rows) == bag(whole.filter(pc.field(field.name) == value)) and rows.num_rows
            tried += 1
        assert tried

    def test_where_that_nothing_fits(self, table: Table) -> None:
        assert table.read(where="false").read_all().equals(table.schema.empty_table())

    def test_a_mistaken_where_is_refused(self, table: Table) -> None:
        for where in ("no_such_column = 1", "= 1", ""):
            with pytest.raises(PredicateError):
                table.read(where=where)

    def test_tasks_travel(self, table: Table) -> None:
        plan = pickle.loads(pickle.dumps(table.plan_read()))
        batches = [batch for split in plan.splits for batch in plan.read(split)]
        assert all(batch.schema.equals(plan.schema) for batch in batches)
        assert bag(pa.Table.from_batches(batches, plan.schema)) == bag(table.read())

    def test_tasks_may_run_twice_and_in_any_number_of_threads(self, table: Table) -> None:
        plan = table.plan_read()
        assert bag(run(plan, 1)) == bag(run(plan, 4)) == bag(run(plan, 1))

    def test_a_reader_may_be_closed_early(self, table: Table) -> None:
        reader = table.read()
        reader.read_next_batch()
        reader.close()
        assert table.read().read_all().num_rows >= 2

    @pytest.fixture
    def order(self) -> Callable[[Instant], Any]:
        """The key by which history is sorted. A format overrides it when the names of its instants do not ascend."""
        return lambda instant: (len(instant.time), instant.time)

    def test_history_is_in_order(self, table: Table, order: Callable[[Instant], Any]) -> None:
        history = table.history()
        times = [order(instant) for instant in history]
        assert times == sorted(times) and any(instant.state == "completed" for instant in history)

    def test_as_of_the_newest_is_now(self, table: Table) -> None:
        newest = [instant for instant in table.history() if instant.state == "completed"][-1]
        for position in (newest, newest.time):
            assert bag(table.read(as_of=position)) == bag(table.read())

    def test_what_is_not_in_the_history_is_refused(self, table: Table) -> None:
        with pytest.raises(NotInHistoryError):
            table.read(as_of="1970-01-01")
