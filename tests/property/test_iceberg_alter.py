"""Random alterations of an Iceberg table between random writes, against a list of rows that knows columns by what they
are and not by their names. After each step the table has the model's columns and rows, whatever files, schemas and
partition specs it has gone through; every snapshot has its own."""

from __future__ import annotations

import itertools
import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lakebed
from lakebed.errors import SchemaError
from lakebed.formats.iceberg.table import IcebergTable
from tests.tables.iceberg.small import QUICK

WIDER = {"int": "long", "float": "double", "decimal(5, 2)": "decimal(9, 2)"}
ARROW = {
    "int": pa.int32(), "long": pa.int64(), "float": pa.float32(), "double": pa.float64(), "string": pa.string(),
    "decimal(5, 2)": pa.decimal128(5, 2), "decimal(9, 2)": pa.decimal128(9, 2),
}  # fmt: skip
BUCKETED = ("int", "long", "string", "decimal(5, 2)", "decimal(9, 2)")


@dataclass
class Column:
    """A column of the model. `number` is what it is, for ever; the fields inside a struct are columns of their own."""

    number: int
    name: str
    kind: str
    inside: list[Column] = field(default_factory=list)
    default: Any = None

    def empty(self) -> Any:
        """The value in a row that is written without this column."""
        return self.default

    def shown(self, value: Any) -> Any:
        """A value of the model as a read gives it."""
        if self.kind != "struct" or value is None:
            return value
        return {one.name: one.shown(value.get(one.number)) for one in self.inside}


