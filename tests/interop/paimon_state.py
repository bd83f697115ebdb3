"""What the model of a Paimon table's life knows of the table after a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tests.interop.paimon_actors import values
from tests.interop.paimon_shape import Row

Rows = dict[tuple[Any, ...], Row]


@dataclass(frozen=True)
class Column:
    """A column, and the name that the model knows it by, whatever it is called now."""

    name: str
    held: str
    type: pa.DataType
    nullable: bool = True


@dataclass(frozen=True)
class State:
    """The table after a step: all rows, those that readers see, the columns, and how many buckets a partition has."""

    rows: Rows
    seen: Rows
    columns: tuple[Column, ...]
    buckets: int = 2

    @property
    def schema(self) -> pa.Schema:
        """The columns as they are called."""
        return pa.schema([pa.field(column.name, column.type, column.nullable) for column in self.columns])

    def read(self) -> list[tuple[Any, ...]]:
        """What a reader gets."""
        return self.spelled(self.seen)

    def spelled(self, rows: Rows) -> list[tuple[Any, ...]]:
        """Rows in the order that all engines are compared in."""
        named = ({column.name: row.get(column.held) for column in self.columns} for row in rows.values())
        return sorted((values(row, self.schema) for row in named), key=repr)
