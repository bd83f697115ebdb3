"""Random histories of an Iceberg table against a dictionary: appends, deletes of every kind, columns added, dropped,
renamed, widened and moved, in Parquet, ORC and Avro; every snapshot, every change and every predicate."""

import itertools
import random
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, FloatType, IcebergType, IntegerType, LongType, NestedField, StringType

from lakebed.formats.iceberg.read.context import ReadRequest
from lakebed.formats.iceberg.read.plan import plan_snapshot
from lakebed.formats.iceberg.snapshot import schema_at
from lakebed.model.rowkind import ROW_KIND_COLUMN
from lakebed.verbs.read import run
from tests.tables.iceberg.evolving import evolve
from tests.tables.iceberg.lake import Lake

KEY = NestedField(1, "id", LongType())
WIDER: dict[type[IcebergType], IcebergType] = {IntegerType: LongType(), FloatType: DoubleType()}
MAKE: dict[type[IcebergType], Callable[[random.Random], Any]] = {
    IntegerType: lambda r: r.randrange(-9, 9), LongType: lambda r: r.randrange(-(2**40), 2**40),
    FloatType: lambda r: r.choice([0.5, -2.0, float("nan"), 8.0]), DoubleType: lambda r: r.choice([0.25, float("inf")]),
    StringType: lambda r: r.choice(["", "é", "long " * 9, "b"]),
}  # fmt: skip

Rows = dict[int, dict[int, Any]]
"""The model: values by key and field id; a field that a row was written without is not there."""


class History:
    """A table and its model, side by side."""

    def __init__(self, folder: Path, chance: random.Random, version: int) -> None:
        self.chance, self.version = chance, version
        self.schema = Schema(KEY, NestedField(2, "a", IntegerType()), NestedField(3, "b", StringType()))
        self.lake = Lake(folder, self.schema, version=version)
        self.rows: Rows = {}
        self.where: dict[int, tuple[str, int]] = {}
        self.moments: list[tuple[int, Rows]] = []
        self.last_id, self.next_key = 3, 0

    def step(self) -> None:
        """One random thing."""
        do = self.chance.choice([self.append, self.append, self.delete_positions, self.delete_equal, self.change])
        do()
        head = self.lake.table.table_metadata.head()
        if head is not None and (not self.moments or self.moments[-1][0] != head.snapshot_id):
            self.moments.append((head.snapshot_id, {key: dict(row) for key, row in self.rows.items()}))

    def append(self) -> None:
        rows = []
        for _ in range(self.chance.randrange(1, 6)):
            values = {f.field_id: self._value(f) for f in self.schema.fields[:]}
            values[1] = self.next_key
            self.rows[self.next_key] = values
            rows.append(values)
            self.next_key += 1
        named = [{f.name: row[f.field_id] for f in self.schema.fields} for row in rows]
        kind = self.chance.choice(["parquet", "parquet", "orc", "avro"])
        files = self.lake.append(named, properties={"write.format.default": kind})
        assert len(files) == 1
        for position, row in enumerate(rows):
            self.where[row[1]] = (files[0].path, position)

    def delete_positions(self) -> None:
        gone: dict[str, list[int]] = {}
        for key in self._some_keys():
            path, position = self.where[key]
            gone.setdefault(path, []).append(position)
            del self.rows[key]
        if gone:
            self.lake.delete_positions(gone, self.chance.choice(["file", "partition"]))

    def delete_equal(self) -> None:
        """By the key, or by another column: all rows that are there then and equal, null too."""
        if not self.rows:
            return
        field = self.chance.choice([f for f in self.schema.fields if not isinstance(f.field_type, FloatType)])
        values = [self.rows[key].get(field.field_id, field.initial_default) for key in self._some_keys()]
        if not values:
            return
        self.lake.delete_equal([{field.name: value} for value in values])
        same = {repr(value) for value in values}
        for key in [k for k, row in self.rows.items() if repr(self._seen(row, field)) in same]:
            del self.rows[key]

    def change(self) -> None:
        fields = list(self.schema.fields)
        place = self.chance.randrange(1, len(fields)) if len(fields) > 1 else 0
        what = self.chance.choice(["add", "drop", "rename", "widen", "move"])
        if what == "add" or not place:
            self.last_id += 1
            kind = self.chance.choice([IntegerType(), StringType(), FloatType()])
            default = MAKE[type(kind)](self.chance) if self.version == 3 and not isinstance(kind, FloatType) else None
            fields.append(NestedField(self.last_id, f"c{self.last_id}", kind, initial_default=default))
        elif what == "drop":
            del fields[place]
        elif what == "rename":
            fields[place] = _changed(fields[place], name=f"r{self.chance.randrange(10**6)}")
        elif what == "widen":
            fields[place] = _changed(fields[place], kind=WIDER.get(type(fields[place].field_type)))
        else:
            fields.insert(1, fields.pop(place))
        self.schema = Schema(*fields)
        evolve(self.lake.table, self.schema)

    def expected(self, rows: Rows, schema: Schema) -> Counter[str]:
        """The rows that a schema shows."""
        shown = ({f.name: self._seen(row, f) for f in schema.fields} for row in rows.values())
        return Counter(map(_text, shown))

    def _seen(self, row: dict[int, Any], field: NestedField) -> Any:
        return row.get(field.field_id, field.initial_default)

    def _value(self, field: NestedField) -> Any:
        return None if self.chance.random() < 0.2 else MAKE[type(field.field_type)](self.chance)

    def _some_keys(self) -> list[int]:
        return self.chance.sample(sorted(self.rows), min(len(self.rows), self.chance.randrange(1, 4)))


