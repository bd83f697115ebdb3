"""What each verb promises, as one pytest suite a verb, the same for every format. Needs pytest.

A format subclasses a suite in a test module and gives its fixtures; each test then runs on its tables:

    class TestRead(ReadConformance):
        @pytest.fixture
        def table(self): return lakebed.open(...)

The suites hold a table against itself (a predicate against a filter of all rows, changes against snapshots); that all
rows are the right ones is for golden tables and outside readers to say.
"""

# ruff: noqa: D102 - the name of a test says what it promises

from __future__ import annotations

import itertools
import pickle
import random
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakebed.errors import NotInHistoryError, PredicateError, SchemaError, UnsupportedError
from lakebed.model.commit import Outcome
from lakebed.model.instant import Instant
from lakebed.model.rowkind import ROW_KIND_COLUMN, SHORT_NAMES
from lakebed.verbs.read import run
from lakebed.verbs.stream import Limits, StreamReader, drain
from lakebed.verbs.table import Table

Rows = list[dict[str, Any]]


def bag(data: pa.Table | pa.RecordBatchReader) -> list[str]:
    """Rows in an order of their own, so that equal bags of rows are equal lists."""
    table = data.read_all() if isinstance(data, pa.RecordBatchReader) else data
    return sorted(repr(sorted(row.items())) for row in table.to_pylist())


def replay(rows: Rows, changes: Rows, key: Sequence[str], without: Sequence[str] = ()) -> dict[tuple[Any, ...], Any]:
    """Rows by key after changes were laid over them in their order; columns in `without` are left out."""
    state = {}
    for row in [*rows, *changes]:
        row = {name: value for name, value in row.items() if name not in without}
        kind = row.pop(ROW_KIND_COLUMN, "+I")
        where = tuple(row[name] for name in key)
        if kind in ("+I", "+U"):
            state[where] = row
        else:
            state.pop(where, None)
    return state


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

    def test_a_column_that_is_not_there_is_refused(self, table: Table) -> None:
        with pytest.raises(SchemaError, match="no_such_column"):
            table.read(columns=["no_such_column"])
        with pytest.raises(SchemaError, match="twice"):
            table.read(columns=[table.schema.names[-1]] * 2)

    def test_where_keeps_what_a_filter_keeps(self, table: Table) -> None:
        whole = table.read().read_all()
        last = whole.column_names[-1]
        predicates = [_some_predicate(whole, name) for name in whole.column_names]
        for predicate in (*predicates, pc.field(last).is_null(), ~pc.field(last).is_null(), ~predicates[-1]):
            found = table.read(columns=[last], where=predicate).read_all()
            assert bag(found) == bag(whole.filter(predicate).select([last])), f"{predicate}"

    def test_where_is_sql_too(self, table: Table) -> None:
        whole = table.read().read_all()
        tried = 0
        for field in whole.schema:
            value = next((v for v in whole[field.name].to_pylist() if v is not None), None)
            if isinstance(value, bool) or not isinstance(value, int | str):
                continue
            text = str(value) if isinstance(value, int) else "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
            found = table.read(where=f"`{field.name}` = {text} and not `{field.name}` is null").read_all()
            assert bag(found) == bag(whole.filter(pc.field(field.name) == value)) and found.num_rows
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
        """What history is in the order of; a format whose names do not grow says so."""
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


class ChangesConformance:
    """`changes`, held against the snapshots before and after. Fixtures: `table`, `key`, `moments`, `bookkeeping`."""

    @pytest.fixture
    def table(self) -> Table:
        """The table under test."""
        raise NotImplementedError

    @pytest.fixture
    def key(self) -> tuple[str, ...]:
        """The columns that say which row is which."""
        raise NotImplementedError

    @pytest.fixture
    def moments(self, table: Table) -> list[Instant]:
        """Two or more instants in the order in which ranges count them, all of them readable."""
        return [instant for instant in table.history() if instant.state == "completed"]

    @pytest.fixture
    def bookkeeping(self) -> tuple[str, ...]:
        """Columns of the format's own in which a changed row and a row of the snapshot may differ."""
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
            found = replay(before, changes, key, bookkeeping)
            assert found == replay(wanted, [], key, bookkeeping), f"({after.time}, {until.time}]"

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
        predicate = _some_predicate(whole, name)
        found = table.changes(columns=[name], where=predicate).read_all()
        assert found.column_names == [name, ROW_KIND_COLUMN]
        assert bag(found) == bag(whole.filter(predicate).select([name, ROW_KIND_COLUMN]))

    def test_tasks_travel(self, table: Table) -> None:
        plan = pickle.loads(pickle.dumps(table.plan_changes()))
        assert bag(run(plan, 2)) == bag(table.changes())

    def test_what_is_not_in_the_history_is_refused(self, table: Table) -> None:
        with pytest.raises(NotInHistoryError):
            table.changes(after="tag:no_such_tag").read_all()


