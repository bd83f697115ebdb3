"""The record key and the partition path of each row, as the table's key generator makes them.

Rules: Hudi's `KeyGenUtils`, `ComplexAvroKeyGenerator` and `SparkRowAccessor`. A complex key generator with one key
column makes `name:text` in table version 9. In older tables releases 0.15 and 1.0 make the bare text, and 1.1 does not
write such a table. Numbers with a fraction have the text of Java's `toString`. A global delete key generator names the
column of any key, and makes no partitions. The custom one makes keys as simple or complex ones, and each part of a path
as its field's kind says: the column's own text, or a time by a pattern (`timestamp_partitions.py`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import OptionError, SchemaError, UnsupportedError
from lakebed.formats.hudi import table_options as opt
from lakebed.formats.hudi.config import TableConfig
from lakebed.formats.hudi.keygen import GeneratorKind, check_kinds, field_kinds
from lakebed.formats.hudi.layout import NULL_PARTITION
from lakebed.formats.hudi.timestamp_partitions import TimestampPartitions
from lakebed.kernel.arrays import one_chunk
from lakebed.kernel.java_floats import early_java_text
from lakebed.kernel.options import Options

_SPECIAL = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^]")
"""The characters that a URL-encoded partition path spells in hex."""


_NOTHING = opt.TABLE.parse({})


@dataclass(frozen=True, slots=True)
class RowKeys:
    """Makes keys and partition paths. Picklable. `timed` are the partition fields whose values `times` makes."""

    fields: tuple[str, ...]
    partition_fields: tuple[str, ...]
    complex_key: bool
    hive_style: bool
    url_encoded: bool
    timed: tuple[str, ...] = ()
    times: TimestampPartitions | None = None

    @classmethod
    def of(cls, config: TableConfig, schema: pa.Schema, given: Options = _NOTHING, table: str = "") -> RowKeys:
        """By a table's settings and the options of a write. UnsupportedError for a key generator that is not served."""
        kind = config.generator.kind
        if kind is GeneratorKind.OTHER:
            raise UnsupportedError(
                f"lakebed does not write keys of the key generator {config.generator.name or kind.value}",
                todo="Write the table with Hudi's own engine",
            )
        partitions = () if kind is GeneratorKind.GLOBAL_DELETE else config.partition_fields
        missing = [name for name in (*config.record_keys, *partitions) if name not in schema.names]
        if missing:
            raise SchemaError(
                f"the rows lack columns that make their keys: {', '.join(missing)}",
                table=table,
                todo="Add these columns",
            )
        check_kinds(schema, (*config.record_keys, *partitions), table)
        named = kind is GeneratorKind.COMPLEX and config.version >= 9 and not config.key_form.value_only
        complex_key = named or len(config.record_keys) > 1 or kind is GeneratorKind.GLOBAL_DELETE
        timed = _timed(config, given, table)
        times = TimestampPartitions.of(config.properties, given, table) if timed else None
        if times is not None:
            for name in timed:
                times.check_column(schema.field(name), table)
        return cls(
            config.record_keys, partitions, complex_key, config.hive_style, bool(config.url_encoded), timed, times
        )

    def keys(self, batch: pa.RecordBatch | pa.Table) -> pa.StringArray:
        """The record key of each row, null for a table without key columns. SchemaError for a row whose key columns
        are null or empty."""
        if not self.fields:
            return pa.nulls(batch.num_rows, pa.string())
        texts = [_text(one_chunk(batch.column(name))) for name in self.fields]
        if not self.complex_key:
            (text,) = texts
            if pc.any(pc.equal(text, "").fill_null(True)).as_py():
                raise SchemaError(
                    f"record key column {self.fields[0]!r} has rows without a value",
                    why="a record key cannot be null or empty",
                    todo="Give every row a key, or filter out such rows",
                )
            return text
        parts = [
            pc.binary_join_element_wise(
                f"{name}:", pc.if_else(pc.equal(text, ""), "__empty__", text).fill_null("__null__"), ""
            )
            for name, text in zip(self.fields, texts, strict=True)
        ]
        _check_some_value(self.fields, texts)
        return pc.binary_join_element_wise(*parts, ",")

    def partitions(self, batch: pa.RecordBatch | pa.Table) -> pa.StringArray:
        """The partition path of each row. SchemaError for a path that leaves the table's folder, and for one that no
        folder can have."""
        if not self.partition_fields:
            return pa.repeat("", batch.num_rows)
        parts = []
        for name in self.partition_fields:
            column = one_chunk(batch.column(name))
            if self.times is not None and name in self.timed:
                text = self.times.values(column)
            else:
                text = _text(column)
                text = pc.if_else(pc.equal(text, ""), NULL_PARTITION, text).fill_null(NULL_PARTITION)
            text = _escaped(text) if self.url_encoded else text
            parts.append(pc.binary_join_element_wise(f"{name}=", text, "") if self.hive_style else text)
        paths = parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, "/")
        if pc.any(pc.match_substring_regex(paths, r"(^|[/\\])\.\.?([/\\]|$)")).as_py():
            raise SchemaError(
                f"partition column {', '.join(self.partition_fields)}: a part '.' or '..' would leave its partition",
                todo="Change the value, or create the table with hoodie.datasource.write.hive_style_partitioning=true "
                "(where values have slashes, with hoodie.datasource.write.partitionpath.urlencode=true)",
            )
        if pc.any(pc.match_substring_regex(paths, "^/|\x00")).as_py():
            raise SchemaError(
                f"partition column {', '.join(self.partition_fields)} has a value that no folder can be named by",
                why="it begins with a slash, or has a zero byte",
                todo="Change the value, or create the table with hoodie.datasource.write.partitionpath.urlencode=true",
            )
        return paths


