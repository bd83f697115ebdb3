"""The columns of a table after a write whose rows have other ones: some added, some of a wider type, some missing.

Rules: Hudi's `HoodieSchemaUtils.deduceWriterSchema`, `AvroSchemaEvolutionUtils.reconcileSchema` and
`SchemaChangeUtils` (which type may become which). New columns come last and may be null. A narrower type is widened to
that of the table. Files that are there keep their columns: readers, merges and compactions give their rows the new
ones.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakebed.errors import CommitConflictError, SchemaError, UnsupportedError, UsageError
from lakebed.formats.hudi.codec.avro_schema import avro_field
from lakebed.formats.hudi.config import TableConfig
from lakebed.formats.hudi.layout import META_COLUMNS
from lakebed.kernel.options import Option, Options, OptionSet, boolean, one_of
from lakebed.kernel.predicates.where import find_column
from lakebed.model.rowkind import ROW_KIND_COLUMN

WRITE_SCHEMA: Option[str] = Option(
    "lakebed.write.schema",
    one_of("table", "evolve"),
    "",
    "What becomes of rows with other columns than the table: table refuses them, evolve gives the table new columns "
    "and wider types. By default evolve for df.write.format('hudi') and where an option of Hudi's asks for it, else "
    "table",
)
FILL: Option[bool] = Option(
    "hoodie.write.set.null.for.missing.columns",
    boolean,
    True,
    "Whether columns that the rows lack are null; false refuses such rows (Hudi's default)",
)
DROP: Option[bool] = Option(
    "hoodie.datasource.write.schema.allow.auto.evolution.column.drop",
    boolean,
    False,
    "Whether the table loses columns that the rows lack",
)
RECONCILE: Option[bool] = Option(
    "hoodie.datasource.write.reconcile.schema",
    boolean,
    False,
    "Whether the table has its columns and those of the rows afterwards, and missing ones are null",
)
EVOLUTION = OptionSet((WRITE_SCHEMA, FILL, DROP, RECONCILE), "writes to Hudi tables")


@dataclass(frozen=True, slots=True)
class Evolution:
    """What a write may do to a table's columns. `needed` are columns that every row has: of keys, partitions and
    ordering. `texts` are those whose text is in keys or paths: a type that changes it would make other ones."""

    evolves: bool
    fills: bool
    drops: bool
    needed: tuple[str, ...]
    texts: tuple[str, ...]
    table: str

    @classmethod
    def of(cls, options: Options, config: TableConfig, table: str, default: str = "table") -> Evolution:
        """From a write's options and the table's settings."""
        asked = options[DROP] or options[RECONCILE]
        evolves = (options[WRITE_SCHEMA] or ("evolve" if asked else default)) == "evolve"
        drops = options[DROP] and not options[RECONCILE]
        texts = (*config.record_keys, *config.partition_fields)
        fills = options[FILL] or options[RECONCILE]
        return cls(evolves, fills, drops and evolves, (*texts, *config.ordering), texts, table)

    def evolved(self, columns: pa.Schema, avro: str, given: pa.Schema, ids: bool) -> tuple[pa.Schema, str]:
        """The table's columns and Avro schema for rows with the columns `given`. `ids` says that it keeps a history of
        column ids (schema on read).

        SchemaError where rows lack columns that they must have, or have a type that no type of the table can become.
        """
        given = user_columns(given)
        missing = [name for name in columns.names if name not in given.names]
        lacking = [name for name in self.needed if name in missing]
        if missing and (not self.fills or self.drops) and (lacking or not self.drops):
            raise SchemaError(
                f"columns missing: {', '.join(lacking or missing)}",
                table=self.table,
                why=f"the option {(DROP if self.drops else FILL).key} is {str(self.drops).lower()}",
                todo="Give the rows these columns",
            )
        if not self.evolves:
            return columns, avro
        record = json.loads(avro)
        fields = {field["name"]: field for field in record["fields"]}
        after = {field.name: field for field in columns if field.name in given.names or not self.drops}
        for field in given:
            before = after.get(field.name)
            kind = field.type if before is None else _wider(before.type, field.type)
            if before is not None and field.name in self.texts and not _same_text(before.type, kind):
                kind = before.type
            if before is None or kind != before.type:
                nullable = before is None or before.nullable
                after[field.name] = pa.field(field.name, kind, nullable)
                fields[field.name] = avro_field(after[field.name], record["name"], record.get("namespace", ""))
                after[field.name] = after[field.name].with_type(_stored(kind))
        schema = pa.schema(after.values())
        if schema.equals(columns):
            return columns, avro
        dropped = [name for name in columns.names if name not in schema.names]
        if ids and dropped:
            raise UnsupportedError(
                f"lakebed does not drop {', '.join(dropped)} from a table that keeps a history of its columns",
                table=self.table,
                why="schema on read: writes add columns and widen them, and ALTER TABLE drops them",
                todo=f"Leave the option {DROP.key} out, or drop the column with Hudi's own engine",
            )
        text = json.dumps(
            {**record, "fields": [fields[name] for name in schema.names if name in fields]}, ensure_ascii=False
        )
        return schema, text


def refuse_evolution(options: Options, table: str) -> None:
    """Raise UnsupportedError where the options ask for something that needs the columns of the rows beforehand."""
    asked: dict[Option[Any], object] = {WRITE_SCHEMA: "evolve", DROP: True, RECONCILE: True, FILL: False}
    option = next((option for option, value in asked.items() if options[option] == value), None)
    if option is not None:
        raise UnsupportedError(
            f"lakebed does not serve {option.key}={str(options[option]).lower()} in such a write",
            table=table,
            why="the columns of its rows are not known when it begins",
            todo="Use table.write or df.write.format('hudi'), or leave the option out",
        )


def spelled(rows: pa.Schema, columns: pa.Schema) -> pa.Schema:
    """Rows whose columns are named in any case, in the spelling of the table's."""
    names = [find_column(name, columns.names) or name for name in rows.names]
    return pa.schema([field.with_name(name) for field, name in zip(rows, names, strict=True)])