def _changed(field: NestedField, name: str | None = None, kind: IcebergType | None = None) -> NestedField:
    return NestedField(
        field.field_id, name or field.name, kind or field.field_type, False, initial_default=field.initial_default
    )


def _text(row: dict[str, Any]) -> str:
    return repr(sorted(row.items()))


def _bag(rows: pa.Table) -> Counter[str]:
    return Counter(_text(row) for row in rows.to_pylist())


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32), version=st.sampled_from([2, 3]), steps=st.integers(3, 12))
def test_every_snapshot_change_and_predicate(seed: int, version: int, steps: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        history = History(Path(folder) / "t", random.Random(seed), version)
        for _ in range(steps):
            history.step()
        table = history.lake.table
        assert _bag(table.read().read_all()) == history.expected(history.rows, history.schema)
        metadata = table.table_metadata
        for snapshot, rows in history.moments:
            wanted = history.expected(rows, schema_at(metadata, snapshot))
            assert _bag(table.read(as_of=snapshot).read_all()) == wanted
        _check_predicates(history)
        _check_changes(history)


def _check_predicates(history: History) -> None:
    table = history.lake.table
    whole = table.read().read_all()
    for name in whole.column_names:
        values = [v for v in whole[name].to_pylist() if v is not None]
        for value in values[:2]:
            for predicate in (pc.field(name) == value, ~(pc.field(name) < value), pc.field(name) > value):
                assert _bag(table.read(where=predicate).read_all()) == _bag(whole.filter(predicate))
        unknown = pc.field(name).is_null()
        assert _bag(table.read(where=unknown).read_all()) == _bag(whole.filter(unknown))


def _check_changes(history: History) -> None:
    table = history.lake.table
    metadata = table.table_metadata
    moments = [(None, {}), *history.moments]
    pairs = {(0, len(moments) - 1), *itertools.pairwise(range(len(moments)))}
    for first, last in pairs:
        (after, _), (until, _) = moments[first], moments[last]
        if until is None:
            continue
        found: Counter[str] = Counter()
        if after is not None:
            context = table._context(metadata, schema_at(metadata, until))
            plan = plan_snapshot(table.operations.files, metadata, metadata.snapshot(after), ReadRequest(context))
            found = _bag(run(plan, 1).read_all())
        for row in table.changes(after=after, until=until).read_all().to_pylist():
            kind = row.pop(ROW_KIND_COLUMN)
            found[_text(row)] += 1 if kind in ("+I", "+U") else -1
        assert {text: n for text, n in found.items() if n} == _bag(table.read(as_of=until).read_all())
