"""A new table's definition: its schema, checked against what Paimon allows before anything is written.

Rules: Paimon's SchemaValidation and Schema.Builder.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum

import pyarrow as pa

from lakebed.errors import OptionError, SchemaError, UnsupportedError, known_columns
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.from_arrow import field_from_arrow
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.types import (
    KEY_PREFIX,
    SEQUENCE_NUMBER,
    VALUE_KIND,
    DataField,
    arrow_type,
)
from lakebed.formats.paimon.file_indexes import FileIndexRules
from lakebed.formats.paimon.large_values import refuse_large_values
from lakebed.formats.paimon.options import split_names
from lakebed.formats.paimon.unserved import Use, refuse_options
from lakebed.kernel import clock
from lakebed.kernel.options import Options
from lakebed.kernel.predicates.where import find_column
from lakebed.model.rowkind import ROW_KIND_COLUMN

_RESERVED = (SEQUENCE_NUMBER, VALUE_KIND, "_LEVEL", "_ROW_ID", "rowkind", ROW_KIND_COLUMN)
_FIELD_OPTIONS = (
    "aggregate-function", "ignore-retract", "sequence-group", "distinct", "list-agg-delimiter", "nested-key",
    "count-limit", "default-aggregate-function", "default-value", "stats-mode",
)  # fmt: skip
"""The endings of the options `fields.NAME.…`."""


class BucketMode(StrEnum):
    """How a table assigns rows to buckets."""

    HASH_FIXED = "HASH_FIXED"
    HASH_DYNAMIC = "HASH_DYNAMIC"
    KEY_DYNAMIC = "KEY_DYNAMIC"
    BUCKET_UNAWARE = "BUCKET_UNAWARE"
    POSTPONE_MODE = "POSTPONE_MODE"


def bucket_mode(schema: TableSchema, options: Options) -> BucketMode:
    """The bucket mode of a table, from its option `bucket` and its keys."""
    buckets = options[opt.BUCKET]
    if buckets == -2:
        return BucketMode.POSTPONE_MODE
    if buckets > 0:
        return BucketMode.HASH_FIXED
    if not schema.primary_keys:
        return BucketMode.BUCKET_UNAWARE
    whole = set(schema.partition_keys) <= set(schema.primary_keys)
    return BucketMode.HASH_DYNAMIC if whole else BucketMode.KEY_DYNAMIC


def new_schema(
    schema: pa.Schema, primary_key: Sequence[str], partition_by: Sequence[str], options: Mapping[str, str], table: str
) -> TableSchema:
    """Build version 0 of a new table's schema.

    Raises SchemaError for columns and keys that Paimon does not allow, OptionError for options that are unknown or
    conflict with the keys or with each other, UnsupportedError for options that lakebed does not support.
    """
    stored = opt.stored_options(options)
    for key, argument in (("primary-key", "primary_key"), ("partition", "partition_by")):
        if key in stored:
            raise OptionError(
                f"option {key!r} is {stored[key]!r}", key=key, table=table, todo=f"Give {argument}= to lakebed.create"
            )
    _check_names(schema.names, table)
    counter = itertools.count()
    fields = tuple(field_from_arrow(field, lambda: next(counter)) for field in schema)
    primary = _columns(primary_key, schema, "primary_key", table)
    partition = _columns(partition_by, schema, "partition_by", table)
    fields = tuple(replace(f, type=f.type.required()) if f.name in primary else f for f in fields)
    spelled = _spelled(stored, schema.names, table)
    definition = TableSchema(0, fields, next(counter) - 1, partition, primary, spelled, time_millis=clock.now_ms())
    for field in definition.fields:
        arrow_type(field.type)
    _check_keys(definition, table)
    parsed = opt.table_options(definition.options)
    for use in Use:
        refuse_options(parsed, use, table)
    check_options(definition, parsed, table)
    return definition


def check_definition(schema: TableSchema, table: str) -> None:
    """Raise SchemaError and OptionError for a later version of a schema that Paimon does not allow."""
    _check_names(schema.names, table)
    _spelled(schema.options, schema.names, table)
    _check_keys(schema, table)
    check_options(schema, opt.table_options(schema.options), table)


def check_options(schema: TableSchema, options: Options, table: str) -> None:
    """Raise OptionError when the options of a schema conflict with its columns, its keys or each other."""
    _check_bucket(schema, options, table)
    _check_engine(schema, options, table)
    for key in (opt.SEQUENCE_FIELD, opt.ROWKIND_FIELD):
        for name in split_names(options[key]):
            if name not in schema.names:
                raise opt.refuse(key, options[key], f"the table has no column {name!r}")
    FileIndexRules.of(schema, options.raw, 0, table)
    kind_column = options[opt.ROWKIND_FIELD]
    if kind_column and schema.field(kind_column).type.root not in ("VARCHAR", "CHAR"):
        raise opt.refuse(opt.ROWKIND_FIELD, kind_column, "the column is not a text")


def _check_names(names: Sequence[str], table: str) -> None:
    if not names:
        raise SchemaError("a table needs at least one column", table=table)
    seen: set[str] = set()
    for name in names:
        if not name:
            raise SchemaError("a column has no name", table=table)
        if name in _RESERVED or name.startswith(KEY_PREFIX):
            raise SchemaError(f"column {name!r} has a name that Paimon reserves", table=table, todo="Rename it")
        if name in seen:
            raise SchemaError(f"two columns have the name {name!r}", table=table, todo="Rename one of them")
        seen.add(name)


def _columns(names: Sequence[str], schema: pa.Schema, what: str, table: str) -> tuple[str, ...]:
    if isinstance(names, str):
        raise SchemaError(f"{what} is the text {names!r}", table=table, todo="Give a list of column names")
    columns: list[str] = []
    for name in names:
        column = find_column(name, schema.names)
        if column is None:
            why = "Paimon partitions by columns, not by transforms of them" if "(" in name else ""
            raise SchemaError(
                f"{what} names the unknown column {name!r}",
                table=table,
                why=why,
                todo=known_columns(name, schema.names),
            )
        if column in columns:
            raise SchemaError(f"{what} names {column!r} twice", table=table)
        columns.append(column)
    return tuple(columns)


def _spelled(options: Mapping[str, str], names: Sequence[str], table: str) -> dict[str, str]:
    """Options with the column names inside keys (`fields.NAME.…`) in the schema's case, since Spark lowers keys."""
    spelled: dict[str, str] = {}
    for key, value in options.items():
        parts = key.split(".")
        if parts[0].lower() == "fields" and parts[-1].lower() not in _FIELD_OPTIONS:
            raise OptionError.unknown(
                key, (".".join((*parts[:-1], ending)) for ending in _FIELD_OPTIONS), where="Paimon tables"
            )
        if parts[0].lower() == "fields" and len(parts) == 3:
            columns = [find_column(name, names) for name in parts[1].split(",")]
            if None in columns:
                raise OptionError(
                    f"option {key!r} names a column that the table does not have",
                    key=key,
                    table=table,
                    todo=f"Columns: {', '.join(names)}",
                )
            key = f"fields.{','.join(str(name) for name in columns)}.{parts[2]}"
        spelled[key] = value
    return spelled