def user_columns(schema: pa.Schema) -> pa.Schema:
    """The columns of a schema that are neither Hudi's meta columns nor row kinds."""
    return pa.schema([field for field in schema if field.name not in (*META_COLUMNS, ROW_KIND_COLUMN)])


def check_unchanged(before: pa.Schema, after: pa.Schema, now: pa.Schema, table: str) -> None:
    """Raise CommitConflictError where another writer changed a table's columns since a write began: its rows would take
    them away again. The write found the columns `before`, and gives the table those `after` it."""
    if not check_same(before, now) and not check_same(after, now):
        raise CommitConflictError(
            "another writer changed the table's columns",
            table=table,
            why=f"they were {', '.join(before.names)}, and are {', '.join(now.names)}",
            todo="Open the table again, and write again",
        )


def check_prepared(rows: pa.Schema, columns: pa.Schema, table: str) -> None:
    """Raise UsageError for rows that another writer prepared, for other columns than this one gives the table."""
    if not check_same(rows, columns):
        raise UsageError(
            "the rows were prepared for other columns",
            table=table,
            why=f"they have {', '.join(rows.names)}, and the table {', '.join(columns.names)}",
            todo="Write the rows again",
        )


def check_same(before: pa.Schema, now: pa.Schema) -> bool:
    """Whether a table has the same columns, apart from Avro's nullability. Columns that files leave out may have
    moved."""
    return {f.name: f.type for f in before} == {f.name: f.type for f in now}


def _wider(table: pa.DataType, given: pa.DataType) -> pa.DataType:
    """The type that a table's column has after a write: the given one where it is wider, else that of the table."""
    types = pa.types
    if types.is_dictionary(given):
        given = given.value_type
    if types.is_integer(table):
        wider = types.is_integer(given) and given.bit_width > max(32, table.bit_width)
        text = types.is_string(given) or types.is_large_string(given)
        return _stored(given) if wider or types.is_floating(given) or text else table
    if types.is_float32(table):
        return given if types.is_float64(given) else table
    if types.is_decimal(table) and types.is_decimal(given):
        whole = given.precision - given.scale >= table.precision - table.scale
        return given if whole and given.scale >= table.scale else table
    if types.is_date32(table):
        return pa.string() if types.is_string(given) or types.is_large_string(given) else table
    return _wider_inside(table, given)


def _wider_inside(table: pa.DataType, given: pa.DataType) -> pa.DataType:
    """The type of a nested column: fields are added, last, and widened where they lie."""
    types = pa.types
    if types.is_struct(table) and types.is_struct(given):
        names, came = {field.name for field in table}, {field.name: field.type for field in given}
        fields = [f.with_type(_wider(f.type, came[f.name])) if f.name in came else f for f in table]
        return pa.struct([*fields, *(pa.field(f.name, _stored(f.type)) for f in given if f.name not in names)])
    if types.is_list(table) and (types.is_list(given) or types.is_large_list(given)):
        return pa.list_(table.value_field.with_type(_wider(table.value_type, given.value_type)))
    if types.is_map(table) and types.is_map(given):
        return pa.map_(table.key_type, table.item_field.with_type(_wider(table.item_type, given.item_type)))
    return table


def _same_text(before: pa.DataType, after: pa.DataType) -> bool:
    return bool(before == after or pa.types.is_integer(after) or pa.types.is_string(after))


_STORED = {
    pa.int8(): pa.int32(), pa.int16(): pa.int32(), pa.uint8(): pa.int32(), pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(), pa.uint64(): pa.int64(), pa.float16(): pa.float32(), pa.large_string(): pa.string(),
    pa.string_view(): pa.string(), pa.large_binary(): pa.binary(), pa.binary_view(): pa.binary(),
}  # fmt: skip


def _stored(kind: Any) -> pa.DataType:
    """The type as the table's readers give it."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_stored(field.type)) for field in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(kind.value_field.with_type(_stored(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, kind.item_field.with_type(_stored(kind.item_type)))
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz else None)
    return _STORED.get(kind, kind)
