"""What the model of an Iceberg table's life knows: its shape, its columns, and the rows of its snapshots."""

from __future__ import annotations

import datetime
import random
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

Row = dict[str, Any]
"""The values of a row by the name that the model knows a column by, whatever it is called now."""
Rows = dict[int, Row]
"""Rows by their `id`."""
ARROW = {
    "bigint": pa.int64(), "int": pa.int32(), "string": pa.string(), "date": pa.date32(), "float": pa.float32(),
    "double": pa.float64(), "decimal(9, 2)": pa.decimal128(9, 2), "decimal(15, 2)": pa.decimal128(15, 2),
}  # fmt: skip
"""The Arrow type of a type as Spark spells it."""
WIDER = {"int": "bigint", "float": "double", "decimal(9, 2)": "decimal(15, 2)"}
ICEBERG = {"bigint": "long"}
"""Iceberg's name of a type, where it is another than Spark's."""
PARTS = ("a", "b", "c")


@dataclass(frozen=True)
class Column:
    """A column: its name now, the name that the model holds its values by, its type, and what rows without it read."""

    name: str
    held: str
    type: str
    default: Any = None

    @property
    def arrow(self) -> pa.DataType:
        return ARROW[self.type]

    def value(self, chance: random.Random) -> Any:
        """A random value, sometimes null."""
        if chance.random() < 0.15:
            return None
        number = chance.randrange(-500, 500)
        if self.type == "string":
            return f"s{number}"
        if self.type == "date":
            return datetime.date(2024, 1, 15) + datetime.timedelta(number % 120)
        if self.type.startswith("decimal"):
            return Decimal(number).scaleb(-2)
        return number / 4 if self.type in ("float", "double") else number


FIRST = (
    Column("id", "id", "bigint"), Column("part", "part", "string"), Column("num", "num", "int"),
    Column("price", "price", "decimal(9, 2)"), Column("day", "day", "date"), Column("name", "name", "string"),
    Column("rate", "rate", "float"),
)  # fmt: skip
SPECS = ((), (), ("part",), ("part",), ("bucket(3, id)",), ("month(day)",), ("part", "truncate(2, name)"))
CATALOGS = ("path", "rest", "hive", "sql")


@dataclass(frozen=True)
class Shape:
    """How a table begins."""

    catalog: str
    version: int
    spec: tuple[str, ...]
    file_format: str
    deletes: str
    creator: str

    @classmethod
    def drawn(cls, chance: random.Random, wanted: dict[str, Any]) -> Shape:
        """A random shape with these wishes."""
        drawn = {
            "catalog": chance.choice(CATALOGS), "version": chance.choice((1, 2, 2, 2, 3, 3, 3)),
            "spec": chance.choice(SPECS), "file_format": chance.choice(("parquet",) * 6 + ("orc", "avro")),
            "deletes": chance.choice(("merge-on-read", "merge-on-read", "copy-on-write")),
            "creator": chance.choice(("lakebed", "spark")),
        }  # fmt: skip
        drawn |= wanted
        if drawn["version"] == 1:
            drawn["deletes"] = "copy-on-write"
        if drawn["catalog"] == "sql":
            drawn["creator"] = "lakebed"
        return cls(**drawn)

    @property
    def properties(self) -> dict[str, str]:
        return {
            "format-version": str(self.version), "write.format.default": self.file_format,
            **{f"write.{verb}.mode": self.deletes for verb in ("delete", "update", "merge")},
            "write.delete.format.default": self.file_format,
        }  # fmt: skip


def table_of(rows: Sequence[Row], columns: Sequence[Column]) -> pa.Table:
    """Rows as Arrow has them, by the columns' names of now."""
    arrays = [pa.array([row.get(column.held, column.default) for row in rows], column.arrow) for column in columns]
    fields = [pa.field(column.name, column.arrow, column.name != "id") for column in columns]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def text(value: Any) -> str | None:
    """A value as every reader is compared."""
    return None if value is None else str(float(value)) if isinstance(value, float) else str(value)


def wanted_rows(rows: Rows, columns: Sequence[Column]) -> list[list[str | None]]:
    """What a reader of these columns gets, in the order of ids."""
    return sorted(
        ([text(row.get(column.held, column.default)) for column in columns] for row in rows.values()), key=repr
    )


def read_rows(found: pa.Table, columns: Sequence[Column]) -> list[list[str | None]]:
    """An Arrow answer in the same spelling."""
    lists = [found[column.name].to_pylist() for column in columns]
    return sorted(([text(value) for value in row] for row in zip(*lists, strict=True)), key=repr)
