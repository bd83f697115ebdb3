"""Rows conformed to the table's columns."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lakebed.errors import SchemaError
from lakebed.formats.hudi.read.conform import conform_table
from lakebed.kernel.rows.conform import check_conformable, conform


@dataclass(frozen=True, slots=True)
class WriteSchema:
    """The columns that a write gives to the table. `keys` may not be null, and rows must have the columns `named`."""

    columns: pa.Schema
    keys: tuple[str, ...]
    location: str
    named: tuple[str, ...] = ()

    def conformed(self, data: pa.Table, *, only_keys: bool = False, changes: bool = False) -> pa.Table:
        """Rows in the table's columns. Columns that are not given are null; of deletes only the key is needed."""
        missing = [name for name in self.named if name.partition(".")[0] not in data.schema.names]
        if missing:
            raise SchemaError(
                f"partition columns missing that say which rows are meant: {', '.join(missing)}",
                table=self.location,
                todo="Give them beside the keys, or use a global index (hoodie.index.type=GLOBAL_SIMPLE)",
            )
        loose = only_keys or changes
        wanted = pa.schema(
            [field.with_nullable(field.name not in self.keys and (loose or field.nullable)) for field in self.columns]
        )
        data = _filled_inside(data, wanted)
        check_conformable(data.schema, wanted, self.location)
        return conform(data, wanted, self.location)


def _filled_inside(data: pa.Table, wanted: pa.Schema) -> pa.Table:
    """Rows whose nested columns have all fields of the table's: those that they lack are null, as missing columns
    are."""
    for at, field in enumerate(data.schema):
        known = wanted.field(field.name) if field.name in wanted.names else field
        if field.type != known.type and pa.types.is_nested(known.type) and _only_lacks(field.type, known.type):
            (column,) = conform_table(data.select([field.name]), pa.schema([known.with_nullable(True)])).columns
            data = data.set_column(at, known, column)
    return data


def _only_lacks(given: pa.DataType, table: pa.DataType) -> bool:
    """Whether a type has no field but those of the table's type."""
    types = pa.types
    if types.is_struct(given) and types.is_struct(table):
        table_types = {field.name: field.type for field in table}
        return all(f.name in table_types and _only_lacks(f.type, table_types[f.name]) for f in given)
    if types.is_list(given) and types.is_list(table):
        return _only_lacks(given.value_type, table.value_type)
    if types.is_map(given) and types.is_map(table):
        return _only_lacks(given.item_type, table.item_type)
    return bool(given == table or (not types.is_nested(given) and not types.is_nested(table)))