def _check_keys(schema: TableSchema, table: str) -> None:
    for what, names in (("primary key", schema.primary_keys), ("partition", schema.partition_keys)):
        for field in schema.project(names):
            if field.type.is_nested:
                raise SchemaError(
                    f"{what} column {field.name!r} is nested: {field.type}",
                    table=table,
                    todo="Use columns that are not nested",
                )
    if schema.primary_keys and not schema.trimmed_primary_keys:
        raise SchemaError(
            "the primary key has only partition columns",
            table=table,
            todo="Add the columns that identify a row within its partition",
        )


def _check_bucket(schema: TableSchema, options: Options, table: str) -> None:
    buckets = options[opt.BUCKET]
    given_key = split_names(options[opt.BUCKET_KEY])
    outside = [name for name in schema.partition_keys if name not in schema.primary_keys]
    if schema.primary_keys and outside and buckets > 0:
        raise OptionError(
            f"option 'bucket' is {buckets}, but the primary key lacks the partition columns {', '.join(outside)}",
            key="bucket",
            table=table,
            why="a row could move to another partition, which a table with fixed buckets does not support",
            todo="Add the partition columns to the primary key, or use bucket=-1 (cross-partition updates)",
        )
    if buckets == -2 and not schema.primary_keys:
        raise opt.refuse(opt.BUCKET, buckets, "postponed buckets need a primary key")
    if given_key and buckets < 0:
        raise opt.refuse(
            opt.BUCKET_KEY, options[opt.BUCKET_KEY], f"it needs a fixed number of buckets, and bucket is {buckets}"
        )
    if buckets > 0 and not schema.primary_keys and not given_key:
        raise opt.refuse(opt.BUCKET, buckets, "a table without a primary key needs bucket-key for fixed buckets")
    for name in given_key:
        if name not in schema.names:
            raise opt.refuse(opt.BUCKET_KEY, options[opt.BUCKET_KEY], f"the table has no column {name!r}")
        if schema.field(name).type.is_nested:
            raise opt.refuse(opt.BUCKET_KEY, options[opt.BUCKET_KEY], f"column {name!r} is nested")
        if schema.primary_keys and name not in schema.primary_keys:
            raise opt.refuse(opt.BUCKET_KEY, options[opt.BUCKET_KEY], f"column {name!r} is not in the primary key")
    if options[opt.BUCKET_FUNCTION] == "mod":
        keys: tuple[DataField, ...] = schema.project(schema.bucket_keys)
        if len(keys) != 1 or keys[0].type.root not in ("INT", "BIGINT"):
            raise opt.refuse(opt.BUCKET_FUNCTION, "mod", "it needs exactly one bucket key, of type INT or BIGINT")