class StreamConformance:
    """`stream`. Fixtures: `table`, opened with the options that start it at its first commit, and `key`."""

    @pytest.fixture
    def table(self) -> Table:
        """The table under test."""
        raise NotImplementedError

    @pytest.fixture
    def key(self) -> tuple[str, ...]:
        """The columns that say which row is which."""
        raise NotImplementedError

    @pytest.fixture
    def bookkeeping(self) -> tuple[str, ...]:
        """Columns of the format's own in which a changed row and a row of the snapshot may differ."""
        return ()

    def test_all_batches_are_the_snapshot(
        self, table: Table, key: tuple[str, ...], bookkeeping: tuple[str, ...]
    ) -> None:
        rows = replay(table.read().read_all().to_pylist(), [], key, bookkeeping)
        for limits in (Limits(commits=1), Limits()):
            changes = [row for _, batch in _batches(table.stream(), None, limits) for row in batch.to_pylist()]
            assert replay([], changes, key, bookkeeping) == rows, f"{limits}"

    def test_one_commit_a_batch_is_more_than_one_batch(self, table: Table) -> None:
        assert len(_batches(table.stream(), None, Limits(commits=1))) > 1

    def test_it_stands_still_when_nothing_is_new(self, table: Table) -> None:
        stream = table.stream()
        end = _batches(stream, None, Limits())[-1][0]
        assert stream.latest(end, Limits()) == end == table.stream().latest(end, Limits(commits=1))
        assert list(drain(stream, end)) == []

    def test_it_goes_on_from_each_position_in_another_process(self, table: Table) -> None:
        batches = _batches(table.stream(), None, Limits(commits=1))
        for number, (position, _) in enumerate(batches):
            rest = _batches(table.stream(), position, Limits(commits=1))
            assert [at for at, _ in rest] == [at for at, _ in batches[number + 1 :]]
            assert [bag(rows) for _, rows in rest] == [bag(rows) for _, rows in batches[number + 1 :]]

    def test_a_batch_planned_again_is_the_same(self, table: Table) -> None:
        start = table.stream().initial()
        for end, rows in _batches(table.stream(), start, Limits(commits=1)):
            again = table.stream().plan(start, end)
            assert bag(run(pickle.loads(pickle.dumps(again)), 2)) == bag(rows)
            start = end

    def test_every_batch_has_the_schema(self, table: Table) -> None:
        stream = table.stream()
        assert stream.schema.names == [*table.schema.names, ROW_KIND_COLUMN]
        assert all(rows.schema.equals(stream.schema) for _, rows in _batches(stream, None, Limits(commits=1)))

    def test_columns(self, table: Table) -> None:
        name = table.schema.names[-1]
        stream = table.stream(columns=[name])
        assert {tuple(rows.column_names) for _, rows in _batches(stream, None, Limits())} == {(name, ROW_KIND_COLUMN)}


WRITE_SCHEMA = pa.schema(
    [
        pa.field("dt", pa.string(), nullable=False), pa.field("id", pa.int64(), nullable=False),
        ("text", pa.string()), ("price", pa.decimal128(10, 2)), ("real", pa.float64()), ("at", pa.timestamp("us")),
    ]
)  # fmt: skip
"""The columns of the table that `WriteConformance` writes to; its key is (dt, id)."""