class Life:
    """A table, and the columns and rows that it shall have."""

    def __init__(self, place: Path, chance: random.Random, version: int) -> None:
        self.chance, self.version, self.numbers = chance, version, itertools.count()
        self.columns = [Column(next(self.numbers), "id", "long"), Column(next(self.numbers), "a", "int")]
        self.rows: list[dict[int, Any]] = []
        schema = pa.schema([pa.field("id", pa.int64(), False), pa.field("a", pa.int32())])
        made = lakebed.create(place, "iceberg", schema, ["id"], options={"format-version": version, **QUICK})
        assert isinstance(made, IcebergTable)
        self.table, self.moments = made, list[tuple[str, list[Any]]]()
        self.sources: dict[str, int] = {}
        """Transforms of partition fields -> the columns that they come from."""
        self.sorted_by: int | None = None
        self.ids = itertools.count()

    def step(self) -> None:
        alters = [
            self.add,
            self.add,
            self.drop,
            self.rename,
            self.widen,
            self.move,
            self.partition,
            self.sort,
            self.both,
        ]
        act = self.chance.choice([*alters, self.write, self.write, self.write, self.upkeep, self.upgrade])
        act()
        self.check()

    def check(self) -> None:
        assert self.table.schema.names == [one.name for one in self.columns]
        assert self.read() == self.shown()

    def read(self, **how: Any) -> list[Any]:
        return sorted(self.table.read(**how).read_all().to_pylist(), key=lambda row: int(row["id"]))

    def shown(self) -> list[Any]:
        rows = [{one.name: one.shown(row.get(one.number)) for one in self.columns} for row in self.rows]
        return sorted(rows, key=lambda row: int(row["id"]))

    # ---- alterations ----

    def new_name(self, siblings: list[Column]) -> str:
        return self.chance.choice([n for n in "abcdefgh" if n not in [one.name for one in siblings]] or ["z"])

    def add(self) -> None:
        struct = next((one for one in self.columns if one.kind == "struct"), None)
        if struct is not None and self.chance.random() < 0.4 and len(struct.inside) < 4:
            made = Column(next(self.numbers), self.new_name(struct.inside), "int")
            self.table.alter(lakebed.add_column((struct.name, made.name), "int"))
            struct.inside.append(made)
            return
        if len(self.columns) > 6:
            return
        kind = self.chance.choice(["int", "float", "decimal(5, 2)", "string", "struct"])
        made = Column(next(self.numbers), self.new_name(self.columns), kind)
        if kind == "struct":
            made.inside = [Column(next(self.numbers), "x", "int")]
            self.table.alter(lakebed.add_column(made.name, pa.struct([("x", pa.int32())])))
            self.columns.append(made)
            return
        if self.version == 3 and self.chance.random() < 0.5:
            made.default = self.value(made)
        self.table.alter(lakebed.add_column(made.name, kind, default=made.default, before=self.columns[-1].name))
        self.columns.insert(len(self.columns) - 1, made)
        for row in self.rows:
            row[made.number] = made.default

    def drop(self) -> None:
        one = self.chance.choice(self.columns)
        before = self.table.schema
        if one.name == "id" or one.number in (*self.sources.values(), self.sorted_by):
            with pytest.raises(SchemaError):
                self.table.alter(lakebed.drop_column(one.name))
            assert self.table.schema == before
            return
        self.table.alter(lakebed.drop_column(one.name))
        self.columns.remove(one)

    def rename(self) -> None:
        one = self.chance.choice(self.columns)
        if one.name == "id":
            return
        name = self.new_name(self.columns)
        self.table.alter(lakebed.rename_column(one.name, name))
        one.name = name

    def widen(self) -> None:
        for one in self.columns:
            if one.kind in WIDER:
                self.table.alter(lakebed.widen(one.name, WIDER[one.kind]))
                one.kind = WIDER[one.kind]
                return

    def move(self) -> None:
        one, other = self.chance.choice(self.columns), self.chance.choice(self.columns)
        if one is not other:
            self.table.alter(lakebed.move_column(one.name, after=other.name))
            self.columns.remove(one)
            self.columns.insert(self.columns.index(other) + 1, one)

    def partition(self) -> None:
        if self.sources and self.chance.random() < 0.5:
            name = self.chance.choice(list(self.sources))
            self.table.alter(lakebed.drop_partition_field(name))
            del self.sources[name]
            return
        one = self.chance.choice([column for column in self.columns if column.kind in BUCKETED])
        if one.number not in self.sources.values():
            name = f"p{one.number}_{len(self.moments)}_{self.chance.random()}"
            transform = "bucket(2, {})" if self.chance.random() < 0.6 else "truncate(3, {})"
            self.table.alter(lakebed.add_partition_field(transform.format(one.name), name))
            self.sources[name] = one.number

    def sort(self) -> None:
        one = self.chance.choice([column for column in self.columns if column.kind != "struct"])
        self.sorted_by = None if self.chance.random() < 0.3 else one.number
        self.table.alter(lakebed.set_sort_order(*([f"{one.name} desc"] if self.sorted_by is not None else [])))

    def both(self) -> None:
        """Another writer adds rows with a writer from before the change."""
        writer = lakebed.open(self.table.location).writer()
        row = {self.columns_by("id").number: next(self.ids)}
        writer.write(pa.table({"id": pa.array([*row.values()], pa.int64())}))
        messages, before = writer.prepare_commit(), list(self.columns)
        self.add()
        writer.commit(1, messages)
        late = [one for one in self.columns if one not in before]
        self.rows.append({**row, **{one.number: one.empty() for one in self.columns}, **row})
        for one in late:
            self.rows[-1][one.number] = one.default

    def upgrade(self) -> None:
        self.version = min(3, self.version + 1)
        self.table.alter(lakebed.set_option("format-version", self.version))

    # ---- rows ----

    def columns_by(self, name: str) -> Column:
        return next(one for one in self.columns if one.name == name)

    def value(self, column: Column) -> Any:
        if self.chance.random() < 0.2 and column.default is None:
            return None
        number = self.chance.randrange(-50, 50)
        made: dict[str, Callable[[], Any]] = {
            "string": lambda: f"t{number}", "float": lambda: number / 2, "double": lambda: number / 2,
            "struct": lambda: {one.number: number for one in column.inside},
        }  # fmt: skip
        if column.kind.startswith("decimal"):
            return Decimal(number) / 4
        return made.get(column.kind, lambda: number)()

    def write(self) -> None:
        given = [one for one in self.columns if one.name == "id" or self.chance.random() < 0.8]
        key = self.columns_by("id").number
        known = [row[key] for row in self.rows]
        upsert = self.version > 1 and bool(known) and self.chance.random() < 0.5
        ids = self.chance.sample(known, min(2, len(known))) if upsert else []
        ids += [next(self.ids) for _ in range(2)]
        fresh = [{one.number: n if one.name == "id" else self.value(one) for one in given} for n in ids]
        shown = [{one.name: one.shown(row[one.number]) for one in given} for row in fresh]
        schema = pa.schema([self.table.schema.field(one.name) for one in given])
        self.table.write(pa.Table.from_pylist(shown, schema), "upsert" if upsert else "append")
        self.rows = [row for row in self.rows if not upsert or row[key] not in ids]
        self.rows += [{**{one.number: one.empty() for one in self.columns}, **row} for row in fresh]
        self.moments.append((self.table.history()[-1].time, self.shown()))

    def upkeep(self) -> None:
        if self.chance.random() < 0.5:
            self.table.rewrite(options={"rewrite-all": True})
        else:
            for time, rows in self.moments:
                assert self.read(as_of=time) == rows
            self.table.expire(options={"older-than": "2100-01-01"})
            self.moments.clear()


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32), st.sampled_from([1, 2, 3]))
def test_alterations_between_writes(seed: int, version: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        life = Life(Path(folder) / "t", random.Random(seed), version)
        life.write()
        for _ in range(14):
            life.step()
        for time, rows in life.moments:
            assert life.read(as_of=time) == rows
        life.table.rewrite(options={"rewrite-all": True})
        life.check()
