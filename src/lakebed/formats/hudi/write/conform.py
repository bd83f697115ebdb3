"""Rows conformed to the table's columns."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lakebed.kernel.rows.conform import check_conformable, conform


@dataclass(frozen=True, slots=True)
class WriteSchema:
    """The columns that a write gives to the table. `keys` may not be null."""

    columns: pa.Schema
    keys: tuple[str, ...]
    location: str

    def conformed(self, data: pa.Table, *, only_keys: bool = False, changes: bool = False) -> pa.Table:
        """Rows in the table's columns. Columns that are not given are null; of deletes only the key is needed."""
        loose = only_keys or changes
        wanted = pa.schema(
            [field.with_nullable(field.name not in self.keys and (loose or field.nullable)) for field in self.columns]
        )
        check_conformable(data.schema, wanted, self.location)
        return conform(data, wanted, self.location)