def _check_engine(schema: TableSchema, options: Options, table: str) -> None:
    engine, producer = options[opt.MERGE_ENGINE], options[opt.CHANGELOG_PRODUCER]
    if not schema.primary_keys:
        if engine != opt.MERGE_ENGINE.default:
            raise opt.refuse(opt.MERGE_ENGINE, engine, "only tables with a primary key merge rows")
        if producer != opt.CHANGELOG_PRODUCER.default:
            raise opt.refuse(opt.CHANGELOG_PRODUCER, producer, "only tables with a primary key have a changelog")
        _check_row_ids(options)
        return
    for key in opt.ROW_ID_OPTIONS:
        if options[key]:
            raise opt.refuse(key, "true", "row ids need a table without a primary key")
    if engine == "first-row":
        if producer not in ("none", "lookup"):
            raise opt.refuse(opt.CHANGELOG_PRODUCER, producer, "first-row allows only none or lookup")
        if options[opt.SEQUENCE_FIELD]:
            raise opt.refuse(opt.SEQUENCE_FIELD, options[opt.SEQUENCE_FIELD], "first-row keeps the first row to arrive")
    check_vectors(options)
    if options[opt.SEQUENCE_FIELD] and bucket_mode(schema, options) is BucketMode.KEY_DYNAMIC:
        raise opt.refuse(
            opt.SEQUENCE_FIELD, options[opt.SEQUENCE_FIELD], "it cannot be combined with cross-partition updates"
        )


def _check_row_ids(options: Options) -> None:
    """Raise OptionError where a table without a primary key cannot have row ids."""
    if options[opt.ROW_TRACKING] and options[opt.BUCKET] != -1:
        raise opt.refuse(opt.ROW_TRACKING, "true", f"row tracking needs bucket=-1, and bucket is {options[opt.BUCKET]}")
    if options[opt.DATA_EVOLUTION] and not options[opt.ROW_TRACKING]:
        raise opt.refuse(opt.DATA_EVOLUTION, "true", f"it needs {opt.ROW_TRACKING.key}")


def check_vectors(options: Options) -> None:
    """Raise OptionError where a table with a primary key cannot have deletion vectors."""
    if not options[opt.DELETION_VECTORS]:
        return
    if options[opt.MERGE_ENGINE] == "first-row":
        raise opt.refuse(opt.DELETION_VECTORS, "true", "first-row never deletes a row")
    if options[opt.CHANGELOG_PRODUCER] == "full-compaction":
        raise opt.refuse(
            opt.CHANGELOG_PRODUCER, "full-compaction", "tables with deletion vectors allow only none, input or lookup"
        )


def refuse_unserved(schema: TableSchema, options: Options, use: Use, table: str) -> None:
    """Raise UnsupportedError for options and column types that lakebed does not support in this use of the table."""
    refuse_options(options, use, table)
    stored = opt.table_options(schema.options)
    for option in opt.ROW_ID_OPTIONS:
        if options[option] != stored[option]:
            raise UnsupportedError(
                f"option {option.key!r} is {str(options[option]).lower()!r}, but the table has another value",
                table=table,
                why="its rows got their ids, or none, from the commits that wrote them",
                todo=f"Leave {option.key} out",
            )
    refuse_large_values(schema, options, use, table)
    for field in schema.fields:
        arrow_type(field.type)