class WriteConformance:
    """`write` and `writer` of a table with the primary key (dt, id), held against a dict.

    Fixture: `make`, which gives a new, empty table of `WRITE_SCHEMA`, and the same table opened anew when called again.
    """

    append_replaces = True
    """Whether an append of a key that is there replaces its row, as it does where tables have primary keys."""

    @pytest.fixture
    def make(self) -> Callable[[], Table]:
        """Opens the table, which is created by the first call."""
        raise NotImplementedError

    def test_rows_come_back(self, make: Callable[[], Table]) -> None:
        result = make().write(write_rows([1, 2, 3]))
        assert result.outcome is Outcome.COMMITTED and result.instant
        assert bag(make().read()) == bag(write_rows([1, 2, 3]))
        assert [instant.time for instant in make().history()][-1] == result.instant

    def test_a_later_row_of_a_key_wins(self, make: Callable[[], Table]) -> None:
        make().write(write_rows([1, 2, 3]), mode="upsert")
        make().write(write_rows([2, 4], text="new"), mode="upsert")
        assert bag(make().read()) == bag(pa.concat_tables([write_rows([1, 3]), write_rows([2, 4], text="new")]))

    def test_deletes(self, make: Callable[[], Table]) -> None:
        make().write(write_rows([1, 2, 3]))
        make().write(write_rows([2, 9]), mode="delete")
        assert bag(make().read()) == bag(write_rows([1, 3]))

    def test_row_kinds(self, make: Callable[[], Table]) -> None:
        make().write(write_rows([1, 2, 3]))
        kinds = pa.array(["-U", "+U", "-D", "+I"], pa.string())
        make().write(write_rows([1, 1, 2, 4], text="new").append_column(ROW_KIND_COLUMN, kinds))
        assert bag(make().read()) == bag(pa.concat_tables([write_rows([3]), write_rows([1, 4], text="new")]))

    def test_overwrite(self, make: Callable[[], Table]) -> None:
        make().write(write_rows([1, 2, 3]))
        make().write(write_rows([3, 4], text="new"), mode="overwrite")
        assert bag(make().read()) == bag(write_rows([3, 4], text="new"))

    def test_readers_and_batches_are_taken_too(self, make: Callable[[], Table]) -> None:
        make().write(write_rows([1, 2]).to_reader(max_chunksize=1))
        make().write(write_rows([3]).to_batches()[0])
        assert bag(make().read()) == bag(write_rows([1, 2, 3]))

    def test_nothing_is_visible_before_the_commit(self, make: Callable[[], Table]) -> None:
        writer = make().writer(commit_user="job")
        writer.write(write_rows([1]))
        messages = pickle.loads(pickle.dumps(writer.prepare_commit()))
        assert make().read().read_all().num_rows == 0 and make().history() == []
        make().writer(commit_user="job").filter_and_commit({1: messages})
        assert bag(make().read()) == bag(write_rows([1]))

    def test_an_identifier_is_committed_once(self, make: Callable[[], Table]) -> None:
        def attempt(user: str, ids: list[int]) -> int:
            writer = make().writer(commit_user=user)
            writer.write(write_rows(ids))
            done: int = writer.filter_and_commit({7: writer.prepare_commit()})
            return done

        assert [attempt("job", [1]), attempt("job", [2]), attempt("other", [3])] == [1, 0, 1]
        assert bag(make().read()) == bag(write_rows([1, 3])) and len(make().history()) == 2

    def test_aborted_messages_leave_no_files(self, make: Callable[[], Table]) -> None:
        before = sorted(info.path for info in make().store.walk())
        writer = make().writer()
        writer.write(write_rows(list(range(100))))
        writer.abort(writer.prepare_commit())
        assert sorted(info.path for info in make().store.walk()) == before

    def test_data_that_does_not_fit_changes_nothing(self, make: Callable[[], Table]) -> None:
        before = sorted(info.path for info in make().store.walk())
        bad = [
            write_rows([1]).append_column("extra", pa.array([1])),
            write_rows([1]).drop_columns(["id"]),
            write_rows([1]).set_column(1, "id", pa.array(["one"])),
            write_rows([1]).set_column(1, "id", pa.array([None], pa.int64())),
        ]
        for data in bad:
            with pytest.raises(SchemaError):
                make().write(data)
        assert sorted(info.path for info in make().store.walk()) == before

    def test_many_writes_are_a_dict(self, make: Callable[[], Table]) -> None:
        chance = random.Random(7)
        model: dict[tuple[str, int], dict[str, Any]] = {}
        make()
        for number in range(12):
            ids = [chance.randrange(20) for _ in range(chance.randrange(1, 10))]
            mode = chance.choice(["append" if self.append_replaces else "upsert", "upsert", "upsert", "delete"])
            data = write_rows(ids, text=f"write {number}")
            make().write(data, mode=mode)
            for row in data.to_pylist():
                if mode == "delete":
                    model.pop((row["dt"], row["id"]), None)
                else:
                    model[row["dt"], row["id"]] = row
            assert replay(make().read().read_all().to_pylist(), [], ("dt", "id")) == model, f"write {number}, {mode}"


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


def write_rows(ids: Sequence[int], text: str = "old") -> pa.Table:
    """Rows of `WRITE_SCHEMA`, the key of each made from a number; all of partition `even` or `odd`."""
    numbers = pa.array(ids, pa.int64())
    columns = [
        pa.array(["odd" if number % 2 else "even" for number in ids], pa.string()),
        numbers,
        pa.array([None if number % 5 == 0 else f"{text} é {number}" for number in ids], pa.string()),
        pc.cast(numbers, pa.decimal128(21, 2)).cast(pa.decimal128(10, 2)),
        pc.divide(numbers.cast(pa.float64()), 3),
        numbers.cast(pa.timestamp("us")),
    ]
    return pa.Table.from_arrays(columns, schema=WRITE_SCHEMA)


def _some_predicate(rows: pa.Table, name: str) -> pc.Expression:
    """A predicate on that column which keeps some rows where it can be compared at all."""
    kind = rows.schema.field(name).type
    values = [value for value in rows[name].to_pylist() if value is not None]
    if not values or pa.types.is_nested(kind):
        return pc.field(name).is_valid()
    return pc.field(name) <= pa.scalar(values[len(values) // 2], kind)


def _batches(stream: StreamReader, start: str | None, limits: Limits) -> list[tuple[str, pa.Table]]:
    return [(end, run(plan, 2).read_all()) for end, plan in drain(stream, start, limits)]
