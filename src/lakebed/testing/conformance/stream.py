"""What `stream` promises."""

# ruff: noqa: D102 - the names of the tests say what they promise

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from lakebed.model.rowkind import ROW_KIND_COLUMN
from lakebed.testing.conformance.rows import bag, replay
from lakebed.verbs.read import run
from lakebed.verbs.stream import Limits, StreamReader, drain
from lakebed.verbs.table import Table


class StreamConformance:
    """`stream`. Fixtures: `table`, opened with the options that start it at its first commit, and `key`."""

    @pytest.fixture
    def table(self) -> Table:
        """The table under test."""
        raise NotImplementedError

    @pytest.fixture
    def key(self) -> tuple[str, ...]:
        """The columns that identify a row."""
        raise NotImplementedError

    @pytest.fixture
    def bookkeeping(self) -> tuple[str, ...]:
        """The format's own columns in which a changed row and the row of the snapshot may differ."""
        return ()

    def test_all_batches_are_the_snapshot(
        self, table: Table, key: tuple[str, ...], bookkeeping: tuple[str, ...]
    ) -> None:
        rows = replay(table.read().read_all().to_pylist(), [], key, bookkeeping)
        for limits in (Limits(commits=1), Limits()):
            changes = [row for _, batch in _batches(table.stream(), None, limits) for row in batch.to_pylist()]
            assert replay([], changes, key, bookkeeping) == rows, f"{limits}"

    def test_one_commit_per_batch_is_more_than_one_batch(self, table: Table) -> None:
        assert len(_batches(table.stream(), None, Limits(commits=1))) > 1

    def test_it_stands_still_when_nothing_is_new(self, table: Table) -> None:
        stream = table.stream()
        end = _batches(stream, None, Limits())[-1][0]
        assert stream.latest(end, Limits()) == end == table.stream().latest(end, Limits(commits=1))
        assert list(drain(stream, end)) == []

    def test_all_ends_are_known_from_one_look(self, table: Table) -> None:
        for limits in (Limits(commits=1), Limits()):
            start = table.stream().initial()
            ends = [end for end, _ in drain(table.stream(), start, limits)]
            assert [*table.stream().ends(start, limits)] == ends
            assert [*table.stream().ends(ends[-1], limits)] == []

    def test_a_batch_is_the_same_when_another_reader_gave_its_end(self, table: Table) -> None:
        stream = table.stream()
        start = stream.initial()
        ends = stream.ends(start, Limits(commits=1))
        plans = [stream.plan(before, end) for before, end in zip([start, *ends[:-1]], ends, strict=True)]
        for before, end, plan in zip([start, *ends[:-1]], ends, plans, strict=True):
            assert bag(run(plan, 2)) == bag(run(table.stream().plan(before, end), 2))

    def test_it_resumes_from_each_position_in_another_process(self, table: Table) -> None:
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


def _batches(stream: StreamReader, start: str | None, limits: Limits) -> list[tuple[str, pa.Table]]:
    return [(end, run(plan, 2).read_all()) for end, plan in drain(stream, start, limits)]
