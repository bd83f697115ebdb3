"""What the bucket of a file says of the bucket key in it: the hash of a value gives the only bucket that can have it.

Rules: Paimon's BucketSelectConverter and BucketFunction. This holds for a bucket key of one column whose equal values
have equal hashes. Files that wait for a compaction (postponed), dynamic buckets, and files of another schema, in which
the key may have had another type, can have any value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from lakebed.formats.paimon.codec.row_columns import hash_rows
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.types import DataField, arrow_type
from lakebed.formats.paimon.entries import Entries
from lakebed.kernel.arrays import to_numpy
from lakebed.kernel.predicates.facts import Facts

_EXACT = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT", "DATE", "CHAR", "VARCHAR", "BINARY", "VARBINARY"})
_MOST = 1 << 53
"""Above it, different integers are equal to one literal of floating point."""


def bucket_facts(entries: Entries, schema: TableSchema, name: str) -> Iterator[Facts]:
    """The facts of the column `name` by the buckets of files; one for each number of buckets, since partitions may have
    different ones. None when the column is not the whole bucket key."""
    field = schema.field(name)
    if schema.bucket_keys != (name,) or field.type.root not in _EXACT:
        return
    function = schema.options.get("bucket-function.type", "default").strip().lower()
    dynamic = schema.options.get("bucket", "-1").strip() == "-1"
    if dynamic or function not in ("default", "mod"):
        return
    numbers = entries.numbers("bucket").astype(np.int64)
    known = (numbers >= 0) & (entries.numbers("schema_id") == schema.id)
    totals = np.where(known, entries.numbers("total_buckets").astype(np.int64), 0)
    unknown = pa.nulls(len(entries), arrow_type(field.type))
    anything = np.ones(len(entries), np.bool_)
    for total in np.unique(totals[totals > 1]).tolist():
        buckets = pa.array(numbers, mask=totals != total)
        hashed = _bucket_of(field, total, by_value=function == "mod")
        yield Facts(unknown, unknown, anything, anything, ~anything, hashed, buckets)


def _bucket_of(field: DataField, total: int, by_value: bool) -> Callable[[pa.Array], pa.Array]:
    """A function that gives the bucket of each value, or null where it may lie in several."""

    def bucket_of(values: pa.Array) -> pa.Array:
        unsure = None
        if pa.types.is_integer(values.type):
            numbers = to_numpy(values).astype(np.int64)
            unsure = (numbers > _MOST) | (numbers < -_MOST)
            if by_value:
                return pa.array(np.mod(numbers, total), mask=unsure)
        hashes = hash_rows([values], [field.type]).astype(np.int64)
        return pa.array(np.abs(np.fmod(hashes, total)), mask=unsure)

    return bucket_of
