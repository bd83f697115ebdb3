"""Choose the columns of a Parquet file that get a dictionary."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.kernel.arrays import from_numpy

_SAMPLE = 512


def repeating_columns(table: pa.Table) -> list[str]:
    """The columns whose values repeat, judged by a sample of about 512 rows. For others a dictionary only costs.

    A column counts as repeating when at most nine in ten of the sampled values, nulls left out, are distinct: about
    2,500 distinct values are the limit. Nested columns and those that have a dictionary count as repeating, booleans do
    not.
    """
    step = max(1, len(table) // _SAMPLE)
    sample = table.take(from_numpy(np.arange(0, len(table), step)))
    paths = []
    for field in table.schema:
        column = sample.column(field.name)
        if pa.types.is_nested(field.type):
            paths += leaf_paths(field.name, field.type)
        elif pa.types.is_boolean(field.type):
            continue
        elif (
            isinstance(field.type, pa.BaseExtensionType)
            or pa.types.is_null(field.type)
            or pa.types.is_dictionary(field.type)
            or pc.count_distinct(column, mode="only_valid").as_py() <= (len(sample) - column.null_count) * 9 // 10
        ):
            paths.append(field.name)
    return paths


def leaf_paths(path: str, kind: pa.DataType) -> list[str]:
    """The paths of a column's leaves, in Parquet's names; its own path for a column that is not nested."""
    if pa.types.is_struct(kind):
        inner = [(f"{path}.{kind.field(n).name}", kind.field(n).type) for n in range(kind.num_fields)]
    elif pa.types.is_map(kind):
        inner = [(f"{path}.key_value.key", kind.key_type), (f"{path}.key_value.value", kind.item_type)]
    elif pa.types.is_nested(kind):
        inner = [(f"{path}.list.element", kind.value_type)]
    else:
        return [path]
    return [leaf for child, child_type in inner for leaf in leaf_paths(child, child_type)]
