"""What `write` and `writer` promise."""

# ruff: noqa: D102 - the names of the tests say what they promise

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakebed.errors import SchemaError
from lakebed.model.commit import Outcome
from lakebed.model.rowkind import ROW_KIND_COLUMN
from lakebed.testing.conformance.rows import bag, replay
from lakebed.verbs.table import Table

WRITE_SCHEMA = pa.schema(
    [
        pa.field("dt", pa.string(), nullable=False),
        pa.field("id", pa.int64(), nullable=False),
        ("text", pa.string()),
        ("price", pa.decimal128(10, 2)),
        ("real", pa.float64()),
        ("at", pa.timestamp("us")),
    ]
)
"""The columns of the table that `WriteConformance` writes to; its key is (dt, id)."""


class WriteConformance:
    """`write` and `writer` of a table with the primary key (dt, id), compared with a dict.

    Fixture: `make`. Its first call creates an empty table of `WRITE_SCHEMA`; each later call opens that table again.
    """

    append_replaces = True
    """Whether appending a key that exists replaces its row, as it does in formats whose tables have primary keys."""

    bookkeeping: tuple[str, ...] = ()
    """Columns that a read gives before the user's."""

    def rows(self, table: Table) -> pa.Table:
        """The user's columns of a table."""
        rows = table.read().read_all()
        return rows.drop_columns([name for name in self.bookkeeping if name in rows.column_names])

    @pytest.fixture
    def make(self) -> Callable[[], Table]:
        """Opens the table. The first call creates it."""
        raise NotImplementedError

    def test_rows_come_back(self, make: Callable[[], Table]) -> None:
        result = make().write(write_rows([1, 2, 3]))
        assert result.outcome is Outcome.COMMITTED and result.instant
        assert result.rows == 3 == make().count() and result.files
        assert bag(self.rows(make())) == bag(write_rows([1, 2, 3]))
        assert [instant.time for instant in make().history()][-1] == result.instant

    def test_a_later_row_of_a_key_wins(self, make: Callable[[], Table]) -> None:
        make().write(write_rows([1, 2, 3]), mode="upsert")
        make().write(write_rows([2, 4], text="new"), mode="upsert")
        assert bag(self.rows(make())) == bag(pa.concat_tables([write_rows([1, 3]), write_rows([2, 4], text="new")]))

    def test_deletes(self, make: Callable[[], Table]) -> None:
        make().write(write_rows([1, 2, 3]))
        make().write(write_rows([2, 9]), mode="delete")
        assert bag(self.rows(make())) == bag(write_rows([1, 3]))

    def test_row_kinds(self, make: Callable[[], Table]) -> None:
        make().write(write_rows([1, 2, 3]))
        kinds = pa.array(["-U", "+U", "-D", "+I"], pa.string())
        make().write(write_rows([1, 1, 2, 4], text="new").append_column(ROW_KIND_COLUMN, kinds))
        assert bag(self.rows(make())) == bag(pa.concat_tables([write_rows([3]), write_rows([1, 4], text="new")]))

    def test_overwrite(self, make: Callable[[], Table]) -> None:
        make().write(write_rows([1, 2, 3]))
        make().write(write_rows([3, 4], text="new"), mode="overwrite")
        assert bag(self.rows(make())) == bag(write_rows([3, 4], text="new"))

    def test_readers_and_batches_are_accepted(self, make: Callable[[], Table]) -> None:
        make().write(write_rows([1, 2]).to_reader(max_chunksize=1))
        make().write(write_rows([3]).to_batches()[0])
        assert bag(self.rows(make())) == bag(write_rows([1, 2, 3]))

    def test_nothing_is_visible_before_the_commit(self, make: Callable[[], Table]) -> None:
        writer = make().writer(commit_user="job")
        writer.write(write_rows([1]))
        messages = pickle.loads(pickle.dumps(writer.prepare_commit()))
        assert self.rows(make()).num_rows == 0 and make().history() == []
        make().writer(commit_user="job").filter_and_commit({1: messages})
        assert bag(self.rows(make())) == bag(write_rows([1]))

    def test_an_identifier_is_committed_once(self, make: Callable[[], Table]) -> None:
        def attempt(user: str, ids: list[int]) -> int:
            writer = make().writer(commit_user=user)
            writer.write(write_rows(ids))
            commits: int = writer.filter_and_commit({7: writer.prepare_commit()})
            return commits

        assert [attempt("job", [1]), attempt("job", [2]), attempt("other", [3])] == [1, 0, 1]
        assert bag(self.rows(make())) == bag(write_rows([1, 3])) and len(make().history()) == 2

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
            assert replay(self.rows(make()).to_pylist(), [], ("dt", "id")) == model, f"write {number}, {mode}"


def write_rows(ids: Sequence[int], text: str = "old") -> pa.Table:
    """Rows of `WRITE_SCHEMA`, one per number, which gives its key. The partition is `even` or `odd`."""
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
