"""What an overwrite replaces.

Rules: Paimon's FileStoreCommitImpl.tryOverwritePartition. A dynamic overwrite, the default of partitioned tables,
replaces exactly the partitions that the new files lie in, and nothing when there are none. A static one replaces every
partition that its specification matches; without a specification the whole table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from lakebed.errors import OptionError, UsageError
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.binary_row import decode_row, plain, without_arity
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.types import arrow_type
from lakebed.formats.paimon.commit.message import PaimonMessage
from lakebed.kernel.options import Options


@dataclass(frozen=True, slots=True)
class ReplacedPartitions:
    """The partitions whose files are removed: `keys` (serialized rows), or, when that is None, all that `spec` matches
    (plain values by column; {} matches all).

    `older` is a time in milliseconds since 1970: a file of them that was created then or later is a conflict. None:
    they are replaced whatever their age.
    """

    schema: TableSchema
    keys: frozenset[bytes] | None = None
    spec: Mapping[str, Any] = field(default_factory=dict)
    older: int | None = None

    def covers(self, partition: bytes) -> bool:
        """Whether the files of a partition are removed."""
        if self.keys is not None:
            return partition in self.keys
        if not self.spec:
            return True
        types = [item.type for item in self.schema.project(self.schema.partition_keys)]
        values = dict(zip(self.schema.partition_keys, decode_row(without_arity(partition), types), strict=True))
        return all(values[name] == value for name, value in self.spec.items())


def replaced_partitions(
    messages: Sequence[PaimonMessage], schema: TableSchema, options: Options, spec: Mapping[str, Any], table: str
) -> ReplacedPartitions | None:
    """What an overwrite with these messages replaces; None: nothing. UsageError for rows outside the partitions of a
    static overwrite."""
    if options[opt.DYNAMIC_OVERWRITE] and schema.partition_keys and not spec:
        keys = frozenset(message.partition for message in messages if message.new_files)
        return ReplacedPartitions(schema, keys) if keys else None
    replaced = ReplacedPartitions(schema, None, spec)
    for message in messages:
        if message.new_files and not replaced.covers(message.partition):
            raise UsageError(
                f"rows lie outside the partitions to overwrite, {dict(spec)}",
                table=table,
                todo="Filter the rows, or overwrite more",
            )
    return replaced


def partition_spec(text: str, schema: TableSchema, table: str) -> dict[str, Any]:
    """The plain values by column of the option `overwrite.partition`. OptionError for a column that is not a partition
    column, or a value of another type."""
    spec: dict[str, Any] = {}
    expected = (
        f"COLUMN=VALUE, separated by commas, of {', '.join(schema.partition_keys)}"
        if schema.partition_keys
        else "nothing: the table has no partitions, an overwrite replaces it whole"
    )
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = (word.strip() for word in item.partition("="))
        if not equals or name not in schema.partition_keys:
            raise OptionError.ill_typed(opt.OVERWRITE_PARTITION.key, text, expected)
        kind = arrow_type(schema.field(name).type)
        try:
            spec[name] = None if value == "null" else plain(pa.scalar(value).cast(kind))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise OptionError.ill_typed(opt.OVERWRITE_PARTITION.key, text, f"a {kind} for {name}") from error
    return spec