def _timed(config: TableConfig, given: Options, table: str) -> tuple[str, ...]:
    """The partition fields that hold times. Table version 6 keeps the kinds of a custom key generator's fields only
    where lakebed made the table: other writers give them each time."""
    kind = config.generator.kind
    if kind is GeneratorKind.TIMESTAMP:
        return config.partition_fields
    if kind is not GeneratorKind.CUSTOM or not config.partition_fields:
        return ()
    stored = (config.properties.get(key, "") for key in (opt.PARTITION_FIELDS.key, *opt.PARTITION_FIELDS.aliases))
    kinds = next((kinds for kinds in map(field_kinds, (given[opt.PARTITION_FIELDS], *stored)) if kinds), {})
    if not kinds:
        named = ",".join(f"{name}:SIMPLE" for name in config.partition_fields)
        raise OptionError(
            "the table does not say which of its partition fields hold times",
            key=opt.PARTITION_FIELDS.key,
            table=table,
            todo=f"Give the option {opt.PARTITION_FIELDS.key} as {named}, with TIMESTAMP for SIMPLE where a field does",
        )
    return tuple(name for name, kind in kinds.items() if kind == "TIMESTAMP")


def _check_some_value(fields: tuple[str, ...], texts: list[pa.StringArray]) -> None:
    """SchemaError for a row in which each of the key's columns is null or empty."""
    empty = [pc.equal(text, "").fill_null(True) for text in texts]
    if pc.any(reduce(pc.and_, empty)).as_py():
        raise SchemaError(
            f"record key columns {', '.join(fields)} have rows without any value",
            todo="Give one of them a value in every row, or filter out such rows",
        )


def _escaped(texts: pa.StringArray) -> pa.StringArray:
    """Partition values as folder names (Hudi's `PartitionPathEncodeUtils`): letters that a path cannot have in hex."""
    values = texts.dictionary_encode()
    names = [_SPECIAL.sub(lambda match: f"%{ord(match[0]):02X}", value) for value in values.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(values.indices, pa.array(names, pa.string())).cast(pa.string())


def _text(column: pa.Array) -> pa.StringArray:
    kind = column.type
    if pa.types.is_floating(kind):
        return _java_text(column)
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64()).cast(pa.string())
    return column if pa.types.is_string(kind) else column.cast(pa.string())


def _java_text(column: pa.Array) -> pa.StringArray:
    """Floats and doubles as Java releases before 19 write them, on which Hudi's engines run. Each number once."""
    single = not pa.types.is_float64(column.type)
    values = (column.cast(pa.float32()) if single else column).dictionary_encode()
    texts = [early_java_text(value, single=single) for value in values.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(values.indices)
